"""The result and its table: the main message in words and in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.answers.answer_rules import AnswerRule, OwnRule, Rule
from pipeline.core.phases import phases_of, stream_of
from pipeline.records.outcome import has_failed
from pipeline.report import words
from pipeline.report.comparison import accuracy
from pipeline.report.figure import table
from pipeline.report.html import Child, Html, h
from pipeline.report.message import Message, most_graded, one_question, verdict_words
from pipeline.report.run_data import OURS, Cell, rules_in
from pipeline.results.compare import Comparison
from pipeline.statistics.intervals import mean_interval


def message_block(message: Message, suited: Sequence[str] = ()) -> Html:
    """The headline of a benchmark, its figures in large type, its sentences, and what suits it."""
    return h(
        "div",
        h("h2", f"{message.headline}.".replace(" %", "\u00a0%")),  # no line begins with %
        _tiles(message),
        *(h("p", sentence) for sentence in (*message.sentences, *suited)),
        cls="message",
    )


def _tiles(message: Message) -> Html | None:
    lead = message.lead
    if lead is None or lead.accuracy is None:
        return None
    own = lead.first.accuracy
    saved = lead.saved
    tiles = [
        ("accuracy", words.percent(None if own is None else own.value), words.percent_range(own)),
        (
            "difference in points",
            words.points(lead.accuracy.value),
            words.points_range(lead.accuracy.low, lead.accuracy.high),
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
    known = [r for r in rules_in(cells) if any(accuracy(cell, r) for cell in cells)]
    rules = [r for r in known if r in headlines or not isinstance(r, AnswerRule)]
    paired = {comparison.first.of.cell: comparison for comparison in made}
    left = any(cell.not_run for cell in cells)
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
                str(sum(map(has_failed, cell.rows))),
                *([f"{cell.not_run:,}"] if left else []),
            ]
        )
    n, graded = max(len(cell.rows) for cell in cells), most_graded(cells)
    told = words.plural(n, "question") + (f", {graded:,} graded" if graded < n else "")
    worth = f"; {one_question(graded)}" if graded else ""
    return h(
        "div",
        table(
            (
                "strategy",
                "N",
                *(f"accuracy, {_title(rule, known)}" for rule in rules),
                "completions a question",
                "tokens a question",
                "tokens saved",
                "against MR-Thinking at its best, points",
                "failed",
                *(["not run"] if left else []),
            ),
            rows,
            caption=f"{benchmark}: {told}{worth}",
        ),
        h(
            "p",
            "★ marks the headline answer rule of a strategy. Intervals are 95 %: Wilson for "
            "accuracies, Student for tokens, adjusted Wald (Bonett and Price) for differences; "
            "p-values are of McNemar's exact test, corrected (Holm) for all comparisons of this "
            f"page{_how_many(made)}. MR-Thinking is read by that of its answer rules which has "
            "most right here; its other rules are among the comparisons. Ungraded answers are left "
            "out; failed questions count as wrong whatever they had answered before, and are "
            "billed for what they drew."
            f"{_unbilled(cells)}",
            cls="hint",
        ),
        h(
            "details",
            h("summary", "Every answer rule"),
            table(
                ("strategy", *(_title(rule, known) for rule in known)),
                [(cell.name, *(_rule_entry(cell, rule) for rule in known)) for cell in cells],
            ),
            _of_users(known),
        ),
    )


def _title(rule: Rule, rules: Sequence[Rule]) -> str:
    """A rule's name, with its place where another run's has the same name."""
    alike = [other for other in rules if other.value == rule.value]
    return f"{rule} ({rule.told()})" if len(alike) > 1 and isinstance(rule, OwnRule) else rule.value


def _of_users(rules: Sequence[Rule]) -> Child:
    """Where the rules come from that are not shipped."""
    own = [f"{rule} is {rule.told()}" for rule in rules if isinstance(rule, OwnRule)]
    return h("p", f"Rules of users' own: {'; '.join(own)}.", cls="hint") if own else None


def _unbilled(cells: Sequence[Cell]) -> str:
    names = [c.name for c in cells if any(stream_of(p) is None for p in phases_of(c.strategy))]
    if not names:
        return ""
    return f" {words.listed(names)}: as published, without the warm-up, which was drawn and paid."


def _how_many(made: Sequence[Comparison]) -> str:
    return f", {made[0].tests:,} in all" if made else ""


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
        rows.append(
            [
                cell.name,
                words.percent(last),
                words.points(own - last),
                words.points(mine - own),
                words.percent(mine),
                words.percent(mine_last),
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
            "Stopping: what is left of the difference when both are read by that rule. All on the "
            "questions that are graded for both.",
            cls="hint",
        ),
    )
