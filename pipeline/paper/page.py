"""*Paper page*: builds the files of the paper's evaluation: CSV, LaTeX and one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.paper import p0
from pipeline.paper.aggregates import aggregate_rows, claim_rows
from pipeline.paper.evaluation import AT_BEST, Evaluation
from pipeline.paper.figures import (
    accuracy_figure,
    bounds_figure,
    bounds_of,
    bounds_rows,
    convergence,
    convergence_rows,
)
from pipeline.paper.opponents import agree_weights, cheapest, families_of, fronts_of
from pipeline.paper.tables import (
    ablation_table,
    controls_table,
    grid_tables,
    main_table,
    opponents_table,
    together,
)
from pipeline.report import words
from pipeline.report.chain_view import RoundCurve
from pipeline.report.figures import rounds_figure
from pipeline.report.fronts_view import Row, fronts_section
from pipeline.report.html import Child, banner, facts, folded, h, page, table, with_ends
from pipeline.report.published import NONE_PUBLISHED, Published
from pipeline.report.suitability_view import numbers_of, suitability_of_pool
from pipeline.report.tables import Table, comparisons_csv, csv_of, html_of, latex_of
from pipeline.report.verdict import (
    differences,
    figures_words,
    line_of,
    one_question,
    tiles_of,
    verdict_row,
    verdict_words,
)
from pipeline.results.column import Column
from pipeline.results.compare import Adjusted, Comparison, Family
from pipeline.results.csv_lines import csv_lines
from pipeline.statistics.fronts import LEAST_QUESTIONS
from pipeline.theory.estimate import Bounds
from pipeline.theory.suitability import Suitability

Rows = Sequence[Mapping[str, Any]]
"""Lines of a CSV file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """All of one benchmark and backbone."""

    made: Evaluation
    tables: Sequence[Table]
    headline: Sequence[Comparison]
    """Each variant at the largest N against MR-Thinking by its best rule."""
    suits: Suitability | None
    fronts: Sequence[Row]
    curve: RoundCurve | None
    bounds: Bounds | None
    p0: Rows


SECTIONS = {
    "main": (
        "Main table",
        "Accuracy in percent with its 95 % interval; below it what was chosen, then the paired "
        "differences in points: best MR is MR-Thinking by the answer rule that does best on the "
        "other half of the questions, MR is MR-Thinking by its last answer. τ of the test is "
        "chosen on the very questions: optimistic, and not tested.",
    ),
    "opponents": (
        "Opponents",
        "Each strategy at the cheapest setting that reaches the accuracy of MarkovScale* on the "
        "other half of the questions, N from 1 up; where none does, at its most accurate one. What "
        "a strategy does not read, such as scores for a vote, is not billed to it.",
    ),
    "ablation": (
        "Ablation",
        "τ is that of the full variant, chosen on the other half. The paper's row without both "
        "parts is MR-Thinking by its last answer; prm_argmax and last separate "
        "selection from stopping.",
    ),
    "controls": (
        "Controls",
        "Oracle and pass@N know the right answers. Stops dealt at random keep a variant's budget, "
        "without its rule's knowledge of single questions.",
    ),
}
"""Title and explanation of the tables of the page, by name."""
GRIDS = ("tau", "gamma")
"""Tables that stand in files alone."""


def build(
    evaluations: Sequence[Evaluation], *, paper: Published = NONE_PUBLISHED
) -> Iterator[tuple[str, str]]:
    """Name and content of every file: a CSV a table and figure, ``comparisons.csv``,
    ``paper.html``, ``tables.tex``."""
    family = Family()
    groups = [group_of(made, family, paper) for made in evaluations]
    groups = [replace(group, headline=family.finished(group.headline)) for group in groups]
    adjusted = family.adjusted()
    tables = [table for group in groups for table in group.tables]
    for name in (*SECTIONS, *GRIDS):
        yield f"{name}.csv", csv_of([table for table in tables if table.name == name])
    yield "comparisons.csv", comparisons_csv(family.comparisons, adjusted)
    rows: dict[str, Rows] = {
        "convergence": [
            row for g in groups if g.curve is not None for row in convergence_rows(g.made, g.curve)
        ],
        "bounds": [row for g in groups for row in bounds_rows(g.made, g.bounds)],
        "fronts": [row for g in groups for row in g.fronts],
        "p0": [row for g in groups for row in g.p0],
        "claims": claim_rows(evaluations, {g.made.title: g.curve for g in groups}),
        "aggregates": aggregate_rows(evaluations, paper),
    }
    for name, lines in rows.items():
        yield f"{name}.csv", csv_lines(lines)
    head = "% Tables of markovscale paper; needs the packages booktabs and graphicx.\n\n"
    all_benchmarks = together(evaluations, paper)
    yield "tables.tex", head + "\n".join(latex_of(table) for table in [*tables, *all_benchmarks])
    published = paper is not NONE_PUBLISHED
    yield "paper.html", paper_page(groups, adjusted, rows["claims"], all_benchmarks, published)


def group_of(made: Evaluation, family: Family, published: Published) -> Group:
    """All tables and figures of one benchmark and backbone."""
    tables = [main_table(made, family, published)]
    if made.replays.make.scored:
        tables += [
            ablation_table(made, published),
            *grid_tables(made, published),
        ]
    weights = agree_weights(made, made.believed.half_Q)
    families = families_of(made, weights) if made.pool.rounds > 1 else []
    star = made.get("markovscale_star", max(made.chain_budgets, default=0))
    if star is not None and families:
        reached = [cheapest(made, one, star) for one in families]
        tables.insert(1, opponents_table(made, family, star, reached))
    tables.append(controls_table(made, family))
    pairs = [family.compare(one, rival, claim=True) for one, rival in headline_of(made)]
    return Group(
        made=made,
        tables=tables,
        headline=[pair for pair in pairs if pair is not None],
        suits=suitability_of_pool(made.pool),
        fronts=fronts_of(made, families),
        curve=convergence(made),
        bounds=bounds_of(made) if made.pool.samples else None,
        p0=p0.p0_rows(made, p0.judge(made)) if made.pool.samples else [],
    )


def paper_page(
    groups: Sequence[Group],
    adjusted: Adjusted,
    claims: Rows,
    whole: Sequence[Table],
    paper: bool,
) -> str:
    """The whole page.

    Args:
        groups: a benchmark and backbone each.
        adjusted: corrected p-values of all comparisons.
        claims: the paper's and ours.
        whole: tables of all benchmarks side by side.
        paper: whether the paper's numbers were given.
    """
    synthetic = sorted({g.made.pool.address for g in groups if g.made.pool.synthetic})
    text = f"Scripted engines made {', '.join(synthetic)}; no model answered."
    banners = [banner(h("b", "SYNTHETIC"), text, made_up=True)] if synthetic else []
    pools = {g.made.pool.address: g.made.pool for g in groups}
    banners += [
        banner(h("b", "IMPORTED"), f"{pool.address}: {pool.imported.sentence}. Columns of tokens "
               f"hold {pool.counted}.")
        for pool in pools.values()
        if pool.imported is not None
    ]  # fmt: skip
    sides = [folded(made.title, html_of(made)) for made in whole]
    return page(
        "MarkovScale: the paper's evaluation",
        "The paper's evaluation",
        "; ".join(group.made.title for group in groups),
        [
            ("result", "Result", [*_results(groups), *_claims(claims), *sides]),
            ("fronts", "Fronts", _fronts(groups)),
            *((name, title, _tables(groups, name, hint, adjusted))
              for name, (title, hint) in SECTIONS.items()),
            ("p0", "p0", _p0([row for group in groups for row in group.p0])),
            ("figures", "Figures", [part for group in groups for part in _figures(group)]),
            ("made", "How it was made", _made(groups, adjusted, paper)),
        ],
        banners=banners,
        made_by="Made by markovscale paper from recorded pools",
        wide=True,
    )  # fmt: skip


def _results(groups: Sequence[Group]) -> list[Child]:
    """A row of each group with its chart, and every variant in a table."""
    body: list[Child] = [_row(group) for group in groups]
    claims = [compared for group in groups for compared in group.headline]
    if not claims:
        return body
    rows = [
        (
            group.made.title if not place else "",
            f"{compared.first.method}, N = {compared.first.n}",
            with_ends(words.percent(mine.value), words.percent_range(mine)),
            [*with_ends(words.percent(rival.value), words.percent_range(rival)),
             h("small", compared.second.tuned)],
            with_ends(words.points(compared.difference.value),
                      words.points_range(compared.difference.low, compared.difference.high)),
            [verdict_words(compared),
             None if compared.p_adjusted is None
             else h("small", words.p_value(compared.p_adjusted))],
            words.NONE if compared.saved is None else with_ends(
                words.percent(compared.saved.value, 0), words.percent_range(compared.saved, 0)),
        )
        for group in groups
        for place, compared in enumerate(group.headline)
        if (mine := compared.first.accuracy) and (rival := compared.second.accuracy)
    ]  # fmt: skip
    header = ("", "variant", "accuracy", "MR-Thinking, best rule and N", "difference, points",
              "corrected test", f"{groups[0].made.replays.cost.unit} saved")  # fmt: skip
    n, tests = min(one.n_questions for one in claims), max(one.tests for one in claims)
    return [
        *body,
        table(header, rows, caption="Each variant against MR-Thinking at its best"),
        h("p", "τ, and MR-Thinking's answer rule and N, are chosen on the other half of the "
          f"questions. These {len(rows)} comparisons are the page's claims, named beforehand and "
          f"corrected among themselves: of {n:,} questions {one_question(n, tests)}. All others "
          "describe. No clear difference does not mean equally good: the interval shows what the "
          "data allow.", cls="hint"),
    ]  # fmt: skip


def _claims(claims: Rows) -> list[Child]:
    """The paper's four claims, each with its number."""
    rows = [
        (
            row["backbone"],
            row["claim"],
            with_ends(
                words.points(row["ours"]),
                "" if row["ours_low"] is None
                else words.points_range(row["ours_low"], row["ours_high"]),
            ),
            row["paper"] or words.NONE,
            row["reading"],
        )
        for row in claims
    ]  # fmt: skip
    if not rows:
        return []
    header = ("backbone", "claim", "ours, points or percent", "the paper's", "holds?")
    hint = (
        "MarkovScale* with τ of the other half, means over all benchmarks and N of the page; the "
        "paper chooses τ on the test questions and gains over Base, not over MR-Thinking at its "
        "cheapest. The gate alone is MarkovScale\N{MODIFIER LETTER SMALL T}, neither is "
        "MR-Thinking by its last answer. A claim holds where the whole interval lies "
        "on its side of 0. Averages of every method are in aggregates.csv."
    )
    return [table(header, rows, caption="The paper's claims"), h("p", hint, cls="hint")]


def _row(group: Group) -> Child:
    """The first variant of a group against MR-Thinking, and what suits its chains."""
    chart, sentences = accuracy_figure(group.made), list[Child]()
    if group.suits is not None and group.suits.sentences():
        sentences = [*group.suits.sentences(), numbers_of(group.suits)]
    if not group.headline:
        return verdict_row(group.made.title, "No variant could be replayed", (), sentences, chart)
    lead, unit = group.headline[0], group.made.replays.cost.unit
    sentences = [figures_words(lead, unit=unit), *differences(lead), *sentences]
    return verdict_row(
        group.made.title, line_of(lead, unit), tiles_of(lead, unit), sentences, chart
    )


def _fronts(groups: Sequence[Group]) -> list[Child]:
    body: list[Child] = []
    for group in groups:
        body += fronts_section(group.fronts, group.made.backbone)
    if not body:
        body.append(
            h("p", f"Fronts need {LEAST_QUESTIONS} graded questions in each half.", cls="hint")
        )
    return body


def _tables(groups: Sequence[Group], name: str, hint: str, adjusted: Adjusted) -> list[Child]:
    body: list[Child] = []
    for group in groups:
        for made in group.tables:
            if made.name == name:
                shown = html_of(made, adjusted)
                if name == "controls" and len(groups) > 1:
                    shown = folded(f"{made.title}, {group.made.title}", shown)
                body.append(shown)
    if not body:
        return []
    return [*body, h("p", hint, cls="hint")] if hint else body


def _p0(lines: Rows) -> list[Child]:
    """Predictors of p0 by log loss, each against a constant."""
    rows = [
        (
            f"{row['benchmark']}, {row['backbone']}",
            row["predictor"],
            words.decimal(row["log_loss"]),
            f"{words.decimal(row['gain'])} "
            f"[{words.decimal(row['gain_low'])}, {words.decimal(row['gain_high'])}]",
            "beats it" if row["beats_constant"] else "does not",
            words.decimal(row["calibration_error"]),
            words.decimal(row["rank_correlation"]),
            words.percent(row["share_below_L"]),
        )
        for row in lines
    ]
    if not rows:
        return [h("p", "Predictors of p0 are judged on independent samples.", cls="hint")]
    header = ("benchmark, backbone", "p0", "log loss a sample", "gain over a constant [95 %]",
              "constant", "calibration error", "rank correlation", "p0 below L")  # fmt: skip
    hint = (
        "Judged on the even-numbered samples of every question, clustered by question; the "
        "constant is their share of right ones. What is fitted is fitted on the other half of the "
        "questions. The oracle counts the odd-numbered samples of the question itself. The gate "
        "revises where p0 is below L."
    )
    return [table(header, rows, caption="p0 of a question"), h("p", hint, cls="hint")]


def _figures(group: Group) -> list[Child]:
    body: list[Child] = []
    if group.curve is not None:
        body.append(rounds_figure(group.curve, group.made.title))
    if group.bounds is not None:
        body.append(bounds_figure(group.made, group.bounds))
    else:
        body.append(
            h("p", f"Bounds of {group.made.title} need independent samples, which the pool does "
              f"not have.", cls="hint")
        )  # fmt: skip
    return body


def _made(groups: Sequence[Group], adjusted: Adjusted, paper: bool) -> list[Child]:
    rows = [
        (
            group.made.title,
            group.made.pool.address,
            f"{len(group.made.pool.questions):,}",
            str(group.made.pool.rounds),
            str(group.made.pool.samples),
            _chances(group.made.believed.a),
            _chances(group.made.believed.b),
            group.made.believed.words,
        )
        for group in groups
    ]
    header = ("benchmark, backbone", "pool", "questions", "rounds", "samples",
              "a by half", "b by half", "p0, a and b")  # fmt: skip
    return [
        table(header, rows, caption="Pools, and what the strategies believed"),
        facts(
            [
                ("baselines", "as the paper's tables need them; opponents as their authors' code"),
                ("grids", "τ from 0.80 to 0.99, γ of 1, 4, 7, 10 and 20, where not said otherwise "
                 "γ = 10; σ = 0"),
                ("tests", f"{len(adjusted):,}: McNemar's exact test of accuracy, the t-test where "
                 "a side is a mean over draws, and the t-test of tokens; claims corrected among "
                 "themselves, all others for the page (Holm), tests of the same differences "
                 "counted once"),
                ("intervals", "95 %: Wilson for accuracies, Student for tokens and means over "
                 "draws, adjusted Wald (Bonett and Price) for paired differences of accuracy, the "
                 "delta method for tokens saved, Bayesian bootstrap over questions for a, b, L, λ"),
                ("tokens", f"{groups[0].made.replays.cost.unit} (--cost)" if groups else "none"),
                ("ungraded", "are left out; where there are any, a line below has the accuracies "
                 "if all were wrong and if all were right"),
                ("copies", "questions with the same text count as repeats of one question"),
                ("paper's numbers", "marked where they lie outside our interval" if paper
                 else "not given (--paper FOLDER)"),
            ]
        ),
    ]  # fmt: skip


def _chances(values: Sequence[float | None]) -> str:
    return " | ".join(words.decimal(value) for value in values) or "each question's own"


def headline_of(made: Evaluation) -> list[tuple[Column, Column]]:
    """The pairs that the result speaks of: variants against MR-Thinking at its best."""
    n = max(made.chain_budgets, default=0)
    rival = made.get(AT_BEST, n)
    mine = [made.get(kind, n) for kind in ("markovscale_star", "markovscale_0", "markovscale_t")]
    return [(one, rival) for one in mine if one is not None and rival is not None]
