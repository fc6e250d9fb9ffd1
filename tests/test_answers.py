"""Grading by kind of answer, each leniency by itself, and the gold answers of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
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
from tests.answer_cases import DIFFERENT, EQUAL, OPEN

DATA = Path(__file__).resolve().parent / "data" / "grading_cases.jsonl"
CASES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
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


@pytest.mark.parametrize(("gold", "prediction"), OPEN)
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


@pytest.mark.parametrize(
    ("gold", "prediction"),
    [
        ("f(x+y)", "f(x)+f(y)"),
        ("f(2x)", "2f(x)"),
        ("T(n-1)+T(n-2)", "T(2n-3)"),
        ("f'(0)", "0"),
        (r"\Phi(2)-\Phi(1)", r"\Phi(1)"),
        (r"\frac{dy}{dx}=2x", r"\frac{y}{x}=2x"),
        (r"\frac{d}{dx}(x^2)", "x"),
        (r"\vec a\times\vec b", r"\vec b\times\vec a"),
        (r"\vec a\times\vec b", r"\vec a\cdot\vec b"),
        ("PDP^{-1}", "D"),
        ("A^TB", "BA^T"),
        (r"\hat x\hat p-\hat p\hat x", "0"),
        ("24-17", "27-20"),
        ("3-4 hours", "2-3 hours"),
        ("10/02/2021", "5/1/2021"),
        ("2021-05-01", "2020-04-01"),
        ("(a) 12 (b) 7", "84ab"),
        ("(1) 3 (2) 5", "(1) 5 (2) 3"),
        ("CO2", "C2O"),
        ("CaO", "OCa"),
        ("C2v", "2Cv"),
        ("{}^3P_0", "1"),
        (r"\psi^{(0)}", r"\psi^{(1)}"),
        (r"N 30^\circ E", r"E 30^\circ N"),
        ("5%", "5 cm"),
        ("$5", "5%"),
        ("ABD", "A or B or D"),
        ("second", "2"),
        ("min=1, max=5", "5, 1"),
    ],
)
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


@pytest.mark.parametrize(
    ("gold", "prediction"),
    [
        ("10-15", "10 to 15"),
        ("21 October 1805", "Oct. 21, 1805"),
        ("05/01/2021", "May 1, 2021"),
        ("1:15 P.M.", "13:15"),
        ("(a) 12 (b) 7", "12, 7"),
        ("maximum 5, minimum -3", "min = -3, max = 5"),
        ("CO2", r"\text{CO}_2"),
        (r"\mathrm{Fe}^{3+}", "Fe^{3+}"),
        ("ABD", "(A), (B) and (D)"),
        ("3 hours 20 minutes", "200 minutes"),
        ("5 ft 3 in", "63 inches"),
        ("105", "one hundred and five"),
        ("12岁", "十二岁"),
        ("70000", "7万"),
        (r"\hbar\omega", r"\frac{h\omega}{2\pi}"),
        (r"E_{\eta}+1", r"1+E_\eta"),
        (r"R\cos\varphi", r"R\cos\phi"),
        (r"\vec a\times\vec b", r"-\vec b\times\vec a"),
        (r"\frac{dv}{dt}", r"\dot v"),
        (r"2\mathbf{i}-3\mathbf{j}+\mathbf{k}", "(2,-3,1)"),
        (r"\frac15\begin{pmatrix}1&2\\2&-1\end{pmatrix}",
         r"\begin{pmatrix}.2&.4\\.4&-.2\end{pmatrix}"),
        (r"\begin{cases}x^2,&x\ge0\\-x,&x<0\end{cases}",
         r"\begin{cases}-x,&x<0\\x^2,&x\geq 0\end{cases}"),
        (r"1.01 10^{-5} \mathrm{~m}", r"10.1\ \mu\mathrm{m}"),
        ("A7_{16}", "0xA7"),
        ("x=3, y=-2 \\text{ or } x=-3, y=2", "(x,y)=(3,-2) \\text{ or } (-3,2)"),
        ("at least 5", r"x \ge 5"),
        ("1250.5", "1.250,5"),
        ("2.5 hours", "2 hours 30 minutes"),
        ("2A_{16}", "2a_{16}"),
        ("Yes", "Yes, because it is prime"),
    ],
)  # fmt: skip
def test_one_value_in_many_dresses(gold: str, prediction: str) -> None:
    """What people write for one value is RIGHT, whichever side writes it."""
    assert grade(gold, prediction) is Verdict.RIGHT
    assert grade(prediction, gold) is Verdict.RIGHT
