"""Grading by kind of answer, each leniency by itself, and the gold answers of the benchmarks."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.answers import (
    Finding,
    Verdict,
    canonical,
    find,
    grade,
)
from tests.answer_cases import DIFFERENT, EQUAL, cases, pairs

CASES = cases("grading_cases.jsonl")
GOLDS = list(dict.fromkeys(case["gold"] for case in CASES if case["equal"]))


@pytest.mark.parametrize(
    ("given", "verdict"),
    [(EQUAL, Verdict.RIGHT), (DIFFERENT, Verdict.WRONG), (pairs("open"), Verdict.UNGRADED)],
)
def test_pairs_have_their_verdict(given: list[tuple[str, str]], verdict: Verdict) -> None:
    """Two spellings of one value, or a spelling that a leniency covers, are RIGHT; near misses are
    WRONG; a pair that is neither shown equal nor different is UNGRADED."""
    assert [pair for pair in given if grade(*pair) is not verdict] == []


def test_nearly_equal_answers_are_never_one_vote() -> None:
    """Their canonical forms differ, and so do those of what is no product: applied functions,
    derivatives, ordered products, ranges, dates, parts, formulas and hedges."""
    odd = pairs("no product")

    assert [pair for pair in DIFFERENT + odd if canonical(pair[0]) == canonical(pair[1])] == []
    assert [pair for pair in odd if Verdict.RIGHT in both_ways(*pair)] == []


def both_ways(gold: str, prediction: str) -> set[Verdict]:
    """The verdicts, whichever side writes which."""
    return {grade(gold, prediction), grade(prediction, gold)}


def test_canonical_is_idempotent_and_reflexive() -> None:
    """Reading a canonical form gives itself, and it is RIGHT for the answer it came from."""
    answers = sorted({answer for pair in EQUAL + DIFFERENT for answer in pair})

    assert [a for a in answers if canonical(canonical(a)) != canonical(a)] == []
    assert [a for a in answers if both_ways(a, canonical(a)) != {Verdict.RIGHT}] == []


LENIENT = [
    (r"\frac{5}{12}", "0.4166666667"),
    (r"\pi", "3.14159265"),
    (r"35\%", "35"),
    ("35", r"35\%"),
    ("14", "14 units"),
    (r"5.4 \text{ cents}", "5.4"),
    (r"90^\circ", "90"),
    ("90", r"90^\circ"),
    (r"30^\circ", r"\frac{\pi}{6}"),
    ("413_5", "413"),
    ("x = 9", "9"),
    ("9", "x = 9"),
    ("[0,1)", r"0 \le x < 1"),
    ("7", "3 + 4 = 7"),
    ("0,3", "(0,3)"),
    ("(0,4)", "0,4"),
    (r"\{2,5\}", "5, 2"),
    ("0", r"\{0\}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "(1,2)"),
    ("1:2", r"\frac12"),
    ("C", "(C) 45"),
    ("100, 200", "100,200"),
    ("x", r"\sqrt{x^2}"),
    ("0.6666666667", r"\frac23"),
    ("5.6666666667", "5.666667"),
    ("A", "(a)"),
    ("16/3", "5 and 1/3"),
]


@pytest.mark.parametrize(("gold", "prediction"), LENIENT)
def test_votes_never_see_a_leniency(gold: str, prediction: str) -> None:
    """A leniency makes its pair RIGHT and leaves the canonical forms apart."""
    assert grade(gold, prediction) is Verdict.RIGHT
    assert canonical(gold) != canonical(prediction)


@pytest.mark.parametrize(
    ("gold", "prediction"),
    [
        ("413", "413_5"),  # a base that was not asked for
        ("0.41666667", r"\frac{5}{12}"),  # gold decimals are exact
        ("1/3", "0.33333"),  # five digits are too few
        ("1/3", "0.333334"),
        ("2", "1.9999999"),  # integers are exact
        ("(0,4)", "4,0"),  # a bare list in another order
        ("50", "0.5"),  # no percent sign to leave out
        (r"5 \text{ cm}", r"5 \text{ m}"),
        ("x = 5", "y = 5"),
        ("(C) 45", "(C) 46"),
    ],
)
def test_leniencies_end_where_they_say(gold: str, prediction: str) -> None:
    """The other direction of a one-way rule, and what lies just outside of a rule, is WRONG."""
    assert grade(gold, prediction) is Verdict.WRONG


def test_no_answer_is_wrong() -> None:
    """Nothing to compare is WRONG and not UNGRADED."""
    assert grade("5", None) is Verdict.WRONG
    assert grade("5", "  ") is Verdict.WRONG
    assert grade("5", "<think>I give up \\boxed{5}") is Verdict.WRONG


def test_replies_are_extracted_from() -> None:
    """A whole reply given as prediction is graded by its final answer."""
    assert grade("5", "I say \\boxed{3}, no: \\boxed{5}.") is Verdict.RIGHT
    assert grade("5", "The answer is 5.") is Verdict.RIGHT
    assert grade("5", "<think>5</think> The answer is 6") is Verdict.WRONG


@pytest.mark.parametrize(
    ("gold", "prediction", "finding"),
    [
        (r"\sin 2x", r"2\sin x\cos x", Finding.UNPROVEN),
        (r"\int_0^1 x dx", "1/2", Finding.UNPROVEN),
        (r"2^5 \bmod 5", "2", Finding.UNREAD),
        ("5", "10^{10^{10^{10}}}", Finding.TOO_LARGE),
        (r"\frac{1}{2", "5", Finding.UNREAD),
        ("5", r"\frac{1}{2", Finding.WRONG),
    ],
)
def test_findings_say_what_is_open(gold: str, prediction: str, finding: Finding) -> None:
    """What exact comparison cannot decide says why; all but RIGHT and WRONG are UNGRADED."""
    decided = finding in (Finding.RIGHT, Finding.WRONG)

    assert find(gold, prediction) is finding
    assert (grade(gold, prediction) is Verdict.UNGRADED) is not decided


def test_cases_of_each_kind() -> None:
    """Equal pairs are RIGHT, or open for a worker to prove; unequal ones are neither RIGHT nor
    taken for equal by votes."""

    def holds(case: dict[str, Any]) -> bool:
        finding = find(case["gold"], case["prediction"])
        if case["equal"]:
            return finding in (Finding.RIGHT, Finding.UNPROVEN)
        forms = canonical(case["gold"]), canonical(case["prediction"])
        return finding is not Finding.RIGHT and forms[0] != forms[1]

    assert [case["id"] for case in CASES if not holds(case)] == []


def test_gold_answers_equal_themselves() -> None:
    """Each gold answer is RIGHT as it is, in a box, and in a sentence; its form is its own form."""
    for gold in GOLDS:
        boxed = f"\\boxed{{{gold}}}"
        replies = (gold, boxed, f"So it is $x$. The answer is ${boxed}$.")
        assert {grade(gold, reply) for reply in replies} == {Verdict.RIGHT}, gold
        assert canonical(canonical(gold)) == canonical(gold)


def test_one_changed_digit_is_not_right() -> None:
    """No digit of a gold answer goes unread: changing any one of them is never RIGHT."""
    for gold in GOLDS:
        for place, digit in enumerate(gold):
            if digit in "0123456789":
                changed = gold[:place] + str((int(digit) + 1) % 10) + gold[place + 1 :]
                assert grade(gold, changed) is not Verdict.RIGHT, (gold, changed)


def test_an_angle_is_no_temperature() -> None:
    """A scale of temperature may be left out, and none may be added."""
    assert grade(r"72^\circ \mathrm{F}", r"72^\circ") is Verdict.RIGHT
    assert grade(r"30^\circ", r"30^\circ C") is not Verdict.RIGHT


def test_one_value_in_many_dresses() -> None:
    """What people write for one value is RIGHT, whichever side writes it."""
    assert [p for p in pairs("one value") if both_ways(*p) != {Verdict.RIGHT}] == []
