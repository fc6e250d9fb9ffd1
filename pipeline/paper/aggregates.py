"""*Aggregates*: averages results over benchmarks and compares them with the paper's claims.

Each benchmark weighs the same. Intervals take the benchmarks as given and resample their questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.paper.evaluation import AT_BEST, BEST_RULE, Evaluation
from pipeline.report import words
from pipeline.report.chain_view import RoundCurve
from pipeline.report.published import Published
from pipeline.results.column import Column, once
from pipeline.results.csv_lines import ends_of
from pipeline.statistics.intervals import Interval, mean_interval, share_saved

STAR, RIVAL, GATE = "markovscale_star", "mr_thinking", "markovscale_t"
ROWS = ("base", RIVAL, BEST_RULE, AT_BEST, GATE, STAR, "markovscale_0")

STATED = {
    "gain over Base": "Section 5.2: 19.7 points on average with its 8B model, 7.7 with its 32B one",
    "gain over MR-Thinking, last": "",
    "gain over MR-Thinking, best rule and N": "",
    "least saved of MR-Thinking": "Section 5.2: 5 %",
    "most saved of MR-Thinking": "Section 5.2: 70 %",
    "error of L": "Section 5.4: 2.88 points on average over five benchmarks",
    "stopping: accuracy over the gate alone": "Table 3: 0.0 on each of five benchmarks",
    "stopping: saved of the gate alone": "Table 3: 1.7 to 16.2 %, 9.5 % on average",
    "gate and stopping: accuracy over neither": "Table 3: 3.8 to 10.0 points, 6.2 on average",
    "gate and stopping: saved of neither": "Table 3: 11.6 to 55.9 %, 35.0 % on average",
}
"""The paper's numbers of its four claims (gain, saving, convergence, ablation); "" where it makes
none and the row is what the claim should be held against."""

Rows = list[dict[str, Any]]


def claim_rows(made: Sequence[Evaluation], curves: Mapping[str, RoundCurve | None]) -> Rows:
    """The paper's four claims of every backbone, with its numbers and ours, and whether they hold.

    Args:
        made: every benchmark and backbone.
        curves: by title.
    """
    rows: Rows = []
    for backbone in dict.fromkeys(one.backbone for one in made):
        own = [one for one in made if one.backbone == backbone]
        known = [curve for one in own if (curve := curves.get(one.title)) is not None]
        found: dict[str, Interval | None] = {
            "gain over Base": _gain(own, "base"),
            "gain over MR-Thinking, last": _gain(own, RIVAL),
            "gain over MR-Thinking, best rule and N": _gain(own, AT_BEST),
            "least saved of MR-Thinking": _end(own, min),
            "most saved of MR-Thinking": _end(own, max),
            "error of L": _point(float(np.mean([_off_limit(curve) for curve in known])))
            if known
            else None,
            "stopping: accuracy over the gate alone": _gain(own, GATE),
            "stopping: saved of the gate alone": _saved(own, GATE),
            "gate and stopping: accuracy over neither": _gain(own, RIVAL),
            "gate and stopping: saved of neither": _saved(own, RIVAL),
        }
        for claim, interval in found.items():
            if interval is not None:
                rows.append(
                    {
                        "backbone": backbone,
                        "claim": claim,
                        "benchmarks": len(own),
                        **_known_ends(interval),
                        "paper": STATED[claim],
                        "reading": _reading(claim, interval),
                    }
                )
    return rows


def aggregate_rows(made: Sequence[Evaluation], published: Published) -> Rows:
    """Macro averages of every backbone, method and N, and the same over the paper's own tables."""
    rows: Rows = []
    for backbone in dict.fromkeys(one.backbone for one in made):
        own = [one for one in made if one.backbone == backbone]
        for n in sorted({n for one in own for n in one.chain_budgets}):
            for kind in ROWS:
                columns = [column for one in own if (column := one.get(kind, n)) is not None]
                if len(columns) < len(own):
                    continue
                theirs = [published.main(backbone, kind, one.benchmark, n)[0] for one in own]
                known = [value for value in theirs if value is not None]
                rows.append(
                    {
                        "backbone": backbone,
                        "aggregate": f"{own[0].names[kind]}, N = {n}",
                        "benchmarks": len(own),
                        **_known_ends(macro([once(c.right_Q, c.copies_Q) for c in columns])),
                        "paper": float(np.mean(known)) if len(known) == len(own) else None,
                    }
                )
    return rows


def macro(values: Sequence[FloatArray]) -> Interval:
    """The mean over benchmarks of the mean over questions, nan left out."""
    return _mean_of([mean_interval(one[~np.isnan(one)]) for one in values])


def _mean_of(means: Sequence[Interval]) -> Interval:
    value = float(np.mean([mean.value for mean in means]))
    half = float(np.sqrt(np.sum([mean.half_width**2 for mean in means]))) / len(means)
    return Interval(value=value, low=value - half, high=value + half)


def _pairs(one: Evaluation, rival: str) -> Iterator[tuple[Column, Column]]:
    """MarkovScale^* and a rival at every N of one benchmark."""
    for n in one.chain_budgets:
        star, other = one.get(STAR, n), one.get(rival, n)
        if star is not None and other is not None:
            yield star, other


def _gain(own: Sequence[Evaluation], rival: str) -> Interval | None:
    """Right of MarkovScale^* minus that of a rival: mean over N, questions and benchmarks."""
    gains = [
        np.mean([once(a.right_Q - b.right_Q, a.copies_Q) for a, b in pairs], axis=0)
        for one in own
        if (pairs := list(_pairs(one, rival)))
    ]
    return macro(gains) if gains else None


def _saved(own: Sequence[Evaluation], rival: str) -> Interval | None:
    """Share of a rival's cost saved: mean over N and benchmarks; ends of the N of one benchmark,
    which are of the same questions, are averaged."""
    means = []
    for one in own:
        pairs = _pairs(one, rival)
        shares = [s for a, b in pairs if (s := share_saved(a.tokens_Q, b.tokens_Q)) is not None]
        if shares:
            ends = ("value", "low", "high")
            means.append(
                Interval(**{end: float(np.mean([getattr(s, end) for s in shares])) for end in ends})
            )
    return _mean_of(means) if means else None


def _end(own: Sequence[Evaluation], pick: Any) -> Interval | None:
    """The least or the most share of MR-Thinking's cost saved, over all benchmarks and N."""
    shares = [share_saved(a.tokens_Q, b.tokens_Q) for one in own for a, b in _pairs(one, RIVAL)]
    known = [share for share in shares if share is not None]
    return pick(known, key=lambda share: share.value) if known else None


def _off_limit(curve: RoundCurve) -> float:
    """|L - accuracy of the last round|."""
    last = curve.observed[-1]
    return abs(curve.fit.stationary_accuracy.value - (last.value if last else np.nan))


def _reading(claim: str, ours: Interval) -> str:
    """Whether a claim holds, by the side of 0 on which the whole interval lies."""
    if claim == "error of L":
        return "no evidence: L of counts is nearly the mean of the same rounds"
    if ours.low > 0:
        return "holds"
    if ours.high < 0:
        return "does not hold: the opposite does"
    if ours.low == ours.high == 0:
        return "no difference"
    ends = words.points_range(ours.low, ours.high)
    return f"no clear effect {ends}"


def _point(value: float) -> Interval:
    return Interval(value=value, low=float("nan"), high=float("nan"))


def _known_ends(interval: Interval) -> dict[str, Any]:
    return {k: None if v != v else v for k, v in ends_of("ours", interval).items()}
