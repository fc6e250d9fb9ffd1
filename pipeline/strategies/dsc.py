"""DSC: self-consistency that spends by difficulty, a method on the data set (arXiv 2408.13457).

This file holds the configuration and what is done for one question, which the statistics of the
phases before tell; the phases are in `pipeline.strategies.dsc_phases`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, assert_never

from pipeline.answers.voting import clusters, top_two
from pipeline.core.decoding import Decoding
from pipeline.core.phases import Phase
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Generate,
    Message,
    Observation,
    Pool,
    Question,
    Request,
    Statistics,
    Stop,
    StopReason,
)
from pipeline.core.seeds import request_seed
from pipeline.strategies.asc import p_majority_lasts
from pipeline.strategies.dsc_paper import Difficulty, Split
from pipeline.strategies.dsc_phases import Greedy, Judge, Ranking, Settle, Wave
from pipeline.strategies.dsc_ranking import batches, ranking_prompt
from pipeline.strategies.samples import Profile, Samples, ask, stop, stop_on_vote, tell
from pipeline.strategies.sequential import MOST, check_budget, check_unit

Task = Literal["rank", "judge", "window", "judged", "greedy", "all", "first", "one_by_one"]
"""What a phase wants of a question: rank batches of questions; the samples that judge it; samples
in windows; an answer from what judged it; one greedy answer; (paper) all samples; the first sample;
samples one by one."""

RANKING_CHAIN, GREEDY_CHAIN = 1, 2
"""Chains of the parallel pool beside the samples, which stand in chain 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DSCState:
    """One question in one phase."""

    task: Task
    samples: Samples
    first: int = 0
    """Samples of the first window, where those that judged do not agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyAdaptiveSelfConsistency:
    """Rank questions by difficulty, sample the hard ones until they agree, answer the rest once.

    ``upstream``: the model ranks random batches of questions, `rankings` times; the mean place is
    the difficulty. From hardest to easiest questions are judged by `extend` samples; the first run
    of `judge_window` consecutive ones whose samples agree, P(Beta(v1+1, v2+1) > 1/2) >=
    `threshold`, ends the hard part. From its easiest to its hardest, questions are then sampled
    until they agree or have `n`: no more where the samples that judged agree, else up to the mean
    stop size of the `neighbours` before, then `extend` at a time. Easy questions that were judged
    answer from those samples, all others get one greedy answer. "No answer" is a vote like any
    other. The method's own code goes question by question and does not count the samples that
    judge; here both passes go in waves (`neighbours` questions, as many again, then doubling),
    which need few barriers, and every sample is in the bill.

    ``paper``: no ranking; a question is as difficult as 1 - the mean verifier score of its `n`
    samples; a binary search that judges pairs of questions by their first 5 samples splits easy
    from medium; easy ones are answered by their first sample, medium ones by as many samples, one
    by one, as the threshold asks for. **It leaks**: difficulty is read from the samples that the
    method is meant to save. Run live, all `n` samples of every question are drawn and counted; the
    paper's table counts those that the split would have used and an estimate for the search.

    Without statistics a question is sampled as the first hard ones are (``paper``: `n` times).
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "dsc"
    default_rule: ClassVar[str] = "vote"

    n: int = 8
    """Samples a question at most, >= 1; 40 in the method's code."""
    threshold: float = 0.95
    """Probability that the majority must reach, in [0, 1]."""
    extend: int = 4
    """Samples of an extension, and of a first window without neighbours, >= 1."""
    batch: int = 8
    """Questions ranked together, >= 2."""
    rankings: int = 5
    """Times that every question is ranked, in [1, 32767]."""
    judge_window: int = 32
    """Consecutive questions that must agree at once to end the hard part, >= 1."""
    neighbours: int = 16
    """Questions whose mean stop size pre-allocates the first window, >= 1."""
    waves: int = 8
    """Waves of each pass at most, in [1, 64]; the last takes all questions that are left."""
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether samples are scored by the verifier."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        check_budget(self.n)
        check_unit("threshold", self.threshold)
        for name, value, least in (
            ("extend", self.extend, 1),
            ("batch", self.batch, 2),
            ("rankings", self.rankings, 1),
            ("judge_window", self.judge_window, 1),
            ("neighbours", self.neighbours, 1),
            ("waves", self.waves, 1),
        ):
            if value < least:
                raise ValueError(f"{name} must be >= {least}, got {value!r}")
        for name, value, most in (("rankings", self.rankings, MOST), ("waves", self.waves, 64)):
            if value > most:
                raise ValueError(f"{name} must be at most {most}, got {value!r}")

    @property
    def needs_score(self) -> bool:
        """The paper's difficulty is made of scores."""
        return self.profile == "paper"

    @property
    def pool_replayable(self) -> bool:
        """A pool of samples holds all that the paper's profile asks for, but no rankings."""
        return self.profile == "paper"

    @property
    def max_requests(self) -> int:
        """Completions a question at most, the rankings that it asks for included."""
        return self.n + (self.rankings if self.profile == "upstream" else 0)

    def prepare(self, questions: Sequence[Question]) -> Statistics:
        """Which question asks for which rankings; nothing in the paper's profile."""
        if self.profile == "paper":
            return Statistics()
        return Statistics(per_question=batches(questions, self.batch, self.rankings))

    def phases(self) -> tuple[Phase, ...]:
        """Rank, judge, sample, answer the rest; or (paper) all samples, then the split."""
        if self.profile == "paper":
            return (Difficulty(strategy=self), Split(strategy=self))
        judges = (Judge(strategy=self, wave=wave) for wave in range(self.waves))
        waves = (Wave(strategy=self, wave=wave) for wave in range(self.waves))
        rest = (Settle(strategy=self), Greedy(strategy=self))
        return (Ranking(strategy=self), *judges, *waves, *rest)

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[DSCState, Action]:
        """Begin what the statistics want of this question."""
        facts = {} if statistics is None else statistics.per_question
        known = facts.get(question.question_id, {})
        task: Task = known.get("task", "all" if self.profile == "paper" else "window")
        state = DSCState(
            task=task,
            samples=Samples(question=question),
            first=known.get("first", self.extend),
        )
        match task:
            case "rank":
                prompts = [
                    ranking_prompt([facts[member]["text"] for member in batch])
                    for batch in known["batches"]
                ]
                return self._ask_greedily(state, prompts, chain=RANKING_CHAIN, score=False)
            case "greedy":
                prompts = [self.prompts.ask(question.text)]
                return self._ask_greedily(state, prompts, chain=GREEDY_CHAIN, score=self.score)
            case "judge" | "judged" | "window":
                return self._sample(state, self.extend)
            case "all":
                return self._sample(state, self.n)
            case "first" | "one_by_one":
                return self._sample(state, 1)
            case _:
                assert_never(task)

    def step(self, state: DSCState, observations: Sequence[Observation]) -> tuple[DSCState, Action]:
        """Take in rankings or samples; stop, or sample on."""
        task = state.task
        told = tell(state.samples, observations, scored=task == "all")
        action: Action
        if task in ("rank", "greedy", "first"):
            samples, action = stop(told, StopReason.FINISHED, told.had)
        elif task != "all" and self.agree(told):
            samples, action = self._stop(told, StopReason.AGREED)
        elif told.drawn >= self.n:
            samples, action = self._stop(told, StopReason.BUDGET)
        elif task in ("judge", "judged"):
            samples, action = self._stop(told, StopReason.FINISHED)
        else:
            state = replace(state, samples=told)
            left = max(self.extend, state.first - told.drawn)
            return self._sample(state, left if task == "window" else 1)
        return replace(state, samples=samples), action

    def agree(self, samples: Samples) -> bool:
        """Whether sampling may end: the majority is likely enough to last."""
        return self.agrees([samples.answers[position] for position in samples.had])

    def agrees(self, answers: Sequence[str | None]) -> bool:
        """Whether the majority of these answers is likely enough to last."""
        paper = self.profile == "paper"
        v1, v2 = top_two(clusters(answers, as_written=paper, silent=True))
        enough = len(answers) >= (2 if paper else 1) and v1 > 0
        return enough and p_majority_lasts(v1, v2) >= self.threshold

    def _stop(self, samples: Samples, reason: StopReason) -> tuple[Samples, Stop]:
        return stop_on_vote(samples, reason, profile=self.profile, silent=True)

    def _sample(self, state: DSCState, count: int) -> tuple[DSCState, Action]:
        samples, action = ask(state.samples, min(count, self.n - state.samples.drawn), self)
        return replace(state, samples=samples), action

    def _ask_greedily(
        self, state: DSCState, prompts: Sequence[tuple[Message, ...]], *, chain: int, score: bool
    ) -> tuple[DSCState, Action]:
        question = state.samples.question
        requests = tuple(
            Request(
                messages=messages,
                max_tokens=question.token_limit(self.decoding),
                temperature=0.0,
                top_p=1.0,
                sampling=self.decoding.sampling,
                pool=Pool.PARALLEL,
                chain=chain,
                sample=sample,
                seed=request_seed(question.seed, Pool.PARALLEL, chain, 0, sample),
                score=score,
            )
            for sample, messages in enumerate(prompts)
        )
        samples = replace(state.samples, open=len(requests))
        return replace(state, samples=samples), Generate(requests)
