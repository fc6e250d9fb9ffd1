"""Functions of expressions by name: an exact value where there is one, else an atom."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial

from pipeline.answers import expression as ex
from pipeline.answers.context import EULER, Context
from pipeline.answers.expression import Expression, number, of_atom
from pipeline.answers.polynomial import Kind, check_bits
from pipeline.answers.powers import power
from pipeline.answers.roots import absolute, root
from pipeline.answers.trigonometry import cosine, logarithm, sine
from pipeline.answers.verdict import Malformed, TooLarge

_FACTORIAL_LIMIT = 5_000


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


def _factorial(context: Context, argument: Expression) -> Expression | None:
    value = argument.rational
    if value is None or value.denominator != 1 or value < 0:
        return None
    if value > _FACTORIAL_LIMIT:
        raise TooLarge(f"factorials must be of at most {_FACTORIAL_LIMIT}")
    context.work.spend(int(value))
    return number(check_bits(Fraction(factorial(int(value)))))


def _binomial(context: Context, above: Expression, below: Expression) -> Expression | None:
    n, k = above.rational, below.rational
    if n is None or k is None or n.denominator != 1 or k.denominator != 1 or n < 0 or k < 0:
        return None
    if n > _FACTORIAL_LIMIT:
        raise TooLarge(f"binomial coefficients must be of at most {_FACTORIAL_LIMIT}")
    context.work.spend(int(min(n, k)))
    return number(comb(int(n), int(k)))


def _rounded(step: int) -> Callable[[Context, Expression], Expression | None]:
    def value(context: Context, argument: Expression) -> Expression | None:
        rational = argument.rational
        if rational is None:
            return None
        return number(step * ((step * rational.numerator) // rational.denominator))

    return value


def _log(context: Context, *arguments: Expression) -> Expression | None:
    if len(arguments) == 2:  # base, argument
        base, argument = arguments
        below = logarithm(base, context) or call("ln", context, base)
        above = logarithm(argument, context) or call("ln", context, argument)
        return ex.over(above, below, context.work)
    return logarithm(arguments[0], context, "log")


def _quotient_of(
    above: str | None, below: str
) -> Callable[[Context, Expression], Expression | None]:
    def value(context: Context, argument: Expression) -> Expression:
        numerator = number(1) if above is None else call(above, context, argument)
        return ex.over(numerator, call(below, context, argument), context.work)

    return value


_EXACT: dict[str, Callable[..., Expression | None]] = {
    "sqrt": lambda context, argument: root(argument, 2, context),
    "abs": lambda context, argument: absolute(argument, context),
    "sin": lambda context, argument: sine(argument, context),
    "cos": lambda context, argument: cosine(argument, context),
    "tan": _quotient_of("sin", "cos"),
    "cot": _quotient_of("cos", "sin"),
    "sec": _quotient_of(None, "cos"),
    "csc": _quotient_of(None, "sin"),
    "exp": lambda context, argument: power(of_atom(EULER), argument, context),
    "ln": lambda context, argument: logarithm(argument, context),
    "log": _log,
    "factorial": _factorial,
    "binom": _binomial,
    "floor": _rounded(1),
    "ceil": _rounded(-1),
}
_ARGUMENTS = {"log": (1, 2), "binom": (2, 2)}
"""Least and most arguments, where it is not one."""
_ANY_NUMBER = ("gcd", "lcm", "max", "min")
