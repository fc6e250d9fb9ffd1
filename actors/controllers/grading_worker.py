"""The process of `actors.controllers.grading` that runs a computer algebra system behind a pipe.

Run as ``python -m actors.controllers.grading_worker``; reads one JSON request a line from standard
input, ``[grader, gold, prediction, ordered, timeout_s, memory_bytes]``, and answers
each with one line, a `Judgement` by value. A grader with a colon is a user's own function. The
process ends when its input does, so it does not outlive whoever started it, and where a request
takes more processor time than it may.

For our own grader it compares as `pipeline.answers.find` does, with all the work that one answer
may cost, and asks sympy about the pairs of expressions that are open then. sympy is given what was
read and no text, so nothing of an answer is left out of its verdict. For the other graders it runs
math-verify on the texts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from enum import StrEnum
from queue import SimpleQueue
from typing import Any

from pipeline.answers import Finding, find
from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.polynomial import Atom, Kind, Polynomial
from pipeline.answers.graders import GraderSettings

_WARM_UP = (("1", "2"), (r"\sin 2x", r"2\sin x\cos x"), (r"\int_0^1 x dx", r"\frac{1}{2}"))
"""Judged before the first request, so that no request waits for imports and caches."""
OURS = "markovscale"


class Judgement(StrEnum):
    """What became of a pair."""

    READY = "ready"
    """Not of a pair: the worker is up."""
    EQUAL = "equal"
    DIFFERENT = "different"
    OPEN = "open"
    """Neither was shown, or one of the two could not be read."""
    ERROR = "error"
    """It raised, or ran out of memory."""


def judge(grader: str, gold: str, prediction: str, ordered: bool = False) -> Judgement:
    """The judgement on one pair; anything that goes wrong is ERROR."""
    try:
        if ":" in grader:
            return _by_function(grader, gold, prediction)
        if grader != OURS:
            return _math_verify(gold, prediction)
        found = find(gold, prediction, prove=prove, ordered=ordered)
    except Exception:  # hostile input brings any error out of a library; ERROR reports it
        return Judgement.ERROR
    judgements = {Finding.RIGHT: Judgement.EQUAL, Finding.WRONG: Judgement.DIFFERENT}
    return judgements.get(found, Judgement.OPEN)


def _by_function(place: str, gold: str, prediction: str) -> Judgement:
    """What a user's own function returns; what it prints is discarded."""
    with redirect_stdout(sys.stderr):
        verdict = GraderSettings(kind=place).function()(gold, prediction)
    if verdict is None:
        return Judgement.OPEN
    return Judgement.EQUAL if verdict else Judgement.DIFFERENT


def _math_verify(gold: str, prediction: str) -> Judgement:
    """math-verify with its defaults on a pair, each in a box of its own.

    Its own time limits are off: they need the main thread and an alarm signal, and the process
    that asked kills this one instead.
    """
    from math_verify import parse, verify

    expected = parse(f"\\boxed{{{gold}}}", parsing_timeout=None)
    parsed = parse(f"\\boxed{{{prediction}}}", parsing_timeout=None)
    if not expected or not parsed:
        return Judgement.OPEN
    same = verify(expected, parsed, timeout_seconds=None)
    return Judgement.EQUAL if same else Judgement.DIFFERENT


def prove(left: Expression, right: Expression) -> bool | None:
    """Whether sympy shows two expressions to be different at some points, or equal.

    Variables are positive, and whole where functions of whole numbers occur. A logarithm without a
    base is read as natural and as decimal; the verdict must be the same both times.
    """
    readings = (False, True) if "log(" in left.text + right.text else (False,)
    decisions = {_proved(left, right, decimal) for decimal in readings}
    return decisions.pop() if len(decisions) == 1 else None


def _proved(left: Expression, right: Expression, decimal: bool) -> bool | None:
    import sympy

    to = _ToSympy(decimal)
    sides = [to.expression(side).doit() for side in (left, right)]
    if _differ(sides, any(sign in left.text + right.text for sign in _DISCRETE)):
        return False
    difference = sides[0] - sides[1]
    simplers: tuple[Callable[[Any], Any], ...] = (
        lambda d: sympy.simplify(sympy.expand_log(d, force=True)),
        lambda d: sympy.simplify(sympy.expand_trig(d)),
        lambda d: sympy.simplify(sympy.expand(d.rewrite(sympy.exp))),
        lambda d: sympy.simplify(sympy.expand_complex(d)),
    )
    for simpler in simplers:
        if difference == 0:
            return True
        difference = simpler(difference)
    return True if difference == 0 else None


def _differ(sides: list[Any], whole: bool) -> bool:
    """Whether two sides differ at one of a few points, to 30 digits."""
    import sympy

    symbols = sorted(sides[0].free_symbols | sides[1].free_symbols, key=str)
    for seed in range(4):
        seeds = (hashlib.sha256(f"{seed} {symbol}".encode()).digest() for symbol in symbols)
        point = {
            symbol: sympy.Integer(3 + d[0] % 60) if whole else sympy.Rational(40 + d[0], 67 + d[1])
            for symbol, d in zip(symbols, seeds, strict=True)
        }
        first, second = (sympy.N(side.subs(point), 30) for side in sides)
        if not (first.is_number and second.is_number and first.is_finite and second.is_finite):
            continue
        if abs(first - second) > sympy.Float("1e-20") * (abs(first) + abs(second)):
            return True
    return False


_DISCRETE = ("floor(", "ceil(", "factorial(", "binom(", "(-1)^", "sin(", "cos(", "tan(", "gcd(")


class _ToSympy:
    """Our expressions as sympy's, every atom included."""

    def __init__(self, decimal: bool) -> None:
        import sympy

        self.sympy = sympy
        self.decimal = decimal

    def expression(self, value: Expression) -> Any:
        return self._polynomial(value.numerator) / self._polynomial(value.denominator)

    def _polynomial(self, polynomial: Polynomial) -> Any:
        rational = self.sympy.Rational
        return self.sympy.Add(*(
            self.sympy.Mul(
                rational(coefficient.numerator, coefficient.denominator),
                *(self._atom(a) ** rational(e.numerator, e.denominator) for a, e in monomial),
            )
            for monomial, coefficient in polynomial.items()
        ))  # fmt: skip

    def _atom(self, atom: Atom) -> Any:
        arguments = [self.expression(argument) for argument in atom.arguments]
        match atom.kind:
            case Kind.PRIME:
                return self.sympy.Integer(atom.text)
            case Kind.IMAGINARY:
                return self.sympy.I
            case Kind.CONSTANT:
                return self.sympy.pi if atom.text == "pi" else self.sympy.E
            case Kind.SYMBOL:
                return self.sympy.Symbol(atom.text, positive=True)
            case Kind.RADICAND:
                return arguments[0]
            case Kind.POWER:
                return arguments[0] ** arguments[1]
            case Kind.FUNCTION:
                return self._function(atom, arguments)

    def _function(self, atom: Atom, arguments: list[Any]) -> Any:
        sympy = self.sympy
        match atom.name, arguments:
            case "infty", []:
                return sympy.oo
            case "ln" | "log", [of]:
                decimal = self.decimal and atom.name == "log"
                return sympy.log(of) / sympy.log(10) if decimal else sympy.log(of)
            case "log", [base, of]:
                return sympy.log(of) / sympy.log(base)
            case "sum", [body, variable, low, high]:
                return sympy.Sum(body, (variable, low, high))
            case "prod", [body, variable, low, high]:
                return sympy.Product(body, (variable, low, high))
            case "integral", [body, variable, low, high]:
                return sympy.Integral(body, (variable, low, high))
            case "lim", [body, variable, to]:
                return sympy.limit(body, variable, to)
            case name, _ if name in _NAMES:
                return getattr(sympy, _NAMES[name])(*arguments)
            case _:
                return sympy.Function(atom.text.partition("(")[0])(*arguments)


_NAMES = {
    **{name: name for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh",
                               "factorial", "floor", "gcd", "lcm")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc")},
    "abs": "Abs", "ceil": "ceiling", "binom": "binomial", "max": "Max", "min": "Min",
}  # fmt: skip


def _lines() -> Iterator[str]:
    """Lines of standard input, read beside the work so that its end ends the process at once."""
    queue: SimpleQueue[str] = SimpleQueue()

    def pump() -> None:
        for line in sys.stdin:
            queue.put(line)
        os._exit(0)

    threading.Thread(target=pump, daemon=True).start()
    while True:
        yield queue.get()


def _say(judgement: Judgement) -> None:
    sys.stdout.write(f"{judgement}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(2_000)
    logging.disable(logging.CRITICAL)  # math-verify warns of every parse without a time limit
    for gold, prediction in _WARM_UP:
        for grader in (OURS, ""):
            judge(grader, gold, prediction)
    _say(Judgement.READY)
    for line in _lines():
        *request, timeout_s, memory_bytes = json.loads(line)
        resource.setrlimit(
            resource.RLIMIT_AS, (memory_bytes, resource.getrlimit(resource.RLIMIT_AS)[1])
        )
        signal.setitimer(signal.ITIMER_PROF, timeout_s)  # SIGPROF ends the process
        judgement = judge(*request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(judgement)


if __name__ == "__main__":
    main()
