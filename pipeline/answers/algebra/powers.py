"""Powers with any exponent: 2^(2n+1) is 2*(2^n)^2."""

from __future__ import annotations

from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.context import Context
from pipeline.answers.algebra.expression import Expression, number, of_atom
from pipeline.answers.algebra.polynomial import Kind, leading, scale
from pipeline.answers.algebra.roots import factored, rational_power
from pipeline.answers.verdict import TooLarge


def power(base: Expression, exponent: Expression, context: Context) -> Expression:
    """base ** exponent.

    Raises:
        Unreadable: for 0 to a negative exponent and for roots of i.
        TooLarge: beyond the limits of one answer.
    """
    rational = exponent.rational
    if rational is not None:
        if rational.denominator == 1:
            if abs(rational) > 10**6:
                raise TooLarge("exponents must be at most a million")
            return ex.to_integer_power(base, int(rational), context.work)
        return rational_power(base, rational, context)
    if base.rational in (Fraction(0), Fraction(1)):
        return base
    result = number(1)
    for monomial, value in _terms(exponent, context):
        result = ex.times(result, _symbolic_power(base, monomial, value, context), context.work)
    return result


def _terms(exponent: Expression, context: Context) -> list[tuple[Expression | None, Fraction]]:
    """The exponent as a sum of number * (expression without numeric factor, None for 1)."""
    if len(exponent.denominator) > 1:
        lead = leading(exponent.numerator)
        scaled = Expression(scale(exponent.numerator, 1 / lead, context.work), exponent.denominator)
        return [(scaled, lead)]
    ((below, divisor),) = exponent.denominator.items()
    terms: list[tuple[Expression | None, Fraction]] = []
    for monomial, value in exponent.numerator.items():
        one = ex.quotient({monomial: Fraction(1)}, {below: Fraction(1)}, context.work)
        terms.append((None if one.rational == 1 else one, value / divisor))
    return terms


def _symbolic_power(
    base: Expression, exponent: Expression | None, value: Fraction, context: Context
) -> Expression:
    if exponent is None:
        return power(base, number(value), context)
    result = number(1)
    for part, times in _positive_factors(base, context):
        atom = context.atom(
            Kind.POWER,
            f"{_in_parentheses(part.text)}^({exponent.text})",
            arguments=(part, exponent),
        )
        total = value * times
        factor = of_atom(atom, total)
        result = ex.times(result, factor, context.work)
    return result


def _positive_factors(base: Expression, context: Context) -> list[tuple[Expression, int]]:
    """`base` as a product of bases to integer powers, where it is a single term."""
    if len(base.numerator) != 1 or len(base.denominator) != 1:
        return [(base, 1)]
    factors: dict[str, tuple[Expression, int]] = {}
    for polynomial, sign in ((base.numerator, 1), (base.denominator, -1)):
        ((monomial, value),) = polynomial.items()
        if value < 0:
            factors["-1"] = (number(-1), 1)
        for prime, times in (
            *factored(abs(value.numerator)),
            *((p, -t) for p, t in factored(value.denominator)),
        ):
            old = factors.get(str(prime), (number(prime), 0))[1]
            factors[str(prime)] = (number(prime), old + times * sign)
        for atom, exponent in monomial:
            if exponent.denominator != 1:
                return [(base, 1)]
            factors[atom.text] = (of_atom(atom), int(exponent) * sign)
    return [(part, times) for part, times in factors.values() if times]


def _in_parentheses(text: str) -> str:
    return text if text.isalnum() else f"({text})"
