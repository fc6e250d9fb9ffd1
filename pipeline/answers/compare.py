"""Whether a predicted value is the gold value, or counts as it under a leniency.

Three answers: True, False (shown to differ) and None (not shown either way).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.context import PI
from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.numeric import differ, rounds_to
from pipeline.answers.algebra.polynomial import Work
from pipeline.answers.leniency import Leniency
from pipeline.answers.units import DEGREE
from pipeline.answers.values import (
    BaseNumeral,
    Choice,
    Congruence,
    Equation,
    Inequality,
    Interval,
    Labels,
    ListOf,
    Matrix,
    Order,
    Ratio,
    Region,
    Scalar,
    Sequence,
    SetOf,
    Sides,
    Union,
    Unread,
    Value,
    Words,
)
from pipeline.answers.verdict import TooLarge, Unreadable

Decision = bool | None
Prove = Callable[[Expression, Expression], Decision]
_ROUNDED_DIGITS = 6
_FLOAT_PLACES, _FLOAT_DIGITS = 9, 15
_SHORT_WORDS = 4
_COST = 4


class Comparison:
    """Compares with the leniencies it was made with.

    Args:
        leniencies: the rules that are on.
        work: what all comparisons are charged to.
        prove: decides pairs of expressions that arithmetic and digits leave open.
    """

    def __init__(
        self, leniencies: frozenset[Leniency], work: Work, prove: Prove | None = None
    ) -> None:
        self.leniencies = leniencies
        self.work = work
        self.prove = prove

    def allows(self, leniency: Leniency) -> bool:
        return leniency in self.leniencies

    def equal(self, gold: Value, predicted: Value) -> Decision:
        """Whether `predicted` counts as `gold`."""
        self.work.spend(_COST)
        self.work.spend(_COST)
        if gold.text == predicted.text:
            return True
        if isinstance(gold, Unread) or isinstance(predicted, Unread):
            return self._unread(gold, predicted)
        strict = self._same_kind(gold, predicted)
        if strict is not False:
            return strict
        return self._lenient(gold, predicted)

    def _unread(self, gold: Value, predicted: Value) -> Decision:
        if isinstance(predicted, Unread) and predicted.malformed and not isinstance(gold, Unread):
            return False
        return None

    def _same_kind(self, gold: Value, predicted: Value) -> Decision:
        match gold, predicted:
            case Scalar(), Scalar():
                return self._scalars(gold, predicted)
            case Sequence(), Sequence():
                if (gold.opening, gold.closing) != (predicted.opening, predicted.closing):
                    return False
                return self.in_order(gold.items, predicted.items)
            case Interval(), Interval():
                if (gold.opening, gold.closing) != (predicted.opening, predicted.closing):
                    return False
                return self.in_order((gold.low, gold.high), (predicted.low, predicted.high))
            case Union(), Union():
                return self.in_order(gold.intervals, predicted.intervals)
            case SetOf(), SetOf():
                return self.any_order(gold.items, predicted.items)
            case ListOf(), ListOf():
                if gold.ordered or predicted.ordered:
                    return self.in_order(gold.items, predicted.items)
                return self.any_order(gold.items, predicted.items)
            case Ratio(), Ratio():
                return self.in_order(gold.items, predicted.items)
            case Matrix(), Matrix():
                if gold.bars != predicted.bars:
                    return False
                if [len(row) for row in gold.rows] != [len(row) for row in predicted.rows]:
                    return False
                flat = [tuple(i for row in m.rows for i in row) for m in (gold, predicted)]
                return self.in_order(flat[0], flat[1])
            case Equation(), Equation():
                return self._equations(gold, predicted)
            case Inequality(), Inequality():
                if gold.op != predicted.op:
                    return False
                return self.expressions(gold.expression, predicted.expression)
            case Region(), Region():
                return gold.name == predicted.name and self.equal(gold.values, predicted.values)
            case Choice(), Choice():
                if gold.letter != predicted.letter:
                    return False
                if gold.content is None or predicted.content is None:
                    return False  # left to a leniency
                return self.equal(gold.content, predicted.content)
            case Sides(), Sides():
                return self.any_order(gold.items, predicted.items)
            case Order(), Order():
                if gold.signs != predicted.signs:
                    return False
                return self.in_order(gold.items, predicted.items)
            case Congruence(), Congruence():
                return self._congruences(gold, predicted)
            case Words(), Words():
                short = max(len(gold.words.split()), len(predicted.words.split())) <= _SHORT_WORDS
                return False if short else None
            case _:
                return False

    def _congruences(self, gold: Congruence, predicted: Congruence) -> Decision:
        if (gold.name, gold.modulus.text) != (predicted.name, predicted.modulus.text):
            return None
        numbers = [v.expression.rational for v in (gold.value, predicted.value, gold.modulus)]
        if None in numbers or not numbers[2]:
            return self.equal(gold.value, predicted.value)
        first, second, modulus = (n for n in numbers if n is not None)
        return (first - second) % modulus == 0

    def _scalars(self, gold: Scalar, predicted: Scalar) -> Decision:
        """Numbers with or without units: of one dimension in the same units, else as they stand."""
        units = (gold.unit, predicted.unit)
        if DEGREE in units and None in units:
            return self._degrees(gold, predicted)
        if None in units and units != (None, None) and not self.allows(Leniency.UNIT_OPTIONAL):
            return False
        left, right = gold.expression, predicted.expression
        open_ = False
        if gold.unit is not None and predicted.unit is not None and gold.unit != predicted.unit:
            things = not gold.unit.dimension or not predicted.unit.dimension
            if things:  # the same number of different things is not understood
                open_ = not gold.unit.may_be(predicted.unit)
            elif gold.unit.dimension != predicted.unit.dimension:
                return False
            else:
                left = ex.times(left, ex.number(gold.unit.factor), self.work)
                right = ex.times(right, ex.number(predicted.unit.factor), self.work)
        same = self.expressions(left, right)
        if same is not False:
            return None if open_ else same
        if gold.unit != predicted.unit and None not in units:
            return False
        if self._rounded(gold, predicted) or self._rounded_gold(gold, predicted):
            return True
        if gold.percent != predicted.percent and self.allows(Leniency.PERCENT_SIGN_OPTIONAL):
            return self.expressions(self._as_written(gold), self._as_written(predicted))
        return False

    def _degrees(self, gold: Scalar, predicted: Scalar) -> Decision:
        if self.allows(Leniency.DEGREE_SIGN_OPTIONAL):
            same = self.expressions(gold.expression, predicted.expression)
            if same is not False:
                return same
        if self.allows(Leniency.DEGREES_AS_RADIANS):
            return self.expressions(self._radians(gold), self._radians(predicted))
        return False

    def _rounded(self, gold: Scalar, predicted: Scalar) -> bool:
        """Whether a decimal of many digits was predicted for an exact gold value."""
        if not self.allows(Leniency.ROUNDED_DECIMAL) or predicted.places is None:
            return False
        decimal = predicted.expression.rational
        exact = gold.expression.rational
        if decimal is None or predicted.digits < _ROUNDED_DIGITS:
            return False
        if exact is not None and (exact.denominator == 1 or gold.places is not None):
            return False  # a gold integer or decimal is matched exactly
        places = predicted.places + (2 if predicted.percent else 0)
        return self._rounds_to(gold.expression, decimal, places)

    def _rounded_gold(self, gold: Scalar, predicted: Scalar) -> bool:
        """Whether the gold answer is a float that stands for the predicted value."""
        if not self.allows(Leniency.ROUNDED_GOLD) or gold.places is None:
            return False
        decimal, value = gold.expression.rational, predicted.expression.rational
        if decimal is None or (gold.places < _FLOAT_PLACES and gold.digits < _FLOAT_DIGITS):
            return False
        if predicted.places is not None and value is not None:
            enough = predicted.digits >= _ROUNDED_DIGITS
            return enough and self._rounds_to(gold.expression, value, predicted.places)
        if value is not None and gold.digits >= _FLOAT_DIGITS:
            return abs(value - decimal) <= abs(value) / 2**52
        return self._rounds_to(predicted.expression, decimal, gold.places)

    def _rounds_to(self, value: Expression, decimal: Fraction, places: int) -> bool:
        try:
            return rounds_to(value, decimal, places, self.work)
        except TooLarge:
            raise
        except Unreadable:
            return False

    def in_order(self, gold: SequenceOf[Value], predicted: SequenceOf[Value]) -> Decision:
        """Item by item."""
        if len(gold) != len(predicted):
            return False
        decisions = [self.equal(g, p) for g, p in zip(gold, predicted, strict=True)]
        if False in decisions:
            return False
        return None if None in decisions else True

    def any_order(self, gold: SequenceOf[Value], predicted: SequenceOf[Value]) -> Decision:
        """As multisets: equal texts first, the rest in the first pairing that is found."""
        if len(gold) != len(predicted):
            return False
        left = list(predicted)
        unmatched: list[Value] = []
        for item in gold:
            twin = next((n for n, other in enumerate(left) if other.text == item.text), None)
            if twin is None:
                unmatched.append(item)
            else:
                del left[twin]
        open_ = False
        if len(unmatched) > 30:
            return None
        for item in unmatched:
            decisions = [self.equal(item, other) for other in left]
            if True in decisions:
                del left[decisions.index(True)]
            elif None in decisions:
                open_ = True
                del left[decisions.index(None)]
            else:
                return False
        return None if open_ else True

    def _equations(self, gold: Equation, predicted: Equation) -> Decision:
        if gold.difference is not None and predicted.difference is not None:
            same = self.expressions(gold.difference, predicted.difference)
            if same is not False:
                return same
        if gold.name is not None and gold.name == predicted.name:
            return self.equal(gold.value, predicted.value)
        if None in (gold.difference, predicted.difference) or gold.divided or predicted.divided:
            return None if self.equal(gold.value, predicted.value) is not False else False
        return False

    def _lenient(self, gold: Value, predicted: Value) -> Decision:
        """Pairs of different kinds, each under its rule."""
        match gold, predicted:
            case (Words() as words, other) | (other, Words() as words):
                if isinstance(other, Words):
                    return False
                return self._words(words, other)
            case (Labels() as labels, other) | (other, Labels() as labels):
                numbers = [Scalar(ex.number(number)) for number in labels.numbers]
                if not isinstance(other, ListOf) or not self.allows(Leniency.PARENTHESES_OPTIONAL):
                    return None
                return self.any_order(numbers, other.items)
            case (Congruence() as named, Scalar() as other) | (
                Scalar() as other,
                Congruence() as named,
            ):
                if self.allows(Leniency.NAME_OPTIONAL):
                    return self.equal(named.value, other)
            case (Sides(), _) | (_, Sides()):
                return None
            case BaseNumeral(), Scalar() if self.allows(Leniency.BASE_OPTIONAL):
                return gold.digits == predicted.text
            case (Equation() | Region(), _) | (_, Equation() | Region()):
                return self._named(gold, predicted)
            case (Choice(), _) | (_, Choice()) if self.allows(Leniency.CHOICE_CONTENT_OPTIONAL):
                return self._choices(gold, predicted)
            case (ListOf() as bare, Sequence() as other) | (Sequence() as other, ListOf() as bare):
                if self.allows(Leniency.PARENTHESES_OPTIONAL):
                    return self.in_order(bare.items, other.items)
            case (ListOf() | Scalar(), SetOf()) | (SetOf(), ListOf() | Scalar()):
                if self.allows(Leniency.BRACES_OPTIONAL):
                    return self.any_order(_members(gold), _members(predicted))
            case (Matrix() as matrix, Sequence() | ListOf() as other) | (
                Sequence() | ListOf() as other,
                Matrix() as matrix,
            ):
                if self.allows(Leniency.COLUMN_AS_TUPLE) and not matrix.bars:
                    return self._column(matrix, other)
            case (Ratio(items=(Scalar() as a, Scalar() as b)), Scalar() as other) | (
                Scalar() as other,
                Ratio(items=(Scalar() as a, Scalar() as b)),
            ):
                if self.allows(Leniency.RATIO_AS_FRACTION) and other.unit is None:
                    try:
                        return self.expressions(
                            ex.over(a.expression, b.expression, self.work), other.expression
                        )
                    except Unreadable:
                        return False
            case _:
                pass
        return False

    def _named(self, gold: Value, predicted: Value) -> Decision:
        """A value with a name, or at the end of a chain, against one without."""
        for named, bare in ((gold, predicted), (predicted, gold)):
            match named:
                case Equation(chain=True) if self.allows(Leniency.CHAIN_END):
                    value = named.value
                case Equation(name=str(), chain=False) if self.allows(Leniency.NAME_OPTIONAL):
                    value = named.value
                case Region() if self.allows(Leniency.NAME_OPTIONAL):
                    value = named.values
                case _:
                    continue
            if isinstance(bare, Equation | Region):
                names = {v.name for v in (gold, predicted) if isinstance(v, Equation | Region)}
                if len(names) > 1:
                    return False
                bare = bare.value if isinstance(bare, Equation) else bare.values
            return self.equal(value, bare) if named is gold else self.equal(bare, value)
        return False

    def _choices(self, gold: Value, predicted: Value) -> Decision:
        if isinstance(gold, Choice) and isinstance(predicted, Choice):
            return gold.letter == predicted.letter and None in (gold.content, predicted.content)
        content = predicted.content if isinstance(predicted, Choice) else None
        return False if content is None else self.equal(gold, content)

    def _words(self, words: Words, other: Value) -> Decision:
        """Words against what is none: open where the words may say the same."""
        if words.letters and self.allows(Leniency.LETTERS_AS_LIST) and isinstance(other, ListOf):
            return self.any_order([Choice(letter) for letter in words.letters], other.items)
        parts = words.words.split()
        sentence = len(parts) > _SHORT_WORDS or other.text in parts
        letters = sorted(c for c in other.text if c.isalpha()) == sorted(words.words)
        if sentence or letters or isinstance(other, SetOf | Interval | Region):
            return None
        return False

    def _column(self, matrix: Matrix, other: Sequence | ListOf) -> Decision:
        if len(matrix.rows) != 1 and any(len(row) != 1 for row in matrix.rows):
            return False
        return self.in_order([item for row in matrix.rows for item in row], other.items)

    def expressions(self, left: Expression, right: Expression) -> Decision:
        """Equal by arithmetic, different by arithmetic or digits, proved elsewhere, or open."""
        decision = ex.same(left, right, self.work)
        if decision is not None:
            return decision
        try:
            if differ(left, right, self.work):
                return False
        except TooLarge:
            raise
        except Unreadable:
            pass
        return None if self.prove is None else self.prove(left, right)

    def _as_written(self, value: Scalar) -> Expression:
        if not value.percent:
            return value.expression
        return ex.times(value.expression, ex.number(100), self.work)

    def _radians(self, value: Scalar) -> Expression:
        if value.unit != DEGREE:
            return value.expression
        turn = ex.times(ex.of_atom(PI), ex.number(Fraction(1, 180)), self.work)
        return ex.times(value.expression, turn, self.work)


def _members(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, ListOf | SetOf) else (value,)
