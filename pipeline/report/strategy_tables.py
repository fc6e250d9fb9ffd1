"""*Strategy tables*: strategies by answer rule with their tests, selection and stopping apart, and
the paper's tables of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial

from pipeline.answers.answer_rules import AnswerRule, OwnRule, Rule
from pipeline.records.outcome import has_failed
from pipeline.report import words
from pipeline.report.comparison import accuracy, column_of
from pipeline.report.html import Child, Html, folded, h, table, with_ends
from pipeline.report.published import NONE_PUBLISHED, NOTHING, Numbers, Published
from pipeline.report.run_data import OURS, Cell, rules_in
from pipeline.report.tables import Entry, Table, bounds_note
from pipeline.report.verdict import most_graded, one_question, verdict_words
from pipeline.results.column import METHODS
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


_BEYOND = ("chain_asc", "agree", "settled", "chain_expected_agreement", "expected_agreement")
"""Strategies that the paper does not have; they stand in its tables only where they were run."""

Rows = list[tuple[str, Mapping[str, Cell]]]
"""Title and cells by benchmark of each row."""
Group = tuple[Rows, int | None, Callable[[str], Numbers]]
"""Rows of one method, the place of the one that the paper's numbers belong to, and these by
benchmark."""


def paper_tables(cells: Sequence[Cell], paper: Published = NONE_PUBLISHED) -> list[Table]:
    """The paper's tables that the cells have a number for, all benchmarks side by side: every
    method at an N, and the ablation of MarkovScale^*.

    Every row is one setting of one strategy: cells of one label whose settings differ stand in rows
    of their own.
    """
    tables: list[Table] = []
    for backbone in dict.fromkeys(cell.backbone for cell in cells):
        own = [cell for cell in cells if cell.backbone == backbone]
        kinds = [k for k in METHODS if k not in _BEYOND or any(c.kind == k for c in own)]
        for n in sorted({cell.n for cell in own if _has_n(cell)}) or [1]:
            methods: list[Group] = []
            for kind in kinds:
                mine = [c for c in own if c.kind == kind and (c.n == n or not _has_n(c))]
                found = _rows(None, mine) or [(METHODS[kind], {})]
                place = _papers_row(kind, found) if mine else 0
                methods.append((found, place, partial(paper.main, backbone, kind, n=n)))
            tables.append(_table("main", "Accuracy and tokens", n, own, methods))
            of_n = [cell for cell in own if cell.n == n]
            if any(cell.kind == "markovscale_star" for cell in of_n):
                variants = list(_variants(backbone, n, of_n, paper))
                tables.append(_table("ablation", "Ablation of MarkovScale*", n, of_n, variants))
    return tables


def _has_n(cell: Cell) -> bool:
    """Whether N is a setting of the strategy. Base, Budget Forcing and Atom of Thoughts draw what
    their method draws, and stand beside every N."""
    return "n" in {f.name for f in fields(cell.strategy)}


def _table(name: str, title: str, n: int, cells: Sequence[Cell], groups: Sequence[Group]) -> Table:
    benchmarks = list(dict.fromkeys(cell.benchmark for cell in cells))
    rows = [
        (
            row,
            tuple(
                Entry(
                    column=column_of(cell) if (cell := by_benchmark.get(benchmark)) else None,
                    paper=numbers(benchmark) if place == papers else NOTHING,
                )
                for benchmark in benchmarks
            ),
        )
        for found, papers, numbers in groups
        for place, (row, by_benchmark) in enumerate(found)
    ]
    return Table(
        name=name,
        title=f"{title}, N = {n}",
        backbone=cells[0].backbone,
        benchmark="",
        columns=tuple(f"{benchmark}, N = {n}" for benchmark in benchmarks),
        rows=tuple(rows),
        tokens=True,
    )


def _rows(name: str | None, cells: Sequence[Cell]) -> Rows:
    """One row a label and setting, and where a benchmark comes twice, one a run; named by the
    method where no name is given."""
    groups: dict[tuple[str, ...], dict[str, Cell]] = {}
    for cell in cells:
        key: tuple[str, ...] = (cell.label, repr(cell.strategy), cell.rule.value)
        if cell.benchmark in groups.get(key, {}):
            key = (*key, cell.run)
        groups.setdefault(key, {})[cell.benchmark] = cell
    titles = [_row_title(name, next(iter(found.values()))) for found in groups.values()]
    runs = [", ".join(dict.fromkeys(c.run for c in found.values())) for found in groups.values()]
    return [
        (title if titles.count(title) == 1 else f"{title} in {run}", found)
        for title, run, found in zip(titles, runs, groups.values(), strict=True)
    ]


def _row_title(name: str | None, cell: Cell) -> str:
    if name is None:
        return cell.method
    return name if cell.label == cell.kind else f"{name} ({cell.label})"


def _papers_row(kind: str, rows: Rows) -> int | None:
    """Place of the row that the paper's numbers belong to; None where that cannot be told."""
    cells = [next(iter(found.values())) for _, found in rows]
    likely = [i for i, cell in enumerate(cells) if _as_published(cell)]
    in_profile = [i for i in likely if getattr(cells[i].strategy, "profile", "") == "paper"]
    by_name = [i for i in likely if cells[i].label == kind]
    found = next((i for i in (in_profile, likely, by_name) if len(i) == 1), None)
    return found[0] if found else None


def _as_published(cell: Cell) -> bool:
    """Whether a cell is the method whole: gate and stopping on, the rule as printed."""
    if cell.kind != "markovscale_star":
        return True
    printed = getattr(cell.strategy, "stop_rule", "printed") == "printed"
    raw = getattr(cell.strategy, "calibration", None) is None
    return printed and raw and _parts(cell) == (True, True)


_ABLATION: dict[str, Callable[[Cell], bool]] = {
    "MarkovScale^* (full)": lambda c: _parts(c) == (True, True),
    "w/o Scaling Gating (SG)": lambda c: _parts(c) == (False, True),
    "w/o Optimal Stopping (OS)": lambda c: _parts(c) == (True, False),
    "w/o OS + SG": lambda c: c.kind == "mr_thinking",
}


def _parts(cell: Cell) -> tuple[bool, bool] | None:
    """(gate, stopping) of a MarkovScale^* cell."""
    if cell.kind != "markovscale_star":
        return None
    return (getattr(cell.strategy, "gate", True), getattr(cell.strategy, "stopping", True))


def _variants(backbone: str, n: int, cells: Sequence[Cell], paper: Published) -> Iterator[Group]:
    for variant, matches in _ABLATION.items():
        name = variant.replace("^*", "*")
        found = _rows(name, [cell for cell in cells if matches(cell)])
        place = 0 if len(found) < 2 else _papers_row("markovscale_star", found)
        found = found if len(found) > 1 else [(name, found[0][1] if found else {})]
        yield found, place, partial(paper.ablation, backbone, variant, n=n)
