"""*Tables*: writes the tables of every verb to the terminal: runs, sweeps, fronts, costs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.cli import terminal
from pipeline.answers.answer_rules import RULES, AnswerRule, rule_named
from pipeline.planning.run_caps import Capped
from pipeline.report import words
from pipeline.report.run_warnings import NotRun, capped_words
from pipeline.report.usage import judge_words, pool_words, usage_words
from pipeline.results.column import fields_words, varied

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.replay.costs import Cost
    from pipeline.replay.sweep import SweepResult

_SHOWN = (AnswerRule.LAST, AnswerRule.PRM_ARGMAX)
"""Rules that a sweep always shows; others only where they are a strategy's own, or a user's."""
_CHOSEN = {None: "", "held_out": "other half", "test": "these questions (too good)"}
_MARKED = "* the rule that defines the strategy's answer"

Row = dict[str, Any]


def text_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    whole: Collection[int] = (),
    fold: bool = False,
) -> Table:
    """A table for the terminal.

    Args:
        title: above it; "" for none.
        header: the names of the columns.
        rows: their cells.
        left: places of the columns of text; the others hold numbers, aligned on the right.
        whole: places of the columns that are never broken into lines.
        fold: whether words that are wider than their column are broken in place of cut.
    """
    table = Table(title=title or None, title_justify="left")
    for place, name in enumerate(header):
        table.add_column(
            name,
            justify="left" if place in left else "right",
            no_wrap=place in whole,
            overflow="fold" if fold else "ellipsis",
        )
    for row in rows:
        table.add_row(*row)
    return table


def print_synthetic(console: Console, made: str) -> None:
    """Says that scripted engines made the data: ``these figures``, ``this pool``."""
    console.print(f"SYNTHETIC: scripted engines made {made}, no model did")


def print_summary(summary: Row, address: str, *, verbose: bool = False) -> None:
    """One table a benchmark, the fitted chains, the bill and where it all is; `verbose` also tells
    how busy the pools were."""
    console = terminal()
    if summary["capped"] is not None:
        cap = {name: summary["capped"][name] for name in ("name", "spent", "cap")}
        left = [NotRun(**each) for each in summary["not_run"]]
        _print_marked(console, "capped:", capped_words(Capped(**cap), left))
    if summary["chains_done"] < summary["chains"]:
        console.print(f"partial: {summary['chains_done']} of {summary['chains']} chains are done")
    for warning in summary["warnings"]:
        _print_marked(console, "warning:", warning)
    print_strategies(summary["strategies"], synthetic=summary["synthetic"])
    console.print("all rules are in summary.json")
    for fit in summary["chain_fits"]:
        console.print(_chain(fit), soft_wrap=True)
    if (used := summary.get("usage")) is not None:
        console.print(usage_words(used), soft_wrap=True, highlight=False)
    if (judged := summary.get("judge_usage")) is not None:
        console.print(judge_words(judged), soft_wrap=True, highlight=False)
    if verbose and summary["pools"] is not None:
        console.print(pool_words(summary["pools"]), soft_wrap=True)
    console.print(f"run directory: {address}", soft_wrap=True)


def _print_marked(console: Console, mark: str, text: str) -> None:
    console.print(Text.assemble((mark, "bold"), " ", text), soft_wrap=True)


def print_strategies(entries: Sequence[Row], *, synthetic: bool) -> None:
    """One table a benchmark of entries of `pipeline.report.summary.summarise`."""
    console = terminal()
    if synthetic:
        print_synthetic(console, "these figures")
    for benchmark in dict.fromkeys(entry["benchmark"] for entry in entries):
        own = [entry for entry in entries if entry["benchmark"] == benchmark]
        console.print(_strategies(benchmark, own))
    console.print(_MARKED)


def _strategies(benchmark: str, entries: Sequence[Row]) -> Table:
    """Accuracy by the rules that define the answers, and users' own; the bill of each strategy."""
    headlines = {entry["headline_rule"] for entry in entries}
    rules = [
        rule
        for rule in dict.fromkeys(name for entry in entries for name in entry["accuracy"])
        if (rule in headlines or rule not in RULES)
        and any(entry["accuracy"].get(rule) for entry in entries)
    ]
    priced = any("usd" in entry for entry in entries)
    left = any(entry.get("not_run") for entry in entries)
    header = (
        *("strategy", "N", *(f"accuracy, {rule}\n[95 % interval]" for rule in rules)),
        *("tokens a\nquestion", "tokens saved\nagainst MR", "failed"),
        *(["USD"] if priced else []),
        *(["not run"] if left else []),
    )
    rows = [
        (
            entry["strategy"],
            str(entry["n"]),
            *(_accuracy(entry, rule) for rule in rules),
            f"{entry['tokens_per_question']:,.0f}",
            "-" if entry["tokens_saved"] is None else f"{entry['tokens_saved']:z.1%}",
            str(entry["failed"]),
            *([f"{entry.get('usd', 0):,.4g}"] if priced else []),
            *([f"{entry['not_run']:,}"] if left else []),
        )
        for entry in entries
    ]
    title = f"{benchmark}: {entries[0]['questions']} questions"
    return text_table(title, header, rows, fold=True)


def _chain(fit: Row) -> str:
    """The fitted chain in a line; what no transition says anything on is not made up."""
    where = f"{fit['benchmark']}, {fit['strategy']}"
    if fit.get("from_right") == 0:
        return f"{where}: b {fit['b']:.3f}; no right answer was asked about again, so no a and no L"
    if fit.get("from_wrong") == 0:
        return f"{where}: a {fit['a']:.3f}; no wrong answer was asked about again, so no b and no L"
    last = f"accuracy of the last round {fit['predicted']:.3f} by a and b of all rounds"
    reached = fit["reached"]
    return (
        f"{where}: a {fit['a']:.3f}, b {fit['b']:.3f}, L {fit['L']:.3f}, lambda "
        f"{fit['lambda']:.3f}; {last}, {'none' if reached is None else f'{reached:.3f}'} reached"
    )


def _accuracy(entry: Row, rule: str) -> str:
    value = entry["accuracy"].get(rule)
    if value is None or value["accuracy"] is None:
        return "-"
    return _interval(value) + ("*" if entry["headline_rule"] == rule else "")


def _interval(row: Mapping[str, Any], name: str = "accuracy") -> str:
    """A share of a row with its interval."""
    if row[name] is None:
        return "-"
    low, high = (row[end if name == "accuracy" else f"{name}_{end}"] for end in ("low", "high"))
    return f"{row[name]:.3f} [{low:.3f}, {high:.3f}]"


def print_sweep(table: pa.Table, choose: Sequence[str], *, synthetic: bool) -> None:
    """One table a benchmark: chosen settings, and those that had no alternative."""
    console = terminal()
    if synthetic:
        print_synthetic(console, "this pool")
    shown = {*map(str, _SHOWN)}
    rows = [
        row
        for row in table.to_pylist()
        if row["headline"] or row["answer_rule"] in shown or row["answer_rule"] not in RULES
    ]
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        own = [row for row in rows if row["benchmark"] == benchmark]
        lines = [
            (
                row["strategy"],
                str(row["n"]),
                _settings(row, own),
                _CHOSEN[row["chosen_on"]],
                row["answer_rule"] + (" *" if row["headline"] else ""),
                _interval(row, "accuracy"),
                f"{row['tokens_per_question']:,.0f}",
                f"{row['completions_per_question']:.2f}",
            )
            for row in _lines(own, choose)
        ]
        header = ("strategy", "N", "settings", "chosen on", "answer rule",
                  "accuracy [95 % interval]", "tokens a question",
                  "completions")  # fmt: skip
        questions = max(row["questions"] for row in own)
        title = f"{benchmark}: {questions} questions"
        console.print(text_table(title, header, lines, left=range(5)))
    console.print(f"{_MARKED}; all rules are in the file")


def print_fronts(rows: Sequence[Mapping[str, Any]]) -> None:
    """One table a benchmark: mean accuracy over budgets, and against the controls."""
    from pipeline.report.fronts_view import controls_of, ranked, sentence
    from pipeline.statistics.intervals import interval_in

    console = terminal()
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        own = [row for row in rows if row["benchmark"] == benchmark]
        console.print(sentence(own, benchmark))
        controls = controls_of(own)
        gains = {
            (row["family"], row["against"]): f"{words.points(row['value'])} "
            f"{words.points_range(row['low'], row['high'])}"
            for row in own
            if row["measure"] == "mean_difference"
        }
        lines = [
            (
                mean["family"],
                words.percent_with(interval_in(mean)),
                *(gains.get((mean["family"], control), "") for control in controls),
            )
            for mean in ranked(own)
        ]
        header = ("family", "mean accuracy over budgets",
                  *(f"minus {control}, points" for control in controls))  # fmt: skip
        title = f"{benchmark}: fronts, settings chosen on the other half"
        console.print(text_table(title, header, lines, whole=(0,)))


def print_costs(result: SweepResult, cost: Cost) -> None:
    """What 1,000 questions like those of the pool cost under each setting, by its own rule, and
    each of them that is answered right; cheapest first."""
    import numpy as np

    from pipeline.replay.costs import needs_scores
    from pipeline.replay.sweep import settings_of

    rows = []
    for setting in result.settings:
        strategy = setting.strategy
        rule = rule_named(strategy.default_rule)
        right_Q = setting.right_Q(rule)
        right, questions = float(np.nansum(right_Q)), len(right_Q)
        scored = needs_scores(strategy, rule)
        usd = float(cost.of(setting.spent_Q, scored=scored).sum()) / 1e6 / questions * 1000
        drawn = float(setting.completions_Q.mean())
        each = f"{usd * questions / right / 1000:.2g}" if right else "-"
        name, own = setting.label, settings_of(strategy)
        settings = [settings_of(s.strategy) for s in result.settings if s.label == name]
        tuned = [n for n in own if n != "n" and any(own[n] != other[n] for other in settings)]
        words_of = ", ".join(f"{field} {own[field]}" for field in tuned)
        numbers = (f"{right / questions:.1%}", f"{drawn:.2f}", f"{usd:.3g}", each)
        rows.append((usd, (name, words_of, str(strategy.n), *numbers)))
    header = ("strategy", "settings", "N", "right", "completions", "US$", "US$ a right answer")
    cheapest = [row for _, row in sorted(rows)]
    terminal().print(text_table("cost of 1,000 questions, US$", header, cheapest, left=(0, 1)))


def _lines(rows: list[Row], choose: Sequence[str]) -> list[Row]:
    """Chosen settings, and settings that differ from no other in tuned fields alone."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        settings = json.loads(row["settings"])
        fixed = json.dumps({k: v for k, v in settings.items() if k not in choose}, sort_keys=True)
        groups.setdefault((row["strategy"], fixed), []).append(row)
    kept = []
    for group in groups.values():
        single = len({row["settings"] for row in group if row["chosen_on"] is None}) == 1
        kept += [row for row in group if row["chosen_on"] is not None or single]
    return kept


def _settings(row: Row, rows: list[Row]) -> str:
    """The settings that tell this strategy's rows apart; both halves' where they chose apart."""
    mine = json.loads(row["settings"])
    others = [json.loads(r["settings"]) for r in rows if r["strategy"] == row["strategy"]]
    return fields_words(mine, [n for n in varied(others) if n != "n"])
