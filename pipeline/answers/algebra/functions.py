"""Functions of expressions by name: exact where a school table has the value, else an atom.

What relates atoms to each other (sines to cosines, sums of logarithms to logarithms of products) is
left to a computer algebra system in a process that can be killed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, perm

from pipeline.answers.algebra.expression import Expression, number, of_atom
from pipeline.answers.algebra.polynomial import EULER, Context, Kind, check_bits
from pipeline.answers.algebra.roots import absolute, power, rational_power
from pipeline.answers.verdict import Malformed, TooLarge

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
