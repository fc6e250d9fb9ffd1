"""The paper's tables as HTML, CSV and LaTeX (booktabs)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pipeline.report import words
from pipeline.report.html import Child, Html, h, table
from pipeline.report.paper_numbers import Entry, PaperTable
from pipeline.statistics.intervals import Interval

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{MODIFIER LETTER SMALL T}": r"\textsuperscript{t}", "\N{SUPERSCRIPT ZERO}":
    r"\textsuperscript{0}", "*": r"\textsuperscript{*}", "τ": r"$\tau$", "γ": r"$\gamma$",
    "σ": r"$\sigma$",
    "|": r"\textbar{}", "<": "$<$", ">": "$>$", "–": "--", "\N{MINUS SIGN}": "$-$",
}  # fmt: skip


def html_of(paper_table: PaperTable) -> Html:
    """Ours large with its interval, the paper's small below; a number outside is marked."""
    header = ["", *(f"{name}, {measure}" for name, measure in paper_table.columns)]
    return table(
        header,
        [(name, *(_html_entry(e) for e in entries)) for name, entries in paper_table.rows],
        caption=f"{paper_table.title}, {paper_table.backbone}",
    )


def csv_of(tables: Sequence[PaperTable]) -> str:
    """One line a number, all tables in one file; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("table", "backbone", "n", "row", "column", "measure", "ours", "low", "high", "paper",
         "differs", "state")
    )  # fmt: skip
    for paper_table in tables:
        for name, entries in paper_table.rows:
            for (column, measure), entry in zip(paper_table.columns, entries, strict=True):
                ours = entry.ours
                writer.writerow(
                    (
                        paper_table.name,
                        paper_table.backbone,
                        paper_table.n,
                        name,
                        column,
                        measure,
                        *(("", "", "") if ours is None else (ours.value, ours.low, ours.high)),
                        "" if entry.paper is None else entry.paper,
                        entry.differs,
                        words.NOT_RUN if ours is None else "run",
                    )
                )
    return out.getvalue()


def latex_of(paper_table: PaperTable) -> str:
    """A booktabs table; needs the package booktabs. A dagger marks a number that differs."""
    columns = paper_table.columns
    head = " & ".join(["", *(latex(f"{name}, {measure}") for name, measure in columns)])
    body = [
        " & ".join([latex(name), *(_latex_entry(e) for e in entries)]) + r" \\"
        for name, entries in paper_table.rows
    ]
    caption = latex(
        f"{paper_table.title}, {paper_table.backbone}. 95 % intervals in brackets, the paper's "
        f"numbers in parentheses."
    )
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption} $^\dagger$: outside our interval.}}",
            rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def latex(content: str) -> str:
    """Text with every character that LaTeX reads as a command written out."""
    return "".join(_LATEX.get(character, character) for character in content)


def _html_entry(entry: Entry) -> Child:
    paper = None
    if entry.paper is not None:
        said = f"paper {_value(entry.measure, entry.paper)}"
        paper = h("small", f"{said} differs" if entry.differs else said,
                  cls="differs" if entry.differs else None)  # fmt: skip
    if entry.ours is None:
        return [h("span", words.NOT_RUN, cls="no"), paper]
    return [_value(entry.measure, entry.ours.value), h("small", _ends(entry)), paper]


def _latex_entry(entry: Entry) -> str:
    ours = words.NOT_RUN
    if entry.ours is not None:
        ends = _ends(entry)
        ours = latex(f"{_value(entry.measure, entry.ours.value)} {ends}".rstrip())
    if entry.paper is None:
        return ours
    dagger = r"$^\dagger$" if entry.differs else ""
    return f"{ours} ({latex(_value(entry.measure, entry.paper))}{dagger})"


def _value(measure: str, value: float) -> str:
    return f"{value * 100:.1f}" if measure == "accuracy" else words.count(value)


def _ends(entry: Entry) -> str:
    ours: Interval | None = entry.ours
    if ours is None or ours.low == ours.high:
        return ""
    if entry.measure == "accuracy":
        return words.percent_range(ours)
    return f"[{words.count(ours.low)}, {words.count(ours.high)}]"
