"""DSC: self-consistency that spends by difficulty, a method on the data set (arXiv 2408.13457).

`DifficultyAdaptiveSelfConsistency.decide` is what happens to one question in one phase; the phases
decide what comes next for each question (``task`` of `PhaseStats.per_question`) and note what is
known of it: ``place`` in the order of difficulty (0 is the hardest), whether its samples agreed
``at_once``; of the hard part the ``rank`` (0 is the easiest), the ``first`` window, the ``size`` at
which its samples agreed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pipeline.answers.voting import clusters, top_two
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Message
from pipeline.core.protocol import (
    Completion,
    Decisions,
    Generate,
    Phase,
    PhaseStats,
    Pool,
    Question,
    QuestionRecord,
    StopReason,
    Strategy,
)
from pipeline.core.seeds import request_seed
from pipeline.core.thinking import after_thinking
from pipeline.strategies.samples import Profile, Samples
from pipeline.strategies.self_consistency import p_majority_lasts
from pipeline.strategies.sequential import MOST, check_budget, check_unit

Task = Literal["rank", "judge", "window", "judged", "greedy", "all", "first", "one_by_one"]
"""What a phase wants of a question: rank batches of questions; the samples that judge it; samples
in windows; an answer from what judged it; one greedy answer; (paper) all samples; the first sample;
samples one by one."""

RANKING_CHAIN, GREEDY_CHAIN = 1, 2
"""Chains of the parallel pool beside the samples, which stand in chain 0."""

PAPER_WINDOW = 5
"""Samples by which the paper's variant judges a question."""

Facts = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyAdaptiveSelfConsistency(Strategy):
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

    def prepare(self, questions: Sequence[Question]) -> PhaseStats:
        """Which question asks for which rankings; nothing in the paper's profile."""
        if self.profile == "paper":
            return PhaseStats()
        return PhaseStats(per_question=batches(questions, self.batch, self.rankings))

    def phases(self) -> tuple[Phase, ...]:
        """Rank, judge, sample, answer the rest; or (paper) all samples, then the split."""
        if self.profile == "paper":
            return (Difficulty(strategy=self), Stage(strategy=self, name="split"))
        return (
            Ranking(strategy=self),
            *(Judge(strategy=self, wave=wave, name=f"judge_{wave}") for wave in range(self.waves)),
            *(Wave(strategy=self, wave=wave, name=f"wave_{wave}") for wave in range(self.waves)),
            Stage(strategy=self, name="settle", task="judged"),
            Stage(strategy=self, name="greedy", task="greedy", stream="greedy"),
        )

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Do what the statistics want of this question."""
        facts = {} if statistics is None else statistics.per_question
        known = facts.get(question.question_id, {})
        task: Task = known.get("task", "all" if self.profile == "paper" else "window")
        if task == "rank":
            texts = [[facts[member]["text"] for member in batch] for batch in known["batches"]]
            return self._ask_greedily(question, [ranking_prompt(each) for each in texts], task)
        if task == "greedy":
            return self._ask_greedily(question, [self.prompts.ask(question.text)], task)
        return self._sample(question, task, known.get("first", self.extend))

    def _ask_greedily(
        self, question: Question, prompts: Sequence[tuple[Message, ...]], task: Task
    ) -> Decisions:
        greedy = task == "greedy"
        requests = tuple(
            self.request(
                question,
                messages,
                pool=Pool.PARALLEL,
                chain=GREEDY_CHAIN if greedy else RANKING_CHAIN,
                sample=sample,
                score=self.score and greedy,
                greedy=True,
            )
            for sample, messages in enumerate(prompts)
        )
        observations = yield Generate(requests)
        replies = Samples(question, self)
        replies.add(observations)
        return replies.stop(StopReason.FINISHED)

    def _sample(self, question: Question, task: Task, first: int) -> Decisions:
        """Sample until the answers agree, as far as the task goes."""
        samples = Samples(question, self)
        size = {"all": self.n, "first": 1, "one_by_one": 1}.get(task, self.extend)
        while samples.drawn < self.n:
            count = min(size, self.n - samples.drawn)
            yield from samples.draw(count, needs_scores=task == "all")
            if task == "first":
                return samples.stop(StopReason.FINISHED)
            if task != "all" and self.agrees(samples.answers):
                return samples.stop_on_vote(StopReason.AGREED, self.profile, silent=True)
            if task in ("judge", "judged") and samples.drawn < self.n:
                return samples.stop_on_vote(StopReason.FINISHED, self.profile, silent=True)
            if task == "window":
                size = max(self.extend, first - samples.drawn)
        return samples.stop_on_vote(StopReason.BUDGET, self.profile, silent=True)

    def agrees(self, answers: Sequence[str | None]) -> bool:
        """Whether the majority of these answers is likely enough to last."""
        paper = self.profile == "paper"
        v1, v2 = top_two(clusters(answers, as_written=paper, silent=True))
        enough = len(answers) >= (2 if paper else 1) and v1 > 0
        return enough and p_majority_lasts(v1, v2) >= self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Phase):
    """A phase over the questions with one task; all that have one, where `task` is None."""

    strategy: DifficultyAdaptiveSelfConsistency
    stream: str | None = "samples"
    reads_texts: bool = False
    task: Task | None = None

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Whether the question has the task."""
        facts = facts_of(statistics)
        if self.task is None:
            return question_id in facts
        return bool(facts[question_id]["task"] == self.task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Stage):
    """Questions that lead batches ask the model to rank them."""

    name: str = "rank"
    stream: str | None = "rankings"
    answers: bool = False
    reads_texts: bool = True

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Whether the question leads a batch."""
        return bool(facts_of(statistics)[question_id]["batches"])

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats:
        """Order all questions by their mean place, 0 the easiest and 1 the hardest of a batch.

        A ranking that does not name each question once is left out; a question without any counts
        as of middling difficulty.
        """
        facts = facts_of(statistics)
        places: dict[str, list[float]] = {question_id: [] for question_id in facts}
        for leader, record in records.items():
            for batch, observation in zip(
                facts[leader]["batches"], record.completions, strict=False
            ):
                order = (
                    parse_ranking(observation.text, len(batch))
                    if isinstance(observation, Completion)
                    else None
                )
                for place, member in enumerate(order or ()):
                    places[batch[member]].append(place / (len(batch) - 1))
        difficulty = {
            question_id: math.fsum(seen) / len(seen) if seen else 0.5
            for question_id, seen in places.items()
        }
        hardest_first = sorted(
            facts, key=lambda question_id: (-difficulty[question_id], question_id)
        )
        return PhaseStats(
            per_question={
                question_id: {"task": "judge", "place": place}
                for place, question_id in enumerate(hardest_first)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(Stage):
    """A stretch of the questions, from the hardest on, judged by their first samples."""

    wave: int
    """0 is the hardest."""
    answers: bool = False

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Whether the question stands in this stretch and the hard part has not ended."""
        known = facts_of(statistics)[question_id]
        return bool(known["task"] == "judge" and known["place"] < _end(self.strategy, self.wave))

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats:
        """Note which agreed; once the hard part has ended, or all are judged, put it in order."""
        facts = {question_id: dict(known) for question_id, known in facts_of(statistics).items()}
        for question_id, record in records.items():
            at_once = self.strategy.agrees(answers_of(record, self.strategy.extend))
            facts[question_id].update(task="judged", at_once=at_once)
        judged = sorted(
            (known for known in facts.values() if known["task"] == "judged"),
            key=lambda known: int(known["place"]),
        )
        start = _first_run([known["at_once"] for known in judged], self.strategy.judge_window)
        waiting = [known for known in facts.values() if known["task"] == "judge"]
        if start is None and waiting:
            return PhaseStats(per_question=facts)
        for known in waiting:
            known["task"] = "greedy"
        for rank, known in enumerate(reversed(judged[:start])):
            known.update(task="window", rank=rank, first=self.strategy.extend)
        return PhaseStats(per_question=facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave(Stage):
    """A stretch of the hard part, from its easiest question on, sampled at the same time."""

    wave: int
    """0 is the easiest."""

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Whether the question stands in this stretch."""
        known = facts_of(statistics)[question_id]
        return bool(known["task"] == "window" and _rank(known) < _end(self.strategy, self.wave))

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats:
        """Note the stop sizes and pre-allocate the next wave."""
        facts = {question_id: dict(known) for question_id, known in facts_of(statistics).items()}
        for question_id, record in records.items():
            facts[question_id].update(task="done", size=self._stop_size(record))
        done = sorted(
            (known for known in facts.values() if known["task"] == "done"),
            key=_rank,
        )
        first = self._first_window(done[-self.strategy.neighbours :])
        for known in facts.values():
            if known["task"] == "window":
                known["first"] = first
        return PhaseStats(per_question=facts)

    def _stop_size(self, record: QuestionRecord) -> int:
        """The least number of samples that agree; the budget where none does."""
        n = self.strategy.n
        sizes = range(1, len(record.completions) + 1)
        return next((k for k in sizes if self.strategy.agrees(answers_of(record, k))), n)

    def _first_window(self, before: Sequence[Mapping[str, Any]]) -> int:
        """The mean stop size of the neighbours, rounded to a multiple of the extension."""
        extend = self.strategy.extend
        if not before:
            return extend
        mean: float = sum(known["size"] for known in before) / len(before)
        return extend * max(1, round(mean / extend))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty(Stage):
    """The paper's variant draws every sample of every question to know how hard it is."""

    name: str = "difficulty"
    answers: bool = False

    def selects(self, question_id: str, statistics: PhaseStats | None) -> bool:
        """Every question takes part."""
        return True

    def fold(
        self, records: Mapping[str, QuestionRecord], statistics: PhaseStats | None
    ) -> PhaseStats:
        """Split easy from medium by a binary search over the order of difficulty.

        A question judged is the one in the middle with its easier neighbour: where both agree
        within the first window, all questions up to it are easy. (The published search for hard
        questions asks for 3 hits among these 2 and never finds any; it is left out.)
        """
        easiest_first = sorted(records, key=lambda key: (_difficulty(records[key]), key))
        left, right = 0, len(easiest_first)
        while left < right:
            middle = (left + right) // 2
            judged = easiest_first[max(0, middle - 1) : middle + 1]
            if all(self._is_easy(records[question_id]) for question_id in judged):
                left = middle + 1
            else:
                right = middle
        return PhaseStats(
            per_question={
                question_id: {"task": "first" if place < left else "one_by_one", "place": place}
                for place, question_id in enumerate(easiest_first)
            }
        )

    def _is_easy(self, record: QuestionRecord) -> bool:
        """Whether sampling in windows would stop after the first one.

        As published: a budget of exactly one window stops there whatever the samples say, and
        under a smaller one no question is easy.
        """
        n = self.strategy.n
        if n <= PAPER_WINDOW:
            return n == PAPER_WINDOW
        return self.strategy.agrees(answers_of(record, PAPER_WINDOW))


def facts_of(statistics: PhaseStats | None) -> Facts:
    if statistics is None:
        raise ConfigError("phases of dsc need the statistics of the phase before, got none")
    return statistics.per_question


def answers_of(record: QuestionRecord, first: int) -> list[str | None]:
    """Of those among the `first` samples that were had."""
    samples = record.completions[:first]
    return [sample.answer for sample in samples if isinstance(sample, Completion)]


def _rank(known: Mapping[str, Any]) -> int:
    """Runs begun before there was a rank go on by place."""
    return int(known.get("rank", known["place"]))


def _end(strategy: DifficultyAdaptiveSelfConsistency, wave: int) -> float:
    """Questions in all waves up to this one: `neighbours`, as many again, then doubling."""
    return math.inf if wave == strategy.waves - 1 else strategy.neighbours * 2**wave


def _first_run(flags: Sequence[bool], length: int) -> int | None:
    """Where the first `length` consecutive flags begin; None where there are none."""
    run = 0
    for place, flag in enumerate(flags):
        run = run + 1 if flag else 0
        if run == length:
            return place - length + 1
    return None


def _difficulty(record: QuestionRecord) -> float:
    """1 - the mean verifier score; 1 where there is no score."""
    scores = [
        sample.score
        for sample in record.completions
        if isinstance(sample, Completion) and sample.score is not None
    ]
    return 1 - math.fsum(scores) / len(scores) if scores else 1.0


def batches(questions: Sequence[Question], size: int, rankings: int) -> dict[str, dict[str, Any]]:
    """Put every question into one random batch a ranking; the first of a batch asks about it.

    Args:
        questions: of one benchmark.
        size: questions a batch at most. Batches of a ranking differ by at most one question.
        rankings: how often every question is ranked.

    Returns:
        By question id: ``task`` ``rank``, its ``text``, and ``batches``, the id lists that it asks
        about (none for most). The order is random by the questions' seeds, not by their places.
    """
    facts: dict[str, dict[str, Any]] = {
        question.question_id: {"task": "rank", "text": question.text, "batches": []}
        for question in questions
    }
    n_batches = -(-len(questions) // size)
    for ranking in range(rankings):
        shuffled = sorted(
            questions, key=lambda q: (request_seed(q.seed, "ranking", 0, ranking, 0), q.question_id)
        )
        for first in range(n_batches):
            batch = [question.question_id for question in shuffled[first::n_batches]]
            if len(batch) > 1:  # a single question has no rank among others
                facts[batch[0]]["batches"].append(batch)
    return facts


def ranking_prompt(texts: Sequence[str]) -> tuple[Message, ...]:
    """Ask for the order of these questions, from easiest to hardest."""
    listed = "\n\n".join(f"Q{number}: {text}" for number, text in enumerate(texts, start=1))
    return (
        Message(
            "user",
            f"Here are {len(texts)} questions. Do not answer them; compare how hard they are.\n\n"
            f"{listed}\n\n"
            "Order all of them from the easiest to the hardest. Reply with one line that begins "
            f"with Ranking: and lists their labels, each of Q1 to Q{len(texts)} once, separated by "
            "commas.",
        ),
    )


def parse_ranking(text: str, size: int) -> tuple[int, ...] | None:
    """The order that a reply gives: indices in [0, size), from easiest to hardest.

    Read after the thinking: what stands after the last ``Ranking:``, or a line of it, as reasons
    may follow; else any one line (a reply that answers Q1, Q2, ... in turn ranks nothing). None
    where none of them names each question exactly once.
    """
    _, said, rest = after_thinking(text).rpartition("Ranking:")
    for part in [rest] * bool(said) + rest.splitlines():
        order = [int(label) - 1 for label in re.findall(r"\bQ(\d{1,6})\b", part)]
        if sorted(order) == list(range(size)):
            return tuple(order)
    return None
