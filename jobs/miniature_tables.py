"""The tables of the miniature: N, tau and gamma, gate x stopping x answer rule."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.store.storage import Folder

Row = dict[str, Any]

_METHODS = (
    ("base", "last", "Base"),
    ("mr_thinking", "last", "MR-Thinking"),
    ("mr_thinking", "prm_argmax", "MR-Thinking, PRM argmax (control)"),
    ("markovscale_t", "prm_argmax", "MarkovScale^t"),
    ("markovscale_t", "last", "MarkovScale^t, last answer"),
    ("markovscale_star", "prm_argmax", "MarkovScale^*"),
    ("markovscale_star", "last", "MarkovScale^*, last answer"),
    ("star_first_score", "prm_argmax", "MarkovScale^*, p0 = first score"),
    ("markovscale_0", "prm_argmax", "MarkovScale^0"),
    ("markovscale_0", "last", "MarkovScale^0, last answer"),
)


def print_tables(out: str) -> None:
    """Print what is in a miniature's folder."""
    folder = Folder(out)
    rows = folder.read_table("sweep.parquet").to_pylist()
    grid = [row for row in rows if row["chosen_on"] is None]
    live = folder.child("live").read_json("summary.json")
    console = Console(width=None if Console().is_terminal else 150)
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


def _by_budget(grid: list[Row], live: list[Row]) -> Table:
    table = _table("accuracy [95 % interval], tokens a question; replayed over one pool")
    table.add_column("strategy")
    for n in (8, 16, 32):
        table.add_column(f"N = {n}", justify="right")
    table.add_column("live, N = 8", justify="right")
    for label, rule, name in _METHODS:
        cells = []
        for n in (8, 16, 32):
            found = [
                row
                for row in grid
                if row["strategy"] == label and row["answer_rule"] == rule and row["n"] in (n, 1)
            ]
            cells.append(_cell(found[0]) if found else "-")
        table.add_row(name, *cells, _live(live, label, rule))
    return table


def _live(live: list[Row], label: str, rule: str) -> str:
    for entry in live:
        if entry["strategy"] == label and entry["accuracy"][rule]:
            tokens = entry["tokens_per_question"]
            return _cell({**entry["accuracy"][rule], "tokens_per_question": tokens})
    return "-"


def _tau_gamma(grid: list[Row], value: str) -> Table:
    rows = [
        row
        for row in grid
        if row["strategy"] == "tau_gamma" and row["answer_rule"] == "prm_argmax" and row["n"] == 8
    ]
    name = value.replace("_", " ")
    table = _table(f"MarkovScale^* at N = 8, PRM argmax: {name} by tau (down) and gamma (across)")
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
    for n in (8, 16, 32):
        table.add_column(f"N = {n}", justify="right")
    for gate in (True, False):
        for stopping in (True, False):
            for rule in ("last", "prm_argmax"):
                cells = {
                    row["n"]: _cell(row)
                    for row in grid
                    if row["strategy"] == "ablation"
                    and (row["gate"], row["stopping"]) == (gate, stopping)
                    and row["answer_rule"] == rule
                }
                table.add_row(
                    "on" if gate else "off",
                    "on" if stopping else "off",
                    rule,
                    *(cells.get(n, "-") for n in (8, 16, 32)),
                )
    return table


def _chosen(rows: list[Row]) -> Table:
    table = _table("tau and gamma chosen: on the other half of the questions, and on the test set")
    for name in ("N", "chosen on", "tau", "gamma", "accuracy, tokens"):
        table.add_column(name)
    for row in rows:
        if (
            row["strategy"] == "tau_gamma"
            and row["answer_rule"] == "prm_argmax"
            and row["chosen_on"] is not None
        ):
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
