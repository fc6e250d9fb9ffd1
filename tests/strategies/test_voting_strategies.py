"""Published rules of the voting strategies on hand-made pools with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from scipy.integrate import quad

from pipeline.answers.answer_rules import AnswerRule, apply
from pipeline.core.protocol import Completion, Failure, Observation, Request, Strategy
from pipeline.replay.exact import drive
from pipeline.strategies.self_consistency import (
    AdaptiveConsistency,
    EarlyStoppingSelfConsistency,
    SelfConsistency,
    p_majority_lasts,
)
from tests.generators import completion, question

LOST = Failure(error="EngineError: lost")


def run(
    strategy: Strategy, pool: Sequence[str | Observation | None]
) -> tuple[int, str, tuple[int, ...], str | None]:
    """(samples drawn, stop reason, rounds rested on, answer) over a pool of samples."""
    observations = [
        sample if isinstance(sample, Completion | Failure) else completion(sample)
        for sample in pool
    ]

    def answer(request: Request) -> Observation:
        return observations[request.sample]

    done = drive(strategy, question(), answer)
    chosen = apply(AnswerRule(strategy.default_rule), done.completions, done.stop)
    assert chosen is not None
    return len(done.completions), done.stop.reason.value, done.stop.rounds, chosen.answer


def pool(text: str) -> list[str | Observation | None]:
    """One sample a character: ``-`` has no answer, ``x`` failed."""
    special: dict[str, Observation | None] = {"-": None, "x": LOST}
    return [special.get(character, character) for character in text]


def upto(n: int) -> tuple[int, ...]:
    """All positions below n."""
    return tuple(range(n))


@pytest.mark.parametrize(
    ("profile", "samples", "expected"),
    [
        ("upstream", "12212", (5, "budget", upto(5), "2")),
        ("upstream", "2112", (4, "budget", upto(4), "2")),  # a tie goes to the first seen
        ("upstream", "--1", (3, "budget", upto(3), "1")),  # no answer does not vote
        ("upstream", "--", (2, "budget", upto(2), None)),
        ("upstream", "x11", (3, "budget", (1, 2), "1")),  # a failure holds its place
        ("upstream", "xx", (2, "failed", (), None)),
        ("paper", "12212", (5, "budget", (1, 2, 4), "2")),
        ("paper", "--1", (3, "budget", (0, 1), None)),  # no answer is a vote like any other
        ("paper", "-1", (2, "budget", (0,), None)),  # and wins a tie where it came first
        ("paper", "x1-", (3, "budget", (1,), "1")),
        ("paper", "xx", (2, "failed", (), None)),
    ],
)
def test_self_consistency(profile: Any, samples: str, expected: object) -> None:
    """All samples vote; the paper's profile compares as written and counts "no answer"."""
    strategy = SelfConsistency(n=len(samples), profile=profile)

    assert run(strategy, pool(samples)) == expected


@pytest.mark.parametrize(("profile", "rounds"), [("upstream", upto(4)), ("paper", (0,))])
def test_self_consistency_can_weigh_votes_by_score(profile: Any, rounds: tuple[int, ...]) -> None:
    """One sure sample outweighs two doubtful ones, with or without failures between."""
    strategy = SelfConsistency(n=5, weighted=True, profile=profile)
    samples = [
        completion("1", 0.9),
        completion("2", 0.4),
        completion("2", 0.4),
        completion("3", 0.1),
    ]

    drawn, _, rested, answer = run(strategy, [*samples, LOST])

    assert (drawn, rested, answer) == (5, rounds, "1")
    assert (strategy.default_rule, strategy.needs_score) == ("prm_weighted_vote", True)


@pytest.mark.parametrize(
    ("profile", "n", "samples", "expected"),
    [
        # N = 8, window 5: one window upstream, the remainder too in the paper's profile
        ("upstream", 8, "11122111", (5, "budget", upto(5), "1")),
        ("paper", 8, "11122222", (8, "budget", (3, 4, 5, 6, 7), "2")),
        # a unanimous first window
        ("upstream", 10, "1111122222", (5, "agreed", upto(5), "1")),
        ("paper", 10, "1111122222", (5, "agreed", upto(5), "1")),
        # a unanimous later window answers alone upstream, is outvoted in the paper's profile
        ("upstream", 15, "111122222233333", (10, "agreed", (5, 6, 7, 8, 9), "2")),
        ("paper", 15, "222221111133333", (5, "agreed", upto(5), "2")),
        (
            "paper",
            20,
            "11112" + "1112-" + "22222" + "33333",
            (15, "agreed", (*upto(4), 5, 6, 7), "1"),
        ),
        (
            "upstream",
            20,
            "11112" + "1112-" + "22222" + "33333",
            (15, "agreed", (10, 11, 12, 13, 14), "2"),
        ),
        # agreement across a window's border does not count
        ("upstream", 10, "2111111112", (10, "budget", upto(10), "1")),
        # no answer is a vote like any other, in a window and in the final vote
        ("upstream", 10, "-----11112", (5, "agreed", upto(5), None)),
        ("upstream", 10, "1---2--112", (10, "budget", (1, 2, 3, 5, 6), None)),
        ("upstream", 10, "1--1211--2", (10, "budget", upto(10), "1")),
        ("paper", 10, "-----11112", (5, "agreed", upto(5), None)),
        ("upstream", 5, "1111-", (5, "budget", upto(5), "1")),
        # a failed sample keeps its window from agreeing
        ("upstream", 5, "1111x", (5, "budget", upto(4), "1")),
        ("paper", 5, "x1111", (5, "budget", (1, 2, 3, 4), "1")),
        ("paper", 5, "xxxxx", (5, "failed", (), None)),
        # a budget below one window
        ("upstream", 3, "111", (3, "agreed", upto(3), "1")),
        ("paper", 3, "111", (3, "budget", upto(3), "1")),
    ],
)
def test_esc(profile: Any, n: int, samples: str, expected: object) -> None:
    """Windows of 5, both readings of the remainder and of the final vote."""
    strategy = EarlyStoppingSelfConsistency(n=n, profile=profile)

    assert run(strategy, pool(samples)) == expected


@pytest.mark.parametrize(
    ("settings", "samples", "expected"),
    [
        ({}, "1111", (4, "agreed", upto(4), "1")),  # unanimous: the 4th sample
        ({}, "21111111", (7, "agreed", upto(7), "1")),  # 6 against 1: 1 - 9/256
        ({}, "11121111", (7, "agreed", upto(7), "1")),
        ({}, "12121212", (8, "budget", upto(8), "1")),
        ({}, "--1111", (6, "agreed", upto(6), "1")),  # no answer does not vote
        ({}, "--------", (8, "budget", upto(8), None)),
        ({}, "x1111", (5, "agreed", (1, 2, 3, 4), "1")),
        ({}, "xxxxxxxx", (8, "failed", (), None)),
        ({"batch": 3}, "11111111", (6, "agreed", upto(6), "1")),  # tested after 3 and 6
        ({"batch": 3}, "12121212", (8, "budget", upto(8), "1")),  # the last batch is what is left
        ({"threshold": 0.7}, "1", (1, "agreed", (0,), "1")),
        ({"threshold": 0.7, "profile": "paper"}, "11", (2, "agreed", upto(2), "1")),
        ({"profile": "paper"}, "----", (4, "agreed", upto(4), None)),
        ({"profile": "paper"}, "1-111111", (7, "agreed", (0, 2, 3, 4, 5, 6), "1")),
    ],
)
def test_asc(settings: dict[str, Any], samples: str, expected: object) -> None:
    """The stopping rule after every sample (or batch), on either profile."""
    assert run(AdaptiveConsistency(n=8, **settings), pool(samples)) == expected


@pytest.mark.parametrize(("v1", "v2"), [(0, 0), (1, 0), (3, 0), (4, 0), (6, 1), (20, 13)])
def test_probability_of_a_lasting_majority_is_the_beta_integral(v1: int, v2: int) -> None:
    """The incomplete beta function equals direct integration of the density over (1/2, 1)."""

    def density(x: float) -> float:
        return float(x**v1 * (1 - x) ** v2)

    expected = quad(density, 0.5, 1)[0] / quad(density, 0, 1)[0]

    assert p_majority_lasts(v1, v2) == pytest.approx(expected, abs=1e-9)


def test_probability_of_a_lasting_majority_is_safe_for_large_counts() -> None:
    """A unanimous count has 1 - 2^-(v+1); thousands of votes neither underflow nor give nan."""
    assert p_majority_lasts(3, 0) == pytest.approx(1 - 0.5**4)
    assert p_majority_lasts(4, 0) == pytest.approx(1 - 0.5**5)
    assert p_majority_lasts(50_000, 50_000) == pytest.approx(0.5)
    assert p_majority_lasts(60_000, 40_000) == pytest.approx(1.0)


def test_samples_share_one_prompt_and_differ_in_seed() -> None:
    """So that an engine computes the prompt once and no two samples are the same draw."""
    asked: list[Request] = []

    def answer(request: Request) -> Observation:
        asked.append(request)
        return completion(None)

    drive(AdaptiveConsistency(n=6, batch=4), question(), answer)

    assert len({request.digest() for request in asked}) == 1
    assert len({request.seed for request in asked}) == 6
    assert [request.address for request in asked] == [("parallel", 0, 0, k) for k in range(6)]
