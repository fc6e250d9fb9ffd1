"""*Strategy table*: every strategy of a benchmark by its answer rules, with tokens and tests."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.answers.answer_rules import AnswerRule, OwnRule, Rule
from pipeline.records.outcome import has_failed
from pipeline.report import words
from pipeline.report.comparison import accuracy, column_of
from pipeline.report.html import Child, Html, folded, h, table, with_ends
from pipeline.report.run_data import Cell, rules_in
from pipeline.report.tables import bounds_note
from pipeline.report.verdict import most_graded, one_question, verdict_words
from pipeline.results.compare import Comparison
from pipeline.statistics.intervals import mean_interval


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
                "★ marks the headline answer rule of a strategy. Intervals (docs/report.md) are "
                "95 %, each of its one comparison; p-values are of McNemar's exact test, "
                f"corrected for all comparisons{f', {made[0].tests:,} in all' if made else ''}. "
                "MR-Thinking is read by that of its answer rules which has most right here. "
                "Ungraded answers are left out; failed questions count as wrong.",
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
