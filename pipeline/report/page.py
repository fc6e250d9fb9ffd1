"""*Report page*: builds the report of one run or of several, section by section, as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.answers.answer_rules import AnswerRule, OwnRule, Rule
from pipeline.config.runtime import RuntimeConfig
from pipeline.core.prices import Prices
from pipeline.records.outcome import has_failed
from pipeline.report import charts, figures, words
from pipeline.report.capped import first_words
from pipeline.report.chain_view import (
    Diagnosis,
    RoundCurve,
    bounds_view,
    candidates,
    diagnose,
    round_curve,
)
from pipeline.report.comparison import accuracy, against_rivals
from pipeline.report.fronts import Row as FrontRow
from pipeline.report.fronts import fronts_section
from pipeline.report.html import (
    Child,
    Html,
    banner,
    contents,
    document,
    facts,
    folded,
    h,
    script_json,
    section,
    specification,
    table,
)
from pipeline.report.paper_tables import paper_tables
from pipeline.report.published import NONE_PUBLISHED, Published
from pipeline.report.questions import MOST_QUESTIONS, browser_data, entries_of
from pipeline.report.run_data import OURS, Cell, RunData, benchmarks_of, rules_in
from pipeline.report.score_view import score_views
from pipeline.report.spending import bill_of, time_line, troubles
from pipeline.report.suitability_view import contrast, numbers_of, suitability_of
from pipeline.report.sweep import Row as SweepRow
from pipeline.report.sweep import sweep_section
from pipeline.report.tables import Table, html_of
from pipeline.report.verdict import (
    Verdict,
    most_graded,
    one_question,
    verdict_of,
    verdict_words,
)
from pipeline.results.compare import Comparison
from pipeline.statistics.intervals import mean_interval
from pipeline.store.storage import Folder

_VERDICT_HEIGHT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report is made of.

    Args:
        runs: read with `read_runs`.
        sweep: rows of sweeps.
        fronts: rows of the fronts of sweeps, by the name of the run; "" for one alone.
        paper: the paper's numbers.
        price_per_million: of completion and wasted tokens; None takes the prices of each run.
        most_questions: that the report holds with their chains.
    """

    runs: Sequence[RunData]
    sweep: Sequence[SweepRow] = ()
    fronts: Mapping[str, Sequence[FrontRow]] = field(default_factory=dict)
    paper: Published = NONE_PUBLISHED
    price_per_million: float | None = None
    most_questions: int = MOST_QUESTIONS

    @property
    def cells(self) -> list[Cell]:
        """Those of all runs."""
        return [cell for run in self.runs for cell in run.cells]

    def tables(self) -> list[Table]:
        """The paper's tables."""
        return paper_tables(self.cells, self.paper)


def report_page(report: Report) -> str:
    """The whole file."""
    names = ", ".join(run.run_id for run in report.runs)
    parts = [part for part in _sections(report) if part[2]] if report.cells else []
    return document(
        f"MarkovScale: {names}",
        h("a", "Skip to the result", href="#result", cls="skip"),
        *_banners(report.runs),
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
            "Made by markovscale report from the run's own records; it holds no link to the "
            "network.",
        ),
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
    for run in runs:
        for caution in run.cautions:
            yield banner(h("b", "Warning: "), h("bdi", caution))
    for run in runs:
        if run.capped is not None:
            said = f"{run.run_id}: {first_words(run.capped, run.not_run)}"
            yield banner(h("b", "Capped. "), h("bdi", said))
        if run.chains_done < run.chains:
            none = [f"{n.strategy} on {n.benchmark}" for n in run.not_run if n.questions == n.of]
            yield banner(
                f"Partial: {run.chains_done:,} of {words.plural(run.chains, 'chain')} of "
                f"{run.run_id} are done.",
                f" No outcome yet: {', '.join(none)}." if none else None,
            )


Part = tuple[str, str, list[Child]]
"""(id, title, content)."""


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
        ("rounds", "The chain", each(_rounds)),
        ("stopping", "Stopping", each(_stopping)),
        ("trust", "Scores", each(_scores)),
        ("tokens", "Tokens", each(lambda group: _tokens(group, prices))),
        ("time", "Time", _time(report.runs)),
        ("sweeps", "Sweeps", _sweeps(report)),
        ("backbones", "Backbones", _backbones(groups)),
        ("paper", "Paper tables", _paper(report)),
        ("failures", "Failures", [_troubles(report)]),
        ("run", "What was run", [run_facts(run) for run in report.runs]),
    ]


def _results(groups: Sequence[_Group]) -> list[Child]:
    """A row of figures and a chart of each benchmark and run, and what tells benchmarks apart."""
    body: list[Child] = []
    suits = {group.name: suitability_of(group.cells) for group in groups}
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
    differ = contrast({name: found for name, found in suits.items() if found is not None})
    return [*body, h("p", differ) if differ else None]


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


def _accuracy_chart(
    cells: Sequence[Cell], curves: Sequence[RoundCurve], verdict: Verdict
) -> Html | None:
    """Accuracy against tokens, MR-Thinking also by the rule that the verdict reads it by."""
    if not any(cell.rights(cell.rule) and any(cell.tokens) for cell in cells):
        return None
    best = {}
    lead = verdict.lead
    if lead is not None and lead.second.of.rule != lead.second.of.cell.rule:
        right, spent = lead.second.accuracy, lead.second.tokens
        if right is not None and spent is not None:
            best[f"{lead.second.of.cell.name} by {lead.second.rule}"] = {
                **figures.ends(right),
                **figures.ends(spent, "tokens", "tokens_"),
            }
    own = [curve for curve in curves if curve.cell in cells]
    return figures.accuracy_figure(cells, own, best, _VERDICT_HEIGHT)


def _accuracy(group: _Group) -> list[Child]:
    return [
        results_table(group.name, group.cells, group.made),
        selection_table(group.made),
    ]


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


def _rounds(group: _Group) -> list[Child]:
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
        view = bounds_view(curve, group.cells)
        body += [
            h(
                "div",
                figures.rounds_figure(curve),
                figures.bounds_figure(group.cells, view.bounds, view.source),
                cls="pair",
            ),
            diagnosis_table(curve, diagnose(curve)),
        ]
    return body


def _stopping(group: _Group) -> list[Child]:
    shown = [c for c in group.cells if c.kind not in ("base", "mr_thinking")] or group.cells
    return [h("div", *map(figures.stops_figure, shown), cls="pair")]


def _scores(group: _Group) -> list[Child]:
    found = list(map(figures.reliability_figure, score_views(group.cells)))
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
        f"{price.prompt:g} for prompts, {price.verifier:g} for verifier tokens."
        for price in known
    ]
    return [figures.tokens_figure(bills), ledger, *(h("p", each, cls="hint") for each in said)]


def _time(runs: Sequence[RunData]) -> list[Child]:
    body: list[Child] = []
    for run in runs:
        moments = time_line(run.metrics)
        if moments:
            body.append(h("h3", run.run_id) if len(runs) > 1 else None)
            body.append(h("div", *figures.time_figures(moments), cls="pair"))
    return body


def _sweeps(report: Report) -> list[Child]:
    body: list[Child] = []
    for source, rows in report.fronts.items():
        body += fronts_section(rows, of=source)
    return body + sweep_section(report.sweep)


def _backbones(groups: Sequence[_Group]) -> list[Child]:
    body: list[Child] = []
    for group in groups:
        if len({curve.cell.backbone for curve in group.curves}) < 2:
            continue
        n = max(curve.cell.n for curve in group.curves)
        body.append(
            table(
                ("backbone", "run", "L [95 %]", "p0", "expected accuracy",
                 "expected tokens per question", "questions"),
                [
                    (
                        one.curve.cell.backbone,
                        one.curve.cell.run,
                        words.percent_with(one.curve.fit.stationary_accuracy),
                        words.percent(one.curve.p0),
                        f"{words.percent(one.expected_accuracy)} at N = {one.n}",
                        words.count(one.expected_tokens),
                        str(len(one.curve.cell.rows)),
                    )
                    for one in candidates(group.curves, n)
                ],
                caption=f"{group.name}: backbones by L",
            )
        )  # fmt: skip
    if body:
        said = (
            "The paper proposes to choose the backbone with the highest L before the large run. "
            "Where intervals overlap, the pilot is too small to tell."
        )
        body.append(h("p", said, cls="hint"))
    return body


def _paper(report: Report) -> list[Child]:
    body: list[Child] = [html_of(made) for made in report.tables()]
    if report.paper is NONE_PUBLISHED:
        said = "The paper's numbers stand beside ours with --paper FOLDER."
        body.append(h("p", said, cls="hint"))
    return body


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


def results_table(benchmark: str, cells: Sequence[Cell], made: Sequence[Comparison]) -> Html:
    """Every cell: accuracy by rule, completions, tokens and the paired test."""
    headlines = {AnswerRule.LAST, AnswerRule.PRM_ARGMAX, *(cell.rule for cell in cells)}
    headlines |= {one.second.of.rule for one in made}
    known = [r for r in rules_in(cells) if any(accuracy(cell, r) for cell in cells)]
    rules = [r for r in known if r in headlines or not isinstance(r, AnswerRule)]
    paired = {comparison.first.of.cell: comparison for comparison in made}
    left = any(cell.not_run for cell in cells)
    rows: list[list[Child]] = []
    for cell in cells:
        tokens, against = mean_interval(cell.tokens), paired.get(cell)
        saved = None if against is None else against.saved
        rows.append(
            [
                cell.name,
                str(cell.n),
                *(_rule_entry(cell, rule) for rule in rules),
                f"{sum(row['completions'] for row in cell.rows) / len(cell.rows):.2f}",
                [
                    words.count(tokens.value),
                    h("small", f"[{words.count(tokens.low)}, {words.count(tokens.high)}]"),
                ],
                [
                    words.percent(None if saved is None else saved.value),
                    h("small", words.percent_range(saved)),
                ],
                words.NONE if against is None else _test_entry(against),
                str(sum(map(has_failed, cell.rows))),
                *([f"{cell.not_run:,}"] if left else []),
            ]
        )
    n, graded = max(len(cell.rows) for cell in cells), most_graded(cells)
    told = words.plural(n, "question") + (f", {graded:,} graded" if graded < n else "")
    tests = max((one.tests for one in made), default=1)
    worth = f"; {one_question(graded, tests)}" if graded else ""
    own = [f"{rule} is {rule.told()}" for rule in known if isinstance(rule, OwnRule)]
    unbilled = [c.name for c in cells if any(p.stream is None for p in c.strategy.phases())]
    return h(
        "div",
        table(
            (
                "strategy",
                "N",
                *(f"accuracy, {_title(rule, known)}" for rule in rules),
                "completions per question",
                "tokens per question",
                "tokens saved",
                "against MR-Thinking at its best, points",
                "failed",
                *(["not run"] if left else []),
            ),
            rows,
            caption=f"{benchmark}: {told}{worth}",
        ),
        folded(
            "How to read this table",
            h(
                "p",
                "★ marks the headline answer rule of a strategy. Intervals are 95 %: Wilson for "
                "accuracies, Student for tokens, adjusted Wald (Bonett and Price) for differences, "
                "each of its one comparison; p-values are of McNemar's exact test, corrected "
                f"(Holm) for all comparisons of this page"
                f"{f', {made[0].tests:,} in all' if made else ''}. "
                "MR-Thinking is read by that of its answer rules which has most right here; its "
                "other rules are among the comparisons. Ungraded answers are left out; failed "
                "questions count as wrong whatever they had answered before, and are billed for "
                "what they drew.",
                f" {words.listed(unbilled)}: as published, without the warm-up, which was drawn "
                "and paid." if unbilled else None,
                f" Rules of users' own: {'; '.join(own)}." if own else None,
            ),
        ),
        folded(
            "Every answer rule",
            table(
                ("strategy", *(_title(rule, known) for rule in known)),
                [(cell.name, *(_rule_entry(cell, rule) for rule in known)) for cell in cells],
            ),
        ),
    )  # fmt: skip


def _title(rule: Rule, rules: Sequence[Rule]) -> str:
    """A rule's name, with its place where another run's has the same name."""
    alike = [other for other in rules if other.value == rule.value]
    return f"{rule} ({rule.told()})" if len(alike) > 1 and isinstance(rule, OwnRule) else rule.value


def _rule_entry(cell: Cell, rule: Rule) -> Child:
    interval = accuracy(cell, rule)
    if interval is None:
        return words.NONE
    star = " ★" if rule == cell.rule else ""
    return [f"{words.percent(interval.value)}{star}", h("small", words.percent_range(interval))]


def _test_entry(comparison: Comparison) -> Child:
    if comparison.accuracy is None or comparison.p_adjusted is None:
        return words.NONE
    return [
        words.points(comparison.accuracy.value),
        h("small", words.points_range(comparison.accuracy.low, comparison.accuracy.high)),
        h("small", f"its {comparison.second.rule}"),
        h("small", words.p_value(comparison.p_adjusted)),
        h("small", verdict_words(comparison)),
    ]


def selection_table(made: Sequence[Comparison]) -> Html | None:
    """Gain from choosing among completions and gain from stopping, apart."""
    rows: list[list[Child]] = []
    for comparison in made:
        cell, rival = comparison.first.of.cell, comparison.second.of.cell
        if cell.kind not in OURS:
            continue
        read = [
            rival.rights(AnswerRule.LAST),
            rival.rights(cell.rule),
            cell.rights(cell.rule),
            cell.rights(AnswerRule.LAST),
        ]
        common = set(read[0]).intersection(*read[1:])
        if not common:
            continue
        last, own, mine, mine_last = (
            sum(rights[key] for key in common) / len(common) for rights in read
        )
        gains = (words.points(own - last), words.points(mine - own))
        rows.append(
            [cell.name, words.percent(last), *gains, words.percent(mine), words.percent(mine_last)]
        )
    if not rows:
        return None
    header = (
        "strategy",
        "MR-Thinking, last round",
        "from selection, points",
        "from stopping, points",
        "strategy, its own rule",
        "strategy, last round",
    )
    said = (
        "Selection: MR-Thinking's own completions read by the strategy's answer rule. Stopping: "
        "what is left of the difference when both are read by that rule. All on the questions that "
        "are graded for both."
    )
    made_table = table(header, rows, caption="Selection and stopping apart")
    return h("div", made_table, h("p", said, cls="hint"))


def diagnosis_table(curve: RoundCurve, found: Diagnosis) -> Html:
    """The fitted chain, and whether it is one first-order chain."""
    fit = curve.fit
    seen_a, seen_b = fit.counts.from_right > 0, fit.counts.from_wrong > 0
    both = [
        ("L = b / (a + b)", words.percent_with(fit.stationary_accuracy)),
        ("λ = 1 − a − b", words.decimal_with(fit.second_eigenvalue)),
    ]
    parameters = [
        ("a, right → wrong", words.decimal_with(fit.a) if seen_a else "no right answer seen"),
        ("b, wrong → right", words.decimal_with(fit.b) if seen_b else "no wrong answer seen"),
        *(both if seen_a and seen_b else []),
        (
            "transitions",
            f"{fit.counts.from_right:,} from right answers, "
            f"{fit.counts.from_wrong:,} from wrong ones",
        ),
        (
            "last round",
            f"{words.percent(curve.predicted[-1])} predicted, "
            f"{words.percent_with(curve.observed[-1])} reached",
        ),
    ]
    tests = [
        (name, f"χ² {test.statistic:.1f} on {test.df}, {words.p_value(test.p_value)}", test.p_value)
        for name, test in (
            ("first order against second", found.order),
            ("a the same in every round", found.drift.a),
            ("b the same in every round", found.drift.b),
        )
    ]
    tests += [
        (
            f"one {name} for all questions",
            f"spread {words.decimal(mixture.spread, 2)}, {words.p_value(mixture.p_value)}",
            mixture.p_value,
        )
        for name, mixture in (("a", found.mixture_a), ("b", found.mixture_b))
    ]
    if found.fit is not None:
        told = (
            f"χ² {found.fit.chi_square:.1f}, {words.p_value(found.fit.p_value)}, mean error "
            f"{words.magnitude(found.fit.mean_absolute_error)} points"
        )
        tests.append(("p_r follows the curve", told, found.fit.p_value))
    said = (
        "Read the two lines on questions first: where questions differ, the tests of order and of "
        "rounds reject as well. The p-values of rounds and of the curve are shares of simulated "
        "chains, those of the other tests from the χ² distribution; none is corrected for the "
        "others. Spread is 0 where all questions share one rate, 1 where each is always or never. "
        "The intervals of a, b, L and λ weigh whole questions."
    )
    return folded(
        "The chain in numbers: is it one first-order chain?",
        facts(parameters),
        table(
            ("assumption", "test", "at 5 %"),
            [(name, told, "rejected" if p < 0.05 else "not rejected") for name, told, p in tests],
        ),
        h("p", said, cls="hint"),
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
