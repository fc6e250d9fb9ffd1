"""DSC on made-up data sets: ranking, waves, the end of the hard part, and the paper's variant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.answers.answer_rules import AnswerRule, apply
from pipeline.core.protocol import (
    Failure,
    Observation,
    PhaseStats,
    Question,
    QuestionRecord,
    Request,
    Stop,
    StopReason,
)
from pipeline.replay.exact import Replayed, replay_phases
from pipeline.strategies.dsc import (
    GREEDY_CHAIN,
    RANKING_CHAIN,
    Difficulty,
    DifficultyAdaptiveSelfConsistency,
    Ranking,
)
from tests.generators import completion, question

DSC = DifficultyAdaptiveSelfConsistency
LOST = Failure(error="EngineError: lost")
Samples = Callable[[int, int], Observation]
"""(number of the question, sample) -> what is drawn. Question 0 is the hardest."""


def number_of(text: str) -> int:
    """Which of the made-up questions this is."""
    return int(text.split(" ")[0])


def run(
    strategy: DSC, n_questions: int, samples: Samples, *, ranks: bool = True
) -> tuple[dict[int, Replayed], Counter[tuple[str, int]]]:
    """Outcomes by question number, and how many distinct completions each chain and question had.

    The model ranks by the number of a question, the highest the easiest, or (`ranks` false)
    replies with something else.
    """
    questions = [question(number) for number in range(n_questions)]
    paid: set[tuple[str, int, int]] = set()

    def answer(asked: Question, request: Request) -> Observation:
        chain = {0: "sample", RANKING_CHAIN: "ranking", GREEDY_CHAIN: "greedy"}[request.chain]
        number = number_of(asked.text)
        paid.add((chain, number, request.sample))
        if chain == "sample":
            return samples(number, request.sample)
        if chain == "greedy":
            assert request.temperature == 0
            return completion("greedy")
        listed = re.findall(r"^Q(\d+): (\d+) ", request.messages[0].content, flags=re.MULTILINE)
        easiest_first = sorted(listed, key=lambda pair: -int(pair[1]))
        labels = ", ".join(f"Q{label}" for label, _ in easiest_first)
        return completion(None, None, text=f"Ranking: {labels}" if ranks else "They are all hard.")

    outcomes = replay_phases(strategy, questions, answer)
    counts = Counter((chain, number) for chain, number, _ in paid)
    return {number_of(key[1:] + " "): outcome for key, outcome in outcomes.items()}, counts


def answer_of(outcome: Replayed) -> str | None:
    """The answer under the strategy's own rule."""
    chosen = apply(AnswerRule.VOTE, outcome.completions, outcome.stop)
    assert chosen is not None
    return chosen.answer


def hard_below(border: int) -> Samples:
    """Questions below `border` never agree; the others always do."""

    def sample(number: int, sample: int) -> Observation:
        return completion(str(sample) if number < border else "same")

    return sample


def test_hard_questions_are_sampled_and_easy_ones_answered_once() -> None:
    """The hardest are sampled to the budget. The first `judge_window` questions in a row that agree
    at once end the hard part: those judged answer from the samples that judged them, and the
    questions of later waves get one greedy answer and no sample."""
    strategy = DSC(n=12, neighbours=4, judge_window=4, rankings=2, batch=40)

    outcomes, paid = run(strategy, 40, hard_below(3))

    drawn = [paid["sample", number] for number in range(40)]
    # judged are questions 0-3, 4-7, 8-15, 16-31, ...; 4 in a row agree in the second wave
    assert drawn == [12, 12, 12, *[4] * 5, *[0] * 32]
    assert [paid["greedy", number] for number in range(40)] == [0] * 8 + [1] * 32
    assert {answer_of(outcomes[number]) for number in range(8, 40)} == {"greedy"}
    assert {outcomes[number].stop.reason for number in range(3)} == {StopReason.BUDGET}
    assert {outcomes[number].stop.reason for number in range(3, 8)} == {StopReason.AGREED}
    assert {outcomes[number].stop.reason for number in range(8, 40)} == {StopReason.FINISHED}


def late(number: int, sample: int) -> Observation:
    """Questions 4 to 7 agree at the 7th sample, harder ones at the 11th, easier ones at once."""
    odd = {True: 0, 4 <= number < 8: 1, number < 4: 2}[True]
    return completion("odd" if sample < odd else "same")


def test_windows_go_from_easy_to_hard() -> None:
    """The first window is the mean stop size of the easier neighbours, to a multiple of 4: the
    harder questions of the second wave draw 8 at once, and 12 where that is not enough."""
    strategy = DSC(n=16, neighbours=4, judge_window=9, rankings=1, batch=16)

    outcomes, paid = run(strategy, 8, late)

    assert [paid["sample", number] for number in range(8)] == [12] * 4 + [8] * 4
    sizes = [len(outcomes[number].completions) for number in range(8)]
    assert sizes == [12] * 4 + [8] * 4


def test_a_question_that_agrees_at_once_is_not_sampled_further() -> None:
    """However large the window of its neighbours, as in the method's code."""

    def samples(number: int, sample: int) -> Observation:
        return completion("same" if number < 4 else str(sample))

    _, paid = run(DSC(n=12, neighbours=4, judge_window=9, rankings=1, batch=16), 8, samples)

    assert [paid["sample", number] for number in range(8)] == [4] * 4 + [12] * 4


def test_samples_a_question_are_as_few_as_the_method_asks_for() -> None:
    """Where all are ranked right and get harder by and by, windows cost at most 4 samples a
    question more than testing after every one."""
    sizes = [4, 4, 4, 4, 7, 7, 10, 10, 13, 13, 16, 16, 20, 20, 24, 24, 28, 28, 34, 34]

    def samples(number: int, sample: int) -> Observation:
        n_odd = {4: 0, 7: 1, 10: 2, 13: 3, 16: 4}.get(sizes[-1 - number], 5)
        return completion("odd" if sample < n_odd else "same")

    needed = {4: 4, 7: 7, 10: 9, 13: 11, 16: 13}
    least = [needed.get(size, 15) for size in sizes]
    _, paid = run(DSC(n=40, neighbours=4, judge_window=21, rankings=1, batch=40), 20, samples)

    drawn = [paid["sample", number] for number in range(20)]
    assert all(d - n <= 4 for d, n in zip(drawn, reversed(least), strict=True))


@pytest.mark.parametrize("n", [4, 8])
def test_no_answer_is_a_vote(n: int) -> None:
    """Four samples without an answer agree, and the question has none; a single one is outvoted."""

    def samples(number: int, sample: int) -> Observation:
        return completion("same" if number and sample else None)

    outcomes, paid = run(DSC(n=n, judge_window=9, rankings=1), 2, samples)

    assert (answer_of(outcomes[0]), paid["sample", 0]) == (None, 4)
    assert outcomes[0].stop.reason is StopReason.AGREED
    assert (answer_of(outcomes[1]), paid["sample", 1]) == ("same", n)


def test_every_question_is_ranked_in_every_ranking_and_rankings_are_paid_for() -> None:
    """40 questions in batches of 8: 5 requests a ranking, whoever asks them."""
    _, paid = run(DSC(n=4, rankings=3, judge_window=1), 40, hard_below(0))

    assert sum(count for (chain, _), count in paid.items() if chain == "ranking") == 3 * 5


def test_without_usable_rankings_questions_are_of_one_difficulty() -> None:
    """Replies that rank nothing are left out and all questions are still answered."""
    outcomes, paid = run(DSC(n=4, rankings=1), 12, hard_below(12), ranks=False)

    assert set(outcomes) == set(range(12))
    assert sum(count for (chain, _), count in paid.items() if chain == "sample") == 48


@pytest.mark.parametrize("profile", ["upstream", "paper"])
def test_a_benchmark_without_questions_gives_nothing(profile: Any) -> None:
    """Every phase is passed through."""
    assert run(DSC(profile=profile), 0, hard_below(0)) == ({}, Counter())


def test_failed_samples_and_failed_questions_do_not_end_the_hard_part() -> None:
    """Three votes beside a failure do not agree at once; a question whose samples all fail stops
    as failed at its budget."""
    strategy = DSC(n=8, neighbours=2, judge_window=2, rankings=1)

    def samples(number: int, sample: int) -> Observation:
        return LOST if number == 0 or sample == 0 else completion("same")

    outcomes, paid = run(strategy, 8, samples)

    assert outcomes[0].stop == Stop(reason=StopReason.FAILED, rounds=())
    assert paid["sample", 0] == 8
    assert outcomes[1].stop == Stop(reason=StopReason.AGREED, rounds=tuple(range(1, 8)))
    assert sum(count for (chain, _), count in paid.items() if chain == "greedy") == 0


def test_mean_places_make_the_order() -> None:
    """A failed ranking is left out; a question without any counts as middling."""
    strategy = DSC(rankings=2)
    known = PhaseStats(
        per_question={
            "a": {"task": "rank", "text": "a", "batches": [["a", "b", "c"], ["a", "b", "c"]]},
            "b": {"task": "rank", "text": "b", "batches": [["b", "a"]]},
            "c": {"task": "rank", "text": "c", "batches": []},
            "d": {"task": "rank", "text": "d", "batches": []},
        }
    )
    records = {
        "a": record("a", [completion(None, text="Ranking: Q1, Q3, Q2"), LOST]),
        "b": record("b", [completion(None, text="Ranking: Q2, Q1")]),
    }

    learnt = Ranking(strategy=strategy).fold(records, known)

    # places: a 0 and 0, b 1 and 1, c 0.5, d none
    assert [(key, facts["place"]) for key, facts in learnt.per_question.items()] == [
        ("b", 0),
        ("c", 1),
        ("d", 2),
        ("a", 3),
    ]


def record(question_id: str, drawn: Sequence[Observation]) -> QuestionRecord:
    """What a phase drew for a question."""
    asked = Question(benchmark="made-up", question_id=question_id, text=question_id)
    return QuestionRecord(question=asked, completions=tuple(drawn), stop=None)


# The paper's variant. Scores make the order: question 0 is the hardest here too.


def scored(border: int) -> Samples:
    """As `hard_below`, scored by the question's number; question 2 agrees amid hard ones."""

    def sample(number: int, sample: int) -> Observation:
        agrees = number >= border or number == 2
        return completion("same" if agrees else str(sample), number / 100)

    return sample


def test_paper_splits_by_score_and_draws_everything() -> None:
    """All n samples of all questions are drawn; easy ones are answered by the first sample, the
    others by as many as the threshold asks for."""
    strategy = DSC(n=8, profile="paper")

    outcomes, paid = run(strategy, 16, scored(5))

    assert paid == Counter({("sample", number): 8 for number in range(16)})
    assert [len(outcomes[number].completions) for number in range(16)] == [
        *[8, 8, 4, 8, 8],
        *[1] * 11,
    ]
    assert [outcomes[number].stop.reason for number in (0, 2, 15)] == [
        StopReason.BUDGET,
        StopReason.AGREED,
        StopReason.FINISHED,
    ]


@pytest.mark.parametrize(("n", "easy"), [(4, 0), (5, 6), (6, 0)])
def test_paper_judging_breaks_down_for_small_budgets(n: int, easy: int) -> None:
    """As published: no question is easy under 5 samples and all are with exactly 5, whatever the
    samples say."""
    outcomes, _ = run(DSC(n=n, profile="paper"), 6, scored(6))

    reasons = [outcome.stop.reason for outcome in outcomes.values()]
    assert reasons.count(StopReason.FINISHED) == easy


def test_paper_counts_a_question_without_scores_as_hardest() -> None:
    """Difficulty 1 where every sample failed."""
    strategy = DSC(n=6, profile="paper")
    records = {
        "lost": record("lost", [LOST] * 6),
        "bad": record("bad", [completion("1", 0.1)] * 6),
        "good": record("good", [completion("1", 0.9)] * 6),
    }

    learnt = Difficulty(strategy=strategy).fold(records, PhaseStats())

    assert {key: facts["place"] for key, facts in learnt.per_question.items()} == {
        "good": 0,
        "bad": 1,
        "lost": 2,
    }


def test_profiles_say_what_they_need() -> None:
    """Only the paper's needs scores, and only it can be replayed from a pool of samples."""
    upstream, paper = DSC(n=8, rankings=3), DSC(n=8, rankings=3, profile="paper")

    assert (upstream.needs_score, upstream.pool_replayable, upstream.max_requests) == (
        False,
        False,
        11,
    )
    assert (paper.needs_score, paper.pool_replayable, paper.max_requests) == (True, True, 8)
