"""What came out of a run: one entry a strategy and benchmark, with intervals and the full bill.

`tokens` alone means completion tokens, as in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.protocol import Strategy
from pipeline.records.outcome import TOKEN_KINDS, can_apply, counted_verdict, has_failed
from pipeline.records.trajectory import Row
from pipeline.statistics.intervals import wilson
from pipeline.theory.estimate import estimate_clustered
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import (
    Chain,
    Labels,
    QuestionKey,
    count_by_question,
    labels_of_verdicts,
)

SUMMARY_VERSION = 1
SUMMED = (
    *("strategy", "phase", "benchmark", "question_id", "level", "error", "completions"),
    *(*TOKEN_KINDS, "wasted_tokens", "tokens_unknown", "stop_reason", "seconds"),
    *("p0_source", "a", "b"),
    *(f"verdict_{rule.value}" for rule in AnswerRule),
    "round_verdicts",
)
"""The columns of outcomes that are read here."""


def summarise(
    outcomes: Sequence[Row],
    strategies: Mapping[str, Strategy[Any]],
    rules: Mapping[str, AnswerRule],
    without_gold: frozenset[QuestionKey] = frozenset(),
) -> list[dict[str, Any]]:
    """One entry a strategy and benchmark, in the order of the configuration.

    Args:
        outcomes: as `final_outcomes` gives them.
        strategies: by label.
        rules: headline answer rule by label.
        without_gold: questions whose right answer nobody knows; they are not graded.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in outcomes:
        groups.setdefault((row["strategy"], row["benchmark"]), []).append(row)
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in groups))
    entries = [
        _entry(
            label,
            benchmark,
            groups[(label, benchmark)],
            rules[label],
            strategies[label],
            without_gold,
        )
        for benchmark in benchmarks
        for label in strategies
        if (label, benchmark) in groups
    ]
    for entry in entries:
        entry["tokens_saved"] = _saved(entry, entries, groups)
    return entries


def accuracy_of(verdicts: Sequence[str | None]) -> dict[str, Any]:
    """Accuracy with a 95 % Wilson interval; ungraded answers are counted apart, not as wrong."""
    counts = Counter(verdicts)
    right, graded = counts["right"], counts["right"] + counts["wrong"]
    interval = wilson(right, graded) if graded else None
    return {
        "right": right,
        "graded": graded,
        "ungraded": counts["ungraded"],
        "accuracy": interval and interval.value,
        "low": interval and interval.low,
        "high": interval and interval.high,
    }


def _entry(
    label: str,
    benchmark: str,
    rows: Sequence[Row],
    rule: AnswerRule,
    strategy: Strategy[Any],
    without_gold: frozenset[QuestionKey],
) -> dict[str, Any]:
    questions = len(rows)
    answers = {r.value: _rule_accuracy(rows, r, without_gold) for r in AnswerRule}
    return {
        "strategy": label,
        "kind": strategy.kind,
        "n": getattr(strategy, "n", 1),
        "benchmark": benchmark,
        "questions": questions,
        "failed": sum(map(has_failed, rows)),
        "headline_rule": rule.value,
        "accuracy": answers,
        "completions": sum(row["completions"] for row in rows),
        "tokens_per_question": sum(row["completion_tokens"] for row in rows) / questions,
        "tokens": {kind: sum(row[kind] for row in rows) for kind in TOKEN_KINDS}
        | {name: sum(row[name] for row in rows) for name in ("wasted_tokens", "tokens_unknown")},
        "stop_reasons": dict(Counter(row["stop_reason"] for row in rows)),
        "p0_sources": dict(Counter(row["p0_source"] for row in rows if row["p0_source"])),
        "a": _mean([row["a"] for row in rows]),
        "b": _mean([row["b"] for row in rows]),
    }


def _rule_accuracy(
    rows: Sequence[Row], rule: AnswerRule, without_gold: frozenset[QuestionKey]
) -> dict[str, Any] | None:
    """None where the rule could not be applied (no scores) or nothing is graded."""
    graded = [r for r in rows if (r["benchmark"], r["question_id"]) not in without_gold]
    if not can_apply(graded, rule):
        return None
    return accuracy_of([counted_verdict(row, rule) for row in graded])


def _saved(
    entry: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    groups: Mapping[tuple[str, str], Sequence[Row]],
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
    own, theirs = (
        {r["question_id"]: r["completion_tokens"] for r in groups[e["strategy"], e["benchmark"]]}
        for e in (entry, rivals[0])
    )
    common = own.keys() & theirs.keys()
    spent = sum(theirs[key] for key in common)
    return 1 - sum(own[key] for key in common) / spent if spent else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def chain_fits(
    outcomes: Sequence[Row], strategies: Mapping[str, Strategy[Any]]
) -> list[dict[str, Any]]:
    """The chain behind every MR-Thinking run, and what it predicts for the last round (Eq. 4).

    a and b are counted on gold verdicts over all rounds, with intervals clustered by question; the
    prediction starts from the accuracy of round 0. These are descriptions of the evaluated
    questions: no strategy sees them.
    """
    fits: list[dict[str, Any]] = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in outcomes:
        strategy = strategies[row["strategy"]]
        if strategy.kind == "mr_thinking" and getattr(strategy, "n", 1) > 1:
            groups.setdefault((row["benchmark"], row["strategy"]), []).append(row)
    for (benchmark, label), rows in groups.items():
        chains = [
            Chain(
                benchmark=benchmark,
                question_id=row["question_id"],
                labels=labels_of_verdicts(row["round_verdicts"]),
                level=row["level"],
            )
            for row in rows
        ]
        counts = count_by_question(chains)
        first = accuracy_of([row["round_verdicts"][0] for row in rows if row["round_verdicts"]])
        last_round = getattr(strategies[label], "n", 1) - 1
        last = accuracy_of(  # of whole chains: a description of the chain, not of the strategy
            [r["round_verdicts"][last_round] for r in rows if len(r["round_verdicts"]) > last_round]
        )
        if first["accuracy"] is None or not any(
            c.from_right + c.from_wrong for c in counts.values()
        ):
            continue
        fit = estimate_clustered(counts, labels=Labels.GOLD)
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
