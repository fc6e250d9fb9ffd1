"""Atom of Thoughts: solve, decompose, contract to a shorter question, solve that, and combine
(arXiv 2502.12018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, assert_never

from pipeline.answers import canonical
from pipeline.core.decoding import Decoding
from pipeline.core.errors import ProtocolError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Completion,
    Generate,
    Message,
    Observation,
    Pool,
    Question,
    Request,
    Statistics,
    Stop,
    StopReason,
    check_observations,
)
from pipeline.core.seeds import request_seed
from pipeline.strategies.atom_prompts import (
    SubQuestion,
    contract_prompt,
    ensemble_prompt,
    label_prompt,
    parse_contracted,
    parse_labels,
    shown,
)


class Stage(StrEnum):
    """The calls in their order; a stage is the round of its requests."""

    DIRECT = "direct"
    """Solve the question."""
    DECOMPOSE = "decompose"
    """Solve it once more; this solution is split."""
    LABEL = "label"
    """Split the solution into sub-questions with their dependencies."""
    CONTRACT = "contract"
    """Put what is left once the independent ones are known as one shorter question."""
    SOLVE_CONTRACTED = "solve_contracted"
    """Solve the shorter question."""
    ENSEMBLE = "ensemble"
    """Combine the three solutions."""


STAGES = tuple(Stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A solution that may be returned."""

    position: int
    """Of its completion, in request order."""
    answer: str | None
    text: str
    """What later prompts are shown of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomState:
    """A question between two calls."""

    question: Question
    stage: Stage = Stage.DIRECT
    tried: int = 0
    """Failed tries of this stage."""
    told: int = 0
    """Completions and failures told."""
    candidates: tuple[Candidate, ...] = ()
    """Direct, decompose and contracted, as far as they are known."""
    newest: Candidate | None = None
    """The newest solution of this stage, with or without an answer."""
    sub_questions: tuple[SubQuestion, ...] = ()
    contracted: str | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomOfThoughts:
    """Six calls, each tried again up to `retries` times where its reply cannot be used.

    The answer is that of the first candidate (direct, decompose, contract) that equals the
    ensemble's by canonical form; where none does, that of the direct solution. A stage whose tries
    are spent goes on with what there is: a solution without an answer, no sub-questions, the
    original question as the contracted one. It fails only where a solution could not be had at all.

    The method's own code computes a depth and never uses it; there is one contraction here as
    there. It tries again where an answer is not a plain number, which fractions and intervals
    never are; here, where there is no answer. The stop rests on the chosen candidate.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "atom_of_thoughts"
    default_rule: ClassVar[str] = "last"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = False

    retries: int = 5
    """Further tries of a stage, >= 0; all are paid for."""
    shown_chars: int = 4_000
    """How much of the end of a solution later prompts are shown, >= 1, in characters."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether the three candidate solutions are scored by the verifier."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries must be >= 0, got {self.retries!r}")
        if self.shown_chars < 1:
            raise ValueError(f"shown_chars must be >= 1, got {self.shown_chars!r}")

    @property
    def max_requests(self) -> int:
        """Completions a question at most."""
        return len(STAGES) * (self.retries + 1)

    @property
    def n(self) -> int:
        """The same: the method has no budget of samples or rounds."""
        return self.max_requests

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[AtomState, Action]:
        """Solve the question directly."""
        return self._ask(AtomState(question=question))

    def step(
        self, state: AtomState, observations: Sequence[Observation]
    ) -> tuple[AtomState, Action]:
        """Use the reply for the next stage, or try the stage again."""
        if state.stopped:
            raise ProtocolError(
                f"a stopped question takes no observations, got {len(observations)}"
            )
        check_observations(observations, 1, scored=False)
        observation = observations[0]
        usable = False
        if isinstance(observation, Completion):
            state, usable = self._read(state, observation)
        state = replace(state, told=state.told + 1)
        if not usable and state.tried < self.retries:
            return self._ask(replace(state, tried=state.tried + 1))
        return self._go_on(state)

    def _read(self, state: AtomState, completion: Completion) -> tuple[AtomState, bool]:
        """Take in what a reply gives, and say whether that is enough."""
        match state.stage:
            case Stage.LABEL:
                labels = parse_labels(completion.text)
                return replace(state, sub_questions=labels or ()), labels is not None
            case Stage.CONTRACT:
                contracted = parse_contracted(completion.text)
                return replace(state, contracted=contracted), contracted is not None
            case Stage.DIRECT | Stage.DECOMPOSE | Stage.SOLVE_CONTRACTED | Stage.ENSEMBLE:
                solution = Candidate(
                    position=state.told,
                    answer=completion.answer,
                    text=shown(completion.text, self.shown_chars),
                )
                return replace(state, newest=solution), completion.answer is not None
            case _:
                assert_never(state.stage)

    def _go_on(self, state: AtomState) -> tuple[AtomState, Action]:
        """The next stage with what this one gave, or the end."""
        if state.stage not in (Stage.LABEL, Stage.CONTRACT):
            if state.newest is None:
                positions = tuple(candidate.position for candidate in state.candidates)
                return _stop(state, StopReason.FAILED, positions)
            if state.stage is Stage.ENSEMBLE:
                chosen = choose(state.candidates, state.newest.answer)
                return _stop(state, StopReason.FINISHED, (chosen.position,))
            state = replace(state, candidates=(*state.candidates, state.newest), newest=None)
        following = STAGES[STAGES.index(state.stage) + 1]
        return self._ask(replace(state, stage=following, tried=0))

    def _ask(self, state: AtomState) -> tuple[AtomState, Action]:
        question, decoding = state.question, self.decoding
        round = STAGES.index(state.stage)
        is_candidate = state.stage in (Stage.DIRECT, Stage.DECOMPOSE, Stage.SOLVE_CONTRACTED)
        request = Request(
            messages=self._prompt(state),
            max_tokens=question.token_limit(decoding),
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            sampling=decoding.sampling,
            pool=Pool.SEQUENTIAL,
            round=round,
            sample=state.tried,
            seed=request_seed(question.seed, Pool.SEQUENTIAL, 0, round, state.tried),
            score=self.score and is_candidate,
        )
        return state, Generate((request,))

    def _prompt(self, state: AtomState) -> tuple[Message, ...]:
        text = state.question.text
        match state.stage:
            case Stage.DIRECT | Stage.DECOMPOSE:
                return self.prompts.ask(text)
            case Stage.LABEL:
                return label_prompt(text, state.candidates[1].text)
            case Stage.CONTRACT:
                return contract_prompt(text, state.candidates[1].text, state.sub_questions)
            case Stage.SOLVE_CONTRACTED:
                return self.prompts.ask(state.contracted or text)
            case Stage.ENSEMBLE:
                return ensemble_prompt(text, [candidate.text for candidate in state.candidates])
            case _:
                assert_never(state.stage)


def choose(candidates: Sequence[Candidate], ensemble: str | None) -> Candidate:
    """The first candidate whose answer equals the ensemble's, else the first one."""
    if ensemble is not None:
        wanted = canonical(ensemble)
        for candidate in candidates:
            if candidate.answer is not None and canonical(candidate.answer) == wanted:
                return candidate
    return candidates[0]


def _stop(
    state: AtomState, reason: StopReason, rounds: tuple[int, ...]
) -> tuple[AtomState, Action]:
    return replace(state, stopped=True), Stop(reason=reason, rounds=rounds)
