"""Powers: of rational exponents worked out, of any other one atom each."""

from __future__ import annotations

from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.context import Context
from pipeline.answers.algebra.expression import Expression, of_atom
from pipeline.answers.algebra.polynomial import Kind
from pipeline.answers.algebra.roots import rational_power
from pipeline.answers.verdict import TooLarge


def power(base: Expression, exponent: Expression, context: Context) -> Expression:
    """base ** exponent.

    Raises:
        Unreadable: for 0 to a negative exponent and for roots of i.
        TooLarge: beyond the limits of one answer.
    """
    rational = exponent.rational
    if rational is None:
        if base.rational in (Fraction(0), Fraction(1)):
            return base
        bottom = base.text if base.text.isalnum() else f"({base.text})"
        text = f"{bottom}^({exponent.text})"
        return of_atom(context.atom(Kind.POWER, text, arguments=(base, exponent)))
    if rational.denominator == 1:
        if abs(rational) > 10**6:
            raise TooLarge("exponents must be at most a million")
        return ex.to_integer_power(base, int(rational), context.work)
    return rational_power(base, rational, context)
