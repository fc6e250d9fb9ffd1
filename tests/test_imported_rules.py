"""Stopping rules and votes on imported samples against their authors' rules, one by one.

The rules are written out here from the papers: ESC (arXiv 2401.10480, Algorithm 1), ASC (arXiv
2305.11860, Eq. 2, by numerical integration), self-consistency (arXiv 2203.11171) and its vote
weighted by scores. The data are made here: every answer is voted for as it is spelt.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad

from jobs.import_logs import main
from pipeline.answers.answer_rules import AnswerRule, apply
from pipeline.core.protocol import Completion
from pipeline.replay.exact import replay_phases
from pipeline.replay.judging import answers_of
from pipeline.replay.pools import CompletionPool, read_pool
from pipeline.strategies.self_consistency import (
    AdaptiveConsistency,
    EarlyStoppingSelfConsistency,
    SelfConsistency,
)

QUESTIONS, SAMPLES = 60, 40


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> CompletionPool:
    """Questions of every difficulty, with scores, and answers that are missing now and then."""
    folder = tmp_path_factory.mktemp("rules")
    random = np.random.default_rng(5)
    rows = []
    for number in range(QUESTIONS):
        chance = random.dirichlet(np.full(5, 0.3 + 2 * number / QUESTIONS))
        answers = random.choice([None, "7", "12", "30", "45"], SAMPLES, p=chance)
        scores = random.random(SAMPLES).round(6).tolist()
        rows.append({"id": str(number), "gold": "7", "answer": list(answers), "score": scores})
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "map.yaml").write_text(
        "question_id: id\ngold: gold\nanswer: answer\nscore: score\nrows: samples\n"
    )
    arguments = [str(folder / "log.jsonl"), "--map", str(folder / "map.yaml"), "-q"]
    assert main([*arguments, "--out", str(folder / "pool")]) == 0
    return read_pool(str(folder / "pool"))


def decided(pool: CompletionPool, strategy, rule: AnswerRule = AnswerRule.VOTE):
    """(samples drawn, answer) of each question under a strategy."""
    answers = answers_of(pool)
    ends = replay_phases(
        strategy(decoding=pool.science.decoding, prompts=pool.science.prompts),
        [question.question for question in pool.questions],
        lambda question, request: answers[question.benchmark, question.question_id](request),
    )
    found = []
    for end in ends.values():
        chosen = apply(rule, end.completions, end.stop)
        at = None if chosen is None else chosen.position
        seen = None if at is None else end.completions[at]
        answer = seen.answer if isinstance(seen, Completion) else None
        found.append((len(end.completions), answer))
    return found


def drawn(pool: CompletionPool) -> list[list[tuple[str | None, float]]]:
    """(answer, score) of each sample."""
    observations = [[entry.observation for entry in q.samples] for q in pool.questions]
    return [[(seen.answer, seen.score) for seen in of] for of in observations]


def majority(answers: list[str | None]) -> str | None:
    """The commonest, the first seen of equals."""
    return Counter(answers).most_common(1)[0][0] if answers else None


def esc(answers: list[str | None], window: int) -> tuple[int, str | None]:
    """Windows until one is unanimous, whose answer it is; else the majority of all."""
    for end in range(window, len(answers) + 1, window):
        last = answers[end - window : end]
        if len(set(last)) == 1:
            return end, last[0]
    return len(answers), majority(answers)


def lasts(answers: list[str]) -> float:
    """P(the majority stays one): the mass above 1/2 of p^v1 (1 - p)^v2."""
    (_, first), (_, second) = (*Counter(answers).most_common(2), ("", 0))[:2]
    weight = partial(_weight, first, second)
    return quad(weight, 0.5, 1)[0] / quad(weight, 0, 1)[0]


def _weight(first: int, second: int, p: float) -> float:
    return p**first * (1 - p) ** second


def asc(answers: list[str | None], threshold: float) -> tuple[int, str | None]:
    """Samples until the majority is likely to last; a missing answer does not vote."""
    for end in range(1, len(answers) + 1):
        votes = [answer for answer in answers[:end] if answer is not None]
        if votes and lasts(votes) >= threshold:
            return end, majority(votes)
    return len(answers), majority([answer for answer in answers if answer is not None])


def weighted(samples: list[tuple[str | None, float]]) -> str | None:
    """The answer with the largest sum of scores."""
    sums: dict[str, float] = {}
    for answer, score in samples:
        if answer is not None:
            sums[answer] = sums.get(answer, 0.0) + score
    return max(sums, key=sums.__getitem__) if sums else None


@pytest.mark.parametrize("window", [4, 5, 8])
def test_esc_stops_and_answers_as_its_algorithm(pool, window):
    """Every stop and every answer, with missing answers voting as in the authors' code."""
    strategy = partial(EarlyStoppingSelfConsistency, n=SAMPLES, window=window)
    expected = [esc([answer for answer, _ in of], window) for of in drawn(pool)]
    assert decided(pool, strategy) == expected
    assert {count for count, _ in expected} >= {window, SAMPLES}


def test_esc_with_silent_missing_answers_never_stops_on_them(pool):
    """The variant: windows with a missing answer go on, and the vote is of answers alone."""
    strategy = partial(EarlyStoppingSelfConsistency, n=SAMPLES, window=4, no_answer_votes=False)
    found = decided(pool, strategy)
    for of, (count, answer) in zip(drawn(pool), found, strict=True):
        answers = [given for given, _ in of[:count]]
        votes = [given for given in answers if given is not None]
        window = answers[-4:]
        stopped = None not in window and len(set(window)) == 1
        assert stopped or count == SAMPLES
        assert answer == (window[0] if stopped else majority(votes))


@pytest.mark.parametrize("threshold", [0.9, 0.95])
def test_asc_stops_and_answers_as_its_criterion(pool, threshold):
    """Every stop and every answer, the probability integrated numerically."""
    strategy = partial(AdaptiveConsistency, n=SAMPLES, threshold=threshold)
    expected = [asc([answer for answer, _ in of], threshold) for of in drawn(pool)]
    assert decided(pool, strategy) == expected


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (AnswerRule.VOTE, lambda of: majority([a for a, _ in of if a is not None])),
        (AnswerRule.PRM_WEIGHTED_VOTE, weighted),
        (AnswerRule.PRM_ARGMAX, lambda of: max(of, key=lambda s: (s[0] is not None, s[1]))[0]),
    ],
)
def test_votes_are_those_of_their_papers(pool, rule, answer):
    """The plain vote, the vote weighted by scores, and the best score."""
    found = decided(pool, partial(SelfConsistency, n=SAMPLES), rule)
    assert [given for _, given in found] == [answer(of) for of in drawn(pool)]
