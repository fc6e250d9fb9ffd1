"""Plots of the tables of a run or pool, with matplotlib.

Each takes a table and draws into `ax`, or into axes of its own, and returns them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.api.pareto import as_they_stand, front, one_of
from pipeline.core.errors import ConfigError

Axes = Any
"""`matplotlib.axes.Axes`."""


def plot_accuracy(accuracies: pa.Table, benchmark: str | None = None, ax: Axes = None) -> Axes:
    """Accuracy against completion tokens a question, each strategy by its own answer rule.

    Args:
        accuracies: of `Run.accuracies`.
        benchmark: one of the table's; None draws all.
        ax: where to draw.

    Raises:
        ConfigError: naming the benchmarks, where it is none of them.
    """
    benchmark = benchmark and one_of(accuracies, benchmark)
    ax = ax or _axes()
    for row in accuracies.filter(accuracies["headline"]).to_pylist():
        if benchmark in (None, row["benchmark"]):
            _point(ax, row, f"{row['strategy']}" if benchmark else _named(row))
    return _labelled(ax, "completion tokens a question", "accuracy, 95 % interval")


def plot_front(
    table: pa.Table, benchmark: str | None = None, *, rule: str | None = None, ax: Axes = None
) -> Axes:
    """Every setting of a sweep, and their Pareto front as observed.

    Args:
        table: of `sweep`.
        benchmark, rule: as in `front`.
        ax: where to draw.
    """
    ax = ax or _axes()
    rows = as_they_stand(table, benchmark, rule)
    for label in pc.unique(rows["strategy"]).to_pylist():
        mine = rows.filter(pc.equal(rows["strategy"], label))
        ax.plot(*_columns(mine, "tokens_per_question", "accuracy"), "o", ms=4, label=label)
    best = front(table, benchmark, rule=rule)
    ax.step(
        *_columns(best, "tokens_per_question", "accuracy"),
        where="post",
        color="black",
        lw=1,
        label="Pareto front, observed",
    )
    ax.set_xscale("log")
    return _labelled(ax, "completion tokens a question", "accuracy")


def plot_fronts(table: pa.Table, benchmark: str | None = None, ax: Axes = None) -> Axes:
    """Accuracy of each family at every budget, tuned on one half and judged on the other.

    Args:
        table: of `fronts`.
        benchmark: one of the table's; None where it has one.
        ax: where to draw.

    Raises:
        ConfigError: naming the benchmarks, where one must be named.
    """
    ax = ax or _axes()
    rows = table.filter(pc.equal(table["benchmark"], one_of(table, benchmark)))
    rows = rows.filter(pc.equal(rows["measure"], "accuracy"))
    for family in pc.unique(rows["family"]).to_pylist():
        mine = rows.filter(pc.equal(rows["family"], family))
        tokens, value, low, high = _columns(mine, "tokens", "value", "low", "high")
        (line,) = ax.plot(tokens, value, label=family)
        ax.fill_between(tokens, low, high, alpha=0.1, color=line.get_color())
    ax.set_xscale("log")
    return _labelled(ax, "completion tokens a question", "accuracy, 95 % interval")


def plot_rounds(table: pa.Table, ax: Axes = None) -> Axes:
    """Accuracy by round with its interval, and the closed form of the two-state chain.

    Args:
        table: of `accuracy_by_round`.
        ax: where to draw.
    """
    ax = ax or _axes()
    for benchmark in pc.unique(table["benchmark"]).to_pylist():
        mine = table.filter(pc.equal(table["benchmark"], benchmark))
        rounds, accuracy, low, high, closed = _columns(
            mine, "round", "accuracy", "low", "high", "closed_form"
        )
        (line,) = ax.plot(rounds, accuracy, "o", ms=4, label=benchmark)
        ax.fill_between(rounds, low, high, alpha=0.15, color=line.get_color())
        if None not in closed:
            ax.plot(rounds, closed, color=line.get_color(), lw=1)
    return _labelled(ax, "round", "accuracy; line: closed form")


def plot_metrics(table: pa.Table, name: str = "completion_tokens", ax: Axes = None) -> Axes:
    """A counter as a rate, or a gauge as it is, over the seconds since the first row.

    Args:
        table: of `Run.metrics`.
        name: a column. ``rounds``, ``recorded`` and token counters are drawn a second.
        ax: where to draw.

    Raises:
        ConfigError: naming the columns, where it is none of them.
    """
    if name not in table.column_names:
        raise ConfigError(f"name must be one of {', '.join(table.column_names)}, got {name!r}")
    ax = ax or _axes()
    rows = table.select(["time", "attempt", name]).to_pylist()
    counter = name in ("rounds", "recorded") or name.endswith("_tokens")
    start = rows[0]["time"] if rows else 0.0
    times, values = [], []
    for before, now in zip([None, *rows], rows, strict=False):
        value = now[name]
        if counter:
            if before is None or before["attempt"] != now["attempt"] or value is None:
                continue
            value = (value - before[name]) / max(now["time"] - before["time"], 1e-9)
        times.append(now["time"] - start)
        values.append(value)
    ax.plot(times, values)
    return _labelled(ax, "seconds", f"{name} a second" if counter else name)


def _axes() -> Axes:
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6.4, 4), layout="constrained")[1]


def _point(ax: Axes, row: dict[str, Any], label: str) -> None:
    value = row["accuracy"]
    ax.errorbar(
        row["tokens_per_question"],
        value,
        yerr=[[value - row["low"]], [row["high"] - value]],
        fmt="o",
        capsize=3,
        label=label,
    )


def _named(row: dict[str, Any]) -> str:
    return f"{row['strategy']}, {row['benchmark']}"


def _columns(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


def _labelled(ax: Axes, x: str, y: str) -> Axes:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=8)
    return ax
