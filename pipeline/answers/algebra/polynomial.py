"""*Polynomial*: exact arithmetic of polynomials in atoms, with a bound on the work.

An atom is a symbol, pi, a radical, a function value: anything that is not a rational number. A
monomial maps atoms to positive rational exponents, so that sqrt(x) is x to the 1/2. Some atoms are
algebraic: a power of theirs is a polynomial in other atoms (``i`` squared is -1, 2^(1/2) squared
is 2); products are reduced on the spot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import Any

from pipeline.answers.verdict import TooLarge

MAX_BITS = 60_000
"""Largest coefficient, numerator or denominator (about 18,000 digits)."""
MAX_TERMS = 400
"""Most terms of one polynomial."""


MAX_ATOM_CHARS = 5_000
"""Longest canonical text of one function value: nesting can double it at each level."""
FULL = 40_000
"""Work that one reading may cost where it may take its time."""


class Work:
    """What one reading may still spend, in multiplications of small rationals; then TooLarge."""

    def __init__(self, limit: int = FULL) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise TooLarge("the answer must be readable within the work limit of one answer")


class Kind(IntEnum):
    """What an atom is; also the order in which atoms are printed."""

    PRIME = 0
    """A prime (or an integer that was not factored), to an exponent in (0, 1)."""
    IMAGINARY = 1
    CONSTANT = 2
    """pi or e."""
    SYMBOL = 3
    RADICAND = 4
    """A polynomial under a root, to an exponent in (0, 1)."""
    POWER = 5
    """base ** monomial, the monomial not being a number: 2^n, x^n, e^(2x)."""
    FUNCTION = 6
    """A function value or anything else that is only compared by its canonical text."""


@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """One non-rational factor. Equal when kind and canonical text are equal."""

    kind: Kind
    text: str
    name: str = field(default="", compare=False)
    """The function's name, for FUNCTION."""
    arguments: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """Expressions: of a RADICAND the radicand, of a POWER base and exponent, of a FUNCTION its
    arguments."""


Monomial = tuple[tuple[Atom, Fraction], ...]
"""Atoms with exponents above 0, sorted by atom."""
Polynomial = Mapping[Monomial, Fraction]
"""Coefficients, none of which is 0."""

ONE: Monomial = ()
PI = Atom(Kind.CONSTANT, "pi")
EULER = Atom(Kind.CONSTANT, "e")
IMAGINARY = Atom(Kind.IMAGINARY, "i")
UNIT: Polynomial = {ONE: Fraction(1)}


@dataclass(frozen=True, slots=True)
class Context:
    """Charged to one `Work`; `positive` takes variables as positive (a leniency)."""

    work: Work
    positive: bool = False

    def atom(self, kind: Kind, text: str, name: str = "", arguments: tuple[Any, ...] = ()) -> Atom:
        """An atom whose text is built from its arguments.

        Raises:
            TooLarge: if the text is longer than `MAX_ATOM_CHARS`.
        """
        if len(text) > MAX_ATOM_CHARS:
            raise TooLarge(f"a function value must be written in {MAX_ATOM_CHARS} characters")
        self.work.spend(1 + len(text) // 16)
        return Atom(kind, text, name, arguments)


def constant(value: Fraction | int) -> Polynomial:
    """The polynomial that is a number."""
    return {ONE: Fraction(value)} if value else {}


def check_bits(value: Fraction) -> Fraction:
    """`value`, unless its numerator or denominator is beyond `MAX_BITS`."""
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise TooLarge(f"numbers must have at most {MAX_BITS} bits")
    return value


def _cost(value: Fraction) -> int:
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    return 1 + (bits // 256) ** 2 // 4


def add(left: Polynomial, right: Polynomial, work: Work) -> Polynomial:
    """left + right."""
    work.spend(min(len(left), len(right)))
    total = dict(left)
    for monomial, coefficient in right.items():
        work.spend(_cost(coefficient))
        value = total.get(monomial, 0) + coefficient
        if value:
            total[monomial] = check_bits(value)
        else:
            del total[monomial]
    return total


def scale(polynomial: Polynomial, factor: Fraction, work: Work) -> Polynomial:
    """polynomial * factor, `factor` a number."""
    work.spend(len(polynomial) * _cost(factor))
    if not factor:
        return {}
    return {monomial: check_bits(value * factor) for monomial, value in polynomial.items()}


def multiply(left: Polynomial, right: Polynomial, work: Work) -> Polynomial:
    """left * right, powers of algebraic atoms reduced."""
    if len(left) * len(right) > 4 * MAX_TERMS * MAX_TERMS // 10:
        raise TooLarge(f"polynomials must have at most {MAX_TERMS} terms")
    total: dict[Monomial, Fraction] = {}
    reducible: list[Polynomial] = []
    for left_monomial, left_value in left.items():
        for right_monomial, right_value in right.items():
            work.spend(1 + _cost(left_value) + _cost(right_value))
            value, monomial, rest = reduced(_merged(left_monomial, right_monomial))
            value = check_bits(left_value * right_value * value)
            if rest:
                product: Polynomial = {monomial: value}
                for factor in rest:
                    product = multiply(product, factor, work)
                reducible.append(product)
                continue
            new = total.get(monomial, 0) + value
            if new:
                total[monomial] = new
            else:
                total.pop(monomial, None)
    if len(total) > MAX_TERMS:
        raise TooLarge(f"polynomials must have at most {MAX_TERMS} terms")
    result: Polynomial = total
    for product in reducible:
        result = add(result, product, work)
    return result


def polynomial_power(base: Polynomial, exponent: int, work: Work) -> Polynomial:
    """base ** exponent, exponent >= 0."""
    if exponent > 200 and len(base) > 1:
        raise TooLarge("a sum may be raised to at most the 200th power")
    result = constant(1)
    while exponent:
        if exponent & 1:
            result = multiply(result, base, work)
        exponent >>= 1
        if exponent:
            base = multiply(base, base, work)
    return result


def _merged(left: Monomial, right: Monomial) -> dict[Atom, Fraction]:
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, Fraction(0)) + exponent
    return exponents


def reduced(exponents: Mapping[Atom, Fraction]) -> tuple[Fraction, Monomial, list[Polynomial]]:
    """A product of atoms, algebraic ones reduced: (number, monomial, further factors)."""
    number = Fraction(1)
    kept: list[tuple[Atom, Fraction]] = []
    rest: list[Polynomial] = []
    for atom, exponent in exponents.items():
        if atom.kind is Kind.PRIME:
            quotient = exponent.numerator // exponent.denominator
            if abs(quotient) * int(atom.text).bit_length() > MAX_BITS:
                raise TooLarge(f"numbers must have at most {MAX_BITS} bits")
            number *= Fraction(int(atom.text)) ** quotient
            exponent -= quotient
        elif atom.kind is Kind.IMAGINARY:
            if exponent.denominator == 1:
                turns = exponent.numerator % 4
                number *= -1 if turns >= 2 else 1
                exponent = Fraction(turns % 2)
        elif atom.kind is Kind.RADICAND and exponent >= 1:
            quotient = exponent.numerator // exponent.denominator
            rest.extend([atom.arguments[0].numerator] * min(quotient, 201))
            exponent -= quotient
        if exponent:
            kept.append((atom, exponent))
    kept.sort()
    return number, tuple(kept), rest


def is_algebraic(atom: Atom) -> bool:
    """Whether a power of `atom` is a polynomial in other atoms."""
    return atom.kind in (Kind.PRIME, Kind.IMAGINARY, Kind.RADICAND)


def atoms_of(polynomials: Iterable[Polynomial]) -> list[Atom]:
    """Every atom that occurs, sorted."""
    return sorted({atom for p in polynomials for monomial in p for atom, _ in monomial})


def split_by(
    polynomial: Polynomial, takes: Callable[[Atom], bool]
) -> dict[Monomial, dict[Monomial, Fraction]]:
    """Group terms by the part of their monomial whose atoms `takes`; values hold the other part."""
    groups: dict[Monomial, dict[Monomial, Fraction]] = {}
    for monomial, value in polynomial.items():
        key = tuple((atom, e) for atom, e in monomial if takes(atom))
        other = tuple((atom, e) for atom, e in monomial if not takes(atom))
        groups.setdefault(key, {})[other] = value
    return groups


def order(monomial: Monomial) -> tuple[Any, ...]:
    """Sort key of terms: higher total degree first, then by atoms."""
    return (-sum((e for _, e in monomial), Fraction(0)), tuple((a, -e) for a, e in monomial))


def leading(polynomial: Polynomial) -> Fraction:
    """The coefficient of the first term in printing order."""
    return polynomial[min(polynomial, key=order)]
