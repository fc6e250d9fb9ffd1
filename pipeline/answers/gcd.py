"""Greatest common divisors of polynomials whose atoms are independent, by primitive remainders.

Works on ``{exponents: integer}`` with exponents a tuple of non-negative integers, one variable
eliminated after the other; every multiplication is charged to the reading's `Work`.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd as integer_gcd
from math import lcm

from pipeline.answers.polynomial import Atom, Monomial, Polynomial, Work, atoms_of
from pipeline.answers.verdict import TooLarge

Dense = dict[tuple[int, ...], int]


def common_divisor(polynomials: list[Polynomial], work: Work) -> Polynomial:
    """The primitive greatest common divisor, with integer coefficients and a positive first one.

    Exponents may be rational; the atoms are taken as independent (no algebraic atoms).

    Raises:
        TooLarge: if there is too much to do.
    """
    atoms = atoms_of(polynomials)
    if len(atoms) > 6:
        raise TooLarge("a quotient may hold at most 6 symbols")
    steps = dict.fromkeys(atoms, 1)
    for polynomial in polynomials:
        for monomial in polynomial:
            for atom, exponent in monomial:
                steps[atom] = lcm(steps[atom], exponent.denominator)
    result: Dense = {}
    for polynomial in polynomials:
        result = _gcd(result, _dense(polynomial, atoms, steps), len(atoms), work)
        if len(result) == 1 and not any(next(iter(result))):
            break
    return {
        tuple((a, Fraction(e, steps[a])) for a, e in zip(atoms, key, strict=True) if e): Fraction(v)
        for key, v in result.items()
    }


def exact_quotient(dividend: Polynomial, divisor: Polynomial, work: Work) -> Polynomial:
    """dividend / divisor, which must leave no remainder."""
    atoms = atoms_of([dividend, divisor])
    rank = {atom: position for position, atom in enumerate(atoms)}

    def key(monomial: Monomial) -> tuple[Fraction, ...]:
        exponents = [Fraction(0)] * len(rank)
        for atom, exponent in monomial:
            exponents[rank[atom]] = exponent
        return tuple(exponents)

    rest = {key(m): v for m, v in dividend.items()}
    by = {key(m): v for m, v in divisor.items()}
    top = max(by)
    quotient: dict[Monomial, Fraction] = {}
    while rest:
        first = max(rest)
        shift = tuple(a - b for a, b in zip(first, top, strict=True))
        value = rest[first] / by[top]
        quotient[tuple((a, e) for a, e in zip(atoms, shift, strict=True) if e)] = value
        for exponents, coefficient in by.items():
            work.spend(2)
            target = tuple(a + b for a, b in zip(exponents, shift, strict=True))
            left = rest.get(target, Fraction(0)) - value * coefficient
            if left:
                rest[target] = left
            else:
                rest.pop(target, None)
    return quotient


def _dense(polynomial: Polynomial, atoms: list[Atom], steps: dict[Atom, int]) -> Dense:
    common = lcm(*(value.denominator for value in polynomial.values()))
    dense: Dense = {}
    for monomial, value in polynomial.items():
        exponents = dict(monomial)
        key = tuple(int(exponents.get(atom, Fraction(0)) * steps[atom]) for atom in atoms)
        dense[key] = int(value * common)
    return dense


def _primitive(polynomial: Dense) -> Dense:
    content = integer_gcd(*polynomial.values())
    if polynomial and polynomial[max(polynomial)] < 0:
        content = -content
    return {key: value // content for key, value in polynomial.items()}


def _gcd(left: Dense, right: Dense, variables: int, work: Work) -> Dense:
    """Over the integers, up to the integer content, which is dropped."""
    if not left or not right:
        return _primitive(left or right)
    if variables == 0:
        return {(): 1}
    left_content, left = _split(left, variables, work)
    right_content, right = _split(right, variables, work)
    content = _gcd(left_content, right_content, variables - 1, work)
    if _degree(left) < _degree(right):
        left, right = right, left
    while right and _degree(right) > 0:
        remainder = _pseudo_remainder(left, right, work)
        left, right = right, _split(remainder, variables, work)[1] if remainder else {}
    common = {(0,) * variables: 1} if right else left
    lifted = {(0, *key): value for key, value in content.items()}
    return _primitive(_times(common, lifted, work))


def _degree(polynomial: Dense) -> int:
    return max(key[0] for key in polynomial)


def _by_degree(polynomial: Dense) -> dict[int, Dense]:
    parts: dict[int, Dense] = {}
    for key, value in polynomial.items():
        parts.setdefault(key[0], {})[key[1:]] = value
    return parts


def _split(polynomial: Dense, variables: int, work: Work) -> tuple[Dense, Dense]:
    """(content, primitive part) of a polynomial in its first variable."""
    content: Dense = {}
    parts = _by_degree(polynomial)
    for part in parts.values():
        content = _gcd(content, part, variables - 1, work)
    unit = len(content) == 1 and not any(next(iter(content)))
    if unit:
        return content, _primitive(polynomial)
    divided: Dense = {}
    for degree, part in parts.items():
        for key, value in _divide(part, content, work).items():
            divided[(degree, *key)] = value
    return content, _primitive(divided)


def _divide(dividend: Dense, divisor: Dense, work: Work) -> Dense:
    rest, top, quotient = dict(dividend), max(divisor), {}
    while rest:
        first = max(rest)
        shift = tuple(a - b for a, b in zip(first, top, strict=True))
        value = rest[first] // divisor[top]
        quotient[shift] = value
        for key, coefficient in divisor.items():
            work.spend(1)
            target = tuple(a + b for a, b in zip(key, shift, strict=True))
            left = rest.get(target, 0) - value * coefficient
            if left:
                rest[target] = left
            else:
                rest.pop(target, None)
    return quotient


def _times(left: Dense, right: Dense, work: Work) -> Dense:
    product: Dense = {}
    for left_key, left_value in left.items():
        for right_key, right_value in right.items():
            work.spend(1 + (left_value.bit_length() + right_value.bit_length()) // 512)
            key = tuple(a + b for a, b in zip(left_key, right_key, strict=True))
            value = product.get(key, 0) + left_value * right_value
            if value:
                product[key] = value
            else:
                product.pop(key, None)
    return product


def _pseudo_remainder(dividend: Dense, divisor: Dense, work: Work) -> Dense:
    degree = _degree(divisor)
    lead = {(0, *key): value for key, value in _by_degree(divisor)[degree].items()}
    rest = dividend
    while rest and _degree(rest) >= degree:
        top = _degree(rest)
        factor = {(top - degree, *key): value for key, value in _by_degree(rest)[top].items()}
        rest = _times(rest, lead, work)
        for key, value in _times(divisor, factor, work).items():
            left = rest.get(key, 0) - value
            if left:
                rest[key] = left
            else:
                rest.pop(key, None)
    return rest
