"""What came out of a run: one entry a strategy and benchmark, with intervals and the full bill.

`tokens` alone means completion tokens, as in the paper.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.core.prices import Prices
from pipeline.core.protocol import Strategy
from pipeline.records.outcome import BILL, FINAL, counted_verdict, has_failed
from pipeline.records.trajectory import Row
from pipeline.statistics.intervals import share_interval, wilson
from pipeline.theory.estimate import COUNTED, estimate_table
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Labels, QuestionKey, count, labels_of_verdicts

SUMMARY_VERSION = 1
FITTED = (*FINAL, "round_verdicts")
"""The columns of outcomes that `chain_fits` reads."""


def summed(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The columns of outcomes that `summarise` reads."""
    verdicts = (f"verdict_{rule}" for rule in rules)
    return (*FINAL, "error", "stop_reason", "p0_source", "a", "b", *verdicts)


def summarise(
    outcomes: Iterable[Row],
    strategies: Mapping[str, Strategy],
    headlines: Mapping[str, Rule],
    without_gold: frozenset[QuestionKey] = frozenset(),
    rules: Sequence[Rule] = RULES,
    prices: Prices | None = None,
    *,
    several: bool = False,
) -> list[dict[str, Any]]:
    """One entry a strategy and benchmark, in the order of the configuration.

    Args:
        outcomes: as `final_outcomes` gives them; none is kept.
        strategies: by label.
        headlines: headline answer rule by label.
        without_gold: questions whose right answer nobody knows; they are not graded.
        rules: every answer rule of the run.
        prices: of tokens; None leaves ``usd`` out.
        several: whether a question may have an outcome a chain; accuracies are then means over
            questions of the share of its chains.
    """
    tallies: dict[tuple[str, str], Tally] = {}
    for row in outcomes:
        tally = tallies.setdefault((row["strategy"], row["benchmark"]), Tally(rules, several))
        tally.add(row, graded=(row["benchmark"], row["question_id"]) not in without_gold)
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in tallies))
    entries = [
        _entry(label, benchmark, tallies[(label, benchmark)], headlines[label], strategies[label])
        for benchmark in benchmarks
        for label in strategies
        if (label, benchmark) in tallies
    ]
    for entry in entries:
        entry["tokens_saved"] = _saved(entry, entries, tallies)
        if prices is not None:
            entry["usd"] = prices.usd(entry["tokens"])
    return entries


def _entry(
    label: str, benchmark: str, tally: Tally, rule: Rule, strategy: Strategy
) -> dict[str, Any]:
    totals = tally.totals
    return {
        "strategy": label,
        "kind": strategy.kind,
        "n": strategy.n,
        "benchmark": benchmark,
        "questions": len(tally.tokens),
        "failed": tally.failed,
        "headline_rule": rule.value,
        "accuracy": {r.value: tally.accuracy(r) for r in tally.rules},
        "completions": totals["completions"],
        "tokens_per_question": totals["completion_tokens"] / tally.outcomes,
        "tokens": {name: totals[name] for name in BILL if name != "completions"},
        "stop_reasons": dict(tally.stop_reasons),
        "p0_sources": dict(tally.p0_sources),
        "a": tally.mean("a"),
        "b": tally.mean("b"),
    }


def _saved(
    entry: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    tallies: Mapping[tuple[str, str], Tally],
) -> float | None:
    """Share of MR-Thinking's tokens saved at the same N on the questions that both have answered;
    None where it was not run.

    Base draws one completion whatever N is: it is held against the run's MR-Thinking if there is
    just one.
    """
    rivals = [
        other
        for other in entries
        if other["kind"] == "mr_thinking"
        and other["benchmark"] == entry["benchmark"]
        and (entry["kind"] == "base" or other["n"] == entry["n"])
    ]
    if len(rivals) != 1:
        return None
    one, other = (tallies[e["strategy"], e["benchmark"]] for e in (entry, rivals[0]))
    common = one.tokens.keys() & other.tokens.keys()
    spent = sum(other.tokens[key] for key in common) / other.chains
    return 1 - sum(one.tokens[key] for key in common) / one.chains / spent if spent else None


def chain_fits(outcomes: Iterable[Row], strategies: Mapping[str, Strategy]) -> list[dict[str, Any]]:
    """The chain behind every MR-Thinking run, and what it predicts for the last round (Eq. 4).

    a and b are counted on gold verdicts over all rounds, with intervals clustered by question; the
    prediction starts from the accuracy of round 0. These are descriptions of the evaluated
    questions: no strategy sees them.

    Args:
        outcomes: as `final_outcomes` gives them; none is kept.
        strategies: by label.
    """
    fits: list[dict[str, Any]] = []
    seen: dict[tuple[str, str], ChainTally] = {}
    for row in outcomes:
        strategy = strategies[row["strategy"]]
        rounds = strategy.n
        if strategy.kind == "mr_thinking" and rounds > 1:
            key = (row["benchmark"], row["strategy"])
            seen.setdefault(key, ChainTally(last_round=rounds - 1)).add(row)
    for (benchmark, label), tally in seen.items():
        table_QC, last_round = tally.table_QC, tally.last_round
        first, last = accuracy_of(tally.first), accuracy_of(tally.last)
        if first["accuracy"] is None or not table_QC.any():
            continue
        fit = estimate_table(table_QC, labels=Labels.GOLD)
        predicted = accuracy_after(last_round, p0=first["accuracy"], a=fit.a.value, b=fit.b.value)
        fits.append(
            {
                "benchmark": benchmark,
                "strategy": label,
                "labels": fit.labels.value,
                "from_right": fit.counts.from_right,
                "from_wrong": fit.counts.from_wrong,
                "p0": first["accuracy"],
                **{name: getattr(fit, name).value for name in ("a", "b")},
                "L": fit.stationary_accuracy.value,
                "lambda": fit.second_eigenvalue.value,
                "intervals": {
                    "a": [fit.a.low, fit.a.high],
                    "b": [fit.b.low, fit.b.high],
                    "L": [fit.stationary_accuracy.low, fit.stationary_accuracy.high],
                    "lambda": [fit.second_eigenvalue.low, fit.second_eigenvalue.high],
                },
                "rounds": last_round,
                "predicted": predicted,
                "reached": last["accuracy"],
                "reached_interval": [last["low"], last["high"]],
            }
        )
    return fits


@dataclass(slots=True)
class Tally:
    """One strategy on one benchmark."""

    rules: Sequence[Rule] = RULES
    several: bool = False
    """Whether a question may have several outcomes, one a chain."""
    outcomes: int = 0
    failed: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    """What all questions cost (`pipeline.records.outcome.BILL`)."""
    stop_reasons: Counter[str] = field(default_factory=Counter)
    p0_sources: Counter[str] = field(default_factory=Counter)
    tokens: dict[str, int] = field(default_factory=dict)
    """Completion tokens by question id, of all its chains."""
    _verdicts: dict[Rule, Counter[str | None]] = field(default_factory=dict)
    _applied: set[tuple[Rule, bool]] = field(default_factory=set)
    """Rules that gave a verdict to a question, and whether to one that failed."""
    _graded: Counter[bool] = field(default_factory=Counter)
    """Questions whose right answer is known, by whether they failed."""
    _means: dict[str, tuple[float, int]] = field(default_factory=dict)
    _shares: dict[Rule, dict[str, list[bool]]] = field(default_factory=dict)
    """Whether each graded outcome of a question is right; only of `several`."""

    @property
    def chains(self) -> float:
        """Outcomes a question."""
        return self.outcomes / len(self.tokens)

    def add(self, row: Row, *, graded: bool) -> None:
        """Count an outcome.

        Args:
            row: the outcome.
            graded: whether the question's right answer is known.
        """
        failed = has_failed(row)
        self.outcomes += 1
        self.failed += failed
        for name in BILL:
            self.totals[name] += row[name]
        self.stop_reasons[row["stop_reason"]] += 1
        if row["p0_source"]:
            self.p0_sources[row["p0_source"]] += 1
        name = row["question_id"]
        self.tokens[name] = self.tokens.get(name, 0) + row["completion_tokens"]
        for name in ("a", "b"):
            if row[name] is not None:
                total, count = self._means.get(name, (0, 0))
                self._means[name] = (total + row[name], count + 1)
        if graded:
            self._graded[failed] += 1
            for rule in self.rules:
                verdict = counted_verdict(row, rule)
                self._verdicts.setdefault(rule, Counter())[verdict] += 1
                if self.several and verdict in ("right", "wrong"):
                    shares = self._shares.setdefault(rule, {})
                    shares.setdefault(row["question_id"], []).append(verdict == "right")
                if row[f"verdict_{rule.value}"] is not None:
                    self._applied.add((rule, failed))

    def accuracy(self, rule: Rule) -> dict[str, Any] | None:
        """None where the rule could not be applied (no scores) or nothing is graded
        (`pipeline.records.outcome.can_apply`)."""
        asked = not self._graded[False]  # where all failed, they are asked
        if (rule, asked) not in self._applied:
            return None
        found = accuracy_of(self._verdicts[rule])
        if shares := self._shares.get(rule):
            over = share_interval([float(np.mean(each)) for each in shares.values()])
            found |= {"accuracy": over.value, "low": over.low, "high": over.high}
        return found

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
