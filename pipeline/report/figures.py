"""*Figures*: builds the charts of a run, each with its caption and the table of its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipeline.core.protocol import StopReason
from pipeline.report import charts, words
from pipeline.report.chain_view import RoundCurve
from pipeline.report.charts import Row
from pipeline.report.html import Html, figure
from pipeline.report.run_data import Cell
from pipeline.results.column import Column
from pipeline.statistics.intervals import Interval
from pipeline.theory.estimate import Bounds

REASONS = tuple(reason.value for reason in StopReason)


MEAN = "which so counted is nearly the mean accuracy of the rounds"
"""Of L = b / (a + b): pooled counts balance, but for the first and the last round."""


def ends(interval: Interval, value: str = "accuracy", prefix: str = "") -> dict[str, float]:
    """An interval as columns of a chart."""
    return {value: interval.value, f"{prefix}low": interval.low, f"{prefix}high": interval.high}


def accuracy_figure(
    title: str,
    points: Sequence[tuple[str, str, Column]],
    caption: str,
    *,
    paths: Sequence[Row] = (),
    joined: bool = False,
) -> Html | None:
    """Accuracy against tokens with both intervals, and the front; None without points.

    Args:
        title: of the figure.
        points: series, name and numbers of each setting; those without tokens are left out.
        caption: what is shown beyond points, crosses and the front.
        paths: ``series``, ``tokens``, ``accuracy`` of thin lines.
        joined: whether the points of a series are joined.
    """
    rows = [
        {"series": series, "name": name, **ends(right), **ends(spent, "tokens", "tokens_")}
        for series, name, column in points
        if (right := column.accuracy) and (spent := column.tokens) and spent.value > 0
    ]
    if not rows:
        return None
    return figure(
        title,
        charts.accuracy_by_tokens(rows, paths=paths, joined=joined),
        "Up and to the left is better; crosses are 95 % intervals, the dashed steps the observed "
        f"Pareto front. {caption}",
    )


def rounds_figure(curve: RoundCurve, of: str = "") -> Html:
    """Observed accuracy of each round with its interval, p_r of the closed form, a forecast where
    there is one, and L; `of` names the benchmark and backbone."""
    fit, limit = curve.fit, curve.fit.stationary_accuracy
    lines = {"closed_form": "fitted p_r"}
    held = limits = ""
    # a rate of which nothing was seen is its prior alone
    seen_a = f"= {words.decimal_with(fit.a)}" if fit.counts.from_right else "(no right answer seen)"
    seen_b = f"= {words.decimal_with(fit.b)}" if fit.counts.from_wrong else "(no wrong answer seen)"
    if fit.counts.from_right and fit.counts.from_wrong:
        limits = (
            f"λ = {words.decimal_with(fit.second_eigenvalue)}, L = {words.percent_with(limit)}, "
            f"{MEAN}: it predicts nothing beyond that mean. "
        )
    if curve.forecast:
        lines["held_out"] = "p_r, a and b not of the question"
        held = (
            f"Dotted: the same with a and b that were not counted on the question, off by "
            f"{words.magnitude(curve.error_of(curve.forecast))} points: {curve.source}. "
        )
    return figure(
        f"Accuracy by round: {of or curve.name}",
        charts.accuracy_by_round(
            [
                {
                    "series": curve.name,
                    "round": r,
                    **ends(seen),
                    "closed_form": curve.predicted[r].value,
                    **({"held_out": curve.forecast[r].value} if curve.forecast else {}),
                }
                for r, seen in enumerate(curve.observed)
                if seen is not None
            ],
            lines=lines,
            limits=[{"name": f"L = {words.percent(limit.value)}", "value": limit.value}]
            if limits
            else (),
        ),
        f"The dashed line is p_r of the two-state chain (Eq. 4) with p0 = "
        f"{words.decimal(curve.p0)}, a {seen_a} and b {seen_b} "
        f"counted on these chains: a description, no forecast. It is off by "
        f"{words.magnitude(curve.error_of(curve.predicted))} points in the mean over rounds. "
        f"{held}{limits}"
        f"Intervals weigh whole questions; the band is that of each round.",
        ("round", "observed [95 %]", "p_r [95 %]",
         *(["held-out p_r [95 %]"] if curve.forecast else []), "tokens so far [95 %]"),
        [
            (
                str(r),
                words.percent_with(seen),
                words.percent_with(curve.predicted[r]),
                *([words.percent_with(curve.forecast[r])] if curve.forecast else []),
                words.count_with(curve.tokens[r]),
            )
            for r, seen in enumerate(curve.observed)
        ],
    )  # fmt: skip


def bounds_figure(
    title: str, shown: Sequence[tuple[str, str, Interval]], bounds: Bounds | None, source: str
) -> Html:
    """Accuracies on one line each, and the paper's bounds behind them.

    Args:
        title: of the figure.
        shown: name, setting and accuracy.
        bounds: None where there are none.
        source: where p0 of the split comes from, or what is missing.
    """
    limits, crossed = bounds_of(bounds), ""
    values = dict(limits)
    if "upper" in values and "lower" in values and values["upper"].value < values["lower"].value:
        crossed = (
            " The upper bound lies below the lower one: questions differ, and the hard ones are "
            "those whose p0 is below L."
        )
    return figure(
        title,
        charts.intervals(
            [{"name": name, **ends(right)} for name, _, right in shown],
            [
                {"name": f"{name} bound {words.percent_with(limit)}", "value": limit.value}
                for name, limit in limits
            ],
        ),
        "Accuracies with their 95 % intervals. Questions are split by the gate's criterion, p0 "
        "against L, and each side gives its bound: a limit of chains read by their last answer, "
        f"which selection by a verifier may pass. The neutral one is L of all chains, {MEAN}. "
        f"{source}.{crossed}",
        ("strategy", "setting", "accuracy [95 %]", *(f"above {n}, points" for n, _ in limits)),
        [
            (
                name,
                setting,
                words.percent_with(right),
                *(words.points(right.value - limit.value) for _, limit in limits),
            )
            for name, setting, right in shown
        ],
    )


def bounds_of(bounds: Bounds | None) -> list[tuple[str, Interval]]:
    """(name, L) of the bounds that exist."""
    if bounds is None:
        return []
    parts = (("lower", bounds.lower), ("neutral", bounds.neutral), ("upper", bounds.upper))
    return [(name, part.stationary_accuracy) for name, part in parts if part is not None]


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
