"""*Column*: the results of one setting of a strategy on every question of a benchmark.

Axis: Q questions of one benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import FloatArray, IntArray
from pipeline.statistics.intervals import Interval, mean_interval, share_interval

METHODS = {
    "base": "Base",
    "mr_thinking": "MR-Thinking",
    "markovscale_t": "MarkovScale\N{MODIFIER LETTER SMALL T}",
    "markovscale_star": "MarkovScale*",
    "markovscale_0": "MarkovScale\N{SUPERSCRIPT ZERO}",
    "best_of_n": "Best-of-N",
    "beacon": "BEACON",
    "self_consistency": "Self-Consistency",
    "esc": "ESC",
    "asc": "ASC",
    "dsc": "DSC",
    "chain_asc": "Chain ASC",
    "agree": "Agree",
    "settled": "Settled",
    "chain_expected_agreement": "Expected Agreement, rounds",
    "expected_agreement": "Expected Agreement",
    "budget_forcing": "Budget Forcing",
    "atom_of_thoughts": "Atom of Thoughts",
}
"""How each registered strategy is written."""


def method_of(kind: str, profile: str = "") -> str:
    """A strategy's method; MarkovScale^0 with its profile, which decides whether its warm-up is
    waited for and billed."""
    name = METHODS.get(kind, kind)
    return f"{name}, profile {profile}" if kind == "markovscale_0" and profile else name


HELD_OUT, TEST = "held_out", "test"
"""Where a tuned setting was chosen: on the other half of the questions, or on these very ones."""

Key = tuple[str, str]
"""Benchmark and id of a question."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """One setting on all questions; two are the same only if they are one object."""

    backbone: str
    benchmark: str
    method: str
    kind: str
    n: int | None
    """Completions a question at most; None where the method has no such number."""
    rule: str
    """How the answer is read; `` | `` between the halves where they differ."""
    fixed: str = ""
    """The settings that were given."""
    tuned: str = ""
    """The settings that were chosen, those of both halves where they differ; "" where none was."""
    chosen_on: str | None = None
    """`HELD_OUT`, `TEST`, or None where nothing was chosen."""
    source: str = ""
    """The pool or the run."""
    keys: Sequence[Key] | None = None
    """The questions, in the order of the arrays; None where all columns beside it have the same."""
    right_Q: FloatArray
    """Share of right answers in [0, 1]; nan where nobody can say."""
    tokens_Q: FloatArray
    """Completion tokens; nan where the question was not asked."""
    copies_Q: IntArray | None = None
    """Questions with the same text have the same number; None where all differ. Accuracies, tokens
    and differences count them as repeats of one question, whose values are their means."""
    of: Any = None
    """What the column was read from, such as the cell of a run's report."""

    @property
    def setting(self) -> str:
        """Everything that made the number."""
        where = {HELD_OUT: " (other half)", TEST: " (these questions)"}.get(
            self.chosen_on or "", ""
        )
        parts = [self.fixed, f"{self.tuned}{where}" if self.tuned else "", self.rule]
        return "; ".join(part for part in parts if part)

    @property
    def graded(self) -> int:
        """Questions that somebody can judge."""
        return int(np.sum(~np.isnan(self.right_Q)))

    @property
    def accuracy(self) -> Interval | None:
        """Wilson's interval, Student's for shares that are no counts; None where none is graded."""
        known = once(self.right_Q, self.copies_Q)
        known = known[~np.isnan(known)]
        if not len(known):
            return None
        return share_interval(known)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Accuracy if all ungraded answers were wrong, and if all were right; None where none is
        ungraded, or all are."""
        right_Q = self.right_Q[~np.isnan(self.tokens_Q)]
        ungraded_Q = np.isnan(right_Q)
        if ungraded_Q.all() or not ungraded_Q.any():
            return None
        low, high = (float(np.where(ungraded_Q, value, right_Q).mean()) for value in (0.0, 1.0))
        return low, high

    @property
    def tokens(self) -> Interval | None:
        """Mean completion tokens a question, Student's interval."""
        known = once(self.tokens_Q, self.copies_Q)
        known = known[~np.isnan(known)]
        return mean_interval(known) if len(known) else None


def once(values_Q: FloatArray, copies_Q: IntArray | None) -> FloatArray:
    """Each question once: the mean over its copies, nan where no copy has a value."""
    if copies_Q is None:
        return values_Q
    known_Q = ~np.isnan(values_Q)
    total = np.bincount(copies_Q, np.where(known_Q, values_Q, 0.0))
    count = np.bincount(copies_Q, known_Q)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def numbered(firsts: Sequence[Hashable]) -> IntArray | None:
    """`Column.copies_Q` from the first copy of each question; None where all differ."""
    numbers: dict[Hashable, int] = {}
    copies_Q = np.array([numbers.setdefault(key, len(numbers)) for key in firsts], dtype=np.int64)
    return copies_Q if len(numbers) < len(copies_Q) else None


def is_binary(values: FloatArray) -> bool:
    """Whether all values are 0 or 1."""
    return bool(np.all((values == 0) | (values == 1)))


def either(values: Sequence[str]) -> str:
    """One value, or those of both halves: ``0.93 | 0.95``."""
    return " | ".join(dict.fromkeys(values))


SYMBOLS = {"n": "N", "tau": "τ", "gamma": "γ", "sigma": "σ"}
"""How a field is written; others by their names."""


def value_words(value: Any) -> str:
    """A value; both halves' as ``0.8 | 0.9``, fitted numbers by what they were fitted on."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return f"fitted on {value['fitted_on']}" if value.get("fitted_on") else "given"
    if isinstance(value, list):
        return " | ".join(value_words(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def fields_words(settings: Mapping[str, Any], names: Iterable[str]) -> str:
    """Some fields of a setting: ``N 8, τ 0.9``."""
    return ", ".join(f"{SYMBOLS.get(n, n)} {value_words(settings.get(n))}" for n in names)


def varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields in which some settings differ, in their order."""
    names = dict.fromkeys(name for one in settings for name in one)
    return [n for n in names if len({json.dumps(one.get(n), default=str) for one in settings}) > 1]
