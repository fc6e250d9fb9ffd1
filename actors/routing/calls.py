"""*Call*, *Answer*: calls of engines as values: the request, its answer, and the cost of its tries.

A new kind of call is a subclass of `Call`, of `Answer` where it answers something new, and a line
of `actors.routing.calls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pipeline.config.runtime import RequestConfig
from pipeline.core.confidence import Confidence
from pipeline.core.protocol import Failure, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call came to; the client adds what its tries cost."""

    replica: str = ""
    """Which replica served it."""
    wasted_tokens: int = 0
    """Completion tokens of earlier attempts of this call that were cut or lost, as far as the
    engines can say."""
    attempts: int = 1
    unknown_attempts: int = 0
    """Of the earlier attempts, those whose tokens no engine can tell: their replica died."""


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[A]):
    """One call of a model that is answered by an `A`; picklable."""

    session: str = ""
    """Calls of one session go to the replica that holds their prefix."""
    priority: float = 0.0
    """Lower is served first where replicas must choose; to a thousandth."""
    request_id: str = ""
    """Names one try of the call, for an abort; the client sets it."""
    deadline_s: float = math.inf
    """After this the engine aborts the try; the client sets it."""
    alone: bool = False
    """Whether the replica must run nothing else meanwhile; the client sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(Answer):
    """A completion as the generator made it."""

    text: str
    """The new text; where the chat template opened the thinking block, with that tag in front."""
    finish_reason: str
    """See `Completion.finish_reason`."""
    prompt_tokens: int
    cached_prompt_tokens: int
    completion_tokens: int
    thinking_tokens: int
    confidence: Confidence | None = None
    """None where ``science.generator.logprobs`` does not ask for it, or the model does not tell."""


@dataclass(frozen=True, slots=True)
class GenerateCall(Call[Generated]):
    """Complete a request. Where prompt and `max_tokens` together pass the model's context, the
    completion ends with ``length`` at the context's end."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(Answer):
    """A reply as the verifier sees it."""

    step_scores: tuple[float, ...]
    """P(step is right) of each step, in [0, 1]."""
    score: float
    """Aggregated, in [0, 1]."""
    tokens: int
    """Tokens that the verifier read and, as a judge, wrote."""
    truncated: bool
    """Whether leading steps were dropped to fit the context."""


@dataclass(frozen=True, slots=True)
class ScoreCall(Call[Scored]):
    """Score the steps of `reply` to `question`. Scores that cannot be scores (shape, range, nan)
    are a failure that says so, never a 0."""

    question: str
    reply: str


class EnginePool(Protocol):
    """A pool of engines behind one call."""

    async def call(self, call: Call[A]) -> A | Failure:
        """Serve one call; after the last attempt a `Failure` says why it could not be.

        Cancelling the awaiting task aborts the call inside the engine. A failure carries the
        tokens that its attempts cost as far as the engines can say. Nothing but cancellation is
        raised.
        """
        ...


GENERATOR, VERIFIER, JUDGE = "generator", "verifier", "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A kind of model call and the engines that serve it."""

    call: type[Call[Any]]
    deadline_s: Callable[[RequestConfig], float]
    """Which setting limits one try."""
    engine: str
    """``module:class``, made with the fields of its model and of its `PoolConfig`
    (`actors.engines.actor_host.Engine`); imported in the replica alone."""
    scripted: str
    """``module:class`` of the scripted engine, made with ``runtime.scripted``."""


ROLES = {
    GENERATOR: Role(
        call=GenerateCall,
        deadline_s=lambda requests: requests.deadline_s,
        engine="actors.engines.generator:GeneratorEngine",
        scripted="actors.engines.scripted:ScriptedGenerator",
    ),
    VERIFIER: Role(
        call=ScoreCall,
        deadline_s=lambda requests: requests.score_deadline_s,
        engine="actors.engines.verifier:VerifierEngine",
        scripted="actors.engines.scripted:ScriptedVerifier",
    ),
    JUDGE: Role(
        call=GenerateCall,
        deadline_s=lambda requests: requests.score_deadline_s,
        engine="actors.engines.generator:GeneratorEngine",
        scripted="actors.engines.scripted:ScriptedJudge",
    ),
}
"""By name, in the order in which pools are started."""
