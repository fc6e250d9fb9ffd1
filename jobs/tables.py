"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.answers.answer_rules import AnswerRule
from pipeline.report.capped import Capped, NotRun, first_words
from pipeline.report.endpoint_usage import usage_words
from pipeline.report.token_audit import as_sentence
from pipeline.report.utilisation_text import as_lines

_SHOWN = (AnswerRule.LAST, AnswerRule.PRM_ARGMAX)
"""Rules that get a column always; others only where they are some strategy's headline."""


def print_summary(summary: dict[str, Any], address: str) -> None:
    """One table a benchmark, the fitted chains, how busy the pools were, and where it all is."""
    console = _console()
    if summary["capped"] is not None:
        cap = {name: summary["capped"][name] for name in ("name", "spent", "cap")}
        left = [NotRun(**each) for each in summary["not_run"]]
        console.print(
            f"[bold]capped:[/bold] {escape(first_words(Capped(**cap), left))}", soft_wrap=True
        )
    if summary["chains_done"] < summary["chains"]:
        console.print(f"partial: {summary['chains_done']} of {summary['chains']} chains are done")
    for warning in summary["warnings"]:
        console.print(f"[bold]warning:[/bold] {escape(warning)}", soft_wrap=True)
    print_strategies(summary["strategies"], synthetic=summary["synthetic"])
    console.print("all rules are in summary.json")
    for fit in summary["chain_fits"]:
        console.print(_chain(fit), soft_wrap=True)
    used = summary.get("usage")
    said = as_sentence(summary["ledger"]) if used is None else usage_words(used)
    console.print(said, soft_wrap=True, highlight=False)
    if summary["pools"] is not None:
        for line in as_lines(summary["pools"]):
            console.print(line, soft_wrap=True)
    console.print(f"run directory: {address}", soft_wrap=True)


def print_strategies(entries: Sequence[dict[str, Any]], *, synthetic: bool) -> None:
    """One table a benchmark of entries of `pipeline.report.summary.summarise`."""
    console = _console()
    if synthetic:
        console.print("SYNTHETIC: scripted engines made these figures, no model did")
    for benchmark in dict.fromkeys(entry["benchmark"] for entry in entries):
        console.print(_table(benchmark, [e for e in entries if e["benchmark"] == benchmark]))
    console.print("* the rule that defines the strategy's answer")


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 140)


def _chain(fit: dict[str, Any]) -> str:
    """The fitted chain in a line; what no transition says anything on is not made up."""
    where = f"{fit['benchmark']}, {fit['strategy']}"
    if fit.get("from_right") == 0:
        return f"{where}: b {fit['b']:.3f}; no right answer was asked about again, so no a and no L"
    if fit.get("from_wrong") == 0:
        return f"{where}: a {fit['a']:.3f}; no wrong answer was asked about again, so no b and no L"
    last = f"accuracy of the last round {fit['predicted']:.3f} predicted"
    reached = fit["reached"]
    return (
        f"{where}: a {fit['a']:.3f}, b {fit['b']:.3f}, L {fit['L']:.3f}, lambda "
        f"{fit['lambda']:.3f}; {last}, {'none' if reached is None else f'{reached:.3f}'} reached"
    )


def _table(benchmark: str, entries: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{benchmark}: {entries[0]['questions']} questions", title_justify="left")
    headlines = {entry["headline_rule"] for entry in entries}
    rules = [
        rule
        for rule in AnswerRule
        if (rule in _SHOWN or rule.value in headlines)
        and any(entry["accuracy"][rule.value] for entry in entries)
    ]
    table.add_column("strategy")
    table.add_column("N", justify="right")
    for rule in rules:
        table.add_column(f"accuracy, {rule.value}\n[95 % interval]", justify="right")
    left = any(entry.get("not_run") for entry in entries)
    for name in (
        *("completions", "tokens a\nquestion", "tokens saved\nagainst MR", "failed"),
        *(["not run"] if left else []),
    ):
        table.add_column(name, justify="right")
    table.add_column("p0 from")
    for entry in entries:
        saved = entry["tokens_saved"]
        table.add_row(
            entry["strategy"],
            str(entry["n"]),
            *(_accuracy(entry, rule) for rule in rules),
            f"{entry['completions']:,}",
            f"{entry['tokens_per_question']:,.0f}",
            "-" if saved is None else f"{saved:.1%}",
            str(entry["failed"]),
            *([f"{entry['not_run']:,}"] if left else []),
            ", ".join(entry["p0_sources"]) or "-",
        )
    return table


def _accuracy(entry: dict[str, Any], rule: AnswerRule) -> str:
    value = entry["accuracy"][rule.value]
    if value is None or value["accuracy"] is None:
        return "-"
    mark = " *" if entry["headline_rule"] == rule.value else ""
    return f"{value['accuracy']:.3f} [{value['low']:.3f}, {value['high']:.3f}]{mark}"
