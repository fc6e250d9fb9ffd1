"""*Tables of the paper*: builds each table of one benchmark and backbone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from pipeline.answers.answer_rules import AnswerRule
from pipeline.paper import controls
from pipeline.paper.evaluation import (
    AT_BEST,
    BEST_RULE,
    CALIBRATED,
    TESTED,
    Evaluation,
    settings_words,
)
from pipeline.paper.replays import GAMMA, GAMMAS, TAUS, Choice, fixed
from pipeline.report.published import NOTHING, Numbers, Published
from pipeline.report.tables import NOT_POSSIBLE, NOT_RUN, Entry, Table
from pipeline.results.column import METHODS, Column
from pipeline.results.compare import Family
from pipeline.strategies.markovscale import MarkovScaleStar

MAIN = (
    "base", "mr_thinking", BEST_RULE, AT_BEST, "budget_forcing", "atom_of_thoughts", "best_of_n",
    "self_consistency", "esc", "asc", "dsc", "markovscale_t", "markovscale_star",
    "markovscale_star" + TESTED, "markovscale_0", CALIBRATED, "markovscale_0" + TESTED,
)  # fmt: skip
ABLATION = {
    "MarkovScale^* (full)": (True, True),
    "w/o Scaling Gating (SG)": (False, True),
    "w/o Optimal Stopping (OS)": (True, False),
    "w/o OS + SG": (False, False),
}
"""The paper's name of a variant: (gate, stopping)."""


def _table(
    name: str,
    title: str,
    made: Evaluation,
    columns: Sequence[str],
    rows: Sequence[tuple[str, tuple[Entry, ...]]],
    *,
    shared: str = "",
) -> Table:
    return Table(
        name=name,
        title=title,
        backbone=made.backbone,
        benchmark=made.benchmark,
        columns=tuple(columns),
        rows=tuple(rows),
        tokens=True,
        unit="tokens" if made.replays.cost.axis == "tokens" else made.replays.cost.unit,
        shared=shared,
    )


def _against(
    family: Family, column: Column | None, label: str, first: Column | None, second: Column | None
) -> Entry:
    """An entry with one comparison, where its two columns can be compared."""
    compared = family.compare(first, second)
    return Entry(column=column, against=() if compared is None else ((label, compared),))


def _ns(budgets: Sequence[int]) -> list[str]:
    return [f"N = {n}" for n in budgets]


def _method_entry(
    made: Evaluation, name: str, n: int, published: Published, family: Family | None = None
) -> Entry:
    """A method at a budget with the paper's number, against both readings of MR-Thinking."""
    column = made.get(name, n)
    paper = published.main(made.backbone, name.removesuffix(TESTED), made.benchmark, n)
    if column is None:
        known = any(row == name for row, _ in made.main)
        return Entry(column=None, paper=paper, missing=NOT_POSSIBLE if known else NOT_RUN)
    rivals = {"vs best MR": BEST_RULE, "vs MR": "mr_thinking"}
    if family is None or name in (BEST_RULE, AT_BEST):
        return Entry(column=column, paper=paper)
    against = [(label, family.compare(column, made.get(one, n))) for label, one in rivals.items()]
    known_pairs = tuple((label, pair) for label, pair in against if pair is not None)
    return Entry(column=column, paper=paper, against=known_pairs)


def main_table(made: Evaluation, family: Family, published: Published) -> Table:
    """Every method at every budget."""
    rows = [
        (
            made.names.get(name, METHODS.get(name.removesuffix(TESTED), name)),
            tuple(_method_entry(made, name, n, published, family) for n in made.budgets),
        )
        for name in MAIN
        if name in made.names or name in METHODS
    ]
    return _table("main", "Accuracy and tokens", made, _ns(made.budgets), rows)


def together(evaluations: Sequence[Evaluation], published: Published) -> list[Table]:
    """The main table as the paper prints it: all benchmarks side by side, backbones below each
    other; none where there is one benchmark alone."""
    places = list(dict.fromkeys((made.benchmark, n) for made in evaluations for n in made.budgets))
    if len({benchmark for benchmark, _ in places}) < 2:
        return []
    rows: list[tuple[str, tuple[Entry, ...]]] = []
    for backbone in dict.fromkeys(made.backbone for made in evaluations):
        own = {made.benchmark: made for made in evaluations if made.backbone == backbone}
        rows.append((backbone, ()))
        for name in MAIN:
            titles = [made.names[name] for made in own.values() if name in made.names]
            entries = [
                _method_entry(own[benchmark], name, n, published)
                if benchmark in own
                else Entry(column=None)
                for benchmark, n in places
            ]
            if titles:
                rows.append((titles[0], tuple(entries)))
    return [
        Table(
            name="together",
            title="Accuracy, all benchmarks and backbones",
            backbone="",
            benchmark="",
            columns=tuple(f"{benchmark}, N = {n}" for benchmark, n in places),
            rows=tuple(rows),
            tokens=False,
        )
    ]


def ablation_table(made: Evaluation, published: Published) -> Table:
    """Gate and stopping apart, read by the variant's own rule and by the last answer; tau is that
    of the full variant, chosen on the other half."""
    rows = []
    for rule in (AnswerRule.PRM_ARGMAX, AnswerRule.LAST):
        for variant, (gate, stopping) in ABLATION.items():
            entries = []
            for n in made.chain_budgets:
                full = made.replays.on_other_half(made.stars(n))
                picked = tuple(
                    (replace(cast(MarkovScaleStar, star), gate=gate, stopping=stopping), rule)
                    for star, _ in full.picked
                )
                tuned = ["tau"] if stopping else []
                choice = Choice(picked=picked, chosen_on=full.chosen_on if stopping else None)
                name = f"{variant}, {rule.value}"
                column = made.scored(name, n, choice, "markovscale_star", tuned)
                # the paper's row without both parts is MR-Thinking, read by its last answer
                theirs = rule is (AnswerRule.PRM_ARGMAX if gate or stopping else AnswerRule.LAST)
                paper = published.ablation(made.backbone, variant, made.benchmark, n)
                entries.append(Entry(column=column, paper=paper if theirs else NOTHING))
            rows.append((f"{variant.replace('^*', '*')}, {rule.value}", tuple(entries)))
    title = "Ablation: gate, stopping and answer rule apart"
    return _table("ablation", title, made, _ns(made.chain_budgets), rows)


def grid_tables(made: Evaluation, published: Published) -> list[Table]:
    """MarkovScale^* by tau at the paper's gamma, and by tau and gamma, a table a budget, the
    deepest first."""
    of, ns = (made.backbone, made.benchmark), made.chain_budgets
    columns = {f"N = {n}": (n, GAMMA) for n in ns}
    title = f"MarkovScale* by τ, γ = {GAMMA:g}"
    tables = [_grid(made, "tau", title, columns, lambda n, tau, _: published.tau(*of, n, tau))]
    for n in reversed(ns):
        columns = {f"γ = {gamma:g}": (n, gamma) for gamma in GAMMAS}
        title = f"MarkovScale* by τ and γ, N = {n}"
        tables.append(_grid(made, "gamma", title, columns, partial(published.gamma, *of)))
    return tables


def _grid(
    made: Evaluation,
    name: str,
    title: str,
    columns: Mapping[str, tuple[int, float]],
    paper: Callable[[int, float, float], Numbers],
) -> Table:
    """A row a tau; columns by N and gamma."""
    make, kind = made.replays.make, "markovscale_star"
    rows = []
    for tau in TAUS:
        entries = [
            Entry(
                column=made.scored(
                    METHODS[kind], n, fixed(make(kind, n=n, tau=tau, gamma=gamma)), kind
                ),
                paper=paper(n, tau, gamma),
            )
            for n, gamma in columns.values()
        ]
        rows.append((f"τ = {tau:.2f}", tuple(entries)))
    varied = ("tau",) if name == "tau" else ("tau", "gamma")
    shared = f"{settings_words(make(kind), without=varied)}; {make(kind).default_rule}"
    return _table(name, title, made, list(columns), rows, shared=shared)


def opponents_table(
    made: Evaluation, family: Family, star: Column, found: Sequence[Column]
) -> Table:
    """Every opponent at the cheapest setting that reaches the accuracy of MarkovScale^*."""
    rows: list[tuple[str, tuple[Entry, ...]]] = [
        (f"{star.method}, N = {star.n}", (Entry(column=star),))
    ]
    for column in found:
        entry = _against(family, column, f"less {star.method}", column, star)
        rows.append((column.method, (entry,)))
    title = f"Opponents at the cheapest setting that reaches {star.method} at N = {star.n}"
    return _table("opponents", title, made, ["cheapest"], rows)


def controls_table(made: Evaluation, family: Family) -> Table:
    """Controls, each compared with what it controls."""
    by_row: dict[str, list[Entry]] = {}

    def put(column: Column, label: str = "", first: Column | None = None,
            second: Column | None = None) -> None:  # fmt: skip
        by_row.setdefault(column.method, []).append(_against(family, column, label, first, second))

    for n in made.chain_budgets:
        star = made.get("markovscale_star", n)
        for column in controls.rule_controls(made, n):
            argmax = column.rule == AnswerRule.PRM_ARGMAX
            put(column, "MarkovScale* less this", star if argmax else None, column)
        if made.replays.make.scored:
            for kind in controls.OURS:
                dealt = controls.random_stopping(made, kind, n)
                put(dealt, "the rule less this", made.get(kind, n), dealt)
            for column in controls.gate_controls(made, n):
                put(column, "less the first score's", column, made.get("markovscale_t", n))
        put(controls.oracle(made, n))
        if n in made.sample_budgets:
            put(controls.pass_at(made, n))
    rows = []
    for name, entries in by_row.items():
        found = {entry.column.n: entry for entry in entries if entry.column is not None}
        none = Entry(column=None, missing=NOT_POSSIBLE)
        rows.append((name, tuple(found.get(n, none) for n in made.chain_budgets)))
    return _table("controls", "Controls", made, _ns(made.chain_budgets), rows)
