"""Powers, roots and absolute values, exact for rational exponents: sqrt(12) is 2*3^(1/2)."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.expression import Expression, number, of_atom
from pipeline.answers.algebra.polynomial import (
    IMAGINARY,
    UNIT,
    Atom,
    Context,
    Kind,
    Polynomial,
    leading,
)
from pipeline.answers.verdict import TooLarge, Unreadable

_TRIAL_DIVISORS = 2_000


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


def rational_power(value: Expression, exponent: Fraction, context: Context) -> Expression:
    """value ** exponent as the root of a power, the root principal (real where it is odd).

    Raises:
        Unreadable: for roots of i.
        TooLarge: beyond the 100th root.
    """
    times, degree = exponent.numerator, exponent.denominator
    if degree == 1:
        return ex.to_integer_power(value, times, context.work)
    if degree > 100:
        raise TooLarge("roots must be at most the 100th")
    rational = value.rational
    if rational is not None:
        return ex.to_integer_power(_numeric_root(rational, degree, context), times, context.work)
    above = _polynomial_power(value.numerator, exponent, context)
    below = _polynomial_power(value.denominator, exponent, context)
    return ex.over(above, below, context.work)


def _numeric_root(value: Fraction, degree: int, context: Context) -> Expression:
    result = number(1)
    if value < 0:
        if degree % 2:
            result = number(-1)
        elif degree == 2:
            result = of_atom(IMAGINARY)
        else:
            raise Unreadable("even roots of negative numbers must be square roots")
    for base, sign in ((abs(value.numerator), 1), (value.denominator, -1)):
        for prime, times in factored(base):
            result = ex.times(
                result, _prime_power(prime, Fraction(sign * times, degree), context), context.work
            )
    return result if value else number(0)


def _prime_power(prime: int, exponent: Fraction, context: Context) -> Expression:
    whole = exponent.numerator // exponent.denominator
    rest = exponent - whole
    factor = number(Fraction(prime) ** whole)
    if not rest:
        return factor
    return ex.times(factor, of_atom(Atom(Kind.PRIME, str(prime)), rest), context.work)


def _polynomial_power(polynomial: Polynomial, exponent: Fraction, context: Context) -> Expression:
    if len(polynomial) > 1:
        radicand = Expression(polynomial, UNIT)
        atom = context.atom(Kind.RADICAND, f"({radicand.text})", arguments=(radicand,))
        return ex.times(number(1), of_atom(atom, exponent), context.work)
    ((monomial, value),) = polynomial.items()
    root_ = _numeric_root(value, exponent.denominator, context)
    result = ex.to_integer_power(root_, exponent.numerator, context.work)
    for atom, inner in monomial:
        result = ex.times(result, _atom_power(atom, inner, exponent, context), context.work)
    return result


def _atom_power(atom: Atom, inner: Fraction, outer: Fraction, context: Context) -> Expression:
    """(atom ** inner) ** outer, the sign kept where an even power lost it."""
    total = inner * outer
    if atom.kind is Kind.IMAGINARY:
        raise Unreadable("roots of imaginary numbers are not read")
    if atom.kind is Kind.PRIME:
        return _prime_power(int(atom.text), total, context)
    sign_lost = inner.denominator == 1 and inner % 2 == 0 and total.numerator % 2 == 1
    real = atom.kind is Kind.SYMBOL and not context.positive
    if sign_lost and outer.denominator % 2 == 0 and (real or atom.kind is Kind.FUNCTION):
        atom = absolute(of_atom(atom), context).atoms[-1]
    return ex.times(number(1), of_atom(atom, total), context.work)


def absolute(value: Expression, context: Context) -> Expression:
    """|value|."""
    rational = value.rational
    if rational is not None:
        return number(abs(rational))
    positive = (Kind.PRIME, Kind.CONSTANT, *((Kind.SYMBOL,) if context.positive else ()))
    if leading(value.numerator) < 0:
        value = ex.negative(value, context.work)
    if len(value.numerator) == 1 and all(atom.kind in positive for atom in value.atoms):
        return value
    return of_atom(context.atom(Kind.FUNCTION, f"abs({value.text})", "abs", (value,)))


def factored(value: int) -> list[tuple[int, int]]:
    """(prime, times) by trial division; a large cofactor is taken apart only if it is a power."""
    factors: list[tuple[int, int]] = []
    divisor = 2
    if value.bit_length() > 4_000:
        raise TooLarge("numbers under a root must have at most 4,000 bits")
    while value > 1 and divisor <= _TRIAL_DIVISORS and divisor * divisor <= value:
        times = 0
        while value % divisor == 0:
            value //= divisor
            times += 1
        if times:
            factors.append((divisor, times))
        divisor += 1 if divisor == 2 else 2
    if value > 1:
        side = isqrt(value)
        factors.append((side, 2) if side * side == value else (value, 1))
    return factors
