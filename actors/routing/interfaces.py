"""The interfaces of generator and verifier, and the replies that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pipeline.core.protocol import Failure, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A completion as the generator made it."""

    text: str
    """The new text; where the chat template opened the thinking block, with that tag in front."""
    finish_reason: str
    """``stop`` or ``length``."""
    prompt_tokens: int
    cached_prompt_tokens: int
    completion_tokens: int
    thinking_tokens: int
    replica: str
    """Which replica served it."""
    wasted_tokens: int = 0
    """Completion tokens of earlier attempts of this request that were cut or lost, as far as the
    engines can say."""
    attempts: int = 1
    unknown_attempts: int = 0
    """Of the earlier attempts, those whose tokens no engine can tell: their replica died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A reply as the verifier sees it."""

    step_scores: tuple[float, ...]
    """P(step is right) of each step, in [0, 1]."""
    score: float
    """Aggregated, in [0, 1]."""
    tokens: int
    """Tokens that the verifier read."""
    truncated: bool
    """Whether leading steps were dropped to fit the context."""


class Generator(Protocol):
    """A pool of generators behind one call."""

    async def generate(
        self, request: Request, *, session: str, priority: float = 0.0
    ) -> Generated | Failure:
        """Serve one request; after the last attempt a `Failure` says why it could not be.

        Args:
            request: what to complete.
            session: requests of one session go to the replica that holds their prefix.
            priority: lower is served first where replicas must choose.

        Cancelling the awaiting task aborts the request inside the engine. A failure carries the
        tokens that its attempts cost as far as the engines can say. Nothing but cancellation is
        raised.
        """
        ...


class Verifier(Protocol):
    """A pool of verifiers behind one call."""

    async def score(self, question: str, reply: str, *, session: str) -> Scored | Failure:
        """Score the steps of `reply` to `question`; after the last attempt a `Failure`.

        Scores that cannot be scores (shape, range, nan) are a failure that says so, never a 0.
        """
        ...
