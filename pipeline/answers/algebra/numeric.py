"""Values of expressions to 50 digits: proof that two of them differ, and the order of ends.

Agreement of digits proves nothing and is never taken for equality. A logarithm without a base is
natural to some and decimal to others: two expressions differ where they do in both readings.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mpmath import MPContext

from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.polynomial import Atom, Kind, Polynomial, Work
from pipeline.answers.verdict import Unreadable

_DIGITS = 50
_MAX_LOG2 = 100_000
_ATOM_COST = 12
_local = threading.local()  # mpmath contexts change their precision while they work
_DISCRETE = ("floor(", "ceil(", "factorial(", "binom(", "(-1)^", "sin(", "cos(", "tan(")


def _context() -> Any:
    if not hasattr(_local, "context"):
        _local.context = MPContext()
        _local.context.dps = _DIGITS
    return _local.context


def differ(left: Expression, right: Expression, work: Work) -> bool:
    """Whether the two are shown to differ, at one of a few points with positive coordinates: whole
    ones where functions of whole numbers occur (floors, factorials, powers of -1).

    Raises:
        Unreadable: where one of them has no value that can be computed.
    """
    texts = left.text + right.text
    whole = any(sign in texts for sign in _DISCRETE)
    readings = (False, True) if "log(" in texts else (False,)
    return all(_differ_with(left, right, work, whole, decimal) for decimal in readings)


def _differ_with(
    left: Expression, right: Expression, work: Work, whole: bool, decimal: bool
) -> bool:
    for seed in range(4 if whole else 2):
        at = _Evaluation((seed, whole), work, decimal)
        first, second = at.value(left), at.value(right)
        size = max(abs(first), abs(second))
        if abs(first - second) > size * at.mp.mpf(10) ** -(_DIGITS // 2):
            return True
    return False


def real_value(value: Expression, work: Work) -> float | None:
    """A number's value; None where it has a symbol, is not real or cannot be computed."""
    try:
        result = _Evaluation(None, work).value(value)
        return None if abs(result.imag) > 1e-30 else float(result.real)
    except (Unreadable, OverflowError):
        return None


def rounds_to(value: Expression, decimal: Fraction, places: int, work: Work) -> bool:
    """Whether `decimal` is `value`, real and without symbols, rounded or cut to `places` places.

    Raises:
        Unreadable: where the value cannot be computed.
    """
    at = _Evaluation(None, work)
    exact = value.rational
    if exact is None:
        result = at.value(value)
        if abs(result.imag) > at.mp.mpf(10) ** -30 or places > 40:
            return False
        scaled = int(at.mp.floor(result.real * at.mp.mpf(10) ** (_DIGITS - 5)))
        exact = Fraction(scaled, 10 ** (_DIGITS - 5))
    distance = abs(exact - decimal)
    unit = Fraction(1, 10**places)
    return distance <= unit / 2 or (distance < unit and abs(decimal) <= abs(exact))


class _Evaluation:
    """Values at one point (its seed, whether it is whole), charged to `work`; None for numbers."""

    def __init__(self, point: tuple[int, bool] | None, work: Work, decimal: bool = False) -> None:
        self.point, self.work, self.decimal = point, work, decimal
        self.mp = _context()

    def value(self, value: Expression) -> Any:
        below = self._polynomial(value.denominator)
        if below == 0:
            raise Unreadable("a denominator must not be zero")
        return self.mp.mpmathify(self._polynomial(value.numerator) / below)

    def _polynomial(self, polynomial: Polynomial) -> Any:
        mp, total = self.mp, self.mp.mpf(0)
        for monomial, coefficient in polynomial.items():
            term = mp.mpf(coefficient.numerator) / coefficient.denominator
            for atom, exponent in monomial:
                self.work.spend(_ATOM_COST)
                base = self._atom(atom)
                if exponent != 1:
                    base = self._power(base, mp.mpf(exponent.numerator) / exponent.denominator)
                term *= base
            total += term
        return total

    def _power(self, base: Any, exponent: Any) -> Any:
        mp = self.mp
        if base == 0:
            return mp.mpf(0)
        if abs(exponent) * (abs(mp.log(abs(base), 2)) + 1) > _MAX_LOG2:
            raise Unreadable(f"a power must be within two to the {_MAX_LOG2}th")
        return mp.power(base, exponent)

    def _atom(self, atom: Atom) -> Any:
        mp = self.mp
        match atom.kind:
            case Kind.PRIME:
                return mp.mpf(int(atom.text))
            case Kind.IMAGINARY:
                return mp.mpc(0, 1)
            case Kind.CONSTANT:
                return +mp.pi if atom.text == "pi" else +mp.e
            case Kind.SYMBOL:
                if self.point is None:
                    raise Unreadable("a number must hold no symbols")
                seed, whole = self.point
                digest = hashlib.sha256(f"{seed} {atom.text}".encode()).digest()
                if whole:
                    return mp.mpf(3 + digest[0] % 60)
                return mp.mpf("0.6") + mp.mpf(int.from_bytes(digest[:8], "big")) / 2**63
            case Kind.RADICAND:
                return self.value(atom.arguments[0])
            case Kind.POWER:
                base, exponent = atom.arguments
                return self._power(self.value(base), self.value(exponent))
            case Kind.FUNCTION:
                return self._function(atom)

    def _function(self, atom: Atom) -> Any:
        mp = self.mp
        name = atom.name
        if name == "log" and len(atom.arguments) == 1 and not self.decimal:
            name = "ln"
        function = _FUNCTIONS.get(name)
        if function is None:
            raise Unreadable(f"{atom.name} has no value here")
        arguments = [self.value(argument) for argument in atom.arguments]
        if any(abs(argument) > 10_000 for argument in arguments) and name not in ("ln", "log"):
            raise Unreadable("functions must be taken of numbers up to 10,000")
        try:
            return function(mp, *arguments)
        except (ValueError, ZeroDivisionError, TypeError) as error:
            raise Unreadable(f"{atom.name} has no value there") from error


_SAME = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "gamma")
_INVERSE = ("sin", "cos", "tan", "cot", "sec", "csc")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: lambda mp, x, n=name: getattr(mp, n)(x) for name in _SAME},
    **{f"arc{name}": lambda mp, x, n=f"a{name}": getattr(mp, n)(x) for name in _INVERSE},
    "abs": lambda mp, x: abs(x),
    "ln": lambda mp, x: mp.log(x),
    "log": lambda mp, *x: mp.log(x[1], x[0]) if len(x) == 2 else mp.log(x[0], 10),
    "factorial": lambda mp, x: mp.gamma(x + 1),
    "floor": lambda mp, x: mp.floor(x.real),
    "ceil": lambda mp, x: mp.ceil(x.real),
    "binom": lambda mp, n, k: mp.gamma(n + 1) / mp.gamma(k + 1) / mp.gamma(n - k + 1),
    "max": lambda mp, *x: max(x, key=lambda v: v.real),
    "min": lambda mp, *x: min(x, key=lambda v: v.real),
}
