"""*Plots*: the tables of a run or pool as Vega-Altair charts.

A chart shows itself in a notebook, and is written with ``chart.save("plot.png")`` (or ``.svg``,
``.html``). Each function takes the table, or the run or pool that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.api.runs import Run, accuracy_by_round
from pipeline.core.errors import ConfigError
from pipeline.replay.pools import CompletionPool
from pipeline.report import charts

if TYPE_CHECKING:
    import altair as alt

_WIDTH = 520
_TOKENS = "completion tokens per question, log scale"


def front(table: pa.Table, benchmark: str | None = None, *, rule: str | None = None) -> pa.Table:
    """The Pareto front of a sweep: settings that no other beats in accuracy for as few tokens.

    These are observed values on the very questions that the settings are judged on, so the best of
    many looks a little better than it is; rows with ``chosen_on`` ``held_out`` do not.

    Args:
        table: of `sweep`; rows that were chosen are left out.
        benchmark: one of the table's; None where it has one.
        rule: an answer rule; None reads each strategy by its own.

    Returns:
        Rows of the table, cheapest first.

    Raises:
        ConfigError: naming the benchmarks or rules, where one of them must be named.
    """
    rows = _as_they_stand(table, benchmark, rule)
    points = zip(rows["tokens_per_question"].to_pylist(), rows["accuracy"].to_pylist(), strict=True)
    return rows.take(pa.array(charts.pareto(list(points)), pa.int64()))


def plot_accuracy(source: Run | pa.Table, benchmark: str | None = None) -> alt.LayerChart:
    """Accuracy against completion tokens per question, each strategy by its own answer rule.

    Args:
        source: a run, or its table of `Run.accuracies`.
        benchmark: one of the table's; None draws all.

    Raises:
        ConfigError: naming the benchmarks, where it is none of them.
    """
    table = source.accuracies() if isinstance(source, Run) else source
    name = benchmark and _one_of(table, benchmark)
    rows = [
        {
            "series": row["strategy"] if name else f"{row['strategy']}, {row['benchmark']}",
            "tokens": row["tokens_per_question"],
            **{column: row[column] for column in ("accuracy", "low", "high")},
        }
        for row in table.filter(table["headline"]).to_pylist()
        if name in (None, row["benchmark"])
    ]
    return charts.accuracy_by_tokens(rows).properties(width=_WIDTH)


def plot_front(
    table: pa.Table, benchmark: str | None = None, *, rule: str | None = None
) -> alt.LayerChart:
    """Every setting of a sweep, and their Pareto front as observed.

    Args:
        table: of `sweep`.
        benchmark: as in `front`.
        rule: as in `front`.
    """
    rows = [
        {
            "series": row["strategy"],
            "name": f"{row['strategy']} {row['settings']}",
            "tokens": row["tokens_per_question"],
            "accuracy": row["accuracy"],
        }
        for row in _as_they_stand(table, benchmark, rule).to_pylist()
    ]
    return charts.accuracy_by_tokens(rows).properties(width=_WIDTH)


def plot_fronts(table: pa.Table, benchmark: str | None = None) -> alt.LayerChart:
    """Accuracy of each family at every budget, tuned on one half and judged on the other.

    Args:
        table: of `fronts`.
        benchmark: one of the table's; None where it has one.

    Raises:
        ConfigError: naming the benchmarks, where one must be named.
    """
    name = _one_of(table, benchmark)
    rows = [
        {"series": row["family"], "x": row["tokens"], "y": row["value"],
         "low": row["low"], "high": row["high"]}
        for row in table.to_pylist()
        if row["benchmark"] == name and row["measure"] == "accuracy"
    ]  # fmt: skip
    chart = charts.lines(rows, x=_TOKENS, y="accuracy", log=True, percent=True, band=True)
    return chart.properties(width=_WIDTH)


def plot_rounds(source: Run | CompletionPool | pa.Table) -> alt.LayerChart:
    """Accuracy by round with its interval, and the closed form of the two-state chain.

    Args:
        source: a run or pool, or its table of `accuracy_by_round`.
    """
    table = source if isinstance(source, pa.Table) else accuracy_by_round(source)
    rows = [{**row, "series": row["benchmark"]} for row in table.to_pylist()]
    return charts.accuracy_by_round(rows).properties(width=_WIDTH)


def plot_metrics(source: Run | pa.Table, name: str = "completion_tokens") -> alt.LayerChart:
    """A counter as a rate, or a gauge as it is, over the seconds since the first row.

    Args:
        source: a run, or its table of `Run.metrics`.
        name: a column. ``rounds``, ``recorded`` and token counters are drawn per second.

    Raises:
        ConfigError: naming the columns, where it is none of them.
    """
    table = source.metrics() if isinstance(source, Run) else source
    if name not in table.column_names:
        raise ConfigError(f"name must be one of {', '.join(table.column_names)}, got {name!r}")
    rows = table.select(["time", "attempt", name]).to_pylist()
    counter = name in ("rounds", "recorded") or name.endswith("_tokens")
    points: list[dict[str, Any]] = []
    for before, now in zip([None, *rows], rows, strict=False):
        value = now[name]
        if counter:
            if before is None or before["attempt"] != now["attempt"] or value is None:
                continue
            value = (value - before[name]) / max(now["time"] - before["time"], 1e-9)
        points.append({"series": name, "x": now["time"] - rows[0]["time"], "y": value})
    title = f"{name} per second" if counter else name
    return charts.lines(points, x="seconds", y=title, step=True).properties(width=_WIDTH)


def _one_of(table: pa.Table, benchmark: str | None) -> str:
    """The benchmark that is meant: the one that is named, or the only one."""
    names = pc.unique(table["benchmark"]).to_pylist()
    if benchmark is None and len(names) == 1:
        return str(names[0])
    if benchmark is None or benchmark not in names:
        raise ConfigError(f"benchmark must be one of {', '.join(names)}, got {benchmark!r}")
    return benchmark


def _as_they_stand(table: pa.Table, benchmark: str | None, rule: str | None) -> pa.Table:
    """Settings of one benchmark under one rule that were not chosen, with an accuracy."""
    name = _one_of(table, benchmark)
    if rule is not None and rule not in (known := pc.unique(table["answer_rule"]).to_pylist()):
        raise ConfigError(f"rule must be one of {', '.join(known)}, got {rule!r}")
    wanted = pc.and_(pc.is_null(table["chosen_on"]), pc.equal(table["benchmark"], name))
    own = table["headline"] if rule is None else pc.equal(table["answer_rule"], rule)
    return table.filter(pc.and_(pc.and_(wanted, own), pc.is_valid(table["accuracy"])))
