"""*Figures*: the charts of a run, each with its caption and the table of its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.core.protocol import StopReason
from pipeline.report import charts, words
from pipeline.report.chain_view import RoundCurve
from pipeline.report.charts import Row
from pipeline.report.comparison import accuracy
from pipeline.report.html import Html, figure
from pipeline.report.run_data import Cell
from pipeline.report.score_view import ScoreView
from pipeline.report.spending import Bill, Moment
from pipeline.statistics.intervals import Interval, mean_interval
from pipeline.theory.estimate import Bounds

REASONS = tuple(reason.value for reason in StopReason)
PARTS = ("answers", "thinking", "wasted", "prompts", "cached prompts", "verifier")


def ends(interval: Interval, value: str = "accuracy", prefix: str = "") -> dict[str, float]:
    """An interval as columns of a chart."""
    return {value: interval.value, f"{prefix}low": interval.low, f"{prefix}high": interval.high}


def accuracy_figure(
    cells: Sequence[Cell], curves: Sequence[RoundCurve], best: Mapping[str, Row], height: int
) -> Html:
    """Each cell against its tokens, with the path of MR-Thinking by round.

    Args:
        cells: of one benchmark.
        curves: of their chains.
        best: further points by their names: a strategy read by another of its answer rules.
        height: in pixels.
    """
    points = [
        {
            "series": cell.name,
            **ends(right),
            **ends(mean_interval(cell.tokens), "tokens", "tokens_"),
        }
        for cell in cells
        if (right := accuracy(cell, cell.rule)) is not None
    ]
    points += [{"series": name, **row} for name, row in best.items()]
    paths = [
        {"series": curve.cell.name, "tokens": tokens, "accuracy": seen.value}
        for curve in curves
        for tokens, seen in zip(curve.tokens, curve.observed, strict=True)
        if seen is not None
    ]
    return figure(
        "Accuracy against tokens",
        charts.accuracy_by_tokens(points, paths=paths, height=height),
        "Up and to the left is better; crosses are 95 % intervals, dots the observed Pareto front"
        + (", the thin line is MR-Thinking after each round." if curves else "."),
    )


def rounds_figure(curve: RoundCurve) -> Html:
    """Observed accuracy of each round with its interval, p_r of the closed form, and L."""
    limit = curve.fit.stationary_accuracy.value
    return figure(
        f"Accuracy by round: {curve.cell.name}",
        charts.accuracy_by_round(
            [
                {
                    "series": curve.cell.name,
                    "round": r,
                    **ends(seen),
                    "closed_form": curve.predicted[r],
                }
                for r, seen in enumerate(curve.observed)
                if seen is not None
            ],
            limits=[{"name": f"L = {words.percent(limit)}", "value": limit}],
        ),
        f"The dashed line is p_r of the two-state chain (Eq. 4) with p0 = "
        f"{words.decimal(curve.p0)}, a = {words.decimal(curve.fit.a.value)} and "
        f"b = {words.decimal(curve.fit.b.value)} counted on these chains: a description, no "
        f"forecast. It is off by {words.magnitude(curve.error)} points in the mean over rounds. "
        f"The band is the 95 % interval of each round.",
        ("round", "observed [95 %]", "p_r", "tokens so far"),
        [
            (
                str(r),
                words.percent_with(interval),
                words.percent(curve.predicted[r]),
                words.count(curve.tokens[r]),
            )
            for r, interval in enumerate(curve.observed)
        ],
    )


def bounds_figure(cells: Sequence[Cell], bounds: Bounds | None, source: str) -> Html:
    """Accuracy of every cell on one line each, and the paper's bounds behind them."""
    shown = [(c, i) for c in cells if (i := accuracy(c, c.rule)) is not None]
    limits = bounds_of(bounds)
    return figure(
        "Strategies and bounds",
        charts.intervals([{"name": cell.name, **ends(right)} for cell, right in shown],
                         limit_rows(limits)),
        "Each strategy by its headline answer rule, with its 95 % interval. The bounds are limits "
        f"of the chain, not of these questions: selection by a verifier may pass them; {source}.",
        ("strategy", "accuracy [95 %]", *(f"above {name}, points" for name, _ in limits)),
        [
            (
                cell.name,
                words.percent_with(right),
                *(words.points(right.value - limit.value) for _, limit in limits),
            )
            for cell, right in shown
        ],
    )  # fmt: skip


def bounds_of(bounds: Bounds | None) -> list[tuple[str, Interval]]:
    """(name, L) of the bounds that exist."""
    if bounds is None:
        return []
    parts = (("lower", bounds.lower), ("neutral", bounds.neutral), ("upper", bounds.upper))
    return [(name, part.stationary_accuracy) for name, part in parts if part is not None]


def limit_rows(limits: Sequence[tuple[str, Interval]]) -> list[Row]:
    """Bounds as rows of a chart."""
    return [
        {"name": f"{name} bound {words.percent_with(limit)}", "value": limit.value}
        for name, limit in limits
    ]


def stops_figure(cell: Cell) -> Html:
    """How many questions stopped after how many completions, and why."""
    counted = Counter((row["completions"], row["stop_reason"]) for row in cell.rows)
    reasons = [reason for reason in REASONS if any(why == reason for _, why in counted)]
    totals = Counter(row["stop_reason"] for row in cell.rows)
    numbers = sorted({drawn for drawn, _ in counted})
    mean = sum(row["completions"] for row in cell.rows) / len(cell.rows)
    return figure(
        cell.name,
        charts.bars(
            [
                {"completions": drawn, "reason": reason, "questions": number}
                for (drawn, reason), number in sorted(counted.items())
            ],
            of="completions",
            value="questions",
            part="reason",
            parts=REASONS,
        ),
        f"{mean:.2f} completions a question in the mean: "
        + ", ".join(f"{totals[reason]:,} {reason}" for reason in reasons)
        + ".",
        ("completions", *reasons),
        [(str(n), *(str(counted[(n, reason)]) for reason in reasons)) for n in numbers],
    )


def tokens_figure(bills: Sequence[Bill]) -> Html:
    """Tokens a question by kind, one bar a cell."""
    return figure(
        "Tokens per question by kind",
        charts.bars(
            [
                {"strategy": bill.cell.name, "kind": part, "tokens": total / len(bill.cell.rows)}
                for bill in bills
                for part, total in bill.parts().items()
                if total
            ],
            of="strategy",
            value="tokens",
            part="kind",
            parts=PARTS,
            across=True,
        ),
        "Answers and thinking together are the completion tokens of every other table. Wasted "
        "tokens were generated and paid for and gave no completion.",
    )


def reliability_figure(view: ScoreView) -> Html:
    """Share right against prediction, bin by bin."""
    found = view.reliability
    bins = [(b, b.right) for b in found.bins if b.right is not None]
    calibrated = ""
    if view.calibrated is not None:
        before, after = view.calibrated.before.ece, view.calibrated.after.ece
        calibrated = (
            f" An isotonic map fitted on half of the questions takes the error of the other half "
            f"from {words.decimal(before)} to {words.decimal(after)}."
        )
    return figure(
        view.title,
        charts.reliability(
            [
                {"predicted": b.predicted, **ends(right, "right"), "n": b.n,
                 "from": b.low, "to": b.high}
                for b, right in bins
            ]
        ),
        f"AUC {words.decimal(found.auc)}, calibration error {words.decimal(found.ece)}, Brier "
        f"{words.decimal(found.brier)}, {found.n:,} predictions: {view.about}.{calibrated}",
        ("predicted", "n", "mean prediction", "share right [95 %]"),
        [
            (
                f"{b.low:.1f} to {b.high:.1f}",
                f"{b.n:,}",
                words.decimal(b.predicted),
                words.percent_with(right),
            )
            for b, right in bins
        ],
    )  # fmt: skip


def time_figures(moments: Sequence[Moment]) -> list[Html]:
    """Tokens per second, chains and slots of the engines over time, as far as they are known."""
    seconds = moments[-1].seconds
    unit, size = next((u, s) for u, s in _UNITS if seconds <= 150 * s or s == 3600)
    pools = list(dict.fromkeys(pool for m in moments for pool in m.slots))
    replicas = ", ".join(
        f"{pool}: {words.plural(max(m.replicas.get(pool, 0) for m in moments), 'replica')}"
        for pool in pools
    )
    shown: list[tuple[str, str, bool, list[tuple[str, float, float]]]] = [
        (
            "Completion tokens per second",
            "All generator replicas together, between two rows of counters.",
            False,
            [("tokens per second", m.seconds, m.tokens_per_s) for m in moments],
        ),
        (
            "Chains",
            "A falling end is the tail: few long chains, idle engines.",
            False,
            [("in flight", m.seconds, float(m.in_flight)) for m in moments]
            + [("waiting", m.seconds, float(m.waiting)) for m in moments],
        ),
        (
            "Engine pools: slots in use",
            f"Slot-seconds used over slot-seconds there were, at most {replicas}.",
            True,
            [(p, m.seconds, m.slots[p]) for p in pools for m in moments if p in m.slots],
        ),
    ]
    return [
        figure(
            title,
            charts.lines(
                [{"series": name, "x": at / size, "y": value} for name, at, value in points],
                x=f"{unit} since the start, time between attempts left out",
                y="",
                percent=percent,
                step=True,
                height=170,
            ),
            caption,
        )
        for title, caption, percent, points in shown
        if any(value for _, _, value in points)
    ]


_UNITS = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0))
