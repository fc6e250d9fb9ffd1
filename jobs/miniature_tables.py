"""The tables of the miniature: N, tau and gamma, gate x stopping x answer rule."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from jobs.terminal import terminal
from pipeline.store.storage import Folder

Row = dict[str, Any]

_RULES = ("last", "prm_argmax")
"""Answer rules that every strategy is shown under."""


def print_tables(out: str) -> None:
    """Print what is in a miniature's folder."""
    folder = Folder(out)
    rows = folder.read_table("sweep.parquet").to_pylist()
    grid = [row for row in rows if row["chosen_on"] is None]
    live = folder.child("live").read_json("summary.json")
    console = terminal()
    console.print(_by_budget(grid, live["strategies"]))
    for value in ("accuracy", "tokens_per_question"):
        console.print(_tau_gamma(grid, value))
    console.print(_ablation(grid))
    console.print(_chosen(rows))
    predictor = folder.child("predictor").read_json("predictor.json")
    reports = predictor["fitted"][predictor["use"]]["reports"]
    for head, report in reports.items():
        verdict = "beats" if report["gain_low"] > 0 else "does not beat"
        console.print(
            f"predictor {head}: {verdict} a constant on {report['n_questions']} held-out "
            f"questions, loss {report['loss']:.3f} against {report['loss_constant']:.3f}"
        )


def _varied(grid: list[Row], *names: str) -> list[str]:
    """Labels of which a sweep tried several values of these fields."""
    found = []
    for label in dict.fromkeys(row["strategy"] for row in grid):
        tried = {tuple(row[name] for name in names) for row in grid if row["strategy"] == label}
        found += [label] if len(tried) > 1 else []
    return found


def _budgets(grid: list[Row]) -> list[int]:
    return sorted({row["n"] for row in grid if row["kind"] != "base"})


def _by_budget(grid: list[Row], live: list[Row]) -> Table:
    """Strategies with one setting a budget, read by the last answer and by PRM argmax."""
    table = _table("accuracy [95 % interval], tokens a question; replayed over one pool")
    budgets, several = _budgets(grid), _varied(grid, "tau", "gamma", "gate", "stopping")
    table.add_column("strategy")
    for n in budgets:
        table.add_column(f"N = {n}", justify="right")
    table.add_column(f"live, N = {max(entry['n'] for entry in live)}", justify="right")
    for label in dict.fromkeys(row["strategy"] for row in grid):
        rows = [row for row in grid if row["strategy"] == label]
        for rule in () if label in several else _RULES:
            if rows[0]["kind"] == "base" and rule != "last":
                continue  # a single completion is chosen by every rule
            found = {row["n"]: _cell(row) for row in rows if row["answer_rule"] == rule}
            cells = [found.get(n, found.get(1, "-")) for n in budgets]
            own = (
                " *" if any(row["headline"] and row["answer_rule"] == rule for row in rows) else ""
            )
            table.add_row(f"{label}, {rule}{own}", *cells, _live(live, label, rule))
    return table


def _live(live: list[Row], label: str, rule: str) -> str:
    for entry in live:
        if entry["strategy"] == label and entry["accuracy"][rule]:
            tokens = entry["tokens_per_question"]
            return _cell({**entry["accuracy"][rule], "tokens_per_question": tokens})
    return "-"


def _tau_gamma(grid: list[Row], value: str) -> Table:
    (label, *_), n = _varied(grid, "tau", "gamma"), min(_budgets(grid))
    rows = [row for row in grid if row["strategy"] == label and row["headline"] and row["n"] == n]
    name = value.replace("_", " ")
    table = _table(f"{label} at N = {n}, its own rule: {name} by tau (down) and gamma (across)")
    table.add_column("tau")
    gammas = sorted({row["gamma"] for row in rows})
    for gamma in gammas:
        table.add_column(f"{gamma:g}", justify="right")
    for tau in sorted({row["tau"] for row in rows}):
        by_gamma = {row["gamma"]: row for row in rows if row["tau"] == tau}
        form = "{:.3f}" if value == "accuracy" else "{:,.0f}"
        table.add_row(f"{tau:g}", *(form.format(by_gamma[gamma][value]) for gamma in gammas))
    return table


def _ablation(grid: list[Row]) -> Table:
    table = _table("ablation: gate x stopping x answer rule (MarkovScale^*)")
    for name in ("gate", "stopping", "answer rule"):
        table.add_column(name)
    label, budgets = _varied(grid, "gate", "stopping")[0], _budgets(grid)
    for n in budgets:
        table.add_column(f"N = {n}", justify="right")
    for gate in (True, False):
        for stopping in (True, False):
            for rule in _RULES:
                cells = {
                    row["n"]: _cell(row)
                    for row in grid
                    if row["strategy"] == label
                    and (row["gate"], row["stopping"]) == (gate, stopping)
                    and row["answer_rule"] == rule
                }
                table.add_row(
                    "on" if gate else "off",
                    "on" if stopping else "off",
                    rule,
                    *(cells.get(n, "-") for n in budgets),
                )
    return table


def _chosen(rows: list[Row]) -> Table:
    table = _table("tau and gamma chosen: on the other half of the questions, and on the test set")
    for name in ("N", "chosen on", "tau", "gamma", "accuracy, tokens"):
        table.add_column(name)
    tuned = _varied([row for row in rows if row["chosen_on"] is None], "tau", "gamma")
    for row in rows:
        if row["strategy"] in tuned and row["headline"] and row["chosen_on"] is not None:
            table.add_row(
                str(row["n"]),
                "other half" if row["chosen_on"] == "held_out" else "test set (too good)",
                _either(row["tau"]),
                _either(row["gamma"]),
                _cell(row),
            )
    return table


def _either(value: float | None) -> str:
    return "differ" if value is None else f"{value:g}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left")


def _cell(row: Row) -> str:
    if row["accuracy"] is None:
        return "-"
    interval = f"[{row['low']:.3f}, {row['high']:.3f}]"
    return f"{row['accuracy']:.3f} {interval} {row['tokens_per_question']:,.0f}"
