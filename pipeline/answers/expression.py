"""Exact expressions: quotients of polynomials in one normal form, and their arithmetic.

The denominator holds no algebraic atom (roots, i and cosines are moved to the numerator), is
primitive with integer coefficients and a positive first one, and has no factor in common with the
numerator. Two expressions over independent atoms are equal exactly when their texts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from pipeline.answers.gcd import common_divisor, exact_quotient
from pipeline.answers.polynomial import (
    ONE,
    Atom,
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
    power,
    scale,
    split_by,
)
from pipeline.answers.verdict import Unreadable

_UNIT: Polynomial = {ONE: Fraction(1)}
_CHUNK_DIGITS = 3_900
_CHUNK = 10**_CHUNK_DIGITS


@dataclass(frozen=True, slots=True, eq=False)
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

    @property
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
        Unreadable: on division by zero.
        TooLarge: if there is too much to do.
    """
    if not below:
        raise Unreadable("a denominator must not be zero")
    if not above:
        return number(0)
    above, below = _rationalised(above, below, work)
    above, below = _without_common_monomial(above, below)
    if len(below) > 1:
        coefficients = [dict(group) for group in split_by(above, is_algebraic).values()]
        divisor = common_divisor([below, *coefficients], work)
        if len(divisor) > 1:
            below = exact_quotient(below, divisor, work)
            above = {
                tuple(sorted((*outer, *inner))): value
                for outer, group in split_by(above, is_algebraic).items()
                for inner, value in exact_quotient(group, divisor, work).items()
            }
    factor = Fraction(
        lcm(*(v.denominator for v in below.values())), gcd(*(v.numerator for v in below.values()))
    )
    if leading(below) < 0:
        factor = -factor
    return Expression(scale(above, factor, work), scale(below, factor, work))


def _rationalised(
    above: Polynomial, below: Polynomial, work: Work
) -> tuple[Polynomial, Polynomial]:
    """Both times what makes the denominator free of algebraic atoms."""
    while True:
        algebraic = [atom for atom in atoms_of([below]) if is_algebraic(atom)]
        if not algebraic:
            return above, below
        atom = algebraic[-1]  # radicands hold primes, so they go first
        factor = _conjugate(below, atom, work)
        above, below = multiply(above, factor, work), multiply(below, factor, work)
        if not below:
            raise Unreadable("a denominator must not be zero")


def _conjugate(below: Polynomial, atom: Atom, work: Work) -> Polynomial:
    """A factor that lowers the degree of `below` in `atom`, or rids it of it."""
    parts = {
        (key[0][1] if key else Fraction(0)): part
        for key, part in split_by(below, lambda other: other == atom).items()
    }
    if len(parts) == 1:
        (exponent,) = parts
        target = 2 if atom.square is not None or atom.kind is Kind.IMAGINARY else 1
        return {((atom, target - exponent),): Fraction(1)}
    step = lcm(*(e.denominator for e in parts))
    if atom.kind is Kind.IMAGINARY or atom.square is not None or step % 2 == 0:
        odd = Fraction(1, step)
        return {
            monomial: -value if (dict(monomial).get(atom, Fraction(0)) / odd) % 2 == 1 else value
            for monomial, value in below.items()
        }
    if step != 3:
        raise Unreadable("roots in a denominator must be square, cube or fourth roots")
    # with t^3 = n, the conjugate of a + b t + c t^2 is
    # (a^2 - n b c) + (n c^2 - a b) t + (b^2 - a c) t^2
    t: list[Polynomial] = [_UNIT, {((atom, Fraction(1, 3)),): Fraction(1)}]
    t.append(multiply(t[1], t[1], work))
    a, b, c = (parts.get(Fraction(power_, 3), {}) for power_ in range(3))
    n = multiply(t[2], t[1], work)
    rows = (
        (multiply(a, a, work), multiply(n, multiply(b, c, work), work)),
        (multiply(n, multiply(c, c, work), work), multiply(a, b, work)),
        (multiply(b, b, work), multiply(a, c, work)),
    )
    factor: Polynomial = {}
    for root, (plus, minus) in zip(t, rows, strict=True):
        difference = add(plus, scale(minus, Fraction(-1), work), work)
        factor = add(factor, multiply(difference, root, work), work)
    return factor


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
    above = power(base.numerator, abs(exponent), work)
    below = power(base.denominator, abs(exponent), work)
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
    if value.bit_length() < 13_000:
        return str(value)
    if value < 0:
        return "-" + integer_text(-value)
    parts: list[str] = []
    while value >= _CHUNK:
        value, low = divmod(value, _CHUNK)
        parts.append(f"{low:0{_CHUNK_DIGITS}d}")
    return str(value) + "".join(reversed(parts))


def integer_of(digits: str) -> int:
    """The integer that decimal `digits` spell, at any length."""
    value = 0
    for start in range(0, len(digits), _CHUNK_DIGITS):
        part = digits[start : start + _CHUNK_DIGITS]
        value = value * 10 ** len(part) + int(part)
    return value
