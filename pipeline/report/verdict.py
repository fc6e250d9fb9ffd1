"""*Verdict*: states the result of a run on one benchmark in figures and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.report import words
from pipeline.report.comparison import accuracy, column_of
from pipeline.report.html import Child, Html, folded, h
from pipeline.report.run_data import OURS, Cell
from pipeline.results.column import Column
from pipeline.results.compare import Comparison
from pipeline.statistics.intervals import LEVEL, adjusted_wald
from pipeline.statistics.paired import least_discordant


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The main result of one benchmark."""

    line: str
    """In a line."""
    tiles: tuple[tuple[str, str, str], ...]
    """(what, value, interval)."""
    sentences: tuple[str, ...]
    """Why, and how sure."""
    lead: Comparison | None
    """The comparison that it speaks of."""


def verdict_of(benchmark: str, cells: Sequence[Cell], made: Sequence[Comparison]) -> Verdict:
    """What the cells of one run say on one benchmark.

    Args:
        benchmark: its name.
        cells: of the run and benchmark.
        made: comparisons with MR-Thinking, of this run and of those beside it.

    It speaks of the MarkovScale variant (any strategy, where none was run) with most right answers
    above MR-Thinking at the same N, of equals the one that saves most tokens. MR-Thinking is read
    at its best. There is one difference with one interval, and both it and the p-value are
    corrected for all comparisons that were made together.
    """
    lead = _lead([c for c in made if any(c.first.of.cell is cell for cell in cells)])
    graded = any(accuracy(cell, cell.rule) is not None for cell in cells)
    tests = max((one.tests for one in made), default=1)
    worth = [_worth(benchmark, cells, tests)] if graded else []
    if graded and not any(any(cell.rights(rule).values()) for cell in cells for rule in cell.rules):
        n = words.plural(max(len(cell.rows) for cell in cells), "question")
        line = f"Nothing was answered right: none of {n} of {benchmark}"
        sentence = "That holds for every strategy and answer rule, so none can be compared."
        return Verdict(line=line, tiles=(), sentences=(sentence, *worth), lead=None)
    if lead is not None and lead.accuracy is not None:
        others = (c for c in cells if c.kind == "base" and c is not lead.first.of.cell)
        base = next(map(column_of, others), None)
        return Verdict(
            line=line_of(lead),
            tiles=tiles_of(lead),
            sentences=(figures_words(lead, base), *differences(lead), *worth),
            lead=lead,
        )
    if not graded:
        line = f"No gold answers are known for {benchmark}: tokens are reported, accuracy is not"
        return Verdict(line=line, tiles=(), sentences=(), lead=lead)
    best = max(cells, key=lambda cell: _value(cell))
    line = f"{best.name} answers {words.percent(_value(best))} of {benchmark} right"
    sentence = (
        f"Its 95 % interval is {words.percent_range(accuracy(best, best.rule))}. There is no "
        f"MR-Thinking run of the same N, so tokens saved are unknown."
    )
    return Verdict(line=line, tiles=(), sentences=(sentence, *worth), lead=lead)


def corrected_interval(lead: Comparison) -> tuple[float, float]:
    """Ends of the difference in accuracy at the level at which Holm's correction tests it.

    The adjusted Wald interval (Bonett and Price 2012) at 1 - 0.05 / m, where m is the factor
    between corrected and own p-value; all comparisons together where the corrected one is 1.
    """
    assert lead.accuracy is not None
    if lead.accuracy.value and not (lead.only_first or lead.only_second):  # a mean over draws
        return lead.accuracy.low, lead.accuracy.high
    m = float(lead.tests)
    if lead.p_adjusted is not None and lead.p_adjusted < 1 and lead.p_accuracy:
        m = max(1.0, lead.p_adjusted / lead.p_accuracy)
    level = 1 - (1 - LEVEL) / m
    return adjusted_wald(lead.only_first, lead.only_second, lead.n_questions, level)


def one_question(n: int, tests: int = 1) -> str:
    """What a single question weighs, and the least difference that a paired test can call when it
    is corrected for all tests."""
    least = least_discordant(tests)
    if least > n:
        return f"one question is worth {words.magnitude(1 / n)} points"
    return (
        f"one question is worth {words.magnitude(1 / n)} points, and the exact paired test "
        f"calls no difference below {least} questions ({words.magnitude(least / n)} points)"
        + (f", corrected for {tests} comparisons" if tests > 1 else "")
    )


def most_graded(cells: Sequence[Cell]) -> int:
    """Questions that are graded under the headline rule of the strategy that has most of them."""
    return max(len(cell.rights(cell.rule)) for cell in cells)


def verdict_words(comparison: Comparison) -> str:
    """Whether the accuracies differ, in a few words."""
    if comparison.accuracy is None:
        return "not graded"
    if not comparison.distinguishable:
        return "no clear difference"
    return "more accurate" if comparison.accuracy.value > 0 else "less accurate"


def _lead(made: Sequence[Comparison]) -> Comparison | None:
    candidates = [c for c in made if c.first.kind in OURS] or list(made)
    return max(candidates, key=lambda c: (_gain(c), c.saved.value if c.saved else 0), default=None)


def _gain(comparison: Comparison) -> float:
    return 0.0 if comparison.accuracy is None else comparison.accuracy.value


def _value(cell: Cell) -> float:
    interval = accuracy(cell, cell.rule)
    return -1.0 if interval is None else interval.value


def line_of(lead: Comparison, unit: str = "tokens") -> str:
    """Both accuracies, their difference, settled or not, and the tokens."""
    gain = _gain(lead)
    if lead.distinguishable:
        difference = f"{words.points(gain)} points"
    elif gain:
        difference = f"{words.points(gain)} points, not settled"
    else:
        difference = "no difference"
    first, second = (
        words.percent(None if side.accuracy is None else side.accuracy.value)
        for side in (lead.first, lead.second)
    )
    return (
        f"{lead.first.method} {first}, {_at_best(lead.second)} {second}: {difference}; "
        f"{_cost(lead, unit)}"
    )


def _cost(lead: Comparison, unit: str) -> str:
    saved = lead.saved
    if saved is None:
        return f"{unit} not known"
    if saved.low <= 0 <= saved.high:
        return f"about as many {unit}"
    return f"{words.percent(abs(saved.value), 0)} {'fewer' if saved.value > 0 else 'more'} {unit}"


def tiles_of(lead: Comparison, unit: str = "tokens") -> tuple[tuple[str, str, str], ...]:
    """(what, value, interval) of the figures that are shown large."""
    own, saved = lead.first.accuracy, lead.saved
    corrected = f", corrected for {lead.tests} comparisons" if lead.tests > 1 else ""
    return (
        (
            f"points against {_at_best(lead.second)}",
            words.points(_gain(lead)),
            f"{words.points_range(*corrected_interval(lead))}{corrected}",
        ),
        (
            f"{unit} saved",
            words.percent(None if saved is None else saved.value, 0),
            words.percent_range(saved, 0),
        ),
        (
            f"accuracy of {lead.first.method}",
            words.percent(None if own is None else own.value),
            words.percent_range(own),
        ),
        ("questions", f"{lead.n_questions:,}", "graded for both"),
    )


def figures_words(lead: Comparison, base: Column | None = None, unit: str = "tokens") -> str:
    """Both sides with their rule, accuracy and cost; and Base."""
    parts = [
        f"{_name(side)} ({side.tuned or side.rule}) {words.percent_with(side.accuracy)} with "
        f"{words.count(None if side.tokens is None else side.tokens.value)} {unit} per question"
        for side in (lead.first, lead.second, base)
        if side is not None
    ]
    saved = "" if lead.saved is None else f" Saved: {words.percent_with(lead.saved)}."
    return f"At N = {lead.first.n}: {'; '.join(parts)}.{saved}"


def differences(lead: Comparison) -> list[str]:
    """The difference in accuracy with its interval and test; nothing where it was not tested."""
    if lead.accuracy is None or lead.p_adjusted is None:
        return []
    corrected = f", corrected for {lead.tests} comparisons" if lead.tests > 1 else ""
    left_out = f"; {lead.left_out:,} left out" if lead.left_out else ""
    sentence = (
        f"The difference in accuracy is {words.points(lead.accuracy.value)} points "
        f"{words.points_range(*corrected_interval(lead))}: "
        f"{words.plural(lead.only_first, 'question')} only {_name(lead.first)} has right, "
        f"{lead.only_second:,} only {_name(lead.second)}{left_out} (exact McNemar test, "
        f"{words.p_value(lead.p_adjusted)}{corrected})."
    )
    if lead.distinguishable:
        return [sentence]
    return [
        f"{sentence} That is no proof of equal accuracy: the interval says what may still hold."
    ]


def _at_best(side: Column) -> str:
    """The method, where its name does not say already that it was chosen."""
    return side.method if side.tuned else f"{side.method} at its best"


def _name(side: Column) -> str:
    """The method, with its run where several are shown."""
    name: str = side.method if side.of is None else side.of.cell.name
    return name


def _worth(benchmark: str, cells: Sequence[Cell], tests: int) -> str:
    n = most_graded(cells)
    return f"{benchmark} has {words.plural(n, 'graded question')} here: {one_question(n, tests)}."


def verdict_row(
    name: str,
    line: str,
    tiles: Sequence[tuple[str, str, str]],
    why: Sequence[Child],
    chart: Html | None,
    more: Child = None,
) -> Html:
    """One benchmark: the verdict in a line, its figures, the reasons folded, and the chart."""
    shown = [
        h("li", h("b", value), h("span", what), h("small", ends)) for what, value, ends in tiles
    ]
    reasons = [part if isinstance(part, Html) else h("p", part) for part in why]
    return h(
        "article",
        h(
            "div",
            h("h3", name),
            h("p", f"{line}.".replace(" %", "\u00a0%"), cls="line"),
            h("ul", *shown, cls="tiles") if shown else None,
            folded("Why, and how sure", *reasons) if reasons else None,
            more,
        ),
        chart,
        cls="verdict-row",
    )
