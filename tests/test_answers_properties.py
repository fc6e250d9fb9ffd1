"""Canonical forms do not depend on the spelling; generated values, several spellings each."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers import Verdict, canonical, grade

SETTINGS = settings(max_examples=20, deadline=None)
fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=400)
decimals = st.builds(
    lambda n, places: Fraction(n, 10**places), st.integers(-9999, 9999), st.integers(0, 4)
)


def spellings(value: Fraction) -> list[str]:
    """Ways to write one rational number."""
    n, d = value.numerator, value.denominator
    sign, size = ("-" if n < 0 else ""), abs(n)
    found = [
        f"{n}/{d}",
        f"\\frac{{{n}}}{{{d}}}",
        f"{sign}\\dfrac{{{size}}}{{{d}}}",
        f"{3 * n}/{3 * d}",
        f"\\frac{{{-n}}}{{-{d}}}",
        f"$\\frac{{{n}}}{{{d}}}$",
        f" \\left( {n} / {d} \\right) ",
        f"\\boxed{{{n}/{d}}}",
    ]
    if size < 10 and 1 < d < 10:
        found.append(f"{sign}\\frac{size}{d}")
    if d == 1:
        found += [f"{n}", f"{n}.0", f"{sign}0{size}", f"{sign}{size:,}", f"\\text{{{n}}}"]
    elif size > d:
        found.append(f"{sign}{size // d}\\frac{{{size % d}}}{{{d}}}")
    places = next((k for k in range(12) if 10**k % d == 0), None)
    if places:
        digits = f"{size * 10**places // d:0{places + 1}d}"
        found += [
            f"{sign}{digits[:-places]}.{digits[-places:]}",
            f"{sign}{digits[:-places]}.{digits[-places:]}00",
        ]
    return found


@SETTINGS
@given(value=st.one_of(fractions, decimals))
def test_numbers(value: Fraction) -> None:
    """All spellings of a rational number have one canonical form, and grade RIGHT."""
    forms = {canonical(spelling) for spelling in spellings(value)}

    assert forms == {str(value)}


@SETTINGS
@given(left=fractions, right=fractions)
def test_different_numbers_differ(left: Fraction, right: Fraction) -> None:
    """Two numbers have one canonical form exactly when they are equal, and grade accordingly."""
    verdict = grade(spellings(left)[1], spellings(right)[0])

    assert (canonical(f"{left}") == canonical(f"{right}")) is (left == right)
    assert verdict is (Verdict.RIGHT if left == right else Verdict.WRONG)


def joined(values: list[Fraction], index: int, wrap: Callable[[str], str], by: str = ", ") -> str:
    """The values, each in one of its spellings, which `index` picks."""
    parts = [spellings(value)[(index + n) % 4] for n, value in enumerate(values)]
    return wrap(by.join(parts))


WRAPS: dict[str, list[Callable[[str], str]]] = {
    "tuple": [lambda s: f"({s})", lambda s: f"\\left({s}\\right)", lambda s: f"$( {s} )$"],
    "set": [lambda s: f"\\{{{s}\\}}", lambda s: f"\\left\\{{ {s} \\right\\}}"],
    "interval": [
        lambda s: f"[{s})",
        lambda s: f"\\left[ {s} \\right)",
        lambda s: f"\\boxed{{[{s})}}",
    ],
    "list": [lambda s: s, lambda s: f"\\text{{ }}{s}", lambda s: f"${s}$"],
}


@SETTINGS
@given(values=st.lists(fractions, min_size=2, max_size=4), kind=st.sampled_from(list(WRAPS)))
def test_collections(values: list[Fraction], kind: str) -> None:
    """Spelling of members and brackets does not matter to tuples, sets, intervals and lists."""
    values = values[:2] if kind == "interval" else values
    forms = {
        canonical(joined(values, index, wrap, by))
        for index in range(4)
        for wrap in WRAPS[kind]
        for by in (", ", " ,\\ ")
    }

    assert len(forms) == 1
    assert canonical(forms.copy().pop()) in forms


@SETTINGS
@given(values=st.lists(fractions, min_size=2, max_size=4, unique=True), data=st.data())
def test_order_matters_where_it_should(values: list[Fraction], data: st.DataObject) -> None:
    """Sets and bare lists are the same in any order, tuples only in their own."""
    other = data.draw(st.permutations(values))
    same = {
        kind: canonical(joined(values, 0, wraps[0])) == canonical(joined(other, 1, wraps[0]))
        for kind, wraps in WRAPS.items()
    }

    assert same["set"]
    assert same["list"]
    assert same["tuple"] is (values == other)


@SETTINGS
@given(values=st.lists(fractions, min_size=1, max_size=3), data=st.data())
def test_sets_have_no_repeated_members(values: list[Fraction], data: st.DataObject) -> None:
    """A member named twice is one member of a set, but two items of a list."""
    again = [*values, data.draw(st.sampled_from(values))]
    wrap = WRAPS["set"][0]

    assert canonical(joined(again, 0, wrap)) == canonical(joined(values, 0, wrap))
    assert canonical(joined(again, 0, str)) != canonical(joined(values, 0, str))


coefficients = st.integers(-9, 9)


@SETTINGS
@given(a=coefficients, b=coefficients, c=coefficients, d=coefficients)
def test_products_are_expanded(a: int, b: int, c: int, d: int) -> None:
    """A product of binomials and its expansion have one form; a changed coefficient has another."""
    product = f"({a}x+{b}y)({c}x+{d})"
    expansion = f"{a * c}x^2+{a * d}x+{b * c}xy+{b * d}y"

    assert canonical(product) == canonical(expansion)
    assert grade(f"{expansion}+1", product) is Verdict.WRONG


@SETTINGS
@given(a=coefficients, b=coefficients, c=coefficients, k=st.integers(1, 9))
def test_equations_are_equal_up_to_a_factor(a: int, b: int, c: int, k: int) -> None:
    """Scaling, rearranging and swapping the sides of an equation keep its form."""
    equation = f"{a}x+{b}y=z+{c}"
    others = [f"{-k * a}x-{k * b}y+{k}z+{k * c}=0".replace("--", "+"), f"z={a}x+{b}y-{c}"]
    forms = {canonical(other.replace("--", "+")) for other in [equation, *others]}

    assert len(forms) == 1
    assert grade(equation, f"{a}x+{b}y=z+{c + 1}") is Verdict.WRONG


@SETTINGS
@given(n=st.integers(1, 200), m=st.integers(1, 200), k=st.integers(1, 30))
def test_roots_are_reduced(n: int, m: int, k: int) -> None:
    """Square factors leave a root, roots multiply, and a root leaves the denominator."""
    assert canonical(f"\\sqrt{{{n * k * k}}}") == canonical(f"{k}\\sqrt{{{n}}}")
    assert canonical(f"\\sqrt{{{n}}}\\sqrt{{{m}}}") == canonical(f"\\sqrt{{{n * m}}}")
    assert canonical(f"\\frac{{{m}}}{{\\sqrt{{{n}}}}}") == canonical(
        f"\\frac{{{m}\\sqrt{{{n}}}}}{{{n}}}"
    )
    assert (
        canonical(f"\\frac{{1}}{{{k}+\\sqrt{{{n}}}}}")
        == canonical(f"\\frac{{{k}-\\sqrt{{{n}}}}}{{{k * k - n}}}")
        or k * k == n
    )


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="0123456789xyabe+-*/^_(){}[],.=<>| \\\\%$!:&;²™№½ﬁ㎡", max_size=30))
def test_any_text_has_a_stable_form(text: str) -> None:
    """Any answer at all has a canonical form, is RIGHT for itself, and the form is its own form."""
    form = canonical(text)

    assert canonical(form) == form
    if text.strip():
        assert grade(text, text) is Verdict.RIGHT


_NUMBERS = ["3", "1/2", "$5", "x", "half", "dozen"]
_WORDS = ["of", "per", "a", "the", "and", "in", "for", "of/", "\\text{of}", "-", ","]
_UNITS = ["apples", "miles", "hour", "m", "cm", "%"]


@settings(max_examples=80, deadline=None)
@given(words=st.lists(st.sampled_from(_NUMBERS + _WORDS + _UNITS), min_size=1, max_size=8))
def test_any_words_can_be_graded(words: list[str]) -> None:
    """Words around a number, in whatever order a small model puts them, are graded."""
    text = " ".join(words)

    assert grade(text, text) is Verdict.RIGHT
    assert isinstance(grade("3", text), Verdict)


def _is_number_or_raised(c: str) -> bool:
    shape = unicodedata.decomposition(c)
    return c.isdigit() or unicodedata.category(c) in ("No", "Nl") or "<s" in shape


_ODD = [c for c in map(chr, range(0x20000)) if _is_number_or_raised(c)][::6]


def test_any_sign_for_a_number_can_be_graded() -> None:
    """Digits of every script, circled, raised and lowered signs (each sixth): none breaks."""
    verdicts = {grade("5", text) for c in _ODD for text in (c, f"5 {c}")}

    assert len(_ODD) > 250
    assert verdicts <= set(Verdict)


@pytest.mark.parametrize("sign", ["⑦", "❼", "➆", "➐", "⓻", "৭", "７"])
def test_a_sign_for_seven_is_seven(sign: str) -> None:
    """Circled in any style, or a digit of another script."""
    assert grade("7", sign) is Verdict.RIGHT
    assert grade("8", sign) is Verdict.WRONG


def test_trade_marks_are_no_part_of_a_name() -> None:
    """A raised TM is no exponent."""
    assert grade("Windows", "Windows™") is Verdict.RIGHT
