"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from jobs.cli import terminal
from pipeline.answers.answer_rules import RULES, AnswerRule
from pipeline.planning.run_caps import Capped
from pipeline.report.capped import NotRun, first_words
from pipeline.report.usage import as_sentence, judge_words, usage_words
from pipeline.report.utilisation import as_lines

_UNBOUND = 10_000
_SHOWN = (AnswerRule.LAST, AnswerRule.PRM_ARGMAX)
"""Rules that get a column always; others only where they are some strategy's headline."""


def print_summary(summary: dict[str, Any], address: str, *, verbose: bool = False) -> None:
    """One table a benchmark, the fitted chains, the bill and where it all is; `verbose` also tells
    how busy the pools were."""
    console = terminal()
    if summary["capped"] is not None:
        cap = {name: summary["capped"][name] for name in ("name", "spent", "cap")}
        left = [NotRun(**each) for each in summary["not_run"]]
        _print_marked(console, "capped:", first_words(Capped(**cap), left))
    if summary["chains_done"] < summary["chains"]:
        console.print(f"partial: {summary['chains_done']} of {summary['chains']} chains are done")
    for warning in summary["warnings"]:
        _print_marked(console, "warning:", warning)
    print_strategies(summary["strategies"], synthetic=summary["synthetic"])
    console.print("all rules are in summary.json")
    for fit in summary["chain_fits"]:
        console.print(_chain(fit), soft_wrap=True)
    used = summary.get("usage")
    said = as_sentence(summary["ledger"]) if used is None else usage_words(used)
    console.print(said, soft_wrap=True, highlight=False)
    if (judged := summary.get("judge_usage")) is not None:
        console.print(judge_words(judged), soft_wrap=True, highlight=False)
    if verbose and summary["pools"] is not None:
        for line in as_lines(summary["pools"]):
            console.print(line, soft_wrap=True)
    console.print(f"run directory: {address}", soft_wrap=True)


def _print_marked(console: Console, mark: str, text: str) -> None:
    console.print(Text.assemble((mark, "bold"), " ", text), soft_wrap=True)


def print_strategies(entries: Sequence[dict[str, Any]], *, synthetic: bool) -> None:
    """One table a benchmark of entries of `pipeline.report.summary.summarise`."""
    console = terminal()
    if synthetic:
        console.print("SYNTHETIC: scripted engines made these figures, no model did")
    for benchmark in dict.fromkeys(entry["benchmark"] for entry in entries):
        of_benchmark = [e for e in entries if e["benchmark"] == benchmark]
        table, dropped = _fitting(benchmark, of_benchmark, console)
        console.print(table)
        if dropped:
            console.print(f"not shown for want of width: {'; '.join(dropped)}")
    console.print("* the rule that defines the strategy's answer")


def _chain(fit: dict[str, Any]) -> str:
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


@dataclass(frozen=True)
class _Column:
    title: str
    cell: Callable[[dict[str, Any]], str]
    drop: int = 0
    """The higher, the earlier it gives way where the terminal is narrow; 0 never does."""
    right: bool = True


def _fitting(
    benchmark: str, entries: list[dict[str, Any]], console: Console
) -> tuple[Table, list[str]]:
    """The table with as many columns as the console is wide enough for, and what was left out.

    The name of a strategy and its accuracy by its own rule always stand there in full.
    """
    columns = _columns(entries)
    dropped: list[str] = []
    while True:
        table = _table(benchmark, entries, columns)
        needed = Measurement.get(console, console.options.update(width=_UNBOUND), table).maximum
        most = max(columns, key=lambda column: column.drop)
        if needed <= console.width or not most.drop:
            return table, dropped
        columns.remove(most)
        dropped.append(most.title.partition("\n")[0])


def _columns(entries: list[dict[str, Any]]) -> list[_Column]:
    headlines = {entry["headline_rule"] for entry in entries}
    rules = [
        rule
        for rule in dict.fromkeys(name for entry in entries for name in entry["accuracy"])
        if (rule in _SHOWN or rule in headlines or rule not in RULES)
        and any(entry["accuracy"].get(rule) for entry in entries)
    ]
    found = [
        _Column("strategy", lambda entry: entry["strategy"], right=False),
        _Column("N", lambda entry: str(entry["n"]), drop=3),
    ]
    found += [
        _Column(
            f"accuracy, {rule}\n[95 % interval]",
            partial(_accuracy, rule=rule),
            drop=0 if rule in headlines else 2,
        )
        for rule in rules
    ]
    failed = any(entry["failed"] for entry in entries)
    found += [
        _Column("completions", lambda entry: f"{entry['completions']:,}", drop=6),
        _Column("tokens a\nquestion", lambda entry: f"{entry['tokens_per_question']:,.0f}"),
        _Column("tokens saved\nagainst MR", _saved, drop=1),
        _Column("failed", lambda entry: str(entry["failed"]), drop=1 if failed else 5),
    ]
    if any("usd" in entry for entry in entries):
        found.append(_Column("USD", lambda entry: f"{entry.get('usd', 0):,.4g}", drop=2))
    if any(entry.get("not_run") for entry in entries):
        found.append(_Column("not run", lambda entry: f"{entry['not_run']:,}", drop=1))
    sources = _Column(
        "p0 from", lambda entry: ", ".join(entry["p0_sources"]) or "-", drop=7, right=False
    )
    return [*found, sources]


def _table(benchmark: str, entries: list[dict[str, Any]], columns: list[_Column]) -> Table:
    table = Table(title=f"{benchmark}: {entries[0]['questions']} questions", title_justify="left")
    for column in columns:
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, overflow="fold")
    for entry in entries:
        table.add_row(*(column.cell(entry) for column in columns))
    return table


def _saved(entry: dict[str, Any]) -> str:
    saved = entry["tokens_saved"]
    return "-" if saved is None else f"{saved:z.1%}"  # no minus before a zero


def _accuracy(entry: dict[str, Any], *, rule: str) -> str:
    value = entry["accuracy"].get(rule)
    if value is None or value["accuracy"] is None:
        return "-"
    mark = "*" if entry["headline_rule"] == rule else ""
    return f"{value['accuracy']:.3f} [{value['low']:.3f}, {value['high']:.3f}]{mark}"
