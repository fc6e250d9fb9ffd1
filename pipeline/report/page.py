"""The report of one run or of several: from folds of their data to one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.report import (
    charts,
    charts_stops,
    charts_time,
    sections_chain,
    sections_record,
    sections_result,
    words,
)
from pipeline.report.capped import first_words
from pipeline.report.chain_view import (
    RoundCurve,
    bounds_view,
    candidates,
    diagnose,
    round_curve,
)
from pipeline.report.comparison import against_rivals
from pipeline.report.document import contents, document, section
from pipeline.report.failures import troubles
from pipeline.report.fronts import Row as FrontRow
from pipeline.report.fronts import fronts_section
from pipeline.report.html import Child, Html, h
from pipeline.report.message import message_of
from pipeline.report.paper_tables import PaperNumbers, PaperTable, paper_tables
from pipeline.report.question_list import Entry, question_section
from pipeline.report.run_data import Cell, RunData, benchmarks_of
from pipeline.report.score_view import score_views
from pipeline.report.spending import bill_of, time_line
from pipeline.report.suitability_view import contrast, numbers_of, suitability_of
from pipeline.report.sweep import Row as SweepRow
from pipeline.report.sweep import sweep_section
from pipeline.report.table_formats import html_of, latex_of
from pipeline.results.compare import Comparison

_SERIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report is made of."""

    runs: Sequence[RunData]
    entries: Sequence[Entry]
    """Every question that was answered."""
    embedded: Mapping[int, Html]
    """Pages of questions within the report, by number of their entry."""
    files: Mapping[int, str]
    """Addresses of pages beside it."""
    sweep: Sequence[SweepRow] = ()
    fronts: Mapping[str, Sequence[FrontRow]] = field(default_factory=dict)
    """Of sweeps, by the name of the run; "" for one alone."""
    paper: PaperNumbers | None = None
    price_per_million: float | None = None

    @property
    def cells(self) -> list[Cell]:
        """Those of all runs."""
        return [cell for run in self.runs for cell in run.cells]

    def tables(self) -> list[PaperTable]:
        """The paper's tables."""
        return paper_tables(self.cells, self.paper, self.sweep)


def report_page(report: Report) -> str:
    """The whole file."""
    names = ", ".join(run.run_id for run in report.runs)
    parts = _sections(report) if report.cells else []
    return document(
        f"MarkovScale: {names}",
        h("a", "Skip to the result", href="#result", cls="skip"),
        *_banners(report),
        h("header", h("h1", "MarkovScale report"), h("p", names), cls="top"),
        contents([(name, title) for name, title, _ in parts]),
        h(
            "main",
            *(section(name, title, *body, quiet=name == "result") for name, title, body in parts)
            if parts
            else [h("p", "No question has been answered yet.")],
        ),
        h(
            "footer",
            "Made by markovscale report from the run's own records; it holds no link to "
            "the network.",
        ),
        script=True,
    )


def _banners(report: Report) -> list[Html]:
    banners = []
    made_up = [run.run_id for run in report.runs if run.synthetic]
    if made_up:
        banners.append(
            h(
                "div",
                h("b", "SYNTHETIC"),
                f"Scripted engines made the data of {', '.join(made_up)}; no model answered.",
                cls="banner",
                role="note",
            )
        )
    banners += [
        h("div", h("b", "Warning: "), h("bdi", caution), cls="banner partial", role="note")
        for run in report.runs
        for caution in run.cautions
    ]
    for run in report.runs:
        if run.capped is not None:
            said = f"{run.run_id}: {first_words(run.capped, run.not_run)}"
            banners.append(
                h("div", h("b", "Capped. "), h("bdi", said), cls="banner partial", role="note")
            )
        if run.chains_done < run.chains:
            none = [f"{n.strategy} on {n.benchmark}" for n in run.not_run if n.questions == n.of]
            banners.append(
                h(
                    "div",
                    f"Partial: {run.chains_done:,} of {words.plural(run.chains, 'chain')} of "
                    f"{run.run_id} are done.",
                    f" No outcome yet: {', '.join(none)}." if none else None,
                    cls="banner partial",
                    role="note",
                )
            )
    return banners


Part = tuple[str, str, list[Child]]
"""(id, title, content)."""


def _sections(report: Report) -> list[Part]:
    by_benchmark = benchmarks_of(report.cells)
    curves = {
        name: [c for cell in cells if (c := round_curve(cell)) is not None]
        for name, cells in by_benchmark.items()
    }
    compared = against_rivals(report.cells)
    made = {name: [c for c in compared if c.first.benchmark == name] for name in by_benchmark}
    parts: list[Part] = [
        ("result", "Result", _messages(by_benchmark, made)),
        ("accuracy", "Accuracy", _accuracy(by_benchmark, curves, made)),
        ("rounds", "The chain", _rounds(by_benchmark, curves)),
        ("stopping", "Stopping", _stopping(by_benchmark)),
        ("trust", "Scores", _trust(by_benchmark)),
        ("tokens", "Tokens", _tokens(report, by_benchmark)),
        ("time", "Time", _time(report.runs)),
        ("sweeps", "Sweeps", _sweeps(report)),
        ("backbones", "Backbones", _backbones(curves)),
        ("paper", "Paper tables", _paper(report)),
        ("failures", "Failures", _failures(report)),
        ("questions", "Questions", [question_section(report.entries, report.embedded,
                                                     report.files)]),
        ("run", "What was run", [sections_record.run_facts(run) for run in report.runs]),
    ]  # fmt: skip
    return [part for part in parts if part[2]]


def _messages(
    by_benchmark: Mapping[str, Sequence[Cell]], made: Mapping[str, Sequence[Comparison]]
) -> list[Child]:
    body: list[Child] = []
    suits = {name: suitability_of(cells) for name, cells in by_benchmark.items()}
    differ = contrast({name: found for name, found in suits.items() if found is not None})
    if differ is not None:
        body.append(h("p", differ))
    for name, cells in by_benchmark.items():
        for run in dict.fromkeys(cell.run for cell in cells):
            own = [cell for cell in cells if cell.run == run]
            found = suitability_of(own)
            said = () if found is None else found.sentences()
            body.append(sections_result.message_block(message_of(name, own, made[name]), said))
            body += [] if found is None else [numbers_of(found)]
    return body


def _series(cells: Sequence[Cell]) -> dict[str, int]:
    return {cell.name: place % _SERIES for place, cell in enumerate(cells)}


def _titled(name: str, several: bool) -> list[Child]:
    return [h("h3", name)] if several else []


def _accuracy(
    by_benchmark: Mapping[str, Sequence[Cell]],
    curves: Mapping[str, Sequence[RoundCurve]],
    made: Mapping[str, Sequence[Comparison]],
) -> list[Child]:
    body: list[Child] = []
    for name, cells in by_benchmark.items():
        body += _titled(name, len(by_benchmark) > 1)
        if any(cell.rights(cell.rule) and any(cell.tokens) for cell in cells):
            body.append(charts.accuracy_against_tokens(cells, curves[name], _series(cells)))
        body.append(sections_result.results_table(name, cells, made[name]))
        body.append(sections_result.selection_table(made[name]))
    return body


def _rounds(
    by_benchmark: Mapping[str, Sequence[Cell]], curves: Mapping[str, Sequence[RoundCurve]]
) -> list[Child]:
    body: list[Child] = []
    for name, cells in by_benchmark.items():
        body += _titled(name, len(by_benchmark) > 1)
        if not curves[name]:
            body.append(
                h(
                    "p",
                    f"The chain of {name} is not shown: it needs graded chains that are not "
                    f"stopped early (MR-Thinking with N ≥ 2), which were not run.",
                )
            )
        for curve in curves[name]:
            body.append(charts.accuracy_by_round(curve, _series(cells)[curve.cell.name]))
            body.append(sections_chain.diagnosis_table(curve, diagnose(curve)))
            view = bounds_view(curve, cells)
            limits = view.bounds
            body.append(charts.strategies_and_bounds(cells, limits, _series(cells)))
            body.append(h("p", f"On the bounds: {view.source}.", cls="hint"))
    return body


def _stopping(by_benchmark: Mapping[str, Sequence[Cell]]) -> list[Child]:
    body: list[Child] = []
    for name, cells in by_benchmark.items():
        body += _titled(name, len(by_benchmark) > 1)
        shown = [cell for cell in cells if cell.kind not in ("base", "mr_thinking")] or cells
        body.append(h("div", *(charts_stops.stops(cell) for cell in shown), cls="pair"))
    return body


def _trust(by_benchmark: Mapping[str, Sequence[Cell]]) -> list[Child]:
    body: list[Child] = []
    for name, cells in by_benchmark.items():
        views = score_views(cells)
        if views:
            body += _titled(name, len(by_benchmark) > 1)
            diagrams = [charts_stops.reliability_diagram(view) for view in views]
            body.append(h("div", *diagrams, cls="pair"))
    return body


def _tokens(report: Report, by_benchmark: Mapping[str, Sequence[Cell]]) -> list[Child]:
    body: list[Child] = []
    for name, cells in by_benchmark.items():
        body += _titled(name, len(by_benchmark) > 1)
        bills = [bill_of(cell, report.price_per_million) for cell in cells]
        body += [charts_stops.tokens_by_kind(bills), sections_record.bills_table(bills)]
    if report.price_per_million is not None:
        body.append(
            h(
                "p",
                f"Cost: completion and wasted tokens at {report.price_per_million:g} a million; "
                f"prompt and verifier tokens are not priced.",
                cls="hint",
            )
        )
    return body


def _time(runs: Sequence[RunData]) -> list[Child]:
    body: list[Child] = []
    for run in runs:
        moments = time_line(run.metrics)
        if moments:
            body += _titled(run.run_id, len(runs) > 1)
            body += [
                charts_time.throughput(moments),
                charts_time.chains_at_work(moments),
                charts_time.slots_in_use(moments),
            ]
    return body


def _sweeps(report: Report) -> list[Child]:
    body: list[Child] = []
    for source, rows in report.fronts.items():
        body += fronts_section(rows, of=source)
    return body + sweep_section(report.sweep)


def _backbones(curves: Mapping[str, Sequence[RoundCurve]]) -> list[Child]:
    body: list[Child] = []
    for name, found in curves.items():
        if len({curve.cell.backbone for curve in found}) > 1:
            n = max(curve.cell.n for curve in found)
            body.append(sections_chain.candidates_table(name, candidates(found, n)))
    if body:
        body.append(
            h(
                "p",
                "The paper proposes to choose the backbone with the highest L before the large "
                "run. Where intervals overlap, the pilot is too small to tell.",
                cls="hint",
            )
        )
    return body


def _paper(report: Report) -> list[Child]:
    tables = report.tables()
    body: list[Child] = [html_of(table) for table in tables]
    if report.paper is None:
        body.append(
            h("p", "The paper's numbers stand beside ours with --paper FOLDER.", cls="hint")
        )
    body.append(
        h(
            "details",
            h("summary", "The same tables in LaTeX (booktabs)"),
            h("pre", "\n".join(latex_of(table) for table in tables), cls="text"),
        )
    )
    return body


def _failures(report: Report) -> list[Child]:
    questions = {run.run_id: run.questions for run in report.runs}
    return [sections_record.troubles_table(troubles(report.cells, questions))]
