"""Sines, cosines and logarithms: exact where they have such a value, else in one form."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from pipeline.answers import expression as ex
from pipeline.answers.context import EULER, PI, UNIT, Context
from pipeline.answers.expression import Expression, number, of_atom
from pipeline.answers.polynomial import HALF, ONE, Atom, Kind, Polynomial, leading
from pipeline.answers.roots import factored, root


def sine(argument: Expression, context: Context) -> Expression:
    turn = _turn(argument)
    if turn is not None and (exact := cosine_of_turn(turn - HALF)):
        return exact(context)
    if argument.numerator and leading(argument.numerator) < 0:
        return ex.negative(sine(ex.negative(argument, context.work), context), context.work)
    return of_atom(_sine_atom(argument, context))


def cosine(argument: Expression, context: Context) -> Expression:
    turn = _turn(argument)
    if turn is not None and (exact := cosine_of_turn(turn)):
        return exact(context)
    if leading(argument.numerator) < 0:
        argument = ex.negative(argument, context.work)
    sine = _sine_atom(argument, context)
    square: Polynomial = {ONE: Fraction(1), ((sine, Fraction(2)),): Fraction(-1)}
    return of_atom(context.atom(Kind.FUNCTION, f"cos({argument.text})", "cos", (argument,), square))


def _sine_atom(argument: Expression, context: Context) -> Atom:
    return context.atom(Kind.FUNCTION, f"sin({argument.text})", "sin", (argument,))


def _turn(argument: Expression) -> Fraction | None:
    """argument / pi, if that is a rational number."""
    if not argument.numerator:
        return Fraction(0)
    if argument.denominator == UNIT and list(argument.numerator) == [((PI, Fraction(1)),)]:
        return argument.numerator[((PI, Fraction(1)),)]
    return None


def cosine_of_turn(turn: Fraction) -> Callable[[Context], Expression] | None:
    """cos(pi * turn) for multiples of pi/6, pi/4 and pi/5."""
    turn = abs(turn % 2)
    if turn > 1:
        turn = 2 - turn
    if turn > HALF:
        inner = cosine_of_turn(1 - turn)
        return None if inner is None else lambda context: ex.negative(inner(context), context.work)
    radicands = {
        Fraction(0): (1, 0, 4, 2),
        Fraction(1, 6): (0, 1, 3, 2),
        Fraction(1, 4): (0, 1, 2, 2),
        Fraction(1, 3): (1, 0, 1, 2),
        Fraction(1, 2): (0, 0, 1, 2),
        Fraction(1, 5): (1, 1, 5, 4),
        Fraction(2, 5): (-1, 1, 5, 4),
    }
    if turn not in radicands:
        return None
    if turn == 0:
        return lambda context: number(1)
    a, b, c, d = radicands[turn]  # (a + b sqrt(c)) / d

    def value(context: Context) -> Expression:
        above = ex.times(number(b), root(number(c), 2, context), context.work)
        return ex.over(ex.plus(number(a), above, context.work), number(d), context.work)

    return value


def logarithm(argument: Expression, context: Context, name: str = "ln") -> Expression | None:
    """ln of a positive rational times a power of e, as a sum over primes; None elsewhere."""
    if len(argument.numerator) != 1 or len(argument.denominator) != 1:
        return None
    result = number(0)
    for polynomial, sign in ((argument.numerator, 1), (argument.denominator, -1)):
        ((monomial, value),) = polynomial.items()
        if value <= 0:
            return None
        for base, direction in ((value.numerator, sign), (value.denominator, -sign)):
            for prime, times in factored(base):
                term = _log_term(prime, Fraction(times * direction), name, context)
                result = ex.plus(result, term, context.work)
        for atom, exponent in monomial:
            if atom.kind is Kind.PRIME:
                term = _log_term(int(atom.text), exponent * sign, name, context)
            elif atom.kind is Kind.SYMBOL and context.positive:
                factor = number(exponent * sign)
                term = ex.times(factor, _log_atom(atom, name, context), context.work)
            elif name == "ln" and atom == EULER:
                term = number(exponent * sign)
            elif name == "ln" and atom.kind is Kind.POWER and atom.arguments[0].text == "e":
                term = ex.times(number(exponent * sign), atom.arguments[1], context.work)
            else:
                return None
            result = ex.plus(result, term, context.work)
    return result


def _log_atom(atom: Atom, name: str, context: Context) -> Expression:
    return of_atom(context.atom(Kind.FUNCTION, f"{name}({atom.text})", name, (of_atom(atom),)))


def _log_term(prime: int, times: Fraction, name: str, context: Context) -> Expression:
    atom = context.atom(Kind.FUNCTION, f"{name}({prime})", name, (number(prime),))
    return ex.times(number(times), of_atom(atom), context.work)
