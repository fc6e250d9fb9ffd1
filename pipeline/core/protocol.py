"""The protocol of strategies: what they ask for, what they receive, and when they stop.

A strategy is a frozen value with one generator, `Strategy.decide`: it yields the completions that
it asks for (`Generate`), receives what came (`Completion` or `Failure`, in the order of the
requests), and returns a `Stop`. It has no clock, no random numbers and no I/O, so the same object
runs live (``actors.controllers.controller``) and over recorded completions
(``pipeline.replay.exact``), and both take the same decisions from the same observations.

A strategy over the whole data set is a sequence of phases (`Phase`), each a strategy of its own.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline.core.decoding import Decoding, Sampling
from pipeline.core.errors import ErrorKind, ProtocolError
from pipeline.core.forms import Form
from pipeline.core.prompts import Message, Prompts, in_conversation
from pipeline.core.seeds import request_seed


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
class PhaseStats:
    """What a phase learnt from the whole data set, given to `decide` of the next phase."""

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
    turns: tuple[Message, ...] = ()
    """Earlier turns of its conversation, before every prompt."""
    form: Form | None = None
    """What a reply must be beyond text; None is text."""

    @property
    def whole(self) -> str:
        """Conversation and question as one text, as a verifier reads it."""
        talk = [
            turn.content if turn.role == "system" else f"{turn.role.capitalize()}: {turn.content}"
            for turn in self.turns
        ]
        spoken = any(turn.role != "system" for turn in self.turns)
        return "\n\n".join([*talk, f"User: {self.text}" if spoken else self.text])

    def token_limit(self, decoding: Decoding) -> int:
        """New tokens that one completion of this question may have."""
        return decoding.max_tokens if self.max_tokens is None else self.max_tokens


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
    check: bool = False
    """Whether a checker is to remark on its answer (`Completion.feedback`)."""
    form: Form | None = None
    """What the completion must be beyond text."""

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
        if self.form is not None:
            content.append(self.form.text)
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
    """Verifier score of each step, in [0, 1]; None when not requested."""
    score: float | None = None
    """Aggregated verifier score, in [0, 1]; None when not requested."""
    prm_truncated: bool = False
    """Whether leading steps were dropped to fit the verifier's context."""
    token_confidence: float | None = None
    """See `pipeline.core.confidence.Confidence`; None when not requested or not reported."""
    least_token_confidence: float | None = None
    token_entropy: float | None = None
    says_stop: bool | None = None
    """Whether the reply says that no further revision is needed; None where nothing looks for it
    (``science.generator.stop_flag``)."""
    judge_tokens: int = 0
    """Tokens that a judge read and wrote, for verdict and remark."""
    feedback: str | None = None
    """What a checker says of the answer, without the gold answer; None where none was asked."""

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
    needs_scores: bool = False
    """Whether each completion must carry a verifier score for the strategy to go on."""

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


Decisions = Generator[Generate, Sequence[Observation], Stop]
"""Yields what a strategy asks for, receives one observation a request, in request order, and
returns why and on what the strategy stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(ABC):
    """A strategy: a frozen dataclass whose fields are its configuration, and one generator.

    A strategy must define `kind`, `n` and `decide`. The other attributes are optional traits: a
    class attribute or a property of a subclass replaces the default that stands here.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str]
    """The registered name."""

    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether completions are scored by the verifier."""

    if TYPE_CHECKING:  # at run time a field without a default would take it for its default

        @property
        def n(self) -> int:
            """Budget: completions a question at most."""

    @property
    def default_rule(self) -> str:
        """The answer rule that defines its answer."""
        return "last"

    @property
    def needs_score(self) -> bool:
        """Whether decisions depend on verifier scores."""
        return False

    @property
    def needs_stop_flag(self) -> bool:
        """Whether decisions depend on `Completion.says_stop`."""
        return False

    @property
    def pool_replayable(self) -> bool:
        """Whether it asks only for rounds of MR-Thinking and samples of Self-Consistency, which is
        what pools hold."""
        return False

    @property
    def max_requests(self) -> int:
        """Completions a question at most, over all phases."""
        return self.n

    def prompts_of(self, question: Question) -> Prompts:
        """Its prompts; those of a question whose replies have a form ask for no box."""
        return self.prompts if question.form is None else self.prompts.without_box()

    @abstractmethod
    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Answer one question.

        The generator must depend on nothing but its arguments and the observations: no clock, no
        random numbers, no I/O.

        Args:
            question: there is no gold answer in it.
            statistics: what the phase before has learnt from the data set.
        """

    def request(
        self,
        question: Question,
        messages: tuple[Message, ...],
        *,
        pool: Pool = Pool.SEQUENTIAL,
        chain: int = 0,
        round: int = 0,
        sample: int = 0,
        score: bool | None = None,
        greedy: bool = False,
    ) -> Request:
        """A request with the strategy's decoding and the seed of its address.

        Args:
            score: whether it is scored; by default as the strategy's field says.
            greedy: whether to decode greedily, whatever the decoding says.
        """
        decoding = self.decoding
        return Request(
            messages=in_conversation(question.turns, messages),
            max_tokens=question.token_limit(decoding),
            temperature=0.0 if greedy else decoding.temperature,
            top_p=1.0 if greedy else decoding.top_p,
            sampling=decoding.sampling,
            pool=pool,
            chain=chain,
            round=round,
            sample=sample,
            seed=request_seed(question.seed, pool, chain, round, sample),
            score=self.score if score is None else score,
            form=question.form,
        )

    def prepare(self, questions: Sequence[Question]) -> PhaseStats | None:
        """Statistics for the first phase, from all questions of a benchmark; None for none."""
        return None

    def phases(self) -> tuple[Phase, ...]:
        """In the order in which they run; by default one over all questions."""
        return (Phase(name=self.kind, strategy=self),)


def decisions(
    strategy: Strategy, question: Question, statistics: PhaseStats | None = None
) -> Generator[tuple[Request, ...], Sequence[Observation], Stop]:
    """Run a strategy on a question: yields requests, receives observations, returns the stop.

    Live controllers, the journal fold and replay all drive this generator, so none of them can take
    another decision than the others.

    Raises:
        ProtocolError: if observations do not answer the requests, or the strategy yields or
            returns something else than `Decisions` says.
    """
    steps = strategy.decide(question, statistics)
    if not isinstance(steps, Generator):
        raise ProtocolError(f"decide must be a generator, it returned {steps!r}")
    try:
        requests = next(steps)
        while True:
            if not isinstance(requests, Generate):
                raise ProtocolError(f"decide must yield Generate, got {requests!r}")
            observations = yield requests.requests
            check_observations(observations, requests)
            requests = steps.send(observations)
    except StopIteration as end:
        if not isinstance(end.value, Stop):
            raise ProtocolError(f"decide must return a Stop, got {end.value!r}") from None
        return end.value


def check_observations(observations: Sequence[Observation], asked: Generate) -> None:
    """Check that observations answer the requests.

    Raises:
        ProtocolError: naming what must hold, what came and at which position.
    """
    if len(observations) != len(asked.requests):
        raise ProtocolError(
            f"observations must be {len(asked.requests)}, one a request, got {len(observations)}"
        )
    for position, observation in enumerate(observations):
        if isinstance(observation, Failure):
            continue
        if not isinstance(observation, Completion):
            raise ProtocolError(
                f"observation {position} must be a Completion or Failure, "
                f"got {type(observation).__name__}"
            )
        score = observation.score
        if asked.needs_scores and (score is None or not 0 <= score <= 1):
            raise ProtocolError(
                f"score of observation {position} must be in [0, 1], "
                f"got {'none' if score is None else repr(score)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord:
    """What one phase drew for one question. There is no gold answer in it."""

    question: Question
    completions: tuple[Observation, ...]
    """In request order of the phase, those found in the journal included."""
    stop: Stop | None
    """None where the question did not get to its stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A pass over all questions, or those that it selects, of one benchmark.

    Between phases `fold` makes statistics of what was drawn; they are journaled once and given to
    the next phase. A chain goes on because the next phase asks for the same completions again and
    gets the recorded ones, which are paid for once.

    The outcome of a question is the stop of the last phase that selected it, and its bill that of
    all phases, each completion counted once. The rounds of a stop are positions in the request
    order of that phase.
    """

    name: str
    """Unique within the strategy; names the phase in journal and report."""
    strategy: Strategy
    """What runs on each selected question."""
    stream: str | None = ""
    """Phases of one stream ask for the same completions from the first on, so the one that asks for
    most pays for all. None: what the phase draws is in no bill."""
    answers: bool = True
    """Whether its stop may be a question's answer."""
    reads_texts: bool = True
    """Whether `fold` reads texts or step scores: those of all questions may not fit into memory."""

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Whether the question takes part, given the statistics from before this phase."""
        return True

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats | None:
        """What is known after this phase; by default what was known before.

        Args:
            records: by question id, of the questions that the phase selected.
            statistics: from before this phase; None where there were none.
        """
        return statistics

    def record(
        self, question: Question, drawn: Sequence[Observation], stop: Stop | None
    ) -> QuestionRecord:
        """What the phase drew for a question, as `fold` needs it."""
        if not self.reads_texts or type(self).fold is Phase.fold:
            drawn = [textless(each) for each in drawn]
        return QuestionRecord(question=question, completions=tuple(drawn), stop=stop)


def textless(seen: Observation) -> Observation:
    """An observation without the text and the step scores of a completion."""
    return replace(seen, text="", step_scores=None) if isinstance(seen, Completion) else seen
