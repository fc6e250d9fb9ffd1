"""Whether a predicted value is the gold value, or counts as it under a leniency.

Three answers: True, False (shown to differ) and None (not shown either way).
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from fractions import Fraction

from pipeline.answers import expression as ex
from pipeline.answers.context import PI
from pipeline.answers.expression import Expression
from pipeline.answers.leniency import Leniency
from pipeline.answers.numeric import differ, rounds_to
from pipeline.answers.polynomial import Work
from pipeline.answers.values import (
    BaseNumeral,
    Choice,
    Equation,
    Inequality,
    Interval,
    ListOf,
    Matrix,
    Ratio,
    Region,
    Scalar,
    Sequence,
    SetOf,
    Union,
    Unread,
    Value,
)
from pipeline.answers.verdict import Unreadable

Decision = bool | None
_ROUNDED_DIGITS = 6


class Comparison:
    """Compares with the leniencies it was made with."""

    def __init__(self, leniencies: frozenset[Leniency]) -> None:
        self.leniencies = leniencies

    def allows(self, leniency: Leniency) -> bool:
        return leniency in self.leniencies

    def equal(self, gold: Value, predicted: Value) -> Decision:
        """Whether `predicted` counts as `gold`."""
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
                return expressions(gold.expression, predicted.expression)
            case Region(), Region():
                return gold.name == predicted.name and self.equal(gold.values, predicted.values)
            case Choice(), Choice():
                if gold.letter != predicted.letter:
                    return False
                if gold.content is None or predicted.content is None:
                    return False  # left to a leniency
                return self.equal(gold.content, predicted.content)
            case _:
                return False

    def _scalars(self, gold: Scalar, predicted: Scalar) -> Decision:
        if gold.unit == predicted.unit:
            same = expressions(gold.expression, predicted.expression)
            if same is not False:
                return same
        elif gold.unit is not None and predicted.unit is not None:
            return False
        elif gold.unit == "degree" or predicted.unit == "degree":
            return self._degrees(gold, predicted)
        elif self.allows(Leniency.UNIT_OPTIONAL):
            same = expressions(gold.expression, predicted.expression)
            if same is not False:
                return same
        else:
            return False
        if self._rounded(gold, predicted):
            return True
        if gold.percent != predicted.percent and self.allows(Leniency.PERCENT_SIGN_OPTIONAL):
            return expressions(_as_written(gold), _as_written(predicted))
        return False

    def _degrees(self, gold: Scalar, predicted: Scalar) -> Decision:
        if self.allows(Leniency.DEGREE_SIGN_OPTIONAL):
            same = expressions(gold.expression, predicted.expression)
            if same is not False:
                return same
        if self.allows(Leniency.DEGREES_AS_RADIANS):
            return expressions(_radians(gold), _radians(predicted))
        return False

    def _rounded(self, gold: Scalar, predicted: Scalar) -> bool:
        if not self.allows(Leniency.ROUNDED_DECIMAL) or predicted.places is None:
            return False
        decimal = predicted.expression.rational
        exact = gold.expression.rational
        if decimal is None or predicted.digits < _ROUNDED_DIGITS:
            return False
        if exact is not None and (exact.denominator == 1 or gold.places is not None):
            return False  # a gold integer or decimal is matched exactly
        places = predicted.places + (2 if predicted.percent else 0)
        try:
            return rounds_to(gold.expression, decimal, places)
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
            same = expressions(gold.difference, predicted.difference)
            if same is not False:
                return same
        if gold.name is not None and gold.name == predicted.name:
            return self.equal(gold.value, predicted.value)
        if predicted.chain and self.allows(Leniency.CHAIN_END) and gold.name is None and gold.chain:
            return self.equal(gold.value, predicted.value)
        return False

    def _lenient(self, gold: Value, predicted: Value) -> Decision:
        """Pairs of different kinds, each under its rule."""
        match gold, predicted:
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
                        return expressions(
                            ex.over(a.expression, b.expression, Work()), other.expression
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
                return False
            return self.equal(value, bare) if named is gold else self.equal(bare, value)
        return False

    def _choices(self, gold: Value, predicted: Value) -> Decision:
        if isinstance(gold, Choice) and isinstance(predicted, Choice):
            return gold.letter == predicted.letter and None in (gold.content, predicted.content)
        return False

    def _column(self, matrix: Matrix, other: Sequence | ListOf) -> Decision:
        if len(matrix.rows) != 1 and any(len(row) != 1 for row in matrix.rows):
            return False
        return self.in_order([item for row in matrix.rows for item in row], other.items)


def expressions(left: Expression, right: Expression) -> Decision:
    """Equal by normal form, different by value, or neither shown."""
    if left.text == right.text:
        return True
    if left.rational is not None and right.rational is not None:
        return False
    try:
        return False if differ(left, right) else None
    except Unreadable:
        return None


def _as_written(value: Scalar) -> Expression:
    if not value.percent:
        return value.expression
    return ex.times(value.expression, ex.number(100), Work())


def _radians(value: Scalar) -> Expression:
    if value.unit != "degree":
        return value.expression
    turn = ex.times(ex.of_atom(PI), ex.number(Fraction(1, 180)), Work())
    return ex.times(value.expression, turn, Work())


def _members(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, ListOf | SetOf) else (value,)
