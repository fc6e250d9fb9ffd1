"""The settings of a sweep that no other beats."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import ConfigError
from pipeline.report.charts import pareto


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
    rows = as_they_stand(table, benchmark, rule)
    points = zip(rows["tokens_per_question"].to_pylist(), rows["accuracy"].to_pylist(), strict=True)
    return rows.take(pa.array(pareto(list(points)), pa.int64()))


def one_of(table: pa.Table, benchmark: str | None) -> str:
    """The benchmark that is meant: the one that is named, or the only one."""
    names = pc.unique(table["benchmark"]).to_pylist()
    if benchmark is None and len(names) == 1:
        return str(names[0])
    if benchmark is None or benchmark not in names:
        raise ConfigError(f"benchmark must be one of {', '.join(names)}, got {benchmark!r}")
    return benchmark


def as_they_stand(table: pa.Table, benchmark: str | None, rule: str | None) -> pa.Table:
    """Settings of one benchmark under one rule that were not chosen, with an accuracy."""
    name = one_of(table, benchmark)
    if rule is not None and rule not in (known := pc.unique(table["answer_rule"]).to_pylist()):
        raise ConfigError(f"rule must be one of {', '.join(known)}, got {rule!r}")
    wanted = pc.and_(pc.is_null(table["chosen_on"]), pc.equal(table["benchmark"], name))
    own = table["headline"] if rule is None else pc.equal(table["answer_rule"], rule)
    return table.filter(pc.and_(pc.and_(wanted, own), pc.is_valid(table["accuracy"])))
