"""Real values of numbers: the order of ends, the direction of an inequality, and rounding."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

from mpmath import MPContext

from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.polynomial import Kind, Polynomial, Work
from pipeline.answers.verdict import Unreadable

_DIGITS = 50
_TERM_COST = 12
_local = threading.local()  # mpmath contexts change their precision while they work


def real_value(value: Expression, work: Work) -> Any:
    """A number's value to 50 digits.

    Raises:
        Unreadable: where it holds more than numbers, pi, e and roots, or is not real.
    """
    if not hasattr(_local, "context"):
        _local.context = MPContext()
        _local.context.dps = _DIGITS
    mp = _local.context
    return _polynomial(value.numerator, work, mp) / _polynomial(value.denominator, work, mp)


def rounds_to(value: Expression, decimal: Fraction, places: int, work: Work) -> bool:
    """Whether `decimal` is `value`, a real number, rounded or cut to `places` places.

    Raises:
        Unreadable: where the value cannot be computed.
    """
    exact = value.rational
    if exact is None:
        if places > _DIGITS - 10:
            return False
        scaled = int(real_value(value, work) * 10 ** (_DIGITS - 5))
        exact = Fraction(scaled, 10 ** (_DIGITS - 5))
    distance = abs(exact - decimal)
    unit = Fraction(1, 10**places)
    return distance <= unit / 2 or (distance < unit and abs(decimal) <= abs(exact))


def _polynomial(polynomial: Polynomial, work: Work, mp: Any) -> Any:
    total = mp.mpf(0)
    for monomial, coefficient in polynomial.items():
        term = mp.mpf(coefficient.numerator) / coefficient.denominator
        for atom, exponent in monomial:
            work.spend(_TERM_COST)
            match atom.kind:
                case Kind.PRIME:
                    base = mp.mpf(int(atom.text))
                case Kind.CONSTANT:
                    base = +mp.pi if atom.text == "pi" else +mp.e
                case Kind.RADICAND:
                    base = real_value(atom.arguments[0], work)
                case _:
                    raise Unreadable(f"a number must be real and without {atom.text}")
            if base < 0 or exponent > 10_000:
                raise Unreadable("a power must be of a positive number and small")
            term *= base ** (mp.mpf(exponent.numerator) / exponent.denominator)
        total += term
    return total
