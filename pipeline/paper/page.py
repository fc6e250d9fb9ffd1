"""*Paper page*: result, tables and figures of every pool as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.paper.evaluation import AT_BEST, Evaluation
from pipeline.paper.figures import accuracy_figure, bounds_figure
from pipeline.paper.p0 import Judged, gain_of
from pipeline.paper.settings import TAUS
from pipeline.replay.pools import CompletionPool
from pipeline.report import words
from pipeline.report.chain_view import RoundCurve
from pipeline.report.figures import rounds_figure
from pipeline.report.html import (
    Child,
    banner,
    facts,
    folded,
    h,
    page,
    table,
    with_ends,
)
from pipeline.report.suitability_view import contrast, numbers_of
from pipeline.report.sweeps import Row, fronts_section
from pipeline.report.tables import Table, html_of
from pipeline.report.verdict import differences, figures_words, line_of, tiles_of, verdict_row
from pipeline.results.column import Column
from pipeline.results.compare import Adjusted, Comparison
from pipeline.statistics.fronts import LEAST_QUESTIONS
from pipeline.statistics.paired import least_discordant
from pipeline.theory.estimate import Bounds
from pipeline.theory.suitability import Suitability


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
    p0: Sequence[Judged]


SECTIONS = (
    ("main", "Main table"),
    ("variants", "Variants"),
    ("opponents", "Opponents"),
    ("policies", "With nothing tuned"),
    ("ablation", "Ablation"),
    ("chosen", "Choosing τ and γ"),
    ("tau", "τ"),
    ("gamma", "γ"),
    ("controls", "Controls"),
)
"""Names and titles of the tables."""
_LONG = frozenset({"tau", "gamma", "controls"})
"""Sections that are folded where there are several groups."""
_HINTS = {
    "main": "Accuracy in percent with its 95 % interval; below it what was chosen, then the paired "
    "differences in points: best MR is MR-Thinking by the answer rule that does best on the other "
    "half of the questions, MR is MR-Thinking by its last answer. τ of the test is chosen on the "
    "very questions: too good, and not tested.",
    "opponents": "Each strategy at the cheapest setting that reaches the accuracy of MarkovScale* "
    "on the other half of the questions, N from 1 up; where none does, at its most accurate one. "
    "What a strategy does not read, such as scores for a vote, is not billed to it.",
    "ablation": "τ is that of the full variant, chosen on the other half. The paper's row without "
    "both parts is MR-Thinking by its last answer; prm_argmax and last tell selection from "
    "stopping.",
    "chosen": "A setting chosen on the test is what hindsight finds there; one chosen on the other "
    "half is what a user can have.",
    "tau": "Every row is one setting on all questions; none was chosen.",
    "gamma": "Every cell is one setting on all questions; none was chosen.",
    "policies": "Weights of Agree are fitted, by gold, on the other half of the questions. Nothing "
    "else is fitted or chosen. An interval is of its one comparison; p is corrected for all tests "
    "of the page, so one may leave out 0 where the other tells no difference.",
    "controls": "Oracle and pass@N know the right answers. Stops dealt at random keep a variant's "
    "budget and lose what its rule knew of single questions. Calibrated scores are mapped by an "
    "isotonic fit on the other half.",
}


def paper_page(
    groups: Sequence[Group],
    adjusted: Adjusted,
    claims: Sequence[Mapping[str, Any]] = (),
    totals: Sequence[Mapping[str, Any]] = (),
    whole: Sequence[Table] = (),
    *,
    profile: str,
    paper: bool,
) -> str:
    """The whole file."""
    synthetic = sorted({g.made.pool.address for g in groups if g.made.pool.synthetic})
    said = f"Scripted engines made {', '.join(synthetic)}; no model answered."
    banners = [banner(h("b", "SYNTHETIC"), said, made_up=True)] if synthetic else []
    banners += [
        banner(h("b", "IMPORTED"), f"{pool.address}: {_imported_from(pool)}. Columns of tokens "
               f"hold {pool.counted}.")
        for pool in _imported(groups)
    ]  # fmt: skip
    sides = [folded(made.title, html_of(made)) for made in whole]
    named = {made.name for group in groups for made in group.tables}
    return page(
        "MarkovScale: the paper's evaluation",
        "The paper's evaluation",
        "; ".join(group.made.title for group in groups),
        [
            ("result", "Result",
             [*_results(groups, adjusted), *_claims(claims), *_totals(totals), *sides]),
            ("fronts", "Fronts", _fronts(groups)),
            *((name, title, _tables(groups, name, adjusted))
              for name, title in SECTIONS if name in named),
            ("p0", "p0", _p0(groups)),
            ("figures", "Figures", [part for group in groups for part in _figures(group)]),
            ("made", "How it was made", _made(groups, adjusted, profile, paper)),
        ],
        banners=banners,
        made_by="Made by markovscale paper from recorded pools",
        wide=True,
    )  # fmt: skip


def _imported(groups: Sequence[Group]) -> list[CompletionPool]:
    """The imported pools, each once."""
    pools = {g.made.pool.address: g.made.pool for g in groups if g.made.pool.imported is not None}
    return list(pools.values())


def _imported_from(pool: CompletionPool) -> str:
    return "" if pool.imported is None else pool.imported.sentence


def _results(groups: Sequence[Group], adjusted: Adjusted) -> list[Child]:
    """A row of each group with its chart, and every variant in a table."""
    claims = sum(len(group.headline) for group in groups)
    body: list[Child] = [_row(group, adjusted, claims) for group in groups]
    rows = [
        (
            group.made.title if not place else "",
            f"{compared.first.method}, N = {compared.first.n}",
            with_ends(words.percent(mine.value), words.percent_range(mine)),
            [*with_ends(words.percent(rival.value), words.percent_range(rival)),
             h("small", compared.second.tuned)],
            with_ends(words.points(compared.difference.value),
                      words.points_range(compared.difference.low, compared.difference.high)),
            with_ends(_reading(compared, adjusted), _p(compared, adjusted)),
            words.NONE if compared.saved is None else with_ends(
                words.percent(compared.saved.value, 0), words.percent_range(compared.saved, 0)),
        )
        for group in groups
        for place, compared in enumerate(group.headline)
        if (mine := compared.first.accuracy) and (rival := compared.second.accuracy)
    ]  # fmt: skip
    unit = groups[0].made.replays.cost.unit if groups else "tokens"
    least = _least(groups)
    header = ("", "variant", "accuracy", "MR-Thinking, best rule and N", "difference, points",
              "corrected test", f"{unit} saved")  # fmt: skip
    differ = contrast({g.made.title: g.suits for g in groups if g.suits is not None})
    return [
        *body,
        h("p", differ) if differ else None,
        table(header, rows, caption="Each variant against MR-Thinking at its best"),
        h("p", "τ, and MR-Thinking's answer rule and N, are chosen on the other half of the "
          f"questions. These {len(rows)} comparisons are the page's claims, named beforehand and "
          f"corrected among themselves; {least}. All others describe. "
          "Cannot be told from does not mean equally good: the interval says what the data still "
          "allow.", cls="hint"),
    ]  # fmt: skip


def _ours(row: Mapping[str, Any]) -> list[Child]:
    """Our value of a claim or an average, with its interval where it has one."""
    low, high = row["ours_low"], row["ours_high"]
    ends = None if low is None else h("small", words.points_range(low, high))
    return [words.points(row["ours"]), ends]


def _claims(claims: Sequence[Mapping[str, Any]]) -> list[Child]:
    """The paper's four claims, each beside its number."""
    rows = [
        (row["backbone"], row["claim"], _ours(row), row["paper"] or words.NONE, row["reading"])
        for row in claims
    ]
    if not rows:
        return []
    header = ("backbone", "claim", "ours, points or percent", "the paper's", "carries over?")
    said = (
        "MarkovScale* with τ of the other half, means over all benchmarks and N of the page; the "
        "paper chooses τ on the test questions and gains over Base, not over MR-Thinking at its "
        "cheapest. The gate alone is MarkovScale\N{MODIFIER LETTER SMALL T}, neither is "
        "MR-Thinking by its last answer. A claim carries over where the whole interval lies "
        "on its side of 0."
    )
    return [table(header, rows, caption="The paper's claims"), h("p", said, cls="hint")]


def _totals(totals: Sequence[Mapping[str, Any]]) -> list[Child]:
    """Averages over benchmarks, beside the same over the paper's tables."""
    rows = [
        (
            row["backbone"],
            row["aggregate"],
            str(row["benchmarks"]),
            _ours(row),
            words.NONE if row["paper"] is None else words.points(row["paper"]),
        )
        for row in totals
    ]
    if not rows:
        return []
    header = ("backbone", "macro average", "benchmarks", "ours, percent", "paper's tables, percent")
    return [folded("Averages over benchmarks", table(header, rows))]


def _row(group: Group, adjusted: Adjusted, claims: int) -> Child:
    """The first variant of a group against MR-Thinking, and what suits its chains.

    Args:
        group: with its comparisons.
        adjusted: corrected p-values.
        claims: comparisons that they are corrected for.
    """
    chart, said = accuracy_figure(group.made), list[Child]()
    if group.suits is not None and group.suits.sentences():
        said = [*group.suits.sentences(), numbers_of(group.suits)]
    if not group.headline:
        return verdict_row(group.made.title, "No variant could be replayed", (), said, chart)
    compared = group.headline[0]
    unit = group.made.replays.cost.unit
    lead = replace(compared, p_adjusted=adjusted.get((compared, "accuracy")), tests=claims)
    said = [figures_words(lead, unit=unit), *differences(lead), *said]
    return verdict_row(group.made.title, line_of(lead, unit), tiles_of(lead, unit), said, chart)


def _least(groups: Sequence[Group]) -> str:
    """The least difference that the claims' test can call, with its correction."""
    made = [compared for group in groups for compared in group.headline]
    if not made:
        return "there are none"
    d = least_discordant(len(made))
    n = min(compared.n_questions for compared in made)
    points = f"{words.magnitude(d / n)} points of {n:,}" if d <= n else f"more than all {n:,}"
    return f"the least that their test can call is {d} questions to none ({points})"


def _fronts(groups: Sequence[Group]) -> list[Child]:
    body: list[Child] = []
    for group in groups:
        body += fronts_section(group.fronts, group.made.backbone)
    if not body:
        body.append(
            h("p", f"Fronts need {LEAST_QUESTIONS} graded questions in each half.", cls="hint")
        )
    return body


def _p(compared: Comparison, adjusted: Adjusted) -> str:
    p = adjusted.get((compared, "accuracy"))
    return "" if p is None else words.p_value(p)


def _reading(compared: Comparison, adjusted: Adjusted) -> str:
    p = adjusted.get((compared, "accuracy"))
    if p is None or p >= 0.05:
        return "cannot be told from it"
    return "is more accurate" if compared.difference.value > 0 else "is less accurate"


def _tables(groups: Sequence[Group], name: str, adjusted: Adjusted) -> list[Child]:
    body: list[Child] = []
    for group in groups:
        found = [made for made in group.tables if made.name == name]
        for place, made in enumerate(found):
            shown = html_of(made, adjusted)
            if place or (name in _LONG and len(groups) > 1):
                shown = folded(f"{made.title}, {group.made.title}", shown)
            body.append(shown)
    body += [
        h("p", told, cls="hint") for told in (_HINTS.get(name), *_beyond(groups, name)) if told
    ]
    return body


def _beyond(groups: Sequence[Group], name: str) -> list[str]:
    """Where no tau of the grid can be reached."""
    return [
        f"{group.made.title}: L is {words.percent(group.curve.fit.stationary_accuracy.value)}, "
        f"below every τ of the grid; there the printed rule can hardly stop a chain after its "
        f"first rounds (docs/math.md)."
        for group in groups
        if name == "tau"
        and group.curve is not None
        and group.curve.fit.stationary_accuracy.value < TAUS[0]
    ]


def _p0(groups: Sequence[Group]) -> list[Child]:
    """Predictors of p0 by log loss, each against a constant."""
    rows = [
        (
            group.made.title,
            one.name,
            words.decimal(one.report.loss),
            words.decimal_with(gain_of(one.report)),
            "beats it" if one.report.beats_constant else "does not",
            words.NONE if one.report.ece is None else words.decimal(one.report.ece),
            words.NONE if one.report.rank_correlation is None
            else words.decimal(one.report.rank_correlation),
            words.percent(float(one.below_Q.mean())),
        )
        for group in groups
        for one in group.p0
    ]  # fmt: skip
    if not rows:
        return [h("p", "Predictors of p0 are judged on independent samples.", cls="hint")]
    header = ("benchmark, backbone", "p0", "log loss a sample", "gain over a constant [95 %]",
              "constant", "calibration error", "rank correlation", "p0 below L")  # fmt: skip
    said = (
        "Judged on the even-numbered samples of every question, clustered by question; the "
        "constant is their share of right ones. What is fitted is fitted on the other half of the "
        "questions. The oracle counts the odd-numbered samples of the question itself. The gate "
        "goes on where p0 is below L."
    )
    return [table(header, rows, caption="p0 of a question"), h("p", said, cls="hint")]


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


def _made(groups: Sequence[Group], adjusted: Adjusted, profile: str, paper: bool) -> list[Child]:
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
                ("profile", f"{profile}: baselines as "
                 + ("the paper's tables need them" if profile == "paper"
                    else "their authors' code does them")),
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
                ("ungraded", "answers that nobody can judge are left out; where there are any, the "
                 "accuracies if all were wrong and if all were right stand below"),
                ("copies", "questions with the same text count as repeats of one question"),
                ("paper's numbers", "marked where they lie outside our interval" if paper
                 else "not asked for (--paper FOLDER)"),
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
