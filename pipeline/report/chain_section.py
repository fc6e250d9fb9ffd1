"""*Chain section*: the chain behind MR-Thinking in figures and numbers, backbones ranked by L."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.report import figures, words
from pipeline.report.chain_view import (
    PILOTS,
    CellCurve,
    bounds_view,
    pilot_rows,
)
from pipeline.report.comparison import accuracy
from pipeline.report.html import Child, Html, facts, folded, h, table
from pipeline.report.run_data import Cell


def chain_section(name: str, cells: Sequence[Cell], curves: Sequence[CellCurve]) -> list[Child]:
    """Every MR-Thinking of a benchmark: accuracy by round, bounds, and the fitted chain."""
    if not curves:
        return [
            h(
                "p",
                f"The chain of {name} is not shown: it needs graded chains that are not "
                f"stopped early (MR-Thinking with N ≥ 2), which were not run.",
            )
        ]
    body: list[Child] = []
    for curve in curves:
        view = bounds_view(curve, cells)
        body += [
            h(
                "div",
                figures.rounds_figure(curve),
                figures.bounds_figure(
                    "Strategies and bounds",
                    [
                        (cell.name, cell.rule.value, right)
                        for cell in cells
                        if (right := accuracy(cell, cell.rule)) is not None
                    ],
                    view.bounds,
                    f"Each strategy by its headline answer rule; {view.source}",
                ),
                cls="pair",
            ),
            chain_numbers(curve),
        ]
    return body


def chain_numbers(curve: CellCurve) -> Html:
    """The fitted chain; what no transition says anything on is not made up."""
    fit = curve.fit
    seen_a, seen_b = fit.counts.from_right > 0, fit.counts.from_wrong > 0
    both = [
        ("L = b / (a + b)", words.percent_with(fit.stationary_accuracy)),
        ("λ = 1 − a − b", words.decimal_with(fit.second_eigenvalue)),
    ]
    parameters = [
        ("a, right → wrong", words.decimal_with(fit.a) if seen_a else "no right answer seen"),
        ("b, wrong → right", words.decimal_with(fit.b) if seen_b else "no wrong answer seen"),
        *(both if seen_a and seen_b else []),
        (
            "transitions",
            f"{fit.counts.from_right:,} from right answers, "
            f"{fit.counts.from_wrong:,} from wrong ones",
        ),
        (
            "last round",
            f"{words.percent(curve.predicted[-1].value)} by a and b of all rounds, "
            f"{words.percent_with(curve.observed[-1])} reached",
        ),
    ]
    return folded("The chain in numbers", facts(parameters))


def backbones_section(by_benchmark: Mapping[str, Sequence[CellCurve]]) -> list[Child]:
    """Backbones that were run on one benchmark, ranked by L."""
    body: list[Child] = []
    for name, curves in by_benchmark.items():
        if len({curve.cell.backbone for curve in curves}) < 2:
            continue
        n = max(curve.cell.n for curve in curves)
        body.append(table(PILOTS, pilot_rows(curves, n), caption=f"{name}: backbones by L"))
    if body:
        said = (
            "The paper proposes to choose the backbone with the highest L before the large run. L "
            f"is counted on the pilot's rounds, {figures.MEAN}: it ranks as that mean does. Where "
            "intervals overlap, the pilot is too small to tell."
        )
        body.append(h("p", said, cls="hint"))
    return body
