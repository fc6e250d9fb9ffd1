"""The protocol of strategies: what they ask for, what they are told, and when they stop.

A strategy is a frozen value with two methods. It is started with a question, asks for
completions (`Generate`) and is told what came (`Completion` or `Failure`, in the order of the
requests) until it says `Stop`. It has no clock, no random numbers and no I/O, so the same object
runs live (``actors.controllers.controller``) and over recorded completions
(``pipeline.replay.exact``), and both take the same decisions from the same observations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from pipeline.core.decoding import Decoding, Sampling
from pipeline.core.errors import ErrorKind, ProtocolError


class Pool(StrEnum):
    """Which kind of recorded pool a completion belongs to."""

    SEQUENTIAL = "sequential"
    """A chain in which each round sees the answer of the round before."""
    PARALLEL = "parallel"
    """Independent samples of one prompt."""


class StopReason(StrEnum):
    """Why a strategy stopped. Checked in the order in which they stand here."""

    FAILED = "failed"
    """A completion could not be had and the strategy cannot go on without it."""
    GATED = "gated"
    """p0 >= L + sigma: scaling is not expected to help (Theorem 1)."""
    CONFIDENT = "confident"
    """The stopping rule holds (Eq. 12 with the posterior of Eq. 18)."""
    AGREED = "agreed"
    """The samples agree enough (ESC, ASC, DSC)."""
    BUDGET = "budget"
    """All completions that the budget allows were drawn."""
    FINISHED = "finished"
    """The method's own last step was done (a fixed sequence of calls)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """What is believed of a question before its first completion; None where nothing is."""

    p0: float | None = None
    """P(the first answer is right), in [0, 1]."""
    p0_source: str | None = None
    """Where p0 came from: ``predictor``, ``priors_file``."""
    a: float | None = None
    """P(right -> wrong) between two rounds, in [0, 1]."""
    b: float | None = None
    """P(wrong -> right) between two rounds, in [0, 1]."""
    tokens_per_round: float | None = None
    """Expected completion tokens of one round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What a phase learnt from the whole data set, handed to `start` of the next phase."""

    a: float | None = None
    """P(right -> wrong), in [0, 1]."""
    b: float | None = None
    """P(wrong -> right), in [0, 1]."""
    labels: str | None = None
    """What "right" meant in the counts: ``gold`` or ``score``."""
    per_question: dict[str, Any] = field(default_factory=dict)
    """JSON-able facts by question id, for methods that rank or group questions (DSC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as strategies see it. The gold answer is deliberately not here."""

    benchmark: str
    question_id: str
    """Unique within its benchmark only."""
    text: str
    seed: int = 0
    """Derived from (run seed, benchmark, question id); see `pipeline.core.seeds`."""
    priors: Priors = Priors()
    max_tokens: int | None = None
    """New tokens a completion where its benchmark has a limit of its own; None leaves it to the
    strategy's decoding."""

    def token_limit(self, decoding: Decoding) -> int:
        """New tokens that one completion of this question may have."""
        return decoding.max_tokens if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One completion asked of the generator.

    (pool, chain, round, sample) is its address within a question, and together with the run seed
    decides its sampling seed. `digest` covers what the model sees and how it samples.
    """

    messages: tuple[Message, ...]
    assistant_prefix: str = ""
    """Text put at the start of the assistant's turn, continued by the model."""
    max_tokens: int
    temperature: float
    top_p: float
    sampling: Sampling = Sampling()
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    pool: Pool = Pool.SEQUENTIAL
    chain: int = 0
    round: int = 0
    """0 is the first (zero-shot) answer."""
    sample: int = 0
    seed: int = 0
    score: bool = True
    """Whether the verifier is to score the completion."""

    @property
    def address(self) -> tuple[str, int, int, int]:
        """(pool, chain, round, sample): where in a question's recording this completion stands."""
        return (self.pool.value, self.chain, self.round, self.sample)

    def digest(self) -> str:
        """SHA-256 (hex) of prompt and sampling parameters, without seed, address and scoring."""
        content: list[Any] = [
            [[message.role, message.content] for message in self.messages],
            self.assistant_prefix,
            self.max_tokens,
            self.min_tokens,
            self.temperature,
            self.top_p,
            self.stop_token_ids,
        ]
        if self.sampling != Sampling():
            content.append(self.sampling.chosen())
        canonical = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came back for a request. Token counts are of this completion alone."""

    text: str
    """The reply, thinking included; an opening tag that the chat template wrote is put back."""
    answer: str | None = None
    """The extracted final answer; None where there is none."""
    finish_reason: str = "stop"
    """``stop``, ``length``, or ``repetition``: cut where it began to repeat itself."""
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    thinking_tokens: int = 0
    """Those of `completion_tokens` inside the thinking block."""
    verifier_tokens: int = 0
    step_scores: tuple[float, ...] | None = None
    """Verifier score of each step, in [0, 1]; None when not asked for."""
    score: float | None = None
    """Aggregated verifier score, in [0, 1]; None when not asked for."""
    prm_truncated: bool = False
    """Whether leading steps were dropped to fit the verifier's context."""
    token_confidence: float | None = None
    """See `pipeline.core.confidence.Confidence`; None when not asked for, or not told."""
    least_token_confidence: float | None = None
    token_entropy: float | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the model was stopped before it had ended its reply."""
        return self.finish_reason != "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request that could not be served after all its attempts."""

    error: str
    """``kind: message``."""
    completion_tokens: int | None = None
    """Tokens that were paid for nevertheless; None where the engine cannot say."""

    @classmethod
    def of(cls, kind: ErrorKind, message: object, completion_tokens: int | None = None) -> Failure:
        """A failure of a kind."""
        return cls(error=f"{kind}: {message}", completion_tokens=completion_tokens)

    @property
    def kind(self) -> ErrorKind | None:
        """What `error` begins with; None where that is no kind that is known here."""
        try:
            return ErrorKind(self.error.partition(":")[0])
        except ValueError:
            return None


Observation = Completion | Failure


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask for these completions; they may be served in any order and at the same time."""

    requests: tuple[Request, ...]

    def __post_init__(self) -> None:
        if not self.requests:
            raise ValueError("requests must hold at least one request, got none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What a strategy believed when it stopped, for the record."""

    p0: float | None = None
    p0_source: str | None = None
    a: float | None = None
    b: float | None = None
    path: tuple[float, ...] = ()
    """Posterior mode of p after each round (Eq. 18)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The strategy is done."""

    reason: StopReason
    rounds: tuple[int, ...]
    """Positions, in request order over the whole question, of the completions that the answer
    rests on. In a single chain a position is a round. Which of them is returned is the answer
    rule's business (`pipeline.answers.answer_rules`)."""
    belief: Belief | None = None


Action = Generate | Stop


S = TypeVar("S")


class Strategy(Protocol[S]):
    """A frozen dataclass whose fields are its configuration.

    Class attribute ``kind`` is the registered name, ``needs_score`` whether decisions rest on
    verifier scores, ``default_rule`` the answer rule that defines its answer. `S` is a frozen
    dataclass that survives JSON and pickle.
    """

    @property
    def kind(self) -> str: ...

    @property
    def needs_score(self) -> bool: ...

    @property
    def default_rule(self) -> str: ...

    def start(self, question: Question, statistics: Statistics | None = None) -> tuple[S, Action]:
        """Begin a question: its first state and what is wanted first."""
        ...

    def step(self, state: S, observations: Sequence[Observation]) -> tuple[S, Action]:
        """Go on with one observation per request, in request order.

        Raises:
            ProtocolError: if the observations do not answer the requests; `state` is unchanged.
        """
        ...


def budget_of(strategy: Strategy[Any]) -> int:
    """N of a strategy: its `n`, else the most completions that it says a question may cost."""
    return int(getattr(strategy, "n", getattr(strategy, "max_requests", 1)))


def check_observations(observations: Sequence[Observation], expected: int, *, scored: bool) -> None:
    """Refuse observations that do not answer `expected` requests.

    Args:
        observations: what came back, in request order.
        expected: how many requests were open.
        scored: whether each completion must carry a score.

    Raises:
        ProtocolError: naming what must hold, what came and at which position.
    """
    if len(observations) != expected:
        raise ProtocolError(
            f"observations must be {expected}, one a request, got {len(observations)}"
        )
    for position, observation in enumerate(observations):
        match observation:
            case Failure():
                continue
            case Completion():
                if not scored:
                    continue
                if observation.score is None:
                    raise ProtocolError(f"observation {position} must carry a score, got None")
                if not 0 <= observation.score <= 1:
                    raise ProtocolError(
                        f"score of observation {position} must be in [0, 1], "
                        f"got {observation.score!r}"
                    )
            case _:
                raise ProtocolError(
                    f"observation {position} must be a Completion or Failure, "
                    f"got {type(observation).__name__}"
                )


def decisions(
    strategy: Strategy[S], question: Question, statistics: Statistics | None = None
) -> Generator[tuple[Request, ...], Sequence[Observation], Stop]:
    """The one loop over a strategy: yields requests, is sent their observations, returns the stop.

    Live controller, journal fold and replay all drive this generator, so none of them can take
    another decision than the others.
    """
    state, action = strategy.start(question, statistics)
    while True:
        match action:
            case Generate(requests=requests):
                observations = yield requests
                state, action = strategy.step(state, observations)
            case Stop():
                return action
            case _:  # of code that no type checker has seen
                raise ProtocolError(f"an action must be Generate or Stop, got {action!r}")
