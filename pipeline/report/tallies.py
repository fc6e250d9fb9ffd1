"""Sums over outcomes, taken one outcome at a time, so that none has to be kept."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.records.outcome import BILL, counted_verdict, has_failed
from pipeline.records.trajectory import Row
from pipeline.statistics.intervals import wilson
from pipeline.theory.estimate import COUNTED
from pipeline.theory.transitions import count, labels_of_verdicts


@dataclass(slots=True)
class Tally:
    """One strategy on one benchmark."""

    rules: Sequence[Rule] = RULES
    questions: int = 0
    failed: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    """What all questions cost (`pipeline.records.outcome.BILL`)."""
    stop_reasons: Counter[str] = field(default_factory=Counter)
    p0_sources: Counter[str] = field(default_factory=Counter)
    tokens: dict[str, int] = field(default_factory=dict)
    """Completion tokens by question id."""
    _verdicts: dict[Rule, Counter[str | None]] = field(default_factory=dict)
    _applied: set[tuple[Rule, bool]] = field(default_factory=set)
    """Rules that gave a verdict to a question, and whether to one that failed."""
    _graded: Counter[bool] = field(default_factory=Counter)
    """Questions whose right answer is known, by whether they failed."""
    _means: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, row: Row, *, graded: bool) -> None:
        """Count an outcome.

        Args:
            row: the outcome.
            graded: whether the question's right answer is known.
        """
        failed = has_failed(row)
        self.questions += 1
        self.failed += failed
        for name in BILL:
            self.totals[name] += row[name]
        self.stop_reasons[row["stop_reason"]] += 1
        if row["p0_source"]:
            self.p0_sources[row["p0_source"]] += 1
        self.tokens[row["question_id"]] = row["completion_tokens"]
        for name in ("a", "b"):
            if row[name] is not None:
                total, count = self._means.get(name, (0, 0))
                self._means[name] = (total + row[name], count + 1)
        if graded:
            self._graded[failed] += 1
            for rule in self.rules:
                self._verdicts.setdefault(rule, Counter())[counted_verdict(row, rule)] += 1
                if row[f"verdict_{rule.value}"] is not None:
                    self._applied.add((rule, failed))

    def accuracy(self, rule: Rule) -> dict[str, Any] | None:
        """None where the rule could not be applied (no scores) or nothing is graded
        (`pipeline.records.outcome.can_apply`)."""
        asked = not self._graded[False]  # where all failed, they are asked
        return accuracy_of(self._verdicts[rule]) if (rule, asked) in self._applied else None

    def mean(self, name: str) -> float | None:
        """Mean of a or b over the questions that have one."""
        total, count = self._means.get(name, (0, 0))
        return total / count if count else None


@dataclass(slots=True, kw_only=True)
class ChainTally:
    """The verdicts of the chains of one strategy on one benchmark, by round."""

    last_round: int
    """Of a whole chain."""
    _counts: array[int] = field(default_factory=lambda: array("i"))
    first: Counter[str | None] = field(default_factory=Counter)
    """Verdicts of round 0."""
    last: Counter[str | None] = field(default_factory=Counter)
    """Verdicts of the last round of whole chains: they describe the chain, not the strategy."""

    @property
    def table_QC(self) -> np.ndarray:
        """Transitions of each chain (`pipeline.theory.estimate.COUNTED`)."""
        return np.asarray(self._counts).reshape(-1, len(COUNTED))

    def add(self, row: Row) -> None:
        """Count the chain of an outcome."""
        verdicts = row["round_verdicts"]
        counted = count(labels_of_verdicts(verdicts))
        self._counts.extend(getattr(counted, name) for name in COUNTED)
        if verdicts:
            self.first[verdicts[0]] += 1
        if len(verdicts) > self.last_round:
            self.last[verdicts[self.last_round]] += 1


def accuracy_of(verdicts: Mapping[str | None, int]) -> dict[str, Any]:
    """Accuracy with a 95 % Wilson interval; ungraded answers are counted apart, not as wrong.

    Args:
        verdicts: how many there are of each.
    """
    right, wrong, ungraded = (verdicts.get(name, 0) for name in ("right", "wrong", "ungraded"))
    graded = right + wrong
    interval = wilson(right, graded) if graded else None
    return {
        "right": right,
        "graded": graded,
        "ungraded": ungraded,
        "accuracy": interval and interval.value,
        "low": interval and interval.low,
        "high": interval and interval.high,
    }
