"""*Figures of the paper*: accuracy against tokens, convergence by round, and bounds; as rows for
CSV files, and as charts of the same rows."""

from __future__ import annotations

from typing import Any

from pipeline.paper.curves import Convergence
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.tables import MAIN
from pipeline.report import charts, words
from pipeline.report.figures import bounds_of as limits_of
from pipeline.report.figures import ends, limit_rows
from pipeline.report.html import Html, figure
from pipeline.report.tables import count_with
from pipeline.results.column import Column
from pipeline.results.csv_lines import ends_of
from pipeline.theory.estimate import Bounds

Rows = list[dict[str, Any]]


def lines_of(made: Evaluation) -> dict[str, list[Column]]:
    """A method's numbers over N, cheapest first, of the methods of the main table; those whose tau
    was chosen on the test are left out."""
    found: dict[str, list[Column]] = {}
    for name in MAIN:
        points = [entry for (row, _), entry in made.main.items() if row == name]
        points = [p for p in points if p.accuracy is not None and p.tokens is not None]
        if points and points[0].chosen_on != "test":
            found[points[0].method] = sorted(points, key=lambda p: p.n or 0)
    return found


def accuracy_rows(made: Evaluation) -> Rows:
    """Each method at each of its budgets."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "method": point.method,
            "n": point.n,
            "setting": point.setting,
            **ends_of("accuracy", point.accuracy),
            **ends_of("tokens", point.tokens),
        }
        for points in lines_of(made).values()
        for point in points
    ]


def accuracy_figure(made: Evaluation) -> Html | None:
    """Each method as a line over its budgets, with both intervals, and the front."""
    points = [p for line in lines_of(made).values() for p in line]
    shown = [(p, p.accuracy, p.tokens) for p in points if p.accuracy and p.tokens]
    shown = [(p, right, spent) for p, right, spent in shown if spent.value > 0]
    if not shown:
        return None
    return figure(
        f"Accuracy against tokens: {made.title}",
        charts.accuracy_by_tokens(
            [
                {
                    "series": p.method,
                    "name": name_of(p),
                    **ends(right),
                    **ends(spent, "tokens", "tokens_"),
                }
                for p, right, spent in shown
            ],
            joined=True,
        ),
        "A line is one method over N. Crosses are 95 % intervals. The dashed steps are the Pareto "
        "front as observed. τ is chosen on the other half of the questions.",
        ("method", "setting", "accuracy [95 %]", "tokens per question [95 %]"),
        [
            (name_of(p), p.setting, words.percent_with(right), count_with(spent))
            for p, right, spent in shown
        ],
    )


def convergence_rows(made: Evaluation, curve: Convergence) -> Rows:
    """Each round with what was observed and what the chain says."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "round": r,
            **ends_of("accuracy", seen),
            **ends_of("fitted", curve.fitted[r]),
            **ends_of("held_out", curve.forecast[r]),
            **ends_of("tokens", curve.tokens[r]),
            **ends_of("a", curve.fit.a),
            **ends_of("b", curve.fit.b),
            **ends_of("L", curve.fit.stationary_accuracy),
            **ends_of("lambda", curve.fit.second_eigenvalue),
        }
        for r, seen in enumerate(curve.observed)
    ]


def convergence_figure(made: Evaluation, curve: Convergence) -> Html:
    """Observed accuracy by round, the fitted chain, the chain of the other half, and L."""
    fit, limit = curve.fit, curve.fit.stationary_accuracy
    off, held = curve.error(curve.fitted), curve.error(curve.forecast)
    return figure(
        f"Convergence: {made.title}",
        charts.accuracy_by_round(
            [
                {
                    "series": "MR-Thinking",
                    "round": r,
                    **ends(seen),
                    "fitted": curve.fitted[r].value,
                    "held_out": curve.forecast[r].value,
                }
                for r, seen in enumerate(curve.observed)
            ],
            lines={"fitted": "fitted p_r", "held_out": "p_r, a and b not of the question"},
            limits=[{"name": f"L = {words.percent(limit.value)}", "value": limit.value}],
        ),
        f"Dashed: p_r (Eq. 4) with p0 of round 0, a = {words.decimal_with(fit.a)} and "
        f"b = {words.decimal_with(fit.b)} counted on these chains, a description, off by "
        f"{words.percent(off)} in the mean over rounds. Dotted: the same with a and b that were "
        f"not counted on the question ({made.believed.words}), off by {words.percent(held)}. "
        f"λ = {words.decimal_with(fit.second_eigenvalue)}, L = {words.percent_with(limit)}; "
        f"intervals weigh whole questions. The band is the 95 % interval of each round.",
        ("round", "observed [95 %]", "fitted p_r [95 %]", "held-out p_r [95 %]",
         "tokens so far [95 %]"),
        [
            (
                str(r),
                words.percent_with(seen),
                words.percent_with(curve.fitted[r]),
                words.percent_with(curve.forecast[r]),
                count_with(curve.tokens[r]),
            )
            for r, seen in enumerate(curve.observed)
        ],
    )  # fmt: skip


def bounds_rows(made: Evaluation, found: Bounds | None) -> Rows:
    """Each bound, and every method at its largest budget."""
    place = {"backbone": made.backbone, "benchmark": made.benchmark}
    limits = [(f"{name} bound", _setting(made, name), limit) for name, limit in limits_of(found)]
    points = [(name_of(p), p.setting, p.accuracy) for p in _bounded(made)]
    return [
        {**place, "name": name, "setting": setting, **ends_of("accuracy", right)}
        for name, setting, right in (*limits, *points)
    ]


def bounds_figure(made: Evaluation, found: Bounds) -> Html:
    """Neutral, upper and lower bound, and the methods in them."""
    limits, upper, lower = limits_of(found), found.upper, found.lower
    rows = [row for row in bounds_rows(made, found) if "accuracy" in row]
    sides = ", ".join(f"{count:,} {side}" for side, count in found.n_questions.items())
    crossed = ""
    if upper and lower and upper.stationary_accuracy.value < lower.stationary_accuracy.value:
        crossed = (
            " The upper bound lies below the lower one: questions differ, and the hard ones are "
            "those whose p0 is below L."
        )
    return figure(
        f"Bounds: {made.title}",
        charts.intervals(
            [
                {
                    "name": row["name"],
                    "accuracy": row["accuracy"],
                    "low": row["accuracy_low"],
                    "high": row["accuracy_high"],
                }
                for row in rows
            ],
            limit_rows(limits),
        ),
        f"Each method at its largest N. Questions are split by the gate's criterion, p0 over the "
        f"{made.pool.samples} samples against L ({sides}); each side gives its bound. Bounds are "
        f"limits of chains read by their last answer: selection may pass them.{crossed}",
        ("method", "setting", "accuracy", "from", "to"),
        [
            (
                row["name"],
                row["setting"],
                *(words.percent(row[f"accuracy{end}"]) for end in ("", "_low", "_high")),
            )
            for row in rows
        ],
    )


def name_of(point: Column) -> str:
    """A method and its budget."""
    return point.method if point.n in (None, 1) else f"{point.method}, N = {point.n}"


def _bounded(made: Evaluation) -> list[Column]:
    """Every method at its largest budget."""
    return [points[-1] for points in lines_of(made).values()]


def _setting(made: Evaluation, name: str) -> str:
    """What makes a bound."""
    side = {"upper": "p0 below L", "lower": "p0 above L"}.get(name)
    of = f"questions with {side}, p0 over {made.pool.samples} samples" if side else "all questions"
    return f"L = b / (a + b), a and b counted by gold on the chains of {of}"
