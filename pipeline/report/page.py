"""*Report page*: builds the report of one run or of several, section by section, as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.answers.answer_rules import AnswerRule, OwnRule, Rule
from pipeline.core.prices import Prices
from pipeline.records.outcome import has_failed
from pipeline.records.trajectory import Seen
from pipeline.report import figures, words
from pipeline.report.chain_view import RoundCurve, round_curve
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
    table,
    with_ends,
)
from pipeline.report.questions import MOST_QUESTIONS, browser_data, entries_of
from pipeline.report.run_data import Cell, RunData, benchmarks_of, rules_in
from pipeline.report.run_warnings import capped_words
from pipeline.report.suitability_view import numbers_of, suitability_of, trust_table
from pipeline.report.summary import entry_of
from pipeline.report.tables import bounds_note
from pipeline.report.verdict import (
    Verdict,
    most_graded,
    verdict_of,
    verdict_row,
    verdict_words,
)
from pipeline.results.compare import Comparison
from pipeline.statistics.intervals import mean_interval

_EXAMPLES = 5  # of a kind of failure


def report_page(
    runs: Sequence[RunData],
    *,
    price_per_million: float | None = None,
    most_questions: int = MOST_QUESTIONS,
) -> str:
    """The whole file.

    Args:
        runs: read with `read_runs`.
        price_per_million: of completion and wasted tokens; None takes the prices of each run.
        most_questions: that the report holds with their chains.
    """
    names = ", ".join(run.run_id for run in runs)
    return page(
        f"MarkovScale: {names}",
        "MarkovScale report",
        names,
        _sections(runs, price_per_million, most_questions) if any(r.cells for r in runs) else [],
        banners=_banners(runs),
        made_by="Made by markovscale report from the run's own records",
    )


def _banners(runs: Sequence[RunData]) -> Iterator[Html]:
    made_up = [run.run_id for run in runs if run.synthetic]
    if made_up:
        text = f"Scripted engines made the data of {', '.join(made_up)}; no model answered."
        yield banner(h("b", "SYNTHETIC"), text, made_up=True)
    warnings = [h("bdi", warning) for run in runs for warning in run.warnings]
    if len(warnings) == 1:
        yield banner(h("b", "Warning: "), *warnings)
    elif warnings:
        lines = h("ul", *(h("li", warning) for warning in warnings))
        yield banner(h("details", h("summary", h("b", f"{len(warnings)} warnings")), lines))
    for run in runs:
        if run.capped is not None:
            text = f"{run.run_id}: {capped_words(run.capped, run.not_run)}"
            yield banner(h("b", "Capped. "), h("bdi", text))
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


def _sections(
    runs: Sequence[RunData], price_per_million: float | None, most_questions: int
) -> list[Part]:
    every = [cell for run in runs for cell in run.cells]
    compared = against_rivals(every)
    groups = [
        _Group(
            name=name,
            cells=cells,
            curves=[curve for cell in cells if (curve := round_curve(cell)) is not None],
            made=[made for made in compared if made.first.benchmark == name],
        )
        for name, cells in benchmarks_of(every).items()
    ]

    def each(body: Callable[[_Group], list[Child]]) -> list[Child]:
        """A part of every benchmark, under its name where there are several."""
        found = [(group.name, body(group)) for group in groups]
        several = len(groups) > 1
        return [[h("h3", name) if several else None, *body] for name, body in found if body]

    prices = {run.run_id: run.config.runtime.prices(price_per_million) for run in runs}
    return [
        ("result", "Result", _results(groups)),
        ("accuracy", "Accuracy", each(_accuracy)),
        ("questions", "Questions", _questions(runs, most_questions)),
        ("rounds", "The chain", each(_chain)),
        ("stopping", "Stopping", each(_stopping)),
        ("trust", "Scores", each(_scores)),
        ("tokens", "Tokens", each(lambda group: _tokens(group, prices))),
        ("failures", "Failures", [_failures(runs)]),
        ("run", "What was run", [run_facts(run) for run in runs]),
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
                with_ends(words.count(tokens.value), words.count_range(tokens)),
                with_ends(
                    words.percent(None if saved is None else saved.value),
                    words.percent_range(saved),
                ),
                words.NONE if against is None else _test_entry(against),
                str(sum(map(has_failed, cell.rows))),
                *([f"{cell.not_run:,}"] if left else []),
            ]
        )
    n, graded = max(len(cell.rows) for cell in cells), most_graded(cells)
    caption = words.plural(n, "question") + (f", {graded:,} graded" if graded < n else "")
    own = [f"{rule} is {rule.source()}" for rule in known if isinstance(rule, OwnRule)]
    unbilled = [c.name for c in cells if any(p.stream is None for p in c.strategy.phases())]
    return h(
        "div",
        table(
            (
                "strategy",
                "N",
                *(f"accuracy, {rule.value}" for rule in rules),
                "completions per question",
                "tokens per question",
                "tokens saved",
                "against MR-Thinking at its best, points",
                "failed",
                *(["not run"] if left else []),
            ),
            rows,
            caption=f"{benchmark}: {caption}",
        ),
        folded(
            "How to read this table",
            h(
                "p",
                "★ marks the headline answer rule of a strategy. Intervals (docs/report.md) are "
                "95 %, each of its one comparison; p-values are of McNemar's exact test, "
                f"corrected for all comparisons{f', {made[0].tests:,} in all' if made else ''}. "
                "MR-Thinking is read by its answer rule with the most right answers here. "
                "Ungraded answers are left out; failed questions count as wrong.",
                f" {words.listed(unbilled)}: as published, without the warm-up, which was "
                "generated and paid." if unbilled else None,
                f" Rules of users' own: {'; '.join(own)}." if own else None,
            ),
        ),
        folded(
            "Every answer rule",
            table(
                ("strategy", *(rule.value for rule in known)),
                [(cell.name, *(_rule_entry(cell, rule) for rule in known)) for cell in cells],
            ),
        ),
    )  # fmt: skip


def _rule_entry(cell: Cell, rule: Rule) -> Child:
    interval = accuracy(cell, rule)
    if interval is None:
        return words.NONE
    star = " ★" if rule == cell.rule else ""
    value = with_ends(f"{words.percent(interval.value)}{star}", words.percent_range(interval))
    return [*value, bounds_note(column_of(cell, rule))]


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


def _questions(runs: Sequence[RunData], most_questions: int) -> list[Child]:
    entries = entries_of(runs)
    data = browser_data(runs, entries, most_questions)
    within = data.pop("within")
    hint = f"{words.plural(len(entries), 'question')}, {within:,} with their chains in this file."
    if within < len(entries):
        hint += (
            " The others show how they ended: markovscale report RUN --questions all holds every "
            "chain, and markovscale show RUN QUESTION prints one."
        )
    return [
        h("p", hint),
        h("noscript", h("p", "The list of questions and the charts need JavaScript.")),
        h("div", id="question-list"),
        h("div", id="question-page", tabindex="-1", aria_live="polite"),
        script_json(data, id="question-data"),
    ]


def _chain(group: _Group) -> list[Child]:
    """Every MR-Thinking: accuracy by round with the fitted chain."""
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
        body.append(figures.rounds_figure(curve))
    return body


def _stopping(group: _Group) -> list[Child]:
    shown = [c for c in group.cells if c.kind not in ("base", "mr_thinking")] or group.cells
    return [h("div", *map(figures.stops_figure, shown), cls="pair")]


def _scores(group: _Group) -> list[Child]:
    found = trust_table(group.cells)
    return [found] if found is not None else []


def _tokens(group: _Group, prices: Mapping[str, Prices | None]) -> list[Child]:
    entries = {cell: entry_of(cell, group.cells, prices[cell.run]) for cell in group.cells}
    priced = any("usd" in entry for entry in entries.values())
    counted = {
        "completion tokens": "completion_tokens",
        "of them thinking": "thinking_tokens",
        "wasted": "wasted_tokens",
        "failures of unknown tokens": "tokens_unknown",
        "prompt tokens": "prompt_tokens",
        "of them cached": "cached_prompt_tokens",
        "verifier tokens": "verifier_tokens",
    }
    if any(entry["tokens"]["judge_tokens"] for entry in entries.values()):
        counted["judge tokens"] = "judge_tokens"
    header = ("strategy", "completions", *counted)
    rows: list[list[Child]] = []
    for cell, entry in entries.items():
        tokens = (words.count(entry["tokens"][name]) for name in counted.values())
        rows.append([cell.name, words.count(entry["completions"]), *tokens])
        if priced:
            usd, right = entry.get("usd"), sum(cell.rights(cell.rule).values())
            each = None if usd is None or not right else usd / right
            rows[-1] += [words.money(usd), words.money(each)]
    if priced:
        header = (*header, "cost, $", "$ per right answer")
    ledger = table(header, rows, caption="Tokens, whole run")
    known = dict.fromkeys(price for cell in group.cells if (price := prices[cell.run]) is not None)
    notes = [
        f"$ per million tokens: {price.completion:g} for completions and wasted tokens, "
        f"{price.prompt:g} for prompts, {price.verifier:g} for verifier tokens"
        + (f", {price.judge:g} for judge tokens." if price.judge else ".")
        for price in known
    ]
    return [ledger, *(h("p", each, cls="hint") for each in notes)]


def _failures(runs: Sequence[RunData]) -> Html:
    """What went wrong, with examples."""
    rows: list[list[Child]] = []
    of_runs = [(run, cell) for run in runs for cell in run.cells]
    for run, cell in of_runs:
        examples: dict[str, list[Html]] = {}
        for key, row in cell.by_question.items():
            found = trouble_of(cell, row, run.questions.get(key))
            if found is not None:
                message = [h("bdi", row["question_id"]), ": ", h("code", found[1], dir="auto")]
                examples.setdefault(found[0], []).append(h("li", *message))
        rows += [
            [
                f"{cell.name}, {cell.benchmark}",
                h("bdi", what),
                f"{len(lines):,}",
                h("ul", *lines[:_EXAMPLES]),
            ]
            for what, lines in examples.items()
        ]
    if not rows:
        return h("p", "No question failed, and every answer was graded.")
    return table(("strategy", "what", "questions", "examples"), rows)


def trouble_of(cell: Cell, row: Seen, question: Seen | None) -> tuple[str, str] | None:
    """The kind of trouble of an outcome, and what came of it; None where it has an answer that is
    graded."""
    rule = cell.rule.value
    if row["error"] is not None:
        return f"failed: {row['error'].partition(':')[0][:60]}", row["error"][:400]
    if row[f"verdict_{rule}"] == "ungraded":
        gold = question["gold"] if question is not None else None
        return "ungraded answer", f"answer {row[f'answer_{rule}']!r}, gold {gold!r}"[:400]
    if row[f"answer_{rule}"] is None:
        return "no answer", f"none in {row['completions']} completions"
    return None


def run_facts(run: RunData) -> Html:
    """What was run: models, questions, seeds, versions, attempts and the whole configuration."""
    science = run.config.science
    pairs: list[tuple[str, Child]] = [
        ("run", run.run_id),
        ("folder", run.run.address),
        ("made by", "SCRIPTED ENGINES, no model" if run.synthetic else "real engines"),
        ("generator", science.generator.model),
        ("verifier", "none" if science.verifier is None else science.verifier.model),
        ("questions", f"{len(run.questions):,}"),
        ("chains done", f"{run.chains_done:,} of {run.chains:,}"),
        ("decoding", science.decoding_in_words),
        ("science digest", h("code", run.config.science_digest())),
        ("attempts", str(len(run.attempts))),
    ]
    for attempt, environment in sorted(run.environments.items()):
        for name, values in environment.items():
            text = ", ".join(f"{key} {value}" for key, value in values.items())
            pairs.append((f"{name}, attempt {attempt}", text))
    configuration = h("pre", run.config.model_dump_json(indent=2), cls="text")
    return h("div", facts(pairs), folded("The whole configuration", configuration))
