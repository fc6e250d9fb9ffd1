"""Two strategies on the questions that both have answered: the view behind every comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from pipeline.answers.answer_rules import Rule
from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import Interval, wilson
from pipeline.statistics.paired import Difference, McNemar, holm, mcnemar, paired_difference
from pipeline.theory.transitions import QuestionKey

SEED = 0
"""Of every resampling in a report: the same run gives the same report."""

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`first` against `second`, paired by question."""

    first: Cell
    second: Cell
    rule_first: Rule
    rule_second: Rule
    n_questions: int
    """Answered by both and graded for both."""
    left_out: int
    """Answered by one alone, or ungraded for one."""
    test: McNemar | None
    """None where no question is graded for both."""
    accuracy: Difference | None
    """Share of right answers of the first minus that of the second."""
    tokens: Difference
    """Completion tokens a question, over the questions answered by both."""
    saved: Interval | None
    """Share of the second's tokens that the first does without."""
    p_adjusted: float | None
    """McNemar's p-value, corrected for the comparisons made beside it (Holm)."""
    tests: int = 1
    """p-values that it was corrected with."""

    @property
    def gain_ends(self) -> tuple[float, float]:
        """Ends of the difference in accuracy; (nan, nan) where nothing is graded.

        Where only one of the two has questions to itself, or neither, resampling cannot reach
        beyond zero: the ends are then those of `adjusted_wald`.
        """
        if self.accuracy is None or self.test is None:
            return (math.nan, math.nan)
        first, second = self.test.only_first, self.test.only_second
        if not (first and second):
            return adjusted_wald(first, second, self.n_questions)
        return (self.accuracy.low, self.accuracy.high)

    @property
    def distinguishable(self) -> bool:
        """Whether chance alone is an unlikely reason for the difference in accuracy."""
        return self.p_adjusted is not None and self.p_adjusted < 1 - LEVEL


def compare(
    first: Cell,
    second: Cell,
    *,
    rule_first: Rule | None = None,
    rule_second: Rule | None = None,
) -> Comparison | None:
    """Compare two cells by their headline rules or by those given; None without common questions.

    The p-value is not yet corrected: `family` does that for all that are looked at together.
    """
    rule_first, rule_second = rule_first or first.rule, rule_second or second.rule
    common = [key for key in first.by_question if key in second.by_question]
    if not common:
        return None
    rights_first, rights_second = first.rights(rule_first), second.rights(rule_second)
    graded = [key for key in common if key in rights_first and key in rights_second]
    one = {key: rights_first[key] for key in graded}
    other = {key: rights_second[key] for key in graded}
    test = mcnemar(one, other) if graded else None
    tokens = [
        {key: [float(cell.by_question[key]["completion_tokens"])] for key in common}
        for cell in (first, second)
    ]
    everything = len(first.by_question.keys() | second.by_question.keys())
    return Comparison(
        first=first,
        second=second,
        rule_first=rule_first,
        rule_second=rule_second,
        n_questions=len(graded),
        left_out=everything - len(graded),
        test=test,
        accuracy=_difference(
            {key: [float(right)] for key, right in one.items()},
            {key: [float(right)] for key, right in other.items()},
        )
        if graded
        else None,
        tokens=_difference(*tokens),
        saved=share_saved(*([values[key][0] for key in common] for values in tokens)),
        p_adjusted=None if test is None else test.p_value,
    )


def family(comparisons: Sequence[Comparison | None]) -> list[Comparison]:
    """Comparisons that are looked at together, each p-value corrected for all of them."""
    made = [comparison for comparison in comparisons if comparison is not None]
    return _corrected(made, [])


def _corrected(made: Sequence[Comparison], others: Sequence[float]) -> list[Comparison]:
    """Comparisons corrected for each other and for the p-values that were looked at besides."""
    shown = {i: c.test.p_value for i, c in enumerate(made) if c.test is not None}
    adjusted = holm(shown | {len(made) + i: p for i, p in enumerate(others)})
    return [
        replace(comparison, p_adjusted=adjusted.get(i), tests=len(adjusted))
        for i, comparison in enumerate(made)
    ]


def rival_of(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """The MR-Thinking cell that a cell is held against: same run, benchmark and N.

    Base draws one completion whatever N is: it is held against the run's MR-Thinking if there is
    just one.
    """
    rivals = [
        other
        for other in cells
        if other.kind == "mr_thinking"
        and (other.run, other.benchmark) == (cell.run, cell.benchmark)
        and (cell.kind == "base" or other.n == cell.n)
    ]
    return rivals[0] if len(rivals) == 1 and rivals[0] is not cell else None


def against_rivals(cells: Sequence[Cell], rule: Rule | None = None) -> list[Comparison]:
    """Every cell by its own answer rule against MR-Thinking at the same N at its best.

    MR-Thinking is read by that of its rules which has most right answers here. Having looked at all
    of them is corrected for: the p-values of the rules not shown are in the family too, each once
    where several rules give the same verdicts.

    Args:
        cells: of any benchmarks and runs, all that are shown together: one family (Holm).
        rule: answer rule of both sides, where MR-Thinking can be read by it; None: as above.
    """
    made: list[Comparison] = []
    others: list[float] = []
    for cell in cells:
        rival = rival_of(cell, cells)
        if rival is None:
            continue
        own = rule or cell.rule
        if rule is not None:
            theirs = rule if rival.rights(rule) else rival.rule
        else:
            theirs = best_rule(rival)
            others += _not_shown(cell.rights(own), rival, theirs)
        comparison = compare(cell, rival, rule_first=own, rule_second=theirs)
        if comparison is not None:
            made.append(comparison)
    return _corrected(made, others)


def best_rule(cell: Cell) -> Rule:
    """The answer rule by which a cell has most right answers; of equals its own, then the first."""
    rules = [cell.rule, *(rule for rule in cell.rules if rule != cell.rule)]
    return max(rules, key=lambda rule: sum(cell.rights(rule).values()))


def _not_shown(own: Mapping[QuestionKey, bool], rival: Cell, shown: Rule) -> Iterator[float]:
    """p-values against the rival's other rules, of those with verdicts of their own."""
    seen = [rival.rights(shown)]
    for rule in rival.rules:
        theirs = rival.rights(rule)
        if not theirs or theirs in seen:
            continue
        seen.append(theirs)
        both = [key for key in own if key in theirs]
        if both:
            yield mcnemar({k: own[k] for k in both}, {k: theirs[k] for k in both}).p_value


def accuracy(cell: Cell, rule: Rule) -> Interval | None:
    """Share of graded questions that are right, with Wilson's interval; None where none is."""
    rights = cell.rights(rule)
    return wilson(sum(rights.values()), len(rights)) if rights else None


def mean_interval(values: Sequence[float]) -> Interval:
    """A mean with Student's interval; a single value has no interval but itself."""
    n = len(values)
    mean = math.fsum(values) / n
    spread = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    half = float(special.stdtrit(max(1, n - 1), 0.5 + LEVEL / 2)) * spread
    return Interval(value=mean, low=mean - half, high=mean + half, level=LEVEL)


def share_saved(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """1 - mean(first) / mean(second), paired, by the delta method; None where second is all 0."""
    below = math.fsum(second) / len(second)
    if below == 0:
        return None
    ratio = math.fsum(first) / len(first) / below
    return mean_interval(
        [1 - ratio + (ratio * y - x) / below for x, y in zip(first, second, strict=True)]
    )


def adjusted_wald(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """95 % interval of a difference of paired shares with one question added to each discordant
    cell (Bonett and Price 2012): holds its level where few questions or none differ."""
    z = float(special.ndtri(0.5 + LEVEL / 2))
    one, other = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    half = z * math.sqrt((one + other - (one - other) ** 2) / (n + 2))
    return max(-1.0, one - other - half), min(1.0, one - other + half)


def least_discordant(alpha: float = 1 - LEVEL) -> int:
    """Questions that one strategy alone must have right, the other none, before McNemar's exact
    test calls a difference: the least d with 2 (1/2)^d < alpha."""
    return math.floor(1 - math.log2(alpha)) + 1


def _difference(
    first: Mapping[tuple[str, str], Sequence[float]],
    second: Mapping[tuple[str, str], Sequence[float]],
) -> Difference:
    draws = max(2_000, min(10_000, 20_000_000 // len(first)))
    return paired_difference(first, second, seed=SEED, level=LEVEL, draws=draws)
