"""Whether a predicted number or expression is the gold one: units, percent signs, rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.numeric import rounds_to
from pipeline.answers.algebra.polynomial import PI, Work
from pipeline.answers.leniency import Leniency
from pipeline.answers.units import DEGREE
from pipeline.answers.values import Scalar
from pipeline.answers.verdict import TooLarge, Unreadable

Decision = bool | None
Prove = Callable[[Expression, Expression], Decision]
_ROUNDED_DIGITS = 6
_FLOAT_PLACES, _FLOAT_DIGITS = 9, 15


class Numbers:
    """Compares numbers and expressions.

    Args:
        leniencies: the rules that are on.
        work: what all comparisons are charged to.
        prove: decides pairs of expressions that arithmetic leaves open.
    """

    def __init__(
        self, leniencies: frozenset[Leniency], work: Work, prove: Prove | None = None
    ) -> None:
        self.leniencies = leniencies
        self.work = work
        self.prove = prove

    def allows(self, leniency: Leniency) -> bool:
        return leniency in self.leniencies

    def scalars(self, gold: Scalar, predicted: Scalar) -> Decision:
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
            elif DEGREE in units and {u.name for u in units if u} & {"celsius", "fahrenheit"}:
                pass
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
        """Whether one is a decimal of many digits that stands for the other; a gold integer, or a
        gold decimal that is no float, is matched exactly."""
        decimal, value = gold.expression.rational, predicted.expression.rational
        exact = gold.places is None and (decimal is None or decimal.denominator > 1)
        many = (gold.places or 0) >= _FLOAT_PLACES or gold.digits >= _FLOAT_DIGITS
        exact = exact and self.allows(Leniency.ROUNDED_DECIMAL)
        float_ = many and self.allows(Leniency.ROUNDED_GOLD)
        artefact = gold.digits >= _FLOAT_DIGITS > predicted.digits
        if float_ and artefact and decimal is not None and value is not None:
            return abs(value - decimal) <= abs(value) / 2**52
        if predicted.places is not None and value is not None:
            places = predicted.places + (2 if predicted.percent else 0)
            if float_ and decimal is not None and predicted.places > (gold.places or 0):
                return self.rounds(predicted.expression, decimal, gold.places or 0)
            enough = predicted.digits >= _ROUNDED_DIGITS and (exact or float_)
            return enough and self.rounds(gold.expression, value, places)
        if decimal is None or not float_:
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
