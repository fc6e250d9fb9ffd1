"""Grading by kind of answer, each leniency by itself, and the gold answers of the benchmarks."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.answers import (
    ALL_LENIENCIES,
    Finding,
    Leniency,
    Verdict,
    canonical,
    find,
    grade,
)
from tests.answer_cases import DIFFERENT, EQUAL, cases, pairs

CASES = cases("grading_cases.jsonl")
GOLDS = list(dict.fromkeys(case["gold"] for case in CASES if case["equal"]))


@pytest.mark.parametrize(("gold", "prediction"), EQUAL)
def test_equal_answers_are_right(gold: str, prediction: str) -> None:
    """Two spellings of one value, or a spelling that a leniency covers, are RIGHT."""
    assert grade(gold, prediction) is Verdict.RIGHT


@pytest.mark.parametrize(("gold", "prediction"), DIFFERENT)
def test_nearly_equal_answers_are_wrong(gold: str, prediction: str) -> None:
    """Near misses are WRONG, and never one vote."""
    assert grade(gold, prediction) is Verdict.WRONG
    assert canonical(gold) != canonical(prediction)


@pytest.mark.parametrize(("gold", "prediction"), pairs("open"))
def test_what_nobody_has_shown_is_open(gold: str, prediction: str) -> None:
    """A pair that is neither shown equal nor different is UNGRADED."""
    assert grade(gold, prediction) is Verdict.UNGRADED


@pytest.mark.parametrize(
    "answer", sorted({answer for pair in EQUAL + DIFFERENT for answer in pair})
)
def test_canonical_is_idempotent_and_reflexive(answer: str) -> None:
    """Reading a canonical form gives itself, and it is RIGHT for the answer it came from."""
    form = canonical(answer)

    assert canonical(form) == form
    assert grade(answer, form) is Verdict.RIGHT
    assert grade(form, answer) is Verdict.RIGHT
    assert grade(answer, answer, leniencies=frozenset()) is Verdict.RIGHT


LENIENT = [
    (Leniency.ROUNDING, r"\frac{5}{12}", "0.4166666667"),
    (Leniency.ROUNDING, r"\pi", "3.14159265"),
    (Leniency.PERCENT_SIGN, r"35\%", "35"),
    (Leniency.PERCENT_SIGN, "35", r"35\%"),
    (Leniency.UNITS, "14", "14 units"),
    (Leniency.UNITS, r"5.4 \text{ cents}", "5.4"),
    (Leniency.UNITS, r"90^\circ", "90"),
    (Leniency.UNITS, "90", r"90^\circ"),
    (Leniency.UNITS, r"30^\circ", r"\frac{\pi}{6}"),
    (Leniency.NUMERALS, "413_5", "413"),
    (Leniency.NAMES, "x = 9", "9"),
    (Leniency.NAMES, "9", "x = 9"),
    (Leniency.NAMES, "[0,1)", r"0 \le x < 1"),
    (Leniency.NAMES, "7", "3 + 4 = 7"),
    (Leniency.BRACKETS, "0,3", "(0,3)"),
    (Leniency.BRACKETS, "(0,4)", "0,4"),
    (Leniency.BRACKETS, r"\{2,5\}", "5, 2"),
    (Leniency.BRACKETS, "0", r"\{0\}"),
    (Leniency.BRACKETS, r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "(1,2)"),
    (Leniency.NUMERALS, "1:2", r"\frac12"),
    (Leniency.CHOICES, "C", "(C) 45"),
    (Leniency.NUMERALS, "100, 200", "100,200"),
    (Leniency.POSITIVE_DOMAIN, "x", r"\sqrt{x^2}"),
    (Leniency.ROUNDING, "0.6666666667", r"\frac23"),
    (Leniency.ROUNDING, "5.6666666667", "5.666667"),
    (Leniency.CHOICES, "A", "(a)"),
    (Leniency.NUMERALS, "16/3", "5 and 1/3"),
]


@pytest.mark.parametrize(("leniency", "gold", "prediction"), LENIENT)
def test_each_leniency_is_a_switch(leniency: Leniency, gold: str, prediction: str) -> None:
    """A leniency alone makes its pair RIGHT, all the others do not, and votes never see it."""
    alone = grade(gold, prediction, leniencies=frozenset({leniency}))
    without = grade(gold, prediction, leniencies=ALL_LENIENCIES - {leniency})

    assert alone is Verdict.RIGHT
    assert without is not Verdict.RIGHT
    assert canonical(gold) != canonical(prediction)


def test_every_leniency_has_a_case() -> None:
    """No rule is without a test."""
    assert {leniency for leniency, _, _ in LENIENT} == set(Leniency)


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_cases_of_each_kind(case: dict[str, Any]) -> None:
    """Equal pairs are RIGHT, or open for a worker to prove; unequal ones are neither RIGHT nor
    taken for equal by votes."""
    finding = find(case["gold"], case["prediction"])

    if case["equal"]:
        assert finding in (Finding.RIGHT, Finding.UNPROVEN)
    else:
        assert finding is not Finding.RIGHT
        assert canonical(case["gold"]) != canonical(case["prediction"])


@pytest.mark.parametrize("gold", GOLDS)
def test_gold_answers_equal_themselves(gold: str) -> None:
    """Each gold answer is RIGHT as it is, in a box, and in a sentence; its form is its own form."""
    boxed = f"\\boxed{{{gold}}}"
    replies = (gold, boxed, f"So it is $x$. The answer is ${boxed}$.")

    assert {grade(gold, reply) for reply in replies} == {Verdict.RIGHT}
    assert canonical(canonical(gold)) == canonical(gold)


@pytest.mark.parametrize("gold", GOLDS)
def test_one_changed_digit_is_not_right(gold: str) -> None:
    """No digit of a gold answer goes unread: changing any one of them is never RIGHT."""
    for place, digit in enumerate(gold):
        if digit in "0123456789":
            changed = gold[:place] + str((int(digit) + 1) % 10) + gold[place + 1 :]
            assert grade(gold, changed) is not Verdict.RIGHT


@pytest.mark.parametrize(("gold", "prediction"), pairs("no product"))
def test_what_is_no_product_is_not_multiplied(gold: str, prediction: str) -> None:
    """Applied functions, derivatives, ordered products, ranges, dates, parts, formulas and hedges
    are neither RIGHT for each other nor one vote."""
    assert grade(gold, prediction) is not Verdict.RIGHT
    assert grade(prediction, gold) is not Verdict.RIGHT
    assert canonical(gold) != canonical(prediction)


def test_an_angle_is_no_temperature() -> None:
    """A scale of temperature may be left out, and none may be added."""
    assert grade(r"72^\circ \mathrm{F}", r"72^\circ") is Verdict.RIGHT
    assert grade(r"30^\circ", r"30^\circ C") is not Verdict.RIGHT


@pytest.mark.parametrize(("gold", "prediction"), pairs("one value"))
def test_one_value_in_many_dresses(gold: str, prediction: str) -> None:
    """What people write for one value is RIGHT, whichever side writes it."""
    assert grade(gold, prediction) is Verdict.RIGHT
    assert grade(prediction, gold) is Verdict.RIGHT
