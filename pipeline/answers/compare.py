"""*Comparison*: compares a predicted value with the gold value, exactly or under a leniency.

Three answers: True, False (shown to differ) and None (not shown either way).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from fractions import Fraction
from math import comb

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.functions import rounds_to
from pipeline.answers.algebra.polynomial import PI, Work
from pipeline.answers.units import DEGREE
from pipeline.answers.values import (
    CONGRUENT,
    IF,
    RATIO,
    SIDES,
    BaseNumeral,
    Choice,
    Equation,
    Inequality,
    ListOf,
    Matrix,
    Parts,
    Region,
    Row,
    Scalar,
    Sequence,
    SetOf,
    Sign,
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
_LISTED = (Parts, ListOf, Sequence)
_KINDS = (
    Parts, Words, Row, Equation, Region, Choice, BaseNumeral, Matrix, Union, ListOf, Sequence,
    Scalar, SetOf, Sign, Unread, Inequality,
)  # fmt: skip
"""The kinds of values, in the order in which `Comparison` looks at two of them."""
_ALIKE_MONEY = ({"gbp", "lb"}, {"yensign", "yen"}, {"yensign", "yuan"})
_YES_NO = re.compile(r"(yes|no)(?:[,.;: ]+(?!solution)\w.*)?$")
_SHORT_WORDS = 4
_COST = 4
_IN_PARTS = re.compile(r"(?:\d[\d.]* [^\W\d_]+,?(?: and)? ?){2,4}")  # 2 hours 30 minutes


class Comparison:
    """Compares values of every kind (docs/grading.md lists the leniencies).

    Args:
        work: what all comparisons are charged to.
        prove: decides pairs of expressions that arithmetic leaves open.
        brackets: whether a list may have the brackets of a tuple, a vector or a set.
    """

    def __init__(self, work: Work, prove: Prove | None = None, *, brackets: bool = True) -> None:
        self.work = work
        self.prove = prove
        self.brackets = brackets

    def scalars(self, gold: Scalar, predicted: Scalar) -> Decision:
        """Numbers with or without units: of one dimension in the same units, else as they stand."""
        units = (gold.unit, predicted.unit)
        if DEGREE in units and None in units:
            return self._degrees(gold, predicted)
        left, right = gold.expression, predicted.expression
        open_ = False
        if gold.unit is not None and predicted.unit is not None and gold.unit != predicted.unit:
            if {gold.unit.name, predicted.unit.name} in _ALIKE_MONEY:
                return self.expressions(left, right)
            things = not gold.unit.dimension or not predicted.unit.dimension
            if things:  # the same number of different things is not understood
                open_ = not gold.unit.may_be(predicted.unit)
            elif DEGREE in units and {u.name for u in units if u} & {"celsius", "fahrenheit"}:
                open_ = gold.unit == DEGREE  # 72 degrees may be of temperature
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
        if self._rounded(gold, predicted):
            return True
        same_unit = gold.unit == predicted.unit
        if same_unit and gold.percent != predicted.percent:
            return self.expressions(self._as_written(gold), self._as_written(predicted))
        return False

    def _degrees(self, gold: Scalar, predicted: Scalar) -> Decision:
        same = self.expressions(gold.expression, predicted.expression)
        if same is not False:
            return same
        return self.expressions(self._radians(gold), self._radians(predicted))

    def _rounded(self, gold: Scalar, predicted: Scalar) -> bool:
        """Whether one is a decimal of many digits that stands for the other; a gold integer, or a
        gold decimal that is no float, is matched exactly."""
        decimal, value = gold.expression.rational, predicted.expression.rational
        exact = gold.places is None and (decimal is None or decimal.denominator > 1)
        many = (gold.places or 0) >= _FLOAT_PLACES or gold.digits >= _FLOAT_DIGITS
        artefact = gold.digits >= _FLOAT_DIGITS > predicted.digits
        if many and artefact and decimal is not None and value is not None:
            return abs(value - decimal) <= abs(value) / 2**52
        if predicted.places is not None and value is not None:
            places = predicted.places + (2 if predicted.percent else 0)
            if many and decimal is not None and predicted.places > (gold.places or 0):
                return self.rounds(predicted.expression, decimal, gold.places or 0)
            enough = predicted.digits >= _ROUNDED_DIGITS and (exact or many)
            return enough and self.rounds(gold.expression, value, places)
        if decimal is None or not many:
            return False
        return self.rounds(predicted.expression, decimal, gold.places or 0)

    def rounds(self, value: Expression, decimal: Fraction, places: int) -> bool:
        """Whether a decimal of some places is `value`, rounded or cut."""
        try:
            return rounds_to(value, decimal, places, self.work)
        except TooLarge:
            raise
        except Unreadable:
            return False

    def expressions(self, left: Expression, right: Expression) -> Decision:
        """Equal or different by arithmetic, decided elsewhere, or open."""
        decision = ex.same(left, right, self.work)
        if decision is None and self.prove is not None:
            return self.prove(left, right)
        return decision

    def _as_written(self, value: Scalar) -> Expression:
        if not value.percent:
            return value.expression
        return ex.times(value.expression, ex.number(100), self.work)

    def _radians(self, value: Scalar) -> Expression:
        if value.unit != DEGREE:
            return value.expression
        turn = ex.times(ex.of_atom(PI), ex.number(Fraction(1, 180)), self.work)
        return ex.times(value.expression, turn, self.work)

    def equal(self, gold: Value, predicted: Value) -> Decision:
        """Whether `predicted` counts as `gold`."""
        self.work.spend(2 * _COST)
        if gold.text == predicted.text:
            return True
        if isinstance(gold, Unread) or isinstance(predicted, Unread):
            broken = isinstance(predicted, Unread) and predicted.malformed
            return False if broken and not isinstance(gold, Unread) else None
        strict = self._same_kind(gold, predicted)
        if strict is not False:
            return strict
        return self._lenient(gold, predicted)

    def _same_kind(self, gold: Value, predicted: Value) -> Decision:
        match gold, predicted:
            case Scalar(), Scalar():
                return self.scalars(gold, predicted)
            case Sequence(), Sequence():
                if (gold.opening, gold.closing) != (predicted.opening, predicted.closing):
                    return False
                return self.in_order(gold.items, predicted.items)
            case Union(), Union():
                return self.in_order(gold.intervals, predicted.intervals)
            case SetOf(), SetOf():
                return self._members_alike(gold.items, predicted.items)
            case ListOf(), ListOf():
                names = _names(gold), _names(predicted)
                if gold.ordered or predicted.ordered or (() in names and names != ((), ())):
                    return self.in_order(gold.items, predicted.items)
                return self.any_order(gold.items, predicted.items)
            case Row(), Row():
                if gold.signs != predicted.signs:
                    return False
                if SIDES in gold.signs:
                    return self.any_order(gold.items, predicted.items)
                same = self.in_order(gold.items, predicted.items)
                return None if CONGRUENT in gold.signs and same is False else same
            case Parts(), Parts():
                if sorted(gold.labels) != sorted(predicted.labels):
                    return False if len(gold.items) == len(predicted.items) else None
                by_label = dict(zip(predicted.labels, predicted.items, strict=True))
                return self.in_order(gold.items, [by_label[label] for label in gold.labels])
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
                if gold.sign != predicted.sign:
                    return False
                return self.expressions(gold.expression, predicted.expression)
            case Region(), Region():
                named = gold.name == predicted.name or "" in (gold.name, predicted.name)
                return named and self.equal(gold.values, predicted.values)
            case Choice(), Choice():
                if gold.letter != predicted.letter:
                    return False
                if gold.content is None or predicted.content is None:
                    return False  # left to a leniency
                return self.equal(gold.content, predicted.content)
            case Words(), Words():
                return self._both_words(gold, predicted)
            case _:
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

    def _members_alike(self, gold: SequenceOf[Value], predicted: SequenceOf[Value]) -> Decision:
        """`any_order`, where a member is not the set that has it alone."""
        return Comparison(self.work, self.prove, brackets=False).any_order(gold, predicted)

    def _equations(self, gold: Equation, predicted: Equation) -> Decision:
        same: Decision = None
        if gold.difference is not None and predicted.difference is not None:
            same = ex.same(gold.difference, predicted.difference, self.work)
            if same:
                return True
        functions = {gold.name, predicted.name} == {"y", "f(x)"}
        if gold.name is not None and (functions or gold.name == predicted.name):
            return self.equal(gold.value, predicted.value)
        if same is None or gold.divided or predicted.divided:
            return None if self.equal(gold.value, predicted.value) is not False else same
        return False

    def _lenient(self, gold: Value, predicted: Value) -> Decision:
        """Pairs of different kinds, each under its rule; the kind that `_KINDS` has first."""
        first, second = sorted((gold, predicted), key=lambda value: _KINDS.index(type(value)))
        match first, second:
            case (ListOf(items=(Row(signs=signs), *_)), _) | (
                _,
                ListOf(items=(Row(signs=signs), *_)),
            ) if IF in signs and not isinstance(gold, Equation):
                return None
            case (Parts(), Parts()) | (Row(signs=("-",)), Row(signs=("-",))):
                return False
            case Parts(), ListOf() | Sequence():
                sides = [v.items for v in (gold, predicted) if isinstance(v, _LISTED)]
                return self.in_order(*sides) or None
            case Parts(), _:
                return None
            case Words(words="no solution"), SetOf(items=()):
                return True
            case Equation(value=Sequence() as point) as pair, ListOf() as other if sorted(
                order := (pair.name or "").strip("()").split(",")
            ) == sorted(_names(other)):
                by_name = {i.name: i.value for i in other.items if isinstance(i, Equation)}
                return self.in_order(point.items, [by_name[name] for name in order])
            case Union() | Region(), ListOf(items=parts) if all(
                isinstance(part, Sequence | Region) for part in parts
            ):
                return None  # whether "and" or "or" was meant is not known
            case ListOf(items=parts), Sequence() if all(isinstance(p, Region) for p in parts):
                return None
            case Sequence() | Union() | Region(), Inequality():
                return None  # nobody has solved it
            case (ListOf(items=(value, Region())), other) | (
                other,
                ListOf(items=(value, Region())),
            ):
                return None if self.equal(value, other) is not False else False
            case Matrix(rows=((Scalar() as a,), (Scalar() as b,)), bars=False), Scalar() as other:
                # a binomial coefficient, as data sets spell it
                n, k = (s.expression.text for s in (a, b))
                if not (n.isdigit() and k.isdigit() and len(n) < 4):
                    return None
                return self.expressions(ex.number(comb(int(n), int(k))), other.expression)
            case Words() as words, other:
                return False if isinstance(other, Words) else self._words(words, other)
            case (Row(signs=(" : ",)) as ratio, Row(signs=("-",)) as span) | (
                Row(signs=("-",)) as span,
                Row(signs=(" : ",)) as ratio,
            ):  # 10 to 15
                low, high = span.items
                return self.equal(self._quotient(high, low), self._quotient(*ratio.items[::-1]))
            case Row(signs=signs) as row, other if RATIO not in signs:
                if isinstance(other, Scalar) and CONGRUENT in signs:
                    return self.equal(row.items[1], other) or None
                return None
            case BaseNumeral() as numeral, Scalar() if numeral is gold:
                return numeral.digits == predicted.text
            case Equation() | Region(), _:
                return self._named(gold, predicted)
            case Choice(), _:
                return self._choices(gold, predicted)
            case ListOf() as bare, Sequence() as other:
                if self.brackets and not other.is_interval:
                    return self.in_order(bare.items, other.items)
            case Sequence(opening="[", items=(only,)), Scalar() as other if self.brackets:
                return self.equal(only, other)
            case ListOf() | Scalar(), SetOf():
                if self.brackets:
                    return self._members_alike(_members(gold), _members(predicted))
            case Matrix() as matrix, Sequence() | ListOf() as other:
                line = len(matrix.rows) == 1 or all(len(row) == 1 for row in matrix.rows)
                interval = isinstance(other, Sequence) and other.is_interval
                if self.brackets and line and not (matrix.bars or interval):
                    return self.in_order([i for row in matrix.rows for i in row], other.items)
            case Row(items=(Scalar() as a, Scalar() as b)), Scalar() as other:
                if other.unit is None:
                    try:
                        return self.expressions(
                            ex.over(a.expression, b.expression, self.work), other.expression
                        )
                    except Unreadable:
                        return False
            case _:
                pass
        return False

    def _quotient(self, above: Value, below: Value) -> Value:
        if not isinstance(above, Scalar) or not isinstance(below, Scalar):
            return Unread("a quotient of what are no numbers")
        return Scalar(ex.over(above.expression, below.expression, self.work))

    def _named(self, gold: Value, predicted: Value) -> Decision:
        """A value with a name, or at the end of a chain, against one without."""
        for named, bare in ((gold, predicted), (predicted, gold)):
            match named:
                case Equation(chain=True) | Equation(name=str()):
                    value = named.value
                case Region():
                    value = named.values
                case Equation(states=True) if isinstance(bare, Scalar) and named is predicted:
                    value = named.value
                case _:
                    continue
            if isinstance(bare, Equation | Region):
                names = {v.name for v in (gold, predicted) if isinstance(v, Equation | Region)}
                if len(names) > 1:
                    return False
                bare = bare.value if isinstance(bare, Equation) else bare.values
            parts = bare.items if isinstance(bare, ListOf) else ()
            if any(isinstance(part, Equation) and _name(part) != named.name for part in parts):
                return False
            return self.equal(value, bare) if named is gold else self.equal(bare, value)
        return False

    def _choices(self, gold: Value, predicted: Value) -> Decision:
        if isinstance(gold, Choice) and isinstance(predicted, Choice):
            return gold.letter == predicted.letter and None in (gold.content, predicted.content)
        content = predicted.content if isinstance(predicted, Choice) else None
        return False if content is None else self.equal(gold, content)

    def _both_words(self, gold: Words, predicted: Words) -> Decision:
        """Different words: open where they are many, or one side says yes or no first."""
        says = [_YES_NO.match(side.words) for side in (gold, predicted)]
        if says[0] and says[1] and (gold.words == says[0][1] or predicted.words == says[1][1]):
            return says[0][1] == says[1][1]
        if gold.members and sorted(gold.members) == sorted(predicted.members):
            return None  # letters in another order
        return (
            False if max(len(s.words.split()) for s in (gold, predicted)) <= _SHORT_WORDS else None
        )

    def _words(self, words: Words, other: Value) -> Decision:
        """Words against what is none: open where the words may say the same."""
        if words.members and isinstance(other, ListOf):
            return self.any_order(
                [
                    Choice(member) if member.isalpha() else Scalar(ex.number(int(member)))
                    for member in words.members
                ],
                other.items,
            )
        parts = words.words.split()
        sentence = len(parts) > _SHORT_WORDS or other.text in parts or "(" in words.words
        sentence = sentence or _IN_PARTS.fullmatch(words.words) is not None
        letters = sorted(c for c in other.text if c.isalpha()) == sorted(words.words)
        if sentence or letters or isinstance(other, SetOf | Region):
            return None
        return False


def _name(value: Value) -> str:
    """The name in an equation; x for the roots x_1 and x_2."""
    name = (value.name if isinstance(value, Equation) else None) or ""
    return "x" if name in ("x_1", "x_2", "x_3") else name


def _names(value: ListOf) -> tuple[str, ...]:
    """The names, where each item is an equation for another one."""
    names = tuple(map(_name, value.items))
    return names if "" not in names and len(set(names)) == len(names) else ()


def _members(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, ListOf | SetOf) else (value,)
