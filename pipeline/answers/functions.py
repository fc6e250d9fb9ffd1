"""Powers, roots and functions of expressions: what goes beyond the four operations.

Exact values where there is one (sqrt(12) is 2*3^(1/2), sin(pi/6) is 1/2, log(8)/log(2) is 3), an
atom that carries its canonical argument where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, gcd, isqrt, lcm

from pipeline.answers import expression as ex
from pipeline.answers.expression import Expression, number, of_atom
from pipeline.answers.polynomial import (
    HALF,
    ONE,
    Atom,
    Kind,
    Monomial,
    Polynomial,
    Work,
    check_bits,
    leading,
    multiply,
    scale,
)
from pipeline.answers.verdict import TooLarge, Unreadable

PI = Atom(Kind.CONSTANT, "pi")
E = Atom(Kind.CONSTANT, "e")
I = Atom(Kind.IMAGINARY, "i")  # noqa: E741 - the imaginary unit is called i
_UNIT: Polynomial = {ONE: Fraction(1)}
_TRIAL_DIVISORS = 2_000
_FACTORIAL_LIMIT = 5_000


class Reader:
    """The operations of one reading, charged to one `Work`.

    Args:
        work: what the reading may spend.
        positive: take variables as positive, so that sqrt(x^2) is x (a leniency).
    """

    def __init__(self, work: Work, positive: bool = False) -> None:
        self.work = work
        self.positive = positive

    def power(self, base: Expression, exponent: Expression) -> Expression:
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
                return ex.to_integer_power(base, int(rational), self.work)
            raised = ex.to_integer_power(base, rational.numerator, self.work)
            return self.root(raised, rational.denominator)
        if base.rational in (Fraction(0), Fraction(1)):
            return base
        result = number(1)
        for monomial, value in self._terms(exponent):
            result = ex.times(result, self._symbolic_power(base, monomial, value), self.work)
        return result

    def _terms(self, exponent: Expression) -> list[tuple[Expression | None, Fraction]]:
        """The exponent as a sum of number * (expression without numeric factor, None for 1)."""
        if len(exponent.denominator) > 1:
            lead = exponent.numerator[min(exponent.numerator, key=lambda m: m)]
            scaled = Expression(
                scale(exponent.numerator, 1 / lead, self.work), exponent.denominator
            )
            return [(scaled, lead)]
        ((below, divisor),) = exponent.denominator.items()
        terms: list[tuple[Expression | None, Fraction]] = []
        for monomial, value in exponent.numerator.items():
            one = ex.quotient({monomial: Fraction(1)}, {below: Fraction(1)}, self.work)
            terms.append((None if one.rational == 1 else one, value / divisor))
        return terms

    def _symbolic_power(
        self, base: Expression, exponent: Expression | None, value: Fraction
    ) -> Expression:
        if exponent is None:
            return self.power(base, number(value))
        if base.numerator == {((E, Fraction(1)),): Fraction(1)} and base.denominator == _UNIT:
            turn = self._euler(exponent, value)
            if turn is not None:
                return turn
        result = number(1)
        for part, times in self._positive_factors(base):
            atom = Atom(
                Kind.POWER,
                f"{_in_parentheses(part.text)}^({exponent.text})",
                arguments=(part, exponent),
            )
            total = value * times
            factor = of_atom(atom, total)
            result = ex.times(result, factor, self.work)
        return result

    def _positive_factors(self, base: Expression) -> list[tuple[Expression, int]]:
        """`base` as a product of bases to integer powers, where it is a single term."""
        if len(base.numerator) != 1 or len(base.denominator) != 1:
            return [(base, 1)]
        factors: dict[str, tuple[Expression, int]] = {}
        for polynomial, sign in ((base.numerator, 1), (base.denominator, -1)):
            ((monomial, value),) = polynomial.items()
            if value < 0:
                factors["-1"] = (number(-1), 1)
            for prime, times in (
                *_factored(abs(value.numerator)),
                *((p, -t) for p, t in _factored(value.denominator)),
            ):
                old = factors.get(str(prime), (number(prime), 0))[1]
                factors[str(prime)] = (number(prime), old + times * sign)
            for atom, exponent in monomial:
                if exponent.denominator != 1:
                    return [(base, 1)]
                factors[atom.text] = (of_atom(atom), int(exponent) * sign)
        return [(part, times) for part, times in factors.values() if times]

    def _euler(self, exponent: Expression, value: Fraction) -> Expression | None:
        """e^(i pi value), where it has an exact value."""
        if exponent.text not in ("pi*i", "i*pi"):
            return None
        cosine, sine = _cosine_of_turn(value), _cosine_of_turn(value - HALF)
        if cosine is None or sine is None:
            return None
        imaginary = ex.times(of_atom(I), sine(self), self.work)
        return ex.plus(cosine(self), imaginary, self.work)

    def root(self, value: Expression, degree: int) -> Expression:
        """The principal root; odd roots of negative numbers are real, as in school.

        Raises:
            Unreadable: for roots of i.
        """
        if degree == 1:
            return value
        if degree > 100:
            raise TooLarge("roots must be at most the 100th")
        rational = value.rational
        if rational is not None:
            return self._numeric_root(rational, degree)
        denested = self._denested(value) if degree == 2 else None
        if denested is not None:
            return denested
        above = self._polynomial_root(value.numerator, degree)
        below = self._polynomial_root(value.denominator, degree)
        return ex.over(above, below, self.work)

    def _numeric_root(self, value: Fraction, degree: int) -> Expression:
        result = number(1)
        if value < 0:
            if degree % 2:
                result = number(-1)
            elif degree == 2:
                result = of_atom(I)
            else:
                raise Unreadable("even roots of negative numbers must be square roots")
        for base, sign in ((abs(value.numerator), 1), (value.denominator, -1)):
            for prime, times in _factored(base):
                result = ex.times(
                    result, self._prime_power(prime, Fraction(sign * times, degree)), self.work
                )
        return result if value else number(0)

    def _prime_power(self, prime: int, exponent: Fraction) -> Expression:
        whole = exponent.numerator // exponent.denominator
        rest = exponent - whole
        factor = number(Fraction(prime) ** whole)
        if not rest:
            return factor
        return ex.times(factor, of_atom(Atom(Kind.PRIME, str(prime)), rest), self.work)

    def _polynomial_root(self, polynomial: Polynomial, degree: int) -> Expression:
        monomial, content, rest = _content(polynomial, self.work)
        result = self._numeric_root(content, degree)
        if len(rest) > 1:
            radicand = Expression(rest, _UNIT)
            atom = Atom(Kind.RADICAND, f"({radicand.text})", arguments=(radicand,))
            result = ex.times(result, of_atom(atom, Fraction(1, degree)), self.work)
        for atom, exponent in monomial:
            result = ex.times(result, self._atom_root(atom, exponent, degree), self.work)
        return result

    def _atom_root(self, atom: Atom, exponent: Fraction, degree: int) -> Expression:
        lowered = exponent / degree
        if atom.kind is Kind.IMAGINARY:
            raise Unreadable("roots of imaginary numbers are not read")
        if atom.kind is Kind.PRIME:
            return self._prime_power(int(atom.text), lowered)
        sign_lost = exponent.denominator == 1 and exponent % 2 == 0 and lowered.numerator % 2 == 1
        real = atom.kind is Kind.SYMBOL and not self.positive
        if sign_lost and degree % 2 == 0 and (real or atom.kind is Kind.FUNCTION):
            return self.power(self.absolute(of_atom(atom)), number(lowered))
        if atom.kind is Kind.FUNCTION and atom.square is not None and lowered >= 2:
            return ex.to_integer_power(of_atom(atom), int(lowered), self.work)
        return of_atom(atom, lowered)

    def _denested(self, value: Expression) -> Expression | None:
        """sqrt(a + b sqrt(c)) as sqrt(x) + sqrt(y), where that is possible over the rationals."""
        polynomial = value.numerator
        if value.denominator != _UNIT or len(polynomial) != 2 or ONE not in polynomial:
            return None
        a = polynomial[ONE]
        ((monomial, b),) = ((m, v) for m, v in polynomial.items() if m != ONE)
        if any(atom.kind is not Kind.PRIME or e != HALF for atom, e in monomial):
            return None
        c = Fraction(1)
        for atom, _ in monomial:
            c *= int(atom.text)
        d = _rational_square_root(a * a - b * b * c)
        if d is None or a <= 0:
            return None
        first = self._numeric_root((a + d) / 2, 2)
        second = self._numeric_root((a - d) / 2, 2)
        return ex.plus(first, second, self.work) if b > 0 else ex.minus(first, second, self.work)

    def absolute(self, value: Expression) -> Expression:
        """|value|."""
        rational = value.rational
        if rational is not None:
            return number(abs(rational))
        if len(value.numerator) == 1 and len(value.denominator) == 1:
            ((monomial, coefficient),) = value.numerator.items()
            positive = (Kind.PRIME, Kind.CONSTANT)
            if all(atom.kind in positive for atom, _ in monomial):
                return ex.negative(value, self.work) if coefficient < 0 else value
            if self.positive and all(a.kind in (*positive, Kind.SYMBOL) for a, _ in monomial):
                return ex.negative(value, self.work) if coefficient < 0 else value
            if abs(coefficient) != 1:
                unit = Expression({monomial: Fraction(1)}, value.denominator)
                return ex.times(number(abs(coefficient)), self.absolute(unit), self.work)
        if leading(value.numerator) < 0:
            value = ex.negative(value, self.work)
        square = None
        if value.denominator == _UNIT:
            square = multiply(value.numerator, value.numerator, self.work)
        return of_atom(Atom(Kind.FUNCTION, f"abs({value.text})", "abs", (value,), square))

    def call(self, name: str, *arguments: Expression) -> Expression:
        """A function's value: exact where `_EXACT` knows one, else an atom."""
        exact = _EXACT.get(name)
        value = exact(self, *arguments) if exact else None
        if value is not None:
            return value
        text = ", ".join(argument.text for argument in arguments)
        return of_atom(Atom(Kind.FUNCTION, f"{name}({text})", name, arguments))

    def sine(self, argument: Expression) -> Expression:
        turn = _turn(argument)
        if turn is not None and (exact := _cosine_of_turn(turn - HALF)):
            return exact(self)
        if argument.numerator and leading(argument.numerator) < 0:
            return ex.negative(self.sine(ex.negative(argument, self.work)), self.work)
        return of_atom(self._sine_atom(argument))

    def cosine(self, argument: Expression) -> Expression:
        turn = _turn(argument)
        if turn is not None and (exact := _cosine_of_turn(turn)):
            return exact(self)
        if leading(argument.numerator) < 0:
            argument = ex.negative(argument, self.work)
        sine = self._sine_atom(argument)
        square: Polynomial = {ONE: Fraction(1), ((sine, Fraction(2)),): Fraction(-1)}
        return of_atom(Atom(Kind.FUNCTION, f"cos({argument.text})", "cos", (argument,), square))

    def _sine_atom(self, argument: Expression) -> Atom:
        return Atom(Kind.FUNCTION, f"sin({argument.text})", "sin", (argument,))

    def logarithm(self, argument: Expression, name: str = "ln") -> Expression | None:
        """ln of a positive rational times a power of e, as a sum over primes; None elsewhere."""
        if len(argument.numerator) != 1 or len(argument.denominator) != 1:
            return None
        result = number(0)
        for polynomial, sign in ((argument.numerator, 1), (argument.denominator, -1)):
            ((monomial, value),) = polynomial.items()
            if value <= 0:
                return None
            for base, direction in ((value.numerator, sign), (value.denominator, -sign)):
                for prime, times in _factored(base):
                    result = ex.plus(
                        result, self._log_term(prime, Fraction(times * direction), name), self.work
                    )
            for atom, exponent in monomial:
                if atom.kind is Kind.PRIME:
                    term = self._log_term(int(atom.text), exponent * sign, name)
                elif name == "ln" and atom == E:
                    term = number(exponent * sign)
                elif name == "ln" and atom.kind is Kind.POWER and atom.arguments[0].text == "e":
                    term = ex.times(number(exponent * sign), atom.arguments[1], self.work)
                else:
                    return None
                result = ex.plus(result, term, self.work)
        return result

    def _log_term(self, prime: int, times: Fraction, name: str) -> Expression:
        atom = Atom(Kind.FUNCTION, f"{name}({prime})", name, (number(prime),))
        return ex.times(number(times), of_atom(atom), self.work)


def _in_parentheses(text: str) -> str:
    return text if text.isalnum() else f"({text})"


def _content(polynomial: Polynomial, work: Work) -> tuple[Monomial, Fraction, Polynomial]:
    """(common monomial, rational content with the sign of the first term, what is left)."""
    common = dict(next(iter(polynomial)))
    for monomial in polynomial:
        exponents = dict(monomial)
        common = {a: min(e, exponents[a]) for a, e in common.items() if a in exponents}
    rest = {
        tuple((a, e - common.get(a, 0)) for a, e in monomial if e != common.get(a, 0)): value
        for monomial, value in polynomial.items()
    }
    content = Fraction(
        gcd(*(v.numerator for v in rest.values())), lcm(*(v.denominator for v in rest.values()))
    )
    if len(rest) == 1:
        (content,) = rest.values()
    return tuple(sorted(common.items())), content, scale(rest, 1 / content, work)


def _factored(value: int) -> list[tuple[int, int]]:
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


def _rational_square_root(value: Fraction) -> Fraction | None:
    if value < 0:
        return None
    above, below = isqrt(value.numerator), isqrt(value.denominator)
    if above * above != value.numerator or below * below != value.denominator:
        return None
    return Fraction(above, below)


def _turn(argument: Expression) -> Fraction | None:
    """argument / pi, if that is a rational number."""
    if not argument.numerator:
        return Fraction(0)
    if argument.denominator == _UNIT and list(argument.numerator) == [((PI, Fraction(1)),)]:
        return argument.numerator[((PI, Fraction(1)),)]
    return None


def _cosine_of_turn(turn: Fraction) -> Callable[[Reader], Expression] | None:
    """cos(pi * turn) for multiples of pi/6, pi/4 and pi/5."""
    turn = abs(turn % 2)
    if turn > 1:
        turn = 2 - turn
    if turn > HALF:
        inner = _cosine_of_turn(1 - turn)
        return None if inner is None else lambda reader: ex.negative(inner(reader), reader.work)
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
        return lambda reader: number(1)
    a, b, c, d = radicands[turn]  # (a + b sqrt(c)) / d

    def value(reader: Reader) -> Expression:
        root = ex.times(number(b), reader.root(number(c), 2), reader.work)
        return ex.over(ex.plus(number(a), root, reader.work), number(d), reader.work)

    return value


def _factorial(reader: Reader, argument: Expression) -> Expression | None:
    value = argument.rational
    if value is None or value.denominator != 1 or value < 0:
        return None
    if value > _FACTORIAL_LIMIT:
        raise TooLarge(f"factorials must be of at most {_FACTORIAL_LIMIT}")
    reader.work.spend(int(value))
    return number(check_bits(Fraction(factorial(int(value)))))


def _binomial(reader: Reader, above: Expression, below: Expression) -> Expression | None:
    n, k = above.rational, below.rational
    if n is None or k is None or n.denominator != 1 or k.denominator != 1 or n < 0 or k < 0:
        return None
    if n > _FACTORIAL_LIMIT:
        raise TooLarge(f"binomial coefficients must be of at most {_FACTORIAL_LIMIT}")
    return number(comb(int(n), int(k)))


def _rounded(step: int) -> Callable[[Reader, Expression], Expression | None]:
    def value(reader: Reader, argument: Expression) -> Expression | None:
        rational = argument.rational
        if rational is None:
            return None
        return number(step * ((step * rational.numerator) // rational.denominator))

    return value


def _log(reader: Reader, *arguments: Expression) -> Expression | None:
    if len(arguments) == 2:  # base, argument
        base, argument = arguments
        below = reader.logarithm(base) or reader.call("ln", base)
        above = reader.logarithm(argument) or reader.call("ln", argument)
        return ex.over(above, below, reader.work)
    return reader.logarithm(arguments[0], "log")


def _quotient_of(
    above: str | None, below: str
) -> Callable[[Reader, Expression], Expression | None]:
    def value(reader: Reader, argument: Expression) -> Expression:
        numerator = number(1) if above is None else reader.call(above, argument)
        return ex.over(numerator, reader.call(below, argument), reader.work)

    return value


_EXACT: dict[str, Callable[..., Expression | None]] = {
    "sqrt": lambda reader, argument: reader.root(argument, 2),
    "abs": Reader.absolute,
    "sin": Reader.sine,
    "cos": Reader.cosine,
    "tan": _quotient_of("sin", "cos"),
    "cot": _quotient_of("cos", "sin"),
    "sec": _quotient_of(None, "cos"),
    "csc": _quotient_of(None, "sin"),
    "exp": lambda reader, argument: reader.power(of_atom(E), argument),
    "ln": lambda reader, argument: reader.logarithm(argument),
    "log": _log,
    "factorial": _factorial,
    "binom": _binomial,
    "floor": _rounded(1),
    "ceil": _rounded(-1),
}
