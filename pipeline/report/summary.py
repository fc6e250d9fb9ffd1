"""What came out of a run: one entry a strategy and benchmark, with intervals and the full bill.

`tokens` alone means completion tokens, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.answers.answer_rules import RULES, Rule
from pipeline.core.protocol import Strategy
from pipeline.records.outcome import BILL
from pipeline.records.outcome_files import FINAL
from pipeline.records.trajectory import Row
from pipeline.report.tallies import ChainTally, Tally, accuracy_of
from pipeline.theory.estimate import estimate_table
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Labels, QuestionKey

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
) -> list[dict[str, Any]]:
    """One entry a strategy and benchmark, in the order of the configuration.

    Args:
        outcomes: as `final_outcomes` gives them; none is kept.
        strategies: by label.
        headlines: headline answer rule by label.
        without_gold: questions whose right answer nobody knows; they are not graded.
        rules: every answer rule of the run.
    """
    tallies: dict[tuple[str, str], Tally] = {}
    for row in outcomes:
        tally = tallies.setdefault((row["strategy"], row["benchmark"]), Tally(rules))
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
        "questions": tally.questions,
        "failed": tally.failed,
        "headline_rule": rule.value,
        "accuracy": {r.value: tally.accuracy(r) for r in tally.rules},
        "completions": totals["completions"],
        "tokens_per_question": totals["completion_tokens"] / tally.questions,
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
    own, theirs = (tallies[e["strategy"], e["benchmark"]].tokens for e in (entry, rivals[0]))
    common = own.keys() & theirs.keys()
    spent = sum(theirs[key] for key in common)
    return 1 - sum(own[key] for key in common) / spent if spent else None


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
