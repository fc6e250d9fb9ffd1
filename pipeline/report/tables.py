"""*Table*: rows of columns with their intervals, tests and published numbers, and its writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pipeline.report import words
from pipeline.report.html import Child, Html, h, table
from pipeline.report.published import NOTHING, Numbers
from pipeline.results.column import Column
from pipeline.results.compare import Adjusted, Comparison
from pipeline.results.csv_lines import csv_lines, ends_of

NOT_RUN, NOT_POSSIBLE = "not run", "not in this pool"

_LATEX = {
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{MODIFIER LETTER SMALL T}": r"\textsuperscript{t}", "\N{SUPERSCRIPT ZERO}":
    r"\textsuperscript{0}", "*": r"\textsuperscript{*}", "τ": r"$\tau$", "γ": r"$\gamma$",
    "σ": r"$\sigma$",
    "|": r"\textbar{}", "<": "$<$", ">": "$>$", "–": "--", "\N{MINUS SIGN}": "$-$",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One cell."""

    column: Column | None
    """None where there is no number, for the reason `missing`."""
    paper: Numbers = NOTHING
    against: tuple[tuple[str, Comparison], ...] = ()
    """What it is held against."""
    missing: str = NOT_RUN

    def differs(self, measure: int) -> bool:
        """Whether the paper's number (0 accuracy, 1 tokens) lies outside our interval."""
        published = self.paper[measure]
        if self.column is None or published is None:
            return False
        ours = (self.column.accuracy, self.column.tokens)[measure]
        return ours is not None and not ours.low <= published <= ours.high


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Rows of entries."""

    name: str
    """Such as ``main``: the file that holds it."""
    title: str
    backbone: str
    benchmark: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    """A row without entries is the heading of those below."""
    tokens: bool
    """Whether a column of tokens follows accuracy."""
    unit: str = "tokens"
    """What tokens are, where another cost stands in their place."""
    shared: str = ""
    """The setting of all cells, but for what rows and columns name."""


def _caption(made: Table) -> str:
    return ", ".join(filter(None, [made.title, made.benchmark, made.backbone]))


def html_of(made: Table, adjusted: Adjusted = MappingProxyType({})) -> Html:
    """Ours large with its interval; below it setting, differences and the paper's number."""
    rows: list[list[Child]] = []
    for name, entries in made.rows:
        if not entries:
            rows.append([h("b", name), *[""] * len(made.columns) * (2 if made.tokens else 1)])
            continue
        settings = {_row_setting(entry.column) for entry in entries if entry.column}
        label: list[Child] = [name]
        if len(settings) == 1 and not made.shared:
            label.append(h("small", *settings))
        cells: list[Child] = []
        for entry in entries:
            cells += _html_entry(entry, made.tokens, adjusted, whole=len(settings) > 1)
        rows.append([label, *cells])
    header: list[Child] = [""]
    for column in made.columns:
        header += [f"{column}, accuracy", f"{column}, {made.unit}"] if made.tokens else [column]
    caption = _caption(made)
    caption += f" ({made.shared})" if made.shared else ""
    return table(header, rows, caption=caption)


def _row_setting(column: Column) -> str:
    """The part of a setting that a row may share; a chosen rule stands in the cells."""
    rule = "" if column.tuned.startswith("by ") else column.rule
    return "; ".join(part for part in (column.fixed, rule) if part)


def _html_entry(entry: Entry, tokens: bool, adjusted: Adjusted, *, whole: bool) -> list[Child]:
    column = entry.column
    if column is None:
        missing: list[Child] = [h("span", entry.missing, cls="no"), _html_paper(entry, 0)]
        return [missing, [_html_paper(entry, 1)]] if tokens else [missing]
    right, spent = column.accuracy, column.tokens
    first: list[Child] = [
        words.NONE if right is None else f"{right.value * 100:.1f}",
        h("small", words.percent_range(right)),
        bounds_note(column),
        h("small", column.setting) if whole else h("small", column.tuned) if column.tuned else None,
        *(_html_against(label, made, adjusted) for label, made in entry.against),
        _html_paper(entry, 0),
    ]
    second: list[Child] = [
        words.NONE if spent is None else words.count(spent.value),
        h("small", words.count_range(spent)),
        *(
            h("small", f"saved {words.percent(made.saved.value)} "
                       f"{words.percent_range(made.saved)}, {label}")
            for label, made in entry.against
            if made.saved is not None
        ),
        _html_paper(entry, 1),
    ]  # fmt: skip
    return [first, second] if tokens else [first]


def bounds_note(column: Column) -> Html | None:
    """Accuracy if all ungraded answers were wrong, and if all were right."""
    if column.bounds is None:
        return None
    left = int((~np.isnan(column.tokens_Q) & np.isnan(column.right_Q)).sum())
    low, high = (words.percent(end) for end in column.bounds)
    return h("small", f"{low} to {high} with {left:,} ungraded")


def _html_against(label: str, made: Comparison, adjusted: Adjusted) -> Html:
    p = adjusted.get((made, "accuracy"))
    tested = ("not tested" if p is None else words.p_value(p)).replace(" ", "\N{NO-BREAK SPACE}")
    ends = words.points_range(made.difference.low, made.difference.high)
    text = f"{label} {words.points(made.difference.value)} {ends}, {tested}"
    return h("small", text, cls="differs" if p is not None and p < 0.05 else None)


def _html_paper(entry: Entry, measure: int) -> Html | None:
    value = entry.paper[measure]
    if value is None:
        return None
    text = f"paper {_number(value, measure)}"
    outside = entry.differs(measure)
    return h("small", f"{text} outside" if outside else text, cls="differs" if outside else None)


def csv_of(tables: Sequence[Table]) -> str:
    """A line a cell."""
    return csv_lines(
        {
            "table": made.name,
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "row": name,
            "column": label,
            **_scored_values(entry.column),
            "paper_accuracy": entry.paper[0],
            "paper_accuracy_outside": entry.differs(0),
            "paper_tokens": entry.paper[1],
            "paper_tokens_outside": entry.differs(1),
            "state": entry.missing if entry.column is None else "run",
        }
        for made in tables
        for name, entries in made.rows
        for label, entry in zip(made.columns, entries, strict=True)
    )


def _scored_values(column: Column | None) -> dict[str, Any]:
    names = ("method", "n", "setting", "chosen_on", "source")
    return {
        **{name: column and getattr(column, name) for name in names},
        "questions": column and len(column.right_Q),
        "graded": column and column.graded,
        **ends_of("accuracy", None if column is None else column.accuracy),
        "accuracy_ungraded_wrong": column and column.bounds and column.bounds[0],
        "accuracy_ungraded_right": column and column.bounds and column.bounds[1],
        **ends_of("tokens", None if column is None else column.tokens),
    }


def comparisons_csv(comparisons: Sequence[Comparison], adjusted: Adjusted) -> str:
    """A line a comparison, p-values as they are and corrected over all of the page."""
    rows = [
        {
            "backbone": made.first.backbone,
            "benchmark": made.first.benchmark,
            "first": made.first.method,
            "first_n": made.first.n,
            "first_setting": made.first.setting,
            "second": made.second.method,
            "second_n": made.second.n,
            "second_setting": made.second.setting,
            "questions": made.n_questions,
            **ends_of("difference", made.accuracy),
            "p": made.p_accuracy,
            "p_holm": adjusted.get((made, "accuracy")),
            **ends_of("tokens", made.tokens),
            "tokens_p": made.p_tokens,
            "tokens_p_holm": adjusted.get((made, "tokens")),
            **ends_of("saved", made.saved),
        }
        for made in comparisons
    ]
    return csv_lines(rows)


def latex(content: str) -> str:
    """Text with every character that LaTeX reads as a command written out."""
    return "".join(_LATEX.get(character, character) for character in content)


def latex_of(made: Table) -> str:
    """A booktabs table; needs booktabs and graphicx. A dagger marks a number of the paper's that
    lies outside our interval."""
    columns = [
        f"{column}, {measure}"
        for column in made.columns
        for measure in (("accuracy", made.unit) if made.tokens else ("accuracy",))
    ]
    body, settings = [], [made.shared] if made.shared else []
    for name, entries in made.rows:
        if not entries:
            body.append(rf"\multicolumn{{{len(columns) + 1}}}{{l}}{{{latex(name)}}} \\")
            continue
        said = dict.fromkeys(_row_setting(entry.column) for entry in entries if entry.column)
        if any(said) and not made.shared:  # a chosen rule stands in the cells
            settings.append(f"{name}: {' / '.join(said)}")
        cells = [latex(name)]
        for entry in entries:
            cells.append(_latex_cell(entry, 0))
            if made.tokens:
                cells.append(_latex_cell(entry, 1))
        body.append(" & ".join(cells) + r" \\")
    caption = latex(
        f"{_caption(made)}. 95 % intervals in brackets, chosen "
        f"settings in braces, the paper's numbers in parentheses."
    )
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            rf"\caption{{{caption} $^\dagger$: outside our interval.}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"\toprule",
            " & ".join(["", *(latex(column) for column in columns)]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\par\smallskip{{\footnotesize Settings: {latex('. '.join(settings))}.\par}}",
            r"\end{table*}",
            "",
        ]
    )


def _latex_cell(entry: Entry, measure: int) -> str:
    text = entry.missing
    if entry.column is not None:
        interval = (entry.column.accuracy, entry.column.tokens)[measure]
        ends = words.percent_range(interval) if measure == 0 else words.count_range(interval)
        value = words.NONE if interval is None else _number(interval.value, measure)
        tuned = f" {{{entry.column.tuned}}}" if entry.column.tuned and measure == 0 else ""
        text = f"{value} {ends}{tuned}".rstrip()
    published = entry.paper[measure]
    if published is None:
        return latex(text)
    dagger = r"$^\dagger$" if entry.differs(measure) else ""
    return f"{latex(text)} ({latex(_number(published, measure))}{dagger})"


def _number(value: float, measure: int) -> str:
    return f"{value * 100:.1f}" if measure == 0 else words.count(value)
