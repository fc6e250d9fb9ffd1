"""*build*: writes the files of the paper's evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.paper import p0
from pipeline.paper.aggregates import aggregate_rows, claim_rows
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.figures import (
    accuracy_rows,
    bounds_of,
    bounds_rows,
    convergence,
    convergence_rows,
)
from pipeline.paper.opponents import (
    agree_weights,
    cheapest,
    families_of,
    fronts_of,
    policies,
)
from pipeline.paper.page import SECTIONS, Group, headline_of, paper_page
from pipeline.paper.tables import (
    ablation_table,
    chosen_table,
    controls_table,
    gamma_tables,
    method_tables,
    opponents_table,
    policies_table,
    tau_table,
    together,
)
from pipeline.replay.fronts import Row
from pipeline.report.published import NONE_PUBLISHED, Published
from pipeline.report.suitability_view import suitability_of_pool
from pipeline.report.tables import comparisons_csv, csv_of, latex_of
from pipeline.results.compare import Family
from pipeline.results.csv_lines import csv_lines

Files = Iterator[tuple[str, str]]
"""Name and content."""


def build(
    evaluations: Sequence[Evaluation], *, profile: str, paper: Published = NONE_PUBLISHED
) -> Files:
    """Every file: a CSV a table and figure, ``comparisons.csv``, ``paper.html``, ``tables.tex``."""
    family = Family()
    groups = [group_of(made, family, paper) for made in evaluations]
    adjusted = family.adjusted()
    tables = [table for group in groups for table in group.tables]
    for name, _ in SECTIONS:
        yield f"{name}.csv", csv_of([table for table in tables if table.name == name])
    yield "comparisons.csv", comparisons_csv(family.comparisons, adjusted)
    rows: dict[str, list[Row]] = {
        "accuracy_tokens": [row for g in groups for row in accuracy_rows(g.made)],
        "convergence": [
            row for g in groups if g.curve is not None for row in convergence_rows(g.made, g.curve)
        ],
        "bounds": [row for g in groups for row in bounds_rows(g.made, g.bounds)],
        "fronts": [dict(row) for g in groups for row in g.fronts],
        "p0": [row for g in groups for row in p0.p0_rows(g.made, g.p0)],
        "claims": claim_rows(evaluations, {g.made.title: g.curve for g in groups}),
        "aggregates": aggregate_rows(evaluations, paper),
    }
    for name, lines in rows.items():
        yield f"{name}.csv", csv_lines(lines)
    whole = together(evaluations, paper)
    tables += whole
    head = "% Tables of markovscale paper; needs the packages booktabs and graphicx.\n\n"
    yield "tables.tex", head + "\n".join(latex_of(table) for table in tables)
    yield (
        "paper.html",
        paper_page(
            groups,
            adjusted,
            rows["claims"],
            rows["aggregates"],
            whole,
            profile=profile,
            paper=paper is not NONE_PUBLISHED,
        ),
    )


def group_of(made: Evaluation, family: Family, published: Published) -> Group:
    """All tables and figures of one benchmark and backbone."""
    tables = method_tables(made, family, published)
    if made.replays.make.scored:
        tables += [
            ablation_table(made, published),
            chosen_table(made, family),
            tau_table(made, published),
            *gamma_tables(made, published),
        ]
    weights = agree_weights(made, made.believed.half_Q)
    families = families_of(made, weights) if made.pool.rounds > 1 else []
    star = made.get("markovscale_star", max(made.chain_budgets, default=0))
    if star is not None and families:
        reached = [cheapest(made, one, star) for one in families]
        tables.insert(2, opponents_table(made, family, star, reached))
    tables += [
        policies_table(made, family, policies(made, weights)),
        controls_table(made, family),
    ]
    pairs = [family.compare(one, rival, claim=True) for one, rival in headline_of(made)]
    return Group(
        made=made,
        tables=tables,
        headline=[pair for pair in pairs if pair is not None],
        suits=suitability_of_pool(made.pool),
        fronts=fronts_of(made, families),
        curve=convergence(made),
        bounds=bounds_of(made) if made.pool.samples else None,
        p0=p0.judge(made) if made.pool.samples else [],
    )
