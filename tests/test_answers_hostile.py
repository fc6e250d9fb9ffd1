"""Hostile answers: decided or left UNGRADED, in time, from a thread that is not the main one."""

from __future__ import annotations

import threading
import time

import pytest

from pipeline.answers import Verdict, canonical, extract, grade

BUDGET_S = 5.0
HOSTILE = {
    "tower of powers": "9^{9^{9^{9^{9}}}}",
    "tower of powers, plain": "9**9**9**9",
    "symbolic tower": "x^" * 2_000 + "x",
    "factorial of a huge number": "(10^{9})!",
    "factorials of factorials": "((10!)!)!",
    "many factorials": "5" + "!" * 10_000,
    "huge binomial": "\\binom{10^9}{5 \\cdot 10^8}",
    "power of a sum": "(a+b+c+d+f+g)^{150}",
    "products of sums": "(a+b+c)(d+f+g)(h+j+k)(l+m+n)(o+p+q)(r+s+t)(u+v+w)(x+y+z)",
    "quotients of sums": "+".join(f"\\frac{{1}}{{x+{n}y+z^{n}}}" for n in range(1, 40)),
    "roots in denominators": "1/(" + "+".join(f"\\sqrt{{{n}}}" for n in range(2, 40)) + ")",
    "cube roots in denominators": "1/(1+" + "+".join(f"{n}^{{1/3}}" for n in range(2, 12)) + ")",
    "nested roots": "\\sqrt{1+" * 39 + "2" + "}" * 39,
    "nested tangents": "\\tan(" * 38 + "x" + ")" * 38,
    "nested fractions": "\\frac{1}{1+" * 38 + "x" + "}" * 38,
    "a million digits": "7" * 1_000_000,
    "a million decimals": "0." + "3" * 1_000_000,
    "long numeral": "7" * 15_000,
    "numeral with a huge exponent": "1e999999",
    "100 kB of open braces": "{" * 100_000,
    "100 kB of nested braces": "{" * 50_000 + "5" + "}" * 50_000,
    "100 kB of nested boxes": "\\boxed{" * 14_000,
    "100 kB of parentheses": "(" * 50_000 + ")" * 50_000,
    "unbalanced fractions": "\\frac{" * 2_000,
    "unbalanced text": "\\text{" * 2_000,
    "unbalanced environment": "\\begin{pmatrix}" * 500,
    "matrix without end": "\\begin{pmatrix}" + "1 & 2 \\\\ " * 900,
    "big matrix": "\\begin{pmatrix}" + " \\\\ ".join(["1 & 2 & 3"] * 300) + "\\end{pmatrix}",
    "many separators": "1," * 9_000,
    "long list": ", ".join(str(n) for n in range(1_000)),
    "many signs": "+-" * 9_000 + "1",
    "many plus-minus": "\\pm 1" * 1_000,
    "many unions": "\\cup".join(f"({n},{n + 1})" for n in range(200)),
    "many choices": "A. " * 6_000,
    "NUL": "\x005\x00",
    "bidi": "\u202e\u2066\u20675\u2069",
    "surrogate": "\ud8005",
    "combining": "5" + "\u0301" * 10_000,
    "compatibility forms": "\ufdfa" * 5_000,
    "quotes": "'" * 18_000 + "5" + "'" * 18_000,
    "emphasis": "*" * 9_000 + "5" + "*" * 9_000,
    "full stops": "." * 19_000 + "x",
    "backslashes before a letter": "\\" * 19_000 + "x",
    "groups of digits": "123," * 25_000 + ",",
    "short groups of digits": "123," * 4_900 + ",",
    "nested absolute values": "|" * 300 + "x" + "|" * 300,
    "nested logarithms": "\\log_{\\log_{" * 18 + "2}" * 18 + "x" + "}" * 18 + "y",
    "towers of roots": "2^{1/2}" + "^{1/2}" * 500,
    "many symbols": "+".join(f"x_{{{n}}}y_{{{n}}}" for n in range(500)),
    "dollars": "$" * 100_000,
    "backslashes": "\\" * 100_000,
    "thinking tags": "<think>" * 15_000,
    "answer tags": "<answer>" * 12_000,
    "phrases": "the answer is " * 7_000,
    "hashes": "####\n" * 20_000,
    "questions": "answer is\nQuestion:\n" * 5_000,
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_answers_end_in_time(name: str) -> None:
    """Reading, grading and extracting a hostile answer ends, with a verdict or UNGRADED."""
    answer = HOSTILE[name]
    results: list[object] = []
    seconds: list[float] = []

    def work() -> None:
        start = time.thread_time()  # whatever else the machine does
        results.append(grade("5", answer))
        results.append(grade(answer, "5"))
        results.append(grade("\\frac{x}{2}", answer))
        results.append(canonical(answer))
        results.append(extract(answer))
        seconds.append(time.thread_time() - start)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(250)

    assert len(results) == 5
    assert {type(result) for result in results[:3]} == {Verdict}
    assert isinstance(results[3], str)
    assert seconds[0] < 3 * BUDGET_S  # five calls, which coverage may trace


def test_invisible_characters_do_not_matter() -> None:
    """NUL and direction marks neither hide nor make an answer."""
    assert grade("5", HOSTILE["NUL"]) is Verdict.RIGHT
    assert grade("5", HOSTILE["bidi"]) is Verdict.RIGHT
    assert grade("12", "1\u200b2") is Verdict.RIGHT


def test_huge_numbers_are_exact() -> None:
    """Numbers far beyond the range of floats are told apart."""
    assert grade("2^{10000}", "2^{10000}+1-1") is Verdict.RIGHT
    assert grade("2^{10000}", "2^{10000}+1") is Verdict.WRONG
    assert grade("\\frac{1}{2010!}", "\\frac{1}{2011!}") is Verdict.WRONG
    assert grade("1" + "0" * 9_000, "10^{9000}") is Verdict.RIGHT
    assert grade("10^{-9000}", "2 \\cdot 10^{-9000}") is Verdict.WRONG
