"""Which strategies of which runs are to be compared."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.answers.answer_rules import Rule
from pipeline.core.errors import ConfigError
from pipeline.report.chain_view import RoundCurve, round_curve
from pipeline.report.comparison import Comparison, against_rivals, compare, family
from pipeline.report.run_data import Cell, RunData, benchmarks_of


def comparisons_of(
    runs: Sequence[RunData], labels: Sequence[str], rule: Rule | None = None
) -> list[Comparison]:
    """Paired comparisons, all corrected as one family.

    One run: two strategies by label, or, without labels, each against MR-Thinking at its N. Two
    runs: the same label in both (one that is named, or each that both have), or the first label of
    the first run against the second label of the second.

    Args:
        runs: one or two.
        labels: at most two labels of strategies.
        rule: answer rule for both sides; None reads each side by its own headline rule, and
            MR-Thinking as a rival by that of its rules which has most right.

    Raises:
        ConfigError: where a label is not there or nothing can be paired.
    """
    if len(runs) == 1 and not labels:
        made = against_rivals(runs[0].cells, rule)
        if not made:
            raise ConfigError(
                f"{runs[0].run_id} must have outcomes of one MR-Thinking at the N of another "
                f"strategy: name two, --strategy A --strategy B, of {', '.join(_labels(runs[0]))}"
            )
        return made
    if len(runs) == 1 and len(labels) != 2:
        raise ConfigError("one run needs two strategies to compare, or none named")
    first, second = runs[0], runs[-1]
    if labels:
        wanted = [(labels[0], labels[-1])]
    else:
        wanted = [(label, label) for label in _labels(first) if label in _labels(second)]
    pairs: list[Comparison | None] = []
    for one, other in wanted:
        pairs += [
            compare(a, b, rule_first=rule, rule_second=rule)
            for a in _cells(first, one)
            for b in _cells(second, other)
            if a.benchmark == b.benchmark
        ]
    paired = family(pairs)
    if not paired:
        raise ConfigError(
            f"{first.run_id} and {second.run_id} must share a strategy and questions, got "
            f"{', '.join(_labels(first))} and {', '.join(_labels(second))}"
        )
    return paired


def pilots_of(runs: Sequence[RunData]) -> dict[str, list[RoundCurve]]:
    """Curves of MR-Thinking by benchmark, of benchmarks that several backbones were run on."""
    cells = benchmarks_of([cell for run in runs for cell in run.cells])
    curves = {
        name: [curve for cell in group if (curve := round_curve(cell)) is not None]
        for name, group in cells.items()
    }
    return {
        name: found
        for name, found in curves.items()
        if len({curve.cell.backbone for curve in found}) > 1
    }


def _labels(run: RunData) -> list[str]:
    return list(dict.fromkeys(cell.label for cell in run.cells))


def _cells(run: RunData, label: str) -> list[Cell]:
    found = [cell for cell in run.cells if cell.label == label]
    if not found:
        raise ConfigError(
            f"{run.run_id} must have outcomes of strategy {label!r}, it has "
            f"{', '.join(_labels(run)) or 'none'}"
        )
    return found
