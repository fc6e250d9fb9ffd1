"""*Expression*: quotients of polynomials in one normal form, and their exact arithmetic.

Square roots and i are moved out of the denominator, which is primitive with integer coefficients
and a positive first one; common monomials are cancelled, other common factors are not. Two
expressions over independent atoms are equal exactly when the numerator of their difference is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import gcd, isqrt, lcm

from pipeline.answers.algebra.polynomial import (
    IMAGINARY,
    ONE,
    UNIT,
    Atom,
    Context,
    Kind,
    Monomial,
    Polynomial,
    Work,
    add,
    atoms_of,
    constant,
    is_algebraic,
    leading,
    multiply,
    order,
    polynomial_power,
    scale,
)
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

_UNIT: Polynomial = {ONE: Fraction(1)}


@dataclass(frozen=True, eq=False)
class Expression:
    """numerator / denominator, in normal form. Make one with `quotient`."""

    numerator: Polynomial
    denominator: Polynomial

    @property
    def rational(self) -> Fraction | None:
        """The value, if this is a rational number."""
        if not self.numerator:
            return Fraction(0)
        if len(self.numerator) > 1 or ONE not in self.numerator or self.denominator != _UNIT:
            return None
        return self.numerator[ONE]

    @property
    def atoms(self) -> list[Atom]:
        """Every atom of numerator and denominator, not looking inside atoms."""
        return atoms_of([self.numerator, self.denominator])

    @cached_property
    def text(self) -> str:
        """The canonical spelling, which reads back as the same expression."""
        above = polynomial_text(self.numerator)
        if self.denominator == _UNIT:
            return above
        below = polynomial_text(self.denominator)
        return f"{_grouped(above)}/{_grouped(below, product=True)}"


def number(value: Fraction | int) -> Expression:
    """The expression that is a rational number."""
    return Expression(constant(value), _UNIT)


def of_atom(atom: Atom, exponent: Fraction = Fraction(1)) -> Expression:
    """A single atom to an exponent of either sign (reduced by the caller where algebraic)."""
    monomial: Monomial = ((atom, abs(exponent)),)
    above: Polynomial = {monomial: Fraction(1)}
    return Expression(above, _UNIT) if exponent > 0 else Expression(_UNIT, above)


def symbol(name: str) -> Expression:
    """A variable."""
    return of_atom(Atom(Kind.SYMBOL, name))


def quotient(above: Polynomial, below: Polynomial, work: Work) -> Expression:
    """above / below in normal form.

    Raises:
        Malformed: on division by zero.
        TooLarge: if there is too much to do.
    """
    if not below:
        raise Malformed("a denominator must not be zero")
    if not above:
        return number(0)
    above, below = _rationalised(above, below, work)
    above, below = _without_common_monomial(above, below)
    factor = Fraction(
        lcm(*(v.denominator for v in below.values())), gcd(*(v.numerator for v in below.values()))
    )
    if leading(below) < 0:
        factor = -factor
    return Expression(scale(above, factor, work), scale(below, factor, work))


def _rationalised(
    above: Polynomial, below: Polynomial, work: Work
) -> tuple[Polynomial, Polynomial]:
    """Both times what rids the denominator of i and of roots of even degree."""
    while True:
        factors = (
            _conjugate(below, atom) for atom in reversed(atoms_of([below])) if is_algebraic(atom)
        )
        factor = next((found for found in factors if found is not None), None)
        if factor is None:
            return above, below
        above, below = multiply(above, factor, work), multiply(below, factor, work)
        if not below:
            raise Malformed("a denominator must not be zero")


def _conjugate(below: Polynomial, atom: Atom) -> Polynomial | None:
    """A factor that lowers the degree of `below` in `atom`, or rids it of it; None for a sum with
    other than even roots."""
    exponents = {dict(monomial).get(atom, Fraction(0)) for monomial in below}
    if len(exponents) == 1:
        return {((atom, (2 if atom.kind is Kind.IMAGINARY else 1) - exponents.pop()),): Fraction(1)}
    step = lcm(*(e.denominator for e in exponents))
    if atom.kind is not Kind.IMAGINARY and step % 2:
        return None
    return {
        monomial: -value if dict(monomial).get(atom, Fraction(0)) * step % 2 == 1 else value
        for monomial, value in below.items()
    }


def _without_common_monomial(above: Polynomial, below: Polynomial) -> tuple[Polynomial, Polynomial]:
    common: dict[Atom, Fraction] = dict(next(iter(below)))
    for monomial in (*below, *above):
        exponents = dict(monomial)
        common = {a: min(e, exponents[a]) for a, e in common.items() if a in exponents}
        if not common:
            return above, below

    def lowered(polynomial: Polynomial) -> Polynomial:
        return {
            tuple((a, e - common.get(a, 0)) for a, e in monomial if e != common.get(a, 0)): value
            for monomial, value in polynomial.items()
        }

    return lowered(above), lowered(below)


def plus(left: Expression, right: Expression, work: Work) -> Expression:
    """left + right."""
    if left.denominator == right.denominator:
        above = add(left.numerator, right.numerator, work)
        return quotient(above, left.denominator, work)
    above = add(
        multiply(left.numerator, right.denominator, work),
        multiply(right.numerator, left.denominator, work),
        work,
    )
    return quotient(above, multiply(left.denominator, right.denominator, work), work)


def same(left: Expression, right: Expression, work: Work) -> bool | None:
    """Whether two expressions are equal; None where their atoms may depend on each other."""
    if left.text == right.text:
        return True
    known = all(map(independent, (*left.atoms, *right.atoms)))
    if known and left.denominator == right.denominator == _UNIT:
        return False
    across = multiply(right.numerator, left.denominator, work)
    rest = add(
        multiply(left.numerator, right.denominator, work), scale(across, Fraction(-1), work), work
    )
    if not rest:
        return True
    return False if known else None


def independent(atom: Atom) -> bool:
    """Whether nothing relates the atom to others: not so for powers and function values, nor for
    numbers under a root that are too large to have been factored."""
    if atom.kind is Kind.PRIME:
        return len(atom.text) < 7
    return atom.kind in (Kind.IMAGINARY, Kind.CONSTANT, Kind.SYMBOL)


def negative(value: Expression, work: Work) -> Expression:
    """-value."""
    return Expression(scale(value.numerator, Fraction(-1), work), value.denominator)


def minus(left: Expression, right: Expression, work: Work) -> Expression:
    """left - right."""
    return plus(left, negative(right, work), work)


def times(left: Expression, right: Expression, work: Work) -> Expression:
    """left * right."""
    return quotient(
        multiply(left.numerator, right.numerator, work),
        multiply(left.denominator, right.denominator, work),
        work,
    )


def over(left: Expression, right: Expression, work: Work) -> Expression:
    """left / right."""
    return quotient(
        multiply(left.numerator, right.denominator, work),
        multiply(left.denominator, right.numerator, work),
        work,
    )


def to_integer_power(base: Expression, exponent: int, work: Work) -> Expression:
    """base ** exponent for any integer; 0 ** 0 is 1."""
    above = polynomial_power(base.numerator, abs(exponent), work)
    below = polynomial_power(base.denominator, abs(exponent), work)
    if exponent < 0:
        above, below = below, above
    return quotient(above, below, work)


def polynomial_text(polynomial: Polynomial) -> str:
    """A polynomial's canonical spelling: terms by falling degree, plain notation."""
    if not polynomial:
        return "0"
    terms = []
    for monomial in sorted(polynomial, key=order):
        value = polynomial[monomial]
        factors = [_factor_text(atom, exponent) for atom, exponent in monomial]
        if not factors or abs(value) != 1:
            factors.insert(0, fraction_text(abs(value)))
        sign = "-" if value < 0 else "+"
        terms.append(f"{sign}{'*'.join(factors)}")
    return "".join(terms).removeprefix("+")


def _factor_text(atom: Atom, exponent: Fraction) -> str:
    if exponent == 1:
        return atom.text
    base = f"({atom.text})" if atom.kind is Kind.POWER else atom.text
    shown = fraction_text(exponent)
    return f"{base}^{shown}" if exponent.denominator == 1 else f"{base}^({shown})"


def _grouped(text: str, product: bool = False) -> str:
    """`text` in parentheses where it is a sum, or a product that is divided by."""
    needs = any(sign in text[1:] for sign in "+-") or (product and any(s in text for s in "*/"))
    return f"({text})" if needs else text


def fraction_text(value: Fraction) -> str:
    """A rational number as ``3`` or ``-3/4``, of any length."""
    above = integer_text(value.numerator)
    return above if value.denominator == 1 else f"{above}/{integer_text(value.denominator)}"


def integer_text(value: int) -> str:
    """Decimal digits of an integer of any length (str() refuses above 4,300 digits)."""
    return str(value) if value.bit_length() < 13_000 else str(Decimal(value))


def integer_of(digits: str) -> int:
    """The integer that decimal `digits` spell, at any length."""
    return int(digits) if len(digits) < 4_000 else int(Decimal(digits))


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
        return to_integer_power(base, int(rational), context.work)
    return rational_power(base, rational, context)


def rational_power(value: Expression, exponent: Fraction, context: Context) -> Expression:
    """value ** exponent as the root of a power, the root principal (real where it is odd).

    Raises:
        Unreadable: for roots of i.
        TooLarge: beyond the 100th root.
    """
    count, degree = exponent.numerator, exponent.denominator
    if degree == 1:
        return to_integer_power(value, count, context.work)
    if degree > 100:
        raise TooLarge("roots must be at most the 100th")
    rational = value.rational
    if rational is not None:
        return to_integer_power(_numeric_root(rational, degree, context), count, context.work)
    above = _polynomial_power(value.numerator, exponent, context)
    below = _polynomial_power(value.denominator, exponent, context)
    return over(above, below, context.work)


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
        for prime, count in factored(base):
            result = times(
                result, _prime_power(prime, Fraction(sign * count, degree), context), context.work
            )
    return result if value else number(0)


def _prime_power(prime: int, exponent: Fraction, context: Context) -> Expression:
    quotient = exponent.numerator // exponent.denominator
    rest = exponent - quotient
    factor = number(Fraction(prime) ** quotient)
    if not rest:
        return factor
    return times(factor, of_atom(Atom(Kind.PRIME, str(prime)), rest), context.work)


def _polynomial_power(polynomial: Polynomial, exponent: Fraction, context: Context) -> Expression:
    if len(polynomial) > 1:
        radicand = Expression(polynomial, UNIT)
        atom = context.atom(Kind.RADICAND, f"({radicand.text})", arguments=(radicand,))
        return times(number(1), of_atom(atom, exponent), context.work)
    ((monomial, value),) = polynomial.items()
    root_ = _numeric_root(value, exponent.denominator, context)
    result = to_integer_power(root_, exponent.numerator, context.work)
    for atom, inner in monomial:
        result = times(result, _atom_power(atom, inner, exponent, context), context.work)
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
    return times(number(1), of_atom(atom, total), context.work)


def absolute(value: Expression, context: Context) -> Expression:
    """|value|."""
    rational = value.rational
    if rational is not None:
        return number(abs(rational))
    positive = (Kind.PRIME, Kind.CONSTANT, *((Kind.SYMBOL,) if context.positive else ()))
    if leading(value.numerator) < 0:
        value = negative(value, context.work)
    if len(value.numerator) == 1 and all(atom.kind in positive for atom in value.atoms):
        return value
    return of_atom(context.atom(Kind.FUNCTION, f"abs({value.text})", "abs", (value,)))


def factored(value: int) -> list[tuple[int, int]]:
    """(prime, count) by trial division; a large cofactor is taken apart only if it is a power."""
    factors: list[tuple[int, int]] = []
    divisor = 2
    if value.bit_length() > 4_000:
        raise TooLarge("numbers under a root must have at most 4,000 bits")
    while value > 1 and divisor <= _TRIAL_DIVISORS and divisor * divisor <= value:
        count = 0
        while value % divisor == 0:
            value //= divisor
            count += 1
        if count:
            factors.append((divisor, count))
        divisor += 1 if divisor == 2 else 2
    if value > 1:
        side = isqrt(value)
        factors.append((side, 2) if side * side == value else (value, 1))
    return factors
