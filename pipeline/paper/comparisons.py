"""Paired differences on the same questions, all those of a page corrected as one family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import special, stats

from pipeline.core.arrays import FloatArray
from pipeline.paper.scored import TEST, Scored, is_binary
from pipeline.report.comparison import adjusted_wald, mean_interval, share_saved
from pipeline.statistics.intervals import Interval
from pipeline.statistics.paired import holm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """`first` against `second` on the questions that both have."""

    first: Scored
    second: Scored
    n_questions: int
    accuracy: Interval
    """Of the first minus of the second. Ends: adjusted Wald (Bonett and Price 2012) for counts,
    Student's for shares."""
    tokens: Interval
    """Likewise, completion tokens a question, Student's."""
    saved: Interval | None
    """Share of the second's tokens that the first does without."""
    p_accuracy: float | None
    """McNemar's exact test, or the t-test of paired shares; None where a side was chosen on these
    very questions, which no test allows for."""
    p_tokens: float | None
    """The t-test of paired tokens."""


@dataclass(slots=True)
class Family:
    """Every comparison of a page, each made once."""

    _made: dict[tuple[int, int], Comparison | None] = field(default_factory=dict)
    _kept: list[Scored] = field(default_factory=list)  # so that no id is used twice

    def compare(self, first: Scored | None, second: Scored | None) -> Comparison | None:
        """The comparison of two columns; None where they have no graded question in common."""
        if first is None or second is None or first is second:
            return None
        key = (id(first), id(second))
        if key not in self._made:
            self._made[key] = compare(first, second)
            self._kept += [first, second]
        return self._made[key]

    @property
    def comparisons(self) -> list[Comparison]:
        """All that were made."""
        return [made for made in self._made.values() if made is not None]

    def adjusted(self) -> Mapping[tuple[Comparison, str], float]:
        """p-values by comparison and measure, corrected for all of the page (Holm)."""
        return holm(
            {
                (made, measure): p
                for made in self.comparisons
                for measure, p in (("accuracy", made.p_accuracy), ("tokens", made.p_tokens))
                if p is not None
            }
        )


def compare(first: Scored, second: Scored) -> Comparison | None:
    """One comparison, not corrected yet."""
    both = ~np.isnan(first.right_Q) & ~np.isnan(second.right_Q)
    if not both.any():
        return None
    one, other = first.right_Q[both], second.right_Q[both]
    value = float(np.mean(one - other))
    if is_binary(one) and is_binary(other):
        only_first, only_second = int(np.sum(one > other)), int(np.sum(one < other))
        low, high = adjusted_wald(only_first, only_second, len(one))
        accuracy = Interval(value=value, low=min(low, value), high=max(high, value))
        p = _mcnemar(only_first, only_second)
    else:
        accuracy, p = mean_interval((one - other).tolist()), _t_test(one - other)
    asked = ~np.isnan(first.tokens_Q) & ~np.isnan(second.tokens_Q)
    mine, theirs = first.tokens_Q[asked], second.tokens_Q[asked]
    tested = TEST not in (first.chosen_on, second.chosen_on)
    return Comparison(
        first=first,
        second=second,
        n_questions=len(one),
        accuracy=accuracy,
        tokens=mean_interval((mine - theirs).tolist()),
        saved=share_saved(mine.tolist(), theirs.tolist()),
        p_accuracy=p if tested else None,
        p_tokens=_t_test(mine - theirs) if tested else None,
    )


def _mcnemar(only_first: int, only_second: int) -> float:
    discordant = only_first + only_second
    return float(stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0


def _t_test(differences: FloatArray) -> float:
    """Two-sided p of a mean difference of 0; 1 where all are 0 or there is one question."""
    n = len(differences)
    spread = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    mean = float(np.mean(differences))
    if spread == 0:
        return 1.0 if mean == 0 or n < 2 else 0.0
    return float(2 * special.stdtr(n - 1, -abs(mean) / spread * np.sqrt(n)))
