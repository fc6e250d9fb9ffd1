"""*call*: evaluates functions of expressions: exact where a school table has the value.

What relates atoms to each other (sines to cosines, sums of logarithms to logarithms of products) is
left to a computer algebra system in a process that can be killed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, perm
from typing import TYPE_CHECKING, Any

from mpmath import MPContext

from pipeline.answers.algebra.expression import (
    Expression,
    absolute,
    number,
    of_atom,
    power,
    rational_power,
)
from pipeline.answers.algebra.polynomial import EULER, Context, Kind, Polynomial, Work, check_bits
from pipeline.answers.algebra.tokens import Type
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

_FACTORIAL_LIMIT = 5_000
HALF = Fraction(1, 2)


def call(name: str, context: Context, *arguments: Expression) -> Expression:
    """A function's value: exact where `_EXACT` knows one, else an atom.

    Raises:
        Malformed: if it has another number of arguments.
    """
    least, most = _ARGUMENTS.get(name, (1, 1))
    if name not in _ANY_NUMBER and not least <= len(arguments) <= most:
        raise Malformed(f"{name} must have {least} to {most} arguments, got {len(arguments)}")
    exact = _EXACT.get(name)
    value = exact(context, *arguments) if exact else None
    if value is not None:
        return value
    text = ", ".join(argument.text for argument in arguments)
    return of_atom(context.atom(Kind.FUNCTION, f"{name}({text})", name, arguments))


def _counted(count: Callable[..., int]) -> Callable[..., Expression | None]:
    """A function of whole numbers from 0 on."""

    def value(context: Context, *arguments: Expression) -> Expression | None:
        whole = [a.rational for a in arguments]
        if any(w is None or w.denominator != 1 or w < 0 for w in whole):
            return None
        numbers = [int(w) for w in whole if w is not None]
        if numbers[0] > _FACTORIAL_LIMIT:
            raise TooLarge(f"factorials must be of at most {_FACTORIAL_LIMIT}")
        context.work.spend(numbers[0])
        return number(check_bits(Fraction(count(*numbers))))

    return value


def _rounded(step: int) -> Callable[[Context, Expression], Expression | None]:
    def value(context: Context, argument: Expression) -> Expression | None:
        rational = argument.rational
        if rational is None:
            return None
        return number(step * ((step * rational.numerator) // rational.denominator))

    return value


_EXACT: dict[str, Callable[..., Expression | None]] = {
    "sqrt": lambda context, argument: rational_power(argument, HALF, context),
    "abs": lambda context, argument: absolute(argument, context),
    "exp": lambda context, argument: power(of_atom(EULER), argument, context),
    "factorial": _counted(factorial),
    "binom": _counted(comb),
    "perm": _counted(perm),
    "floor": _rounded(1),
    "ceil": _rounded(-1),
}
_ARGUMENTS = {"log": (1, 2), "binom": (2, 2), "perm": (2, 2), "sum": (4, 4), "prod": (4, 4),
              "integral": (2, 4), "lim": (3, 3)}  # fmt: skip
"""Least and most arguments, where it is not one."""
_ANY_NUMBER = ("gcd", "lcm", "max", "min")


if TYPE_CHECKING:
    from pipeline.answers.algebra.parse import Parser


def over_a_range(parser: Parser, name: str) -> Expression:
    """A sum, product or limit: of the term behind it, over the variable below it."""
    cursor = parser.cursor
    cursor.take()
    cursor.expect("{")
    variable = parser.primary()
    if not (cursor.at(Type.SIGN, "=") or cursor.at(Type.COMMAND, "to", "rightarrow")):
        raise Unreadable("a variable must run from a value on, or to one")
    cursor.take()
    ends = [parser.group("}")]
    if name != "lim":
        cursor.expect("^")
        ends.append(parser.argument())
    return call(name, parser.context, parser.term(), variable, *ends)


def integral(parser: Parser) -> Expression:
    """An integral up to its differential, with or without limits."""
    cursor = parser.cursor
    ends: dict[str, Expression] = {}
    while cursor.at(Type.SIGN, "_", "^") and len(ends) < 2:
        sign = cursor.take().text
        ends[sign] = parser.argument()
    kinds = [(token.type, token.text) for token in cursor.tokens]
    stops = (n for n in range(cursor.place + 1, len(kinds) - 1) if kinds[n] == (Type.SYMBOL, "d"))
    stop = next((n for n in stops if kinds[n + 1][0] is Type.SYMBOL), None)
    if stop is None or set(ends) not in (set(), {"_", "^"}):
        raise Unreadable("an integral must have a differential, and both limits or none")
    body = type(parser)(cursor.tokens[cursor.place : stop], parser.context, parser.upper).whole()
    cursor.place = stop + 1
    limits = [ends[sign] for sign in ("_", "^") if ends]
    return call("integral", parser.context, body, parser.primary(), *limits)


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
