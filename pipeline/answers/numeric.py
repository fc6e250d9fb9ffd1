"""Values of expressions to 50 digits: proof that two of them differ, and the order of ends.

Agreement of digits proves nothing and is never taken for equality.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mpmath import MPContext

from pipeline.answers.expression import Expression
from pipeline.answers.polynomial import Atom, Kind, Polynomial
from pipeline.answers.verdict import Unreadable

_DIGITS = 50
_MAX_LOG2 = 1_000_000
_local = threading.local()  # mpmath contexts change their precision while they work


def _context() -> Any:
    if not hasattr(_local, "context"):
        _local.context = MPContext()
        _local.context.dps = _DIGITS
    return _local.context


def differ(left: Expression, right: Expression) -> bool:
    """Whether the two are shown to differ, at one of two points with positive coordinates.

    Raises:
        Unreadable: where one of them has no value that can be computed.
    """
    mp = _context()
    for point in range(2):
        first, second = _value(left, point, mp), _value(right, point, mp)
        size = max(abs(first), abs(second))
        if abs(first - second) > size * mp.mpf(10) ** -(_DIGITS // 2):
            return True
    return False


def real_value(value: Expression) -> float | None:
    """A number's value; None where it has a symbol, is not real or cannot be computed."""
    if any(atom.kind is Kind.SYMBOL for atom in value.atoms):
        return None
    try:
        result = _value(value, 0, _context())
        if abs(result.imag) > 1e-30:
            return None
        return float(result.real)
    except (Unreadable, OverflowError):
        return None


def rounds_to(value: Expression, decimal: Fraction, places: int) -> bool:
    """Whether `decimal` is `value`, real and without symbols, rounded or cut to `places` places.

    Raises:
        Unreadable: where the value cannot be computed.
    """
    if any(atom.kind is Kind.SYMBOL for atom in value.atoms):
        return False
    mp = _context()
    exact = value.rational
    if exact is not None:
        return (abs(exact - decimal) < Fraction(1, 10**places) and abs(decimal) <= abs(exact)) or (
            abs(exact - decimal) <= Fraction(1, 2 * 10**places)
        )
    result = _value(value, 0, mp)
    if abs(result.imag) > mp.mpf(10) ** -30 or places > 40:
        return False
    difference = result.real - mp.mpf(decimal.numerator) / decimal.denominator
    unit = mp.mpf(10) ** -places
    if abs(difference) <= unit / 2:
        return True
    return bool(abs(difference) < unit and abs(result.real) > abs(decimal))


def _value(value: Expression, point: int, mp: Any) -> Any:
    below = _polynomial(value.denominator, point, mp)
    if below == 0:
        raise Unreadable("a denominator must not be zero")
    return mp.mpmathify(_polynomial(value.numerator, point, mp) / below)


def _polynomial(polynomial: Polynomial, point: int, mp: Any) -> Any:
    total = mp.mpf(0)
    for monomial, coefficient in polynomial.items():
        term = mp.mpf(coefficient.numerator) / coefficient.denominator
        for atom, exponent in monomial:
            term *= _power(
                _atom(atom, point, mp), mp.mpf(exponent.numerator) / exponent.denominator, mp
            )
        total += term
    return total


def _power(base: Any, exponent: Any, mp: Any) -> Any:
    if base == 0:
        return mp.mpf(0)
    if abs(exponent) * (abs(mp.log(abs(base), 2)) + 1) > _MAX_LOG2:
        raise Unreadable("a power must be within two to the millionth")
    return mp.power(base, exponent)


def _atom(atom: Atom, point: int, mp: Any) -> Any:
    match atom.kind:
        case Kind.PRIME:
            return mp.mpf(int(atom.text))
        case Kind.IMAGINARY:
            return mp.mpc(0, 1)
        case Kind.CONSTANT:
            return mp.pi if atom.text == "pi" else mp.e
        case Kind.SYMBOL:
            seed = hashlib.sha256(f"{point} {atom.text}".encode()).digest()[:8]
            return mp.mpf("0.6") + mp.mpf(int.from_bytes(seed, "big")) / mp.mpf(2) ** 63
        case Kind.RADICAND:
            return _value(atom.arguments[0], point, mp)
        case Kind.POWER:
            base, exponent = atom.arguments
            return _power(_value(base, point, mp), _value(exponent, point, mp), mp)
        case Kind.FUNCTION:
            function = _FUNCTIONS.get(atom.name)
            if function is None:
                raise Unreadable(f"{atom.name} has no value here")
            arguments = [_value(argument, point, mp) for argument in atom.arguments]
            if any(abs(argument) > 10_000 for argument in arguments):
                raise Unreadable("functions must be taken of numbers up to 10,000")
            try:
                return function(mp, *arguments)
            except (ValueError, ZeroDivisionError, TypeError) as error:
                raise Unreadable(f"{atom.name} has no value there") from error


# log without a base is not here: it is natural to some and decimal to others
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": lambda mp, x: mp.sin(x),
    "cos": lambda mp, x: mp.cos(x),
    "sinh": lambda mp, x: mp.sinh(x),
    "cosh": lambda mp, x: mp.cosh(x),
    "tanh": lambda mp, x: mp.tanh(x),
    "arcsin": lambda mp, x: mp.asin(x),
    "arccos": lambda mp, x: mp.acos(x),
    "arctan": lambda mp, x: mp.atan(x),
    "abs": lambda mp, x: abs(x),
    "ln": lambda mp, x: mp.log(x),
    "factorial": lambda mp, x: mp.gamma(x + 1),
    "floor": lambda mp, x: mp.floor(x.real),
    "ceil": lambda mp, x: mp.ceil(x.real),
    "binom": lambda mp, n, k: mp.gamma(n + 1) / mp.gamma(k + 1) / mp.gamma(n - k + 1),
}
