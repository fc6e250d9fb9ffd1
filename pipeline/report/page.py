"""*Report page*: builds the report of one run or of several, section by section, as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.config.runtime import RuntimeConfig
from pipeline.core.prices import Prices
from pipeline.report import charts, figures, words
from pipeline.report.chain_view import RoundCurve, bounds_view, round_curve
from pipeline.report.comparison import accuracy, against_rivals, column_of
from pipeline.report.html import (
    Child,
    Html,
    Part,
    banner,
    facts,
    folded,
    h,
    page,
    script_json,
    specification,
    table,
)
from pipeline.report.questions import MOST_QUESTIONS, browser_data, entries_of
from pipeline.report.run_data import Cell, RunData, benchmarks_of
from pipeline.report.run_warnings import capped_words
from pipeline.report.spending import bill_of, troubles
from pipeline.report.strategy_tables import results_table
from pipeline.report.suitability_view import numbers_of, suitability_of
from pipeline.report.verdict import Verdict, verdict_of, verdict_row
from pipeline.results.compare import Comparison
from pipeline.store.storage import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report is made of.

    Args:
        runs: read with `read_runs`.
        price_per_million: of completion and wasted tokens; None takes the prices of each run.
        most_questions: that the report holds with their chains.
    """

    runs: Sequence[RunData]
    price_per_million: float | None = None
    most_questions: int = MOST_QUESTIONS

    @property
    def cells(self) -> list[Cell]:
        """Those of all runs."""
        return [cell for run in self.runs for cell in run.cells]


def report_page(report: Report) -> str:
    """The whole file."""
    names = ", ".join(run.run_id for run in report.runs)
    return page(
        f"MarkovScale: {names}",
        "MarkovScale report",
        names,
        _sections(report) if report.cells else [],
        banners=_banners(report.runs),
        made_by="Made by markovscale report from the run's own records",
    )


def write_report(report: Report, folder: Folder, name: str) -> int:
    """Write the report; returns its size in bytes."""
    data = report_page(report).encode()
    folder.write(name, data)
    return len(data)


def _banners(runs: Sequence[RunData]) -> Iterator[Html]:
    made_up = [run.run_id for run in runs if run.synthetic]
    if made_up:
        said = f"Scripted engines made the data of {', '.join(made_up)}; no model answered."
        yield banner(h("b", "SYNTHETIC"), said, made_up=True)
    warnings = [h("bdi", warning) for run in runs for warning in run.warnings]
    if len(warnings) == 1:
        yield banner(h("b", "Warning: "), *warnings)
    elif warnings:
        lines = h("ul", *(h("li", warning) for warning in warnings))
        yield banner(h("details", h("summary", h("b", f"{len(warnings)} warnings")), lines))
    for run in runs:
        if run.capped is not None:
            said = f"{run.run_id}: {capped_words(run.capped, run.not_run)}"
            yield banner(h("b", "Capped. "), h("bdi", said))
        if run.chains_done < run.chains:
            none = [f"{n.strategy} on {n.benchmark}" for n in run.not_run if n.questions == n.of]
            yield banner(
                f"Partial: {run.chains_done:,} of {words.plural(run.chains, 'chain')} of "
                f"{run.run_id} are done.",
                f" No outcome yet: {', '.join(none)}." if none else None,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """All of one benchmark."""

    name: str
    cells: Sequence[Cell]
    curves: Sequence[RoundCurve]
    made: Sequence[Comparison]


def _sections(report: Report) -> list[Part]:
    compared = against_rivals(report.cells)
    groups = [
        _Group(
            name=name,
            cells=cells,
            curves=[curve for cell in cells if (curve := round_curve(cell)) is not None],
            made=[made for made in compared if made.first.benchmark == name],
        )
        for name, cells in benchmarks_of(report.cells).items()
    ]

    def each(body: Callable[[_Group], list[Child]]) -> list[Child]:
        """A part of every benchmark, under its name where there are several."""
        found = [(group.name, body(group)) for group in groups]
        several = len(groups) > 1
        return [[h("h3", name) if several else None, *body] for name, body in found if body]

    prices = {
        run.run_id: run.config.runtime.prices(report.price_per_million) for run in report.runs
    }
    return [
        ("result", "Result", _results(groups)),
        ("accuracy", "Accuracy", each(_accuracy)),
        ("questions", "Questions", _questions(report)),
        ("rounds", "The chain", each(_chain)),
        ("stopping", "Stopping", each(_stopping)),
        ("trust", "Scores", each(_scores)),
        ("tokens", "Tokens", each(lambda group: _tokens(group, prices))),
        ("failures", "Failures", [_troubles(report)]),
        ("run", "What was run", [run_facts(run) for run in report.runs]),
    ]


def _results(groups: Sequence[_Group]) -> list[Child]:
    """A row of figures and a chart of each benchmark and run."""
    body: list[Child] = []
    for group in groups:
        for run in dict.fromkeys(cell.run for cell in group.cells):
            own = [cell for cell in group.cells if cell.run == run]
            found = suitability_of(own)
            verdict = verdict_of(group.name, own, group.made)
            body.append(
                verdict_row(
                    group.name
                    if not any(cell.run_shown for cell in own)
                    else f"{group.name}, {run}",
                    verdict.line,
                    verdict.tiles,
                    [
                        *verdict.sentences,
                        *(() if found is None else (*found.sentences(), numbers_of(found))),
                    ],
                    _accuracy_chart(own, group.curves, verdict),
                    h("p", h("a", "Every question and chain", href="#questions"), cls="hint"),
                )
            )
    return body


def _accuracy_chart(
    cells: Sequence[Cell], curves: Sequence[RoundCurve], verdict: Verdict
) -> Html | None:
    """Accuracy against tokens, with the path of MR-Thinking by round; MR-Thinking also by the rule
    that the verdict reads it by."""
    columns = [(cell.name, column_of(cell)) for cell in cells]
    lead = verdict.lead
    if lead is not None and lead.second.of.rule != lead.second.of.cell.rule:
        columns.append((f"{lead.second.of.cell.name} by {lead.second.rule}", lead.second))
    own = [curve for curve in curves if curve.of in cells]
    return figures.accuracy_figure(
        "Accuracy against tokens",
        [(name, name, column) for name, column in columns],
        "The thin line is MR-Thinking after each round." if own else "",
        paths=[
            {"series": curve.name, "tokens": tokens.value, "accuracy": seen.value}
            for curve in own
            for tokens, seen in zip(curve.tokens, curve.observed, strict=True)
            if seen is not None
        ],
    )


def _accuracy(group: _Group) -> list[Child]:
    return [results_table(group.name, group.cells, group.made)]


def _questions(report: Report) -> list[Child]:
    entries = entries_of(report.runs)
    data = browser_data(report.runs, entries, report.most_questions)
    within = data.pop("within")
    said = f"{words.plural(len(entries), 'question')}, {within:,} with their chains in this file."
    if within < len(entries):
        said += (
            " The others show how they ended: markovscale report RUN --questions all holds every "
            "chain, and markovscale show RUN QUESTION prints one."
        )
    data["chart"] = specification(charts.chain())
    return [
        h("p", said),
        h("noscript", h("p", "The list of questions and the charts need JavaScript.")),
        h("div", id="question-list"),
        h("div", id="question-page", tabindex="-1", aria_live="polite"),
        script_json(data, id="question-data"),
    ]


def _chain(group: _Group) -> list[Child]:
    """Every MR-Thinking: accuracy by round with the fitted chain, and the bounds."""
    if not group.curves:
        return [
            h(
                "p",
                f"The chain of {group.name} is not shown: it needs graded chains that are not "
                f"stopped early (MR-Thinking with N ≥ 2), which were not run.",
            )
        ]
    body: list[Child] = []
    for curve in group.curves:
        found, source = bounds_view(curve, group.cells)
        bounds = figures.bounds_figure(
            "Strategies and bounds",
            [
                (cell.name, cell.rule.value, right)
                for cell in group.cells
                if (right := accuracy(cell, cell.rule)) is not None
            ],
            found,
            f"Each strategy by its headline answer rule; {source}",
        )
        body.append(h("div", figures.rounds_figure(curve), bounds, cls="pair"))
    return body


def _stopping(group: _Group) -> list[Child]:
    shown = [c for c in group.cells if c.kind not in ("base", "mr_thinking")] or group.cells
    return [h("div", *map(figures.stops_figure, shown), cls="pair")]


def _scores(group: _Group) -> list[Child]:
    found = figures.reliability_figures(group.cells)
    return [h("div", *found, cls="pair")] if found else []


def _tokens(group: _Group, prices: Mapping[str, Prices | None]) -> list[Child]:
    bills = [bill_of(cell, prices[cell.run]) for cell in group.cells]
    priced = any(bill.cost is not None for bill in bills)
    counted = {
        "completion tokens": "completion_tokens",
        "of them thinking": "thinking_tokens",
        "wasted": "wasted_tokens",
        "failures of unknown tokens": "tokens_unknown",
        "prompt tokens": "prompt_tokens",
        "of them cached": "cached_prompt_tokens",
        "verifier tokens": "verifier_tokens",
    }
    if any(bill.totals["judge_tokens"] for bill in bills):
        counted["judge tokens"] = "judge_tokens"
    ledger = table(
        (
            "strategy",
            "completions",
            *counted,
            *(["cost, $", "$ per right answer"] if priced else []),
        ),
        [
            (
                bill.cell.name,
                words.count(bill.completions),
                *(words.count(bill.totals[name]) for name in counted.values()),
                *([words.money(bill.cost), words.money(bill.cost_per_right)] if priced else []),
            )
            for bill in bills
        ],
        caption="Token ledger, whole run",
    )
    known = dict.fromkeys(price for cell in group.cells if (price := prices[cell.run]) is not None)
    said = [
        f"$ per million tokens: {price.completion:g} for completions and wasted tokens, "
        f"{price.prompt:g} for prompts, {price.verifier:g} for verifier tokens"
        + (f", {price.judge:g} for judge tokens." if price.judge else ".")
        for price in known
    ]
    return [ledger, *(h("p", each, cls="hint") for each in said)]


def _troubles(report: Report) -> Html:
    """What went wrong, with examples."""
    found = troubles(report.cells, {run.run_id: run.questions for run in report.runs})
    if not found:
        return h("p", "No question failed, and every answer was graded.")
    return table(
        ("strategy", "what", "questions", "examples"),
        [
            (
                f"{trouble.cell.name}, {trouble.cell.benchmark}",
                h("bdi", trouble.what),
                f"{trouble.count:,}",
                h(
                    "ul",
                    *(
                        h("li", h("bdi", question), ": ", h("code", what, dir="auto"))
                        for question, what in trouble.examples
                    ),
                ),
            )
            for trouble in found
        ],
    )


def run_facts(run: RunData) -> Html:
    """What was run: models, questions, seeds, versions, attempts and the whole configuration."""
    science = run.config.science
    verifier = "none"
    if science.verifier is not None:
        verifier = f"{_model(science.verifier)}, {science.verifier.kind}"
    pairs: list[tuple[str, Child]] = [
        ("run", run.run_id),
        ("folder", run.run.address),
        ("made by", "SCRIPTED ENGINES, no model" if run.synthetic else "real engines"),
        ("generator", _model(science.generator)),
        ("verifier", verifier),
        ("benchmarks", ", ".join(source.name for source in science.benchmarks)),
        ("questions", f"{len(run.questions):,}"),
        ("chains done", f"{run.chains_done:,} of {run.chains:,}"),
        ("decoding", science.decoding_in_words),
        ("grader", science.grader),
        *([("judge", _model(science.judge))] if science.judge is not None else []),
        ("run seed", str(science.seed)),
        ("science digest", h("code", run.config.science_digest())),
        ("attempts", str(len(run.attempts))),
        ("engines", _engines(run.config.runtime)),
    ]
    for attempt, environment in sorted(run.environments.items()):
        for name, values in environment.items():
            said = ", ".join(f"{key} {value}" for key, value in values.items())
            pairs.append((f"{name}, attempt {attempt}", said))
    whole = h("pre", run.config.model_dump_json(indent=2), cls="text")
    return h("div", facts(pairs), folded("The whole configuration", whole))


def _model(model: Any) -> str:
    return model.model if model.revision is None else f"{model.model} at {model.revision}"


def _engines(runtime: RuntimeConfig) -> str:
    endpoint = runtime.generator.endpoint
    if endpoint is None:
        return f"{runtime.generator.most_replicas} generator replicas"
    return f"generator behind an endpoint, {words.count(len(endpoint.base_urls))} address(es)"
