"""*Figures of the paper*: accuracy against tokens, convergence by round, and bounds; as rows for
CSV files, and as charts of the same rows."""

from __future__ import annotations

from typing import Any

from pipeline.paper.evaluation import Evaluation
from pipeline.paper.tables import MAIN
from pipeline.report import figures
from pipeline.report.chain_view import RoundCurve
from pipeline.report.html import Html
from pipeline.results.column import Column
from pipeline.results.csv_lines import ends_of
from pipeline.statistics.intervals import Interval
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
    """Each method as a line over its budgets."""
    points = [p for line in lines_of(made).values() for p in line]
    return figures.accuracy_figure(
        f"Accuracy against tokens: {made.title}",
        [
            figures.Point(
                series=p.method, name=name_of(p), setting=p.setting, right=right, spent=spent
            )
            for p in points
            if (right := p.accuracy) and (spent := p.tokens)
        ],
        "A line is one method over N; τ is chosen on the other half of the questions.",
        joined=True,
    )


def convergence_rows(made: Evaluation, curve: RoundCurve) -> Rows:
    """Each round with what was observed and what the chain says."""
    return [
        {
            "backbone": made.backbone,
            "benchmark": made.benchmark,
            "round": r,
            **ends_of("accuracy", seen),
            **ends_of("fitted", curve.predicted[r]),
            **ends_of("held_out", curve.forecast[r]),
            **ends_of("tokens", curve.tokens[r]),
            **ends_of("a", curve.fit.a),
            **ends_of("b", curve.fit.b),
            **ends_of("L", curve.fit.stationary_accuracy),
            **ends_of("lambda", curve.fit.second_eigenvalue),
        }
        for r, seen in enumerate(curve.observed)
    ]


def bounds_rows(made: Evaluation, found: Bounds | None) -> Rows:
    """Each bound, and every method at its largest budget."""
    place = {"backbone": made.backbone, "benchmark": made.benchmark}
    limits = _limits(made, found)
    points = [(name_of(p), p.setting, p.accuracy) for p in _bounded(made)]
    return [
        {**place, "name": name, "setting": setting, **ends_of("accuracy", right)}
        for name, setting, right in (*limits, *points)
    ]


def bounds_figure(made: Evaluation, found: Bounds) -> Html:
    """Neutral, upper and lower bound, and the methods in them."""
    sides = ", ".join(f"{count:,} {side}" for side, count in found.n_questions.items())
    shown = [(name_of(p), p.setting, p.accuracy) for p in _bounded(made)]
    limits = _limits(made, found)
    return figures.bounds_figure(
        f"Bounds: {made.title}",
        [*limits, *((name, setting, right) for name, setting, right in shown if right)],
        found,
        f"Each method at its largest N; p0 is over the {made.pool.samples} samples ({sides})",
    )


def name_of(point: Column) -> str:
    """A method and its budget."""
    return point.method if point.n in (None, 1) else f"{point.method}, N = {point.n}"


def _bounded(made: Evaluation) -> list[Column]:
    """Every method at its largest budget."""
    return [points[-1] for points in lines_of(made).values()]


def _limits(made: Evaluation, found: Bounds | None) -> list[tuple[str, str, Interval]]:
    """Name, setting and value of each bound."""
    return [
        (f"{name} bound", _setting(made, name), limit) for name, limit in figures.bounds_of(found)
    ]


def _setting(made: Evaluation, name: str) -> str:
    """What makes a bound."""
    side = {"upper": "p0 below L", "lower": "p0 above L"}.get(name)
    of = f"questions with {side}, p0 over {made.pool.samples} samples" if side else "all questions"
    return f"L = b / (a + b), a and b counted by gold on the chains of {of}"
