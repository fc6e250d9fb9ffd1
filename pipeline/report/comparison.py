"""*Comparison*: pairs strategies of runs question by question, with corrected p-values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.answers.answer_rules import Rule
from pipeline.core.errors import ConfigError
from pipeline.report.run_data import OURS, Cell, RunData
from pipeline.results.column import Column, numbered
from pipeline.results.compare import Comparison, Family, compare
from pipeline.statistics.intervals import Interval


@dataclass(frozen=True, slots=True)
class Reading:
    """A cell of a run, and the rule that its answers are read by."""

    cell: Cell
    rule: Rule


def column_of(cell: Cell, rule: Rule | None = None) -> Column:
    """A cell read by its headline rule or another one; `Column.of` is the `Reading`."""
    rule = rule or cell.rule
    rights = cell.rights(rule)
    keys = tuple(cell.by_question)
    return Column(
        backbone=cell.backbone,
        benchmark=cell.benchmark,
        method=cell.method,
        kind=cell.kind,
        n=cell.n,
        rule=rule.value,
        source=cell.run,
        keys=keys,
        right_Q=np.array([float(rights[key]) if key in rights else np.nan for key in keys]),
        tokens_Q=np.array(cell.tokens, dtype=np.float64),
        copies_Q=numbered([cell.copies.get(key, key) for key in keys]),
        of=Reading(cell, rule),
    )


def accuracy(cell: Cell, rule: Rule) -> Interval | None:
    """Share of graded questions that are right with its interval (`Column`); None where none is."""
    return column_of(cell, rule).accuracy


def best_rule(cell: Cell) -> Rule:
    """The answer rule by which a cell has most right answers; of equals its own, then the first."""
    rules = [cell.rule, *(rule for rule in cell.rules if rule != cell.rule)]
    return max(rules, key=lambda rule: sum(cell.rights(rule).values()))


def rival_of(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """The MR-Thinking cell that a cell is compared with (`only_chain`), if it is another one."""
    rival = only_chain(cell, cells)
    return None if rival is cell else rival


def only_chain(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """The only MR-Thinking cell of the same run, benchmark and N; None where there is none, or
    there are several.

    Base draws one completion whatever N is: any N of MR-Thinking will do.
    """
    rivals = [
        other
        for other in cells
        if other.kind == "mr_thinking"
        and (other.run, other.benchmark) == (cell.run, cell.benchmark)
        and (cell.kind == "base" or other.n == cell.n)
    ]
    return rivals[0] if len(rivals) == 1 else None


def against_rivals(cells: Sequence[Cell], rule: Rule | None = None) -> list[Comparison]:
    """Every cell by its own answer rule against MR-Thinking at the same N at its best.

    Args:
        cells: of any benchmarks and runs, all that are shown together: one family (Holm).
        rule: answer rule of both sides, where MR-Thinking can be read by it; None: as above.
    """
    pairs = [(cell, rival) for cell in cells if (rival := rival_of(cell, cells)) is not None]
    return compared_cells(pairs, rule)


def compared_cells(
    pairs: Iterable[tuple[Cell, Cell]], rule: Rule | None = None
) -> list[Comparison]:
    """Pairs of cells, their p-values corrected together; those without common questions are left
    out.

    MR-Thinking as the second side is read by that of its rules which has most right answers here,
    unless the first is MR-Thinking too. Having looked at all of its rules is corrected for: their
    p-values are in the family, each once where several rules give the same verdicts.

    The primary comparison of a run and benchmark is that of its first MarkovScale variant, in the
    order of the configuration: it is corrected for MR-Thinking's rules and the other benchmarks
    alone. All others describe, and are corrected for everything.
    """
    pairs, made, family = list(pairs), list[Comparison](), Family(measures=("accuracy",))
    columns: dict[tuple[int, Rule], Column] = {}
    first: dict[tuple[str, str], Cell] = {}
    for cell, _ in pairs:
        if cell.kind in OURS:
            first.setdefault((cell.run, cell.benchmark), cell)

    def read(cell: Cell, by: Rule) -> Column:
        return columns.setdefault((id(cell), by), column_of(cell, by))

    for cell, rival in pairs:
        shown = rival.rule if rule is None or not rival.rights(rule) else rule
        looked_at: Sequence[Rule] = [shown]
        if rule is None and rival.kind == "mr_thinking" != cell.kind:
            shown, looked_at = best_rule(rival), rival.rules
        for theirs in looked_at:
            sides = read(cell, rule or cell.rule), read(rival, theirs)
            claim = first.get((cell.run, cell.benchmark)) is cell
            found = family.compare(*sides, claim=claim) or compare(*sides)
            if found is not None and theirs == shown:
                made.append(found)
    return family.finished(made)


def comparisons_of(
    runs: Sequence[RunData], labels: Sequence[str], rule: Rule | None = None
) -> list[Comparison]:
    """Paired comparisons, all corrected as one family.

    One run: two strategies by label, or, without labels, each against MR-Thinking at its N. Two
    runs: the same label in both (one that is named, or each that both have), or the first label of
    the first run against the second label of the second. MR-Thinking as the second side is read by
    that of its rules which has most right, however it was named.

    Args:
        runs: one or two.
        labels: at most two labels of strategies.
        rule: answer rule for both sides; None reads each side as `compared_cells` does.

    Raises:
        ConfigError: where a label is not there or nothing can be paired.
    """
    for label in labels[:1] if len(runs) == 1 else ():
        _cells(runs[0], label)
    if len(runs) == 1 and not labels:
        made = against_rivals(runs[0].cells, rule)
        if not made:
            raise ConfigError(
                f"{runs[0].run_id} must have outcomes of one MR-Thinking at the N of another "
                f"strategy: name two, --strategy A --strategy B, of {', '.join(_labels(runs[0]))}"
            )
        return made
    if len(runs) == 1 and len(labels) != 2:
        raise ConfigError(
            f"one run must have two strategies to compare or none: name another of "
            f"{', '.join(_labels(runs[0]))}"
        )
    first, second = runs[0], runs[-1]
    if labels:
        wanted = [(labels[0], labels[-1])]
    else:
        wanted = [(label, label) for label in _labels(first) if label in _labels(second)]
    pairs = [
        (a, b)
        for one, other in wanted
        for a in _cells(first, one)
        for b in _cells(second, other)
        if a.benchmark == b.benchmark
    ]
    paired = compared_cells(pairs, rule)
    if not paired:
        raise ConfigError(
            f"{first.run_id} and {second.run_id} must share a strategy and questions, got "
            f"{', '.join(_labels(first))} and {', '.join(_labels(second))}"
        )
    return paired


def _labels(run: RunData) -> list[str]:
    return list(dict.fromkeys(cell.label for cell in run.cells))


def _cells(run: RunData, label: str) -> list[Cell]:
    found = [cell for cell in run.cells if cell.label == label]
    if not found:
        raise ConfigError(
            f"{run.run_id} must have a strategy {label!r}, it has "
            f"{', '.join(_labels(run)) or 'none'}"
        )
    return found
