"""The sections of a report: each a function from views to markup, None where it has nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.answer_rules import AnswerRule
from pipeline.report import words
from pipeline.report.chain_view import Candidate, Diagnosis, RoundCurve
from pipeline.report.comparison import Comparison, accuracy, mean_interval
from pipeline.report.failures import Trouble
from pipeline.report.figure import facts, table
from pipeline.report.html import Child, Html, h
from pipeline.report.message import Message, one_question, verdict_words
from pipeline.report.run_data import OURS, Cell, RunData
from pipeline.report.spending import Bill


def message_block(message: Message) -> Html:
    """The headline of a benchmark, its sentences and its figures in large type."""
    return h(
        "div",
        h("h2", f"{message.headline}."),
        _tiles(message),
        *(h("p", sentence) for sentence in message.sentences),
        cls="message",
    )


def _tiles(message: Message) -> Html | None:
    lead = message.lead
    if lead is None or lead.accuracy is None:
        return None
    own = accuracy(lead.first, lead.rule_first)
    saved = lead.saved
    tiles = [
        ("accuracy", words.percent(None if own is None else own.value), words.percent_range(own)),
        (
            "difference in points",
            words.points(lead.accuracy.value),
            words.points_range(*lead.gain_ends),
        ),
        (
            "tokens saved",
            words.percent(None if saved is None else saved.value, 0),
            words.percent_range(saved, 0),
        ),
        (
            "questions",
            f"{lead.n_questions:,}",
            f"each {words.magnitude(1 / lead.n_questions)} points",
        ),
    ]
    return h(
        "ul",
        *(h("li", h("b", value), h("span", name), h("small", ends)) for name, value, ends in tiles),
        cls="tiles",
    )


def results_table(benchmark: str, cells: Sequence[Cell], made: Sequence[Comparison]) -> Html:
    """Every cell: accuracy by rule, completions, tokens and the paired test."""
    headlines = {AnswerRule.LAST, AnswerRule.PRM_ARGMAX, *(cell.rule for cell in cells)}
    known = [r for r in AnswerRule if any(accuracy(cell, r) for cell in cells)]
    rules = [rule for rule in known if rule in headlines]
    paired = {comparison.first: comparison for comparison in made}
    rows: list[list[Child]] = []
    for cell in cells:
        tokens = mean_interval(cell.tokens)
        against = paired.get(cell)
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
                words.NONE
                if against is None
                else [
                    words.percent(None if against.saved is None else against.saved.value),
                    h("small", words.percent_range(against.saved)),
                ],
                words.NONE if against is None else _test_entry(against),
                str(sum(row["error"] is not None for row in cell.rows)),
            ]
        )
    n = max(len(cell.rows) for cell in cells)
    return h(
        "div",
        table(
            (
                "strategy",
                "N",
                *(f"accuracy, {rule.value}" for rule in rules),
                "completions a question",
                "tokens a question",
                "tokens saved",
                "against MR-Thinking, points",
                "failed",
            ),
            rows,
            caption=f"{benchmark}: {words.plural(n, 'question')}; {one_question(n)}",
        ),
        h(
            "p",
            "★ marks the headline answer rule of a strategy. Intervals are 95 %: Wilson for "
            "accuracies, Student for tokens, the paired bootstrap over questions for differences; "
            "p-values are of McNemar's exact test, corrected (Holm) for all strategies of the "
            "table. Where only one of two strategies has questions to itself, the ends are of the "
            "adjusted Wald interval (Bonett and Price). Ungraded answers are left out, failed "
            "questions count as wrong.",
            cls="hint",
        ),
        h(
            "details",
            h("summary", "Every answer rule"),
            table(
                ("strategy", *(rule.value for rule in known)),
                [(cell.name, *(_rule_entry(cell, rule) for rule in known)) for cell in cells],
            ),
        ),
    )


def _rule_entry(cell: Cell, rule: AnswerRule) -> Child:
    interval = accuracy(cell, rule)
    if interval is None:
        return words.NONE
    star = " ★" if rule is cell.rule else ""
    return [f"{words.percent(interval.value)}{star}", h("small", words.percent_range(interval))]


def _test_entry(comparison: Comparison) -> Child:
    if comparison.accuracy is None or comparison.p_adjusted is None:
        return words.NONE
    return [
        words.points(comparison.accuracy.value),
        h("small", words.points_range(*comparison.gain_ends)),
        h("small", words.p_value(comparison.p_adjusted)),
        h("small", verdict_words(comparison)),
    ]


def selection_table(made: Sequence[Comparison]) -> Html | None:
    """Gain from choosing among completions and gain from stopping, apart."""
    rows: list[list[Child]] = []
    for comparison in made:
        cell, rival = comparison.first, comparison.second
        if cell.kind not in OURS:
            continue
        own, last = accuracy(rival, cell.rule), accuracy(rival, AnswerRule.LAST)
        mine, mine_last = accuracy(cell, cell.rule), accuracy(cell, AnswerRule.LAST)
        if own is None or last is None or mine is None or mine_last is None:
            continue
        rows.append(
            [
                cell.name,
                words.percent(last.value),
                words.points(own.value - last.value),
                words.points(mine.value - own.value),
                words.percent(mine.value),
                words.percent(mine_last.value),
            ]
        )
    if not rows:
        return None
    return h(
        "div",
        table(
            (
                "strategy",
                "MR-Thinking, last round",
                "from selection, points",
                "from stopping, points",
                "strategy, its own rule",
                "strategy, last round",
            ),
            rows,
            caption="Selection and stopping apart",
        ),
        h(
            "p",
            "Selection: MR-Thinking's own completions read by the strategy's answer rule. "
            "Stopping: what is left of the difference when both are read by that rule.",
            cls="hint",
        ),
    )


def diagnosis_table(curve: RoundCurve, found: Diagnosis) -> Html:
    """The fitted chain, and whether it is one first-order chain."""
    fit = curve.fit
    drift = found.drift
    parameters = facts(
        [
            ("a, right → wrong", words.decimal_with(fit.a)),
            ("b, wrong → right", words.decimal_with(fit.b)),
            ("L = b / (a + b)", words.percent_with(fit.stationary_accuracy)),
            ("λ = 1 − a − b", words.decimal_with(fit.second_eigenvalue)),
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
    )
    tests: list[list[Child]] = [
        ["first order against second", _ratio(found.order), _reject(found.order.p_value)],
        ["a the same in every round", _ratio(drift.a), _reject(drift.a.p_value)],
        ["b the same in every round", _ratio(drift.b), _reject(drift.b.p_value)],
        [
            "one a for all questions",
            f"spread {words.decimal(found.mixture_a.spread, 2)}, "
            f"{words.p_value(found.mixture_a.p_value)}",
            _reject(found.mixture_a.p_value),
        ],
        [
            "one b for all questions",
            f"spread {words.decimal(found.mixture_b.spread, 2)}, "
            f"{words.p_value(found.mixture_b.p_value)}",
            _reject(found.mixture_b.p_value),
        ],
    ]
    if found.fit is not None:
        tests.append(
            [
                "p_r follows the curve",
                f"χ² {found.fit.chi_square:.1f}, {words.p_value(found.fit.p_value)}, mean error "
                f"{words.percent(found.fit.mean_absolute_error)}",
                _reject(found.fit.p_value),
            ]
        )
    return h(
        "div",
        parameters,
        table(("taken for granted", "test", "reading"), tests, caption="Is it one chain?"),
        h(
            "p",
            "Read the two lines on questions first: where questions differ, the tests of order and "
            "of rounds reject as well. Spread is 0 where all questions share one rate, 1 where "
            "each is always or never. The intervals of a, b, L and λ weigh whole questions.",
            cls="hint",
        ),
    )


def _ratio(test: Any) -> str:
    return f"χ² {test.statistic:.1f} on {test.df}, {words.p_value(test.p_value)}"


def _reject(p: float) -> str:
    return "rejected" if p < 0.05 else "not rejected"


def bills_table(bills: Sequence[Bill]) -> Html:
    """Tokens of each kind in all, and what they cost."""
    priced = any(bill.cost is not None for bill in bills)
    return table(
        (
            "strategy", "completions", "completion tokens", "of them thinking", "wasted",
            "failures of unknown tokens", "prompt tokens", "of them cached", "verifier tokens",
            *(["estimated cost"] if priced else []),
        ),
        [
            (
                bill.cell.name,
                words.count(bill.completions),
                words.count(bill.totals["completion_tokens"]),
                words.count(bill.totals["thinking_tokens"]),
                words.count(bill.totals["wasted_tokens"]),
                words.count(bill.totals["tokens_unknown"]),
                words.count(bill.totals["prompt_tokens"]),
                words.count(bill.totals["cached_prompt_tokens"]),
                words.count(bill.totals["verifier_tokens"]),
                *([f"{bill.cost:,.2f}"] if bill.cost is not None else []),
            )
            for bill in bills
        ],
        caption="Token ledger, whole run",
    )  # fmt: skip


def candidates_table(benchmark: str, ranked: Sequence[Candidate]) -> Html:
    """Backbones by L."""
    return table(
        (
            "backbone",
            "run",
            "L [95 %]",
            "p0",
            "expected accuracy",
            "expected tokens a question",
            "questions",
        ),
        [
            (
                candidate.curve.cell.backbone,
                candidate.curve.cell.run,
                words.percent_with(candidate.curve.fit.stationary_accuracy),
                words.percent(candidate.curve.p0),
                f"{words.percent(candidate.expected_accuracy)} at N = {candidate.n}",
                words.count(candidate.expected_tokens),
                str(len(candidate.curve.cell.rows)),
            )
            for candidate in ranked
        ],
        caption=f"{benchmark}: backbones by L",
    )


def troubles_table(found: Sequence[Trouble]) -> Html:
    """What went wrong, with examples."""
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
    science, runtime = run.config.science, run.config.runtime
    pairs: list[tuple[str, Child]] = [
        ("run", run.run_id),
        ("made by", "SCRIPTED ENGINES, no model" if run.synthetic else "real engines"),
        ("generator", _model(science.generator.model, science.generator.revision)),
        (
            "verifier",
            "none"
            if science.verifier is None
            else _model(science.verifier.model, science.verifier.revision),
        ),
        ("benchmarks", ", ".join(source.name for source in science.benchmarks)),
        ("questions", f"{len(run.questions):,}"),
        ("chains done", f"{run.chains_done:,} of {run.chains:,}"),
        (
            "decoding",
            f"temperature {science.decoding.temperature:g}, top_p {science.decoding.top_p:g}, at "
            f"most {science.decoding.max_tokens:,} tokens",
        ),
        ("grader", science.grader),
        ("run seed", str(science.seed)),
        ("science digest", h("code", run.config.science_digest())),
        ("attempts", str(len(run.attempts))),
        ("engines", f"{runtime.host}, {runtime.generator.replicas} generator replicas"),
    ]
    for attempt, environment in sorted(run.environments.items()):
        for name, values in environment.items():
            said = ", ".join(f"{key} {value}" for key, value in values.items())
            pairs.append((f"{name}, attempt {attempt}", said))
    return h(
        "div",
        facts(pairs),
        h(
            "details",
            h("summary", "The whole configuration"),
            h("pre", run.config.model_dump_json(indent=2), cls="text"),
        ),
    )


def _model(name: str, revision: str | None) -> str:
    return name if revision is None else f"{name} at {revision}"
