"""*compare*: pairs two columns by question, and corrects all p-values of a page as one family.

There is one interval and one test for a difference, wherever it is shown: adjusted Wald (Bonett and
Price 2012) and McNemar's exact test for right and wrong, Student's t for means. Adjusted Wald holds
its level where few questions are discordant, which a bootstrap of the same questions does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special

from pipeline.core.arrays import FloatArray
from pipeline.results.column import TEST, Column, is_binary, numbered, once
from pipeline.statistics.intervals import LEVEL, Interval, adjusted_wald, mean_interval, share_saved
from pipeline.statistics.paired import holm, mcnemar

MEASURES = ("accuracy", "tokens")

Test = tuple["Comparison", str]
"""A comparison and one of `MEASURES`."""
Adjusted = Mapping[Test, float]
"""Corrected p-values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """`first` against `second` on the questions that both have."""

    first: Column
    second: Column
    n_questions: int
    """Answered by both and graded for both."""
    left_out: int
    """Answered by one alone, or ungraded for one."""
    only_first: int = 0
    """Questions that the first alone has right; 0 where a side is a mean over draws."""
    only_second: int = 0
    accuracy: Interval | None
    """Of the first minus of the second; None where no question is graded for both."""
    tokens: Interval
    """Likewise, completion tokens a question, over the questions answered by both."""
    saved: Interval | None
    """Share of the second's tokens that the first does without."""
    p_accuracy: float | None
    """McNemar's exact test, or the t-test of paired shares; None where nothing is graded, or a side
    was chosen on these very questions, which no test allows for."""
    p_tokens: float | None
    """The t-test of paired tokens."""
    p_adjusted: float | None = None
    """`p_accuracy`, corrected for all tests (Holm)."""
    tests: int = 1
    """p-values that it was corrected with."""
    primary: bool = False
    """Whether it was named beforehand, and is corrected with its kind alone."""

    accuracy_D: FloatArray = field(repr=False)
    """Differences question by question, of those graded for both."""
    tokens_D: FloatArray = field(repr=False)
    """Likewise, of those answered by both."""

    @property
    def difference(self) -> Interval:
        """`accuracy` of two columns with graded questions in common."""
        assert self.accuracy is not None
        return self.accuracy

    def p(self, measure: str) -> float | None:
        """The p-value of a measure, not corrected."""
        return self.p_accuracy if measure == "accuracy" else self.p_tokens

    def identity(self, measure: str) -> Hashable:
        """The same for two comparisons whose tests are the same."""
        values_D = self.accuracy_D if measure == "accuracy" else self.tokens_D
        where = self.first.source, self.first.backbone, self.first.benchmark
        return (measure, *where, np.abs(values_D).tobytes(), abs(float(values_D.sum())))

    @property
    def distinguishable(self) -> bool:
        """Whether chance alone is an unlikely reason for the difference in accuracy."""
        return self.p_adjusted is not None and self.p_adjusted < 1 - LEVEL


@dataclass(slots=True)
class Family:
    """Every comparison of a page, each made once, and their p-values corrected together (Holm).

    Claims are named before the data are seen and corrected among themselves; all else describes and
    is corrected for everything on the page. Tests of the same differences on the same questions,
    such as those of two settings that decide alike, count once.
    """

    measures: tuple[str, ...] = MEASURES
    """Whose p-values the page shows."""
    _made: dict[tuple[int, int], Comparison | None] = field(default_factory=dict)
    _kept: list[Column] = field(default_factory=list)  # so that no id is used twice
    _claims: list[Comparison] = field(default_factory=list)

    def compare(
        self, first: Column | None, second: Column | None, *, claim: bool = False
    ) -> Comparison | None:
        """The comparison of two columns; None where they have no graded question in common."""
        if first is None or second is None or first is second:
            return None
        key = (id(first), id(second))
        if key not in self._made:
            made = compare(first, second)
            self._made[key] = None if made is None or made.accuracy is None else made
            self._kept += [first, second]
        found = self._made[key]
        if claim and found is not None and found not in self._claims:
            self._claims.append(found)
        return found

    @property
    def comparisons(self) -> list[Comparison]:
        """All that were made."""
        return [made for made in self._made.values() if made is not None]

    def tested(self) -> dict[Test, tuple[float, int]]:
        """Corrected p-values, and how many tests they were corrected for: of a claim's accuracy
        the claims, of all others the page."""
        every = [(made, measure) for made in self.comparisons for measure in self.measures]
        return corrected(every) | corrected([(made, "accuracy") for made in self._claims])

    def adjusted(self) -> Adjusted:
        """`tested`, the p-values alone."""
        return {test: p for test, (p, _) in self.tested().items()}

    def finished(self, made: Iterable[Comparison]) -> list[Comparison]:
        """Comparisons with their corrected p-values of accuracy."""
        tested = self.tested()
        return [
            replace(one, p_adjusted=found[0], tests=found[1], primary=one in self._claims)
            if (found := tested.get((one, "accuracy")))
            else one
            for one in made
        ]


def corrected(tests: Sequence[Test]) -> dict[Test, tuple[float, int]]:
    """p-values of comparisons, corrected together (Holm), and how many distinct tests there are."""
    distinct: dict[Hashable, float] = {}
    for made, measure in tests:
        if (p := made.p(measure)) is not None:
            distinct.setdefault(made.identity(measure), p)
    adjusted = holm(distinct)
    return {
        (made, measure): (adjusted[made.identity(measure)], len(adjusted))
        for made, measure in tests
        if made.p(measure) is not None
    }


def compare(first: Column, second: Column) -> Comparison | None:
    """One comparison, not corrected yet; None without a question that both answered."""
    right, other, mine, theirs, everything = _paired(first, second)
    answered = ~np.isnan(mine) & ~np.isnan(theirs)
    if not answered.any():
        return None
    both = answered & ~np.isnan(right) & ~np.isnan(other)
    mine, theirs, difference = mine[answered], theirs[answered], (right - other)[both]
    counts = is_binary(right[both]) and is_binary(other[both])
    accuracy, p, discordant = _difference(difference, counts)
    tested = TEST not in (first.chosen_on, second.chosen_on)
    return Comparison(
        first=first,
        second=second,
        n_questions=len(difference),
        left_out=everything - len(difference),
        only_first=discordant[0],
        only_second=discordant[1],
        accuracy=accuracy,
        tokens=mean_interval(mine - theirs),
        saved=share_saved(mine, theirs),
        p_accuracy=p if tested else None,
        p_tokens=t_test(mine - theirs) if tested else None,
        p_adjusted=p if tested else None,
        accuracy_D=difference,
        tokens_D=mine - theirs,
    )


def _difference(
    values_Q: FloatArray, counts: bool
) -> tuple[Interval | None, float | None, tuple[int, int]]:
    """The mean difference with its interval, p, and how often each side alone was right."""
    if not len(values_Q):
        return None, None, (0, 0)
    if not counts:
        return mean_interval(values_Q), t_test(values_Q), (0, 0)
    discordant = int(np.sum(values_Q > 0)), int(np.sum(values_Q < 0))
    return difference(values_Q), mcnemar(*discordant), discordant


def difference(values_Q: FloatArray) -> Interval:
    """The mean of paired differences of right (1) and wrong (0), at least one, with the adjusted
    Wald interval."""
    value = float(np.mean(values_Q))
    low, high = adjusted_wald(int(np.sum(values_Q > 0)), int(np.sum(values_Q < 0)), len(values_Q))
    return Interval(value=value, low=min(low, value), high=max(high, value))


def _paired(
    first: Column, second: Column
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
    """Right and tokens of both sides question by question, copies of a question once, and how many
    either side answered."""
    one, other = first.keys, second.keys
    if one is None or other is None or one is other or tuple(one) == tuple(other):
        at = there = np.arange(len(first.right_Q))
        everything = int((~np.isnan(first.tokens_Q) | ~np.isnan(second.tokens_Q)).sum())
    else:
        place = {key: q for q, key in enumerate(other)}
        at = np.array([q for q, key in enumerate(one) if key in place], dtype=np.int64)
        there = np.array([place[key] for key in one if key in place], dtype=np.int64)
        everything = len(set(one) | set(other))
    right, rival = first.right_Q[at], second.right_Q[there]
    tokens, rival_tokens = first.tokens_Q[at], second.tokens_Q[there]
    copies_Q = None if first.copies_Q is None else numbered(first.copies_Q[at].tolist())
    if copies_Q is not None:
        graded_Q = ~np.isnan(right) & ~np.isnan(rival)
        right, rival = (once(np.where(graded_Q, x, np.nan), copies_Q) for x in (right, rival))
        tokens, rival_tokens = once(tokens, copies_Q), once(rival_tokens, copies_Q)
        everything = len(right)
    return right, rival, tokens, rival_tokens, everything


def t_test(differences: FloatArray) -> float:
    """Two-sided p of a mean difference of 0; 1 where all are 0 or there is one question."""
    n = len(differences)
    spread = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    mean = float(np.mean(differences))
    if spread == 0:
        return 1.0 if mean == 0 or n < 2 else 0.0
    return float(2 * special.stdtr(n - 1, -abs(mean) / spread * np.sqrt(n)))
