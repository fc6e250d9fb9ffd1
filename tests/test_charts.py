"""Charts: each kind is valid Vega-Lite and draws the rows that it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import vl_convert

from pipeline.report import charts

POINTS = [
    {"series": name, "tokens": tokens, "accuracy": right, "low": right - 0.1, "high": right + 0.1,
     "tokens_low": tokens * 0.9, "tokens_high": tokens * 1.1}
    for name, tokens, right in (("Base", 60.0, 0.6), ("MR-Thinking", 700.0, 0.82),
                                ("Ours", 300.0, 0.8), ("Dear", 800.0, 0.7))
]  # fmt: skip
ROUNDS = [
    {"series": "MR-Thinking", "round": r, "accuracy": 0.6 + r / 50, "low": 0.5, "high": 0.9,
     "closed_form": 0.61 + r / 50}
    for r in range(8)
]  # fmt: skip
LINES = [
    {"series": name, "x": x, "y": 0.1 * x, "low": 0.0, "high": 1.0}
    for name in "ab"
    for x in (1, 2, 3)
]
LIMITS = [{"name": "L", "value": 0.8}]
STOPS = [
    {"completions": n, "reason": reason, "questions": 3 * n}
    for n in (1, 2)
    for reason in ("gated", "budget")
]
PARTS = {"of": "completions", "value": "questions", "part": "reason", "parts": ["gated", "budget"]}

KINDS: dict[str, Callable[[], Any]] = {
    "tokens": lambda: charts.accuracy_by_tokens(POINTS, paths=POINTS[:2], joined=True),
    "tokens without intervals": lambda: charts.accuracy_by_tokens(
        [{"series": "a", "tokens": 5.0, "accuracy": 0.5}]
    ),
    "rounds": lambda: charts.accuracy_by_round(ROUNDS, limits=LIMITS),
    "intervals": lambda: charts.intervals([{"name": p["series"], **p} for p in POINTS], LIMITS),
    "bars": lambda: charts.bars(STOPS, **PARTS),
    "lines": lambda: charts.lines(LINES, x="tau", y="accuracy", percent=True, band=True, log=True),
    "steps": lambda: charts.lines(LINES, x="seconds", y="tokens", step=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(kind: str) -> None:
    """The specification is valid against the schema of Vega-Lite, and becomes a drawing."""
    chart = KINDS[kind]().to_dict(validate=True)

    drawn = vl_convert.vegalite_to_svg(chart)
    assert "mark-symbol" in drawn or "mark-rect" in drawn


def test_the_front_holds_what_nothing_beats() -> None:
    """Cheapest first; a point as accurate for more tokens is not on it."""
    assert charts.pareto(
        [(100, 0.5), (50, 0.4), (200, 0.5), (150, 0.9), (50, 0.3)]
    ) == [1, 0, 3]  # fmt: skip
    front = charts.accuracy_by_tokens(POINTS).to_dict()["layer"][0]["data"]["values"]
    assert [row["tokens"] for row in front] == [60.0, 300.0, 700.0]


def test_an_axis_of_tokens_is_logarithmic_where_they_differ_much() -> None:
    """From a factor of 8 on; no end of an interval lies where a logarithm has no place."""
    wide = [{**POINTS[0], "tokens_low": -5.0}, *POINTS[1:]]
    far, near = charts.accuracy_by_tokens(wide).to_dict(), charts.accuracy_by_tokens(POINTS[1:3])

    assert far["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert "type" not in near.to_dict()["layer"][0]["encoding"]["x"]["scale"]
    assert all(row["tokens_low"] > 0 for row in far["layer"][-1]["data"]["values"])
