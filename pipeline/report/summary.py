"""*Summary*: sums up a run: an entry per strategy and benchmark, and the fitted chains.

`tokens` alone means completion tokens, as in the paper.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import Rule
from pipeline.core.prices import Prices
from pipeline.records.outcome import (
    FINAL,
    TOKEN_KINDS,
    can_apply,
    columns_of,
    counted_verdict,
    has_failed,
)
from pipeline.report.comparison import only_chain
from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import share_interval, wilson
from pipeline.theory.estimate import COUNTED, estimate_table
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import Labels, QuestionKey, count, labels_of_verdicts

SUMMARY_VERSION = 1


def summed(rules: Sequence[Rule]) -> tuple[str, ...]:
    """The columns of outcomes that a summary and its warnings read."""
    beliefs = ("p0", "p0_source", "a", "b")
    return (*FINAL, "error", "stop_reason", *beliefs, "round_verdicts", *columns_of(rules))


def summarise(cells: Sequence[Cell], prices: Prices | None = None) -> list[dict[str, Any]]:
    """One entry a cell, in their order.

    Args:
        cells: of one run. Where a question has an outcome a chain, accuracies are means over
            questions of the share of its chains.
        prices: of tokens; None leaves ``usd`` out.
    """
    return [entry_of(cell, cells, prices) for cell in cells]


def entry_of(cell: Cell, cells: Sequence[Cell], prices: Prices | None) -> dict[str, Any]:
    """What a summary says of one of some cells; thinking tokens are part of completion tokens,
    cached ones of prompt tokens."""
    rows = cell.rows
    names = (*TOKEN_KINDS, "wasted_tokens", "tokens_unknown")
    tokens = {name: sum(row[name] for row in rows) for name in names}
    entry = {
        "strategy": cell.label,
        "kind": cell.kind,
        "n": cell.n,
        "benchmark": cell.benchmark,
        "questions": len(cell.by_question),
        "failed": sum(map(has_failed, rows)),
        "headline_rule": cell.rule.value,
        "accuracy": {rule.value: _accuracy(cell, rule) for rule in cell.rules},
        "completions": sum(row["completions"] for row in rows),
        "tokens_per_question": tokens["completion_tokens"] / len(rows),
        "tokens": tokens,
        "stop_reasons": dict(Counter(row["stop_reason"] for row in rows)),
        "p0_sources": dict(Counter(row["p0_source"] for row in rows if row["p0_source"])),
        **{name: _mean(row[name] for row in rows) for name in ("a", "b")},
        "tokens_saved": _saved(cell, cells),
        "not_run": cell.not_run,
    }
    return entry if prices is None else {**entry, "usd": prices.usd(tokens)}


def _accuracy(cell: Cell, rule: Rule) -> dict[str, Any] | None:
    """None where the rule could not be applied (no scores) or nothing is graded
    (`pipeline.records.outcome.can_apply`)."""
    graded = cell.graded
    if not can_apply(graded, rule):
        return None
    verdicts = [counted_verdict(row, rule) for row in graded]
    found = accuracy_of(Counter(verdicts))
    if len(cell.rows) > len(cell.by_question) and found["graded"]:
        shares: dict[str, list[bool]] = {}
        for row, verdict in zip(graded, verdicts, strict=True):
            if verdict in ("right", "wrong"):
                shares.setdefault(row["question_id"], []).append(verdict == "right")
        over = share_interval([float(np.mean(each)) for each in shares.values()])
        found |= {"accuracy": over.value, "low": over.low, "high": over.high}
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _saved(cell: Cell, cells: Sequence[Cell]) -> float | None:
    """Share of MR-Thinking's tokens saved at the same N on the questions that both have answered;
    None where it was not run."""
    rival = only_chain(cell, cells)
    if rival is None:
        return None
    common = cell.by_question.keys() & rival.by_question.keys()
    own, theirs = (_spent(one, common) for one in (cell, rival))
    return 1 - own / theirs if theirs else None


def _spent(cell: Cell, questions: Collection[QuestionKey]) -> float:
    """Completion tokens of some questions, a chain."""
    keys = ((row["benchmark"], row["question_id"]) for row in cell.rows)
    spent = sum(tokens for key, tokens in zip(keys, cell.tokens, strict=True) if key in questions)
    return spent * len(cell.by_question) / len(cell.rows)


def chain_fits(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The chain behind every MR-Thinking run, and what it predicts for the last round (Eq. 4).

    a and b are counted on gold verdicts over all rounds, with intervals clustered by question; the
    prediction starts from the accuracy of round 0. These are descriptions of the evaluated
    questions: no strategy sees them.
    """
    fits: list[dict[str, Any]] = []
    for cell in cells:
        if cell.kind != "mr_thinking" or cell.n < 2:
            continue
        last_round = cell.n - 1
        counts, of_first, of_last = array("i"), Counter[str | None](), Counter[str | None]()
        for row in cell.rows:
            verdicts = row["round_verdicts"]
            counted = count(labels_of_verdicts(verdicts))
            counts.extend(getattr(counted, name) for name in COUNTED)
            of_first.update(verdicts[:1])
            of_last.update(verdicts[last_round:])  # of whole chains
        table_QC = np.asarray(counts).reshape(-1, len(COUNTED))
        first, last = accuracy_of(of_first), accuracy_of(of_last)
        if first["accuracy"] is None or not table_QC.any():
            continue
        fit = estimate_table(table_QC)
        estimates = {
            "a": fit.a,
            "b": fit.b,
            "L": fit.stationary_accuracy,
            "lambda": fit.second_eigenvalue,
        }
        fits.append(
            {
                "benchmark": cell.benchmark,
                "strategy": cell.label,
                "labels": Labels.GOLD.value,
                "from_right": fit.counts.from_right,
                "from_wrong": fit.counts.from_wrong,
                "p0": first["accuracy"],
                **{name: one.value for name, one in estimates.items()},
                "intervals": {name: [one.low, one.high] for name, one in estimates.items()},
                "rounds": last_round,
                "predicted": accuracy_after(
                    last_round, p0=first["accuracy"], a=fit.a.value, b=fit.b.value
                ),
                "reached": last["accuracy"],
                "reached_interval": [last["low"], last["high"]],
            }
        )
    return fits


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
