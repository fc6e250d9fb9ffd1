"""The Python API: the numbers of a run's own files, the decisions of a live run, and a notebook."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from jobs.results import write_summary
from pipeline import api
from pipeline.core.decoding import Decoding
from pipeline.core.errors import ConfigError, ReplayMissError
from pipeline.records.run_dir import RunDir
from pipeline.strategies import STRATEGIES
from pipeline.strategies.sequential import MRThinking
from tests.conftest import ROOT
from tests.export_runs import RULES, RUNS, counted, told, whole
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run

POOL = str(ROOT / "tests" / "data" / "pool")
PRIORS = {"a": 0.06, "b": 0.19}


@pytest.mark.parametrize("made", RUNS)
def test_a_run_has_the_accuracies_of_its_summary(
    tmp_path: Path, made: Callable[[Path], RunDir]
) -> None:
    """As a table, and by the obvious query over its outcomes; rounds are those of the outcomes."""
    run = made(tmp_path)
    known = told(run)
    opened = api.open_run(run.address)
    stated = {
        (row["strategy"], row["benchmark"], row["answer_rule"]): (
            *(row[name] for name in ("right", "graded", "accuracy")),
        )
        for row in opened.accuracies().to_pylist()
    }
    outcomes = opened.outcomes().to_pylist()
    rows = [
        (row["strategy"], row["benchmark"], rule, row[f"verdict_{rule}"] == "right")
        for row in outcomes
        for rule in RULES
        if row[f"verdict_{rule}"] in ("right", "wrong")
    ]

    assert stated == counted(rows) == known
    assert opened.name == run.run_id
    assert opened.rounds().num_rows == sum(len(row["round_tokens"]) for row in outcomes)
    assert "text" not in opened.rounds(text=False).column_names
    assert opened.finished == (made.__name__ != "partial")


def test_metrics_are_columns_of_numbers(tmp_path: Path) -> None:
    """What is nested has dotted names; a row that lacks one has null there; rates can be drawn."""
    run = write_run(made_up_config(tmp_path), "timed", question_rows(4, ["made-up"]))
    metrics = api.open_run(run.address).metrics()

    assert metrics.num_rows == 12
    assert {"time", "rounds", "stops.budget", "generator.running"} <= set(metrics.column_names)
    assert metrics["generator.replicas"].to_pylist()[-1] == 1
    assert len(drawn(api.plot_metrics(metrics))) == 11
    assert drawn(api.plot_metrics(metrics, "in_flight"))[-1]["y"] == 0


def drawn(chart: Any) -> list[dict[str, Any]]:
    """The rows of a chart's last layer."""
    found = chart.to_dict()
    data: list[dict[str, Any]] = (found.get("data") or found["layer"][-1]["data"])["values"]
    return data


SETTINGS = (
    "base",
    {"kind": "mr_thinking", "n": 2},
    {"kind": "markovscale_star", "n": 2, "tau": 0.74},
    {"kind": "markovscale_0", "n": 2, "warm_up": 2},
    {"kind": "self_consistency", "n": 2},
)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_replay_agrees_with_a_sweep(setting: api.pools.Setting) -> None:
    """Question by question and as a table: the same accuracy under every rule, the same bill."""
    pool = api.open_pool(POOL, priors=PRIORS)
    replayed = api.replay(setting, pool)
    swept = api.sweep(pool, [setting])

    assert swept.num_rows
    for row in swept.to_pylist():
        mine = replayed.filter(pc.equal(replayed["benchmark"], row["benchmark"]))
        verdicts = mine[f"verdict_{row['answer_rule']}"].to_pylist()
        assert verdicts.count("right") == row["right"]
        assert verdicts.count("right") + verdicts.count("wrong") == row["graded"]
        tokens = pc.mean(mine["completion_tokens"]).as_py()
        assert tokens == pytest.approx(row["tokens_per_question"])


@pytest.mark.parametrize("failing", [(), ("q1", "q3"), ("q2", "q3"), ("q0", "q1", "q2", "q3")])
def test_a_replay_counts_as_the_run_did(tmp_path: Path, failing: tuple[str, ...]) -> None:
    """Over the run itself as its pool: the same right and graded under every rule, whichever chains
    failed; nothing under rules that could not be applied."""
    rows = question_rows(4, ["made-up"])
    rows[0]["gold"] = rows[1]["gold"] = None
    config = made_up_config(tmp_path, strategies=["mr_thinking"])
    run = write_run(config, "run", rows, MadeUp(failing=failing), metrics=False)
    replayed = api.replay("mr_thinking", api.open_pool(run.address))

    [entry] = write_summary(run)["strategies"]
    for rule, counts in entry["accuracy"].items():
        verdicts = replayed[f"verdict_{rule}"].to_pylist()
        expected = (0, 0) if counts is None else (counts["right"], counts["graded"])
        right, wrong = verdicts.count("right"), verdicts.count("wrong")
        assert (rule, right, right + wrong) == (rule, *expected)


def test_what_a_notebook_gives_is_taken_or_refused_in_a_line(tmp_path: Path) -> None:
    """Paths, and one of what may be several; a misspelt name, a class in place of an object, and a
    benchmark, rule or column that is not there are `ConfigError`."""
    pool, run = (
        api.open_pool(Path(POOL), priors=PRIORS),
        api.open_run(Path(whole(tmp_path).address)),
    )
    grid = {"kind": "markovscale_star", "n": 2, "tau": [0.5, 0.9]}
    wrong: Any = MRThinking  # as a notebook, which no type checker has seen
    letters: Any = "a"

    assert api.sweep(pool, "base").equals(api.sweep(pool, ["base"]))
    assert api.sweep(pool, grid, choose="tau").equals(api.sweep(pool, [grid], choose=["tau"]))
    tried = {**grid, "n": np.int64(2), "tau": np.array([0.5, 0.9])}
    assert api.sweep(pool, tried, choose="tau").equals(api.sweep(pool, grid, choose="tau"))
    table = api.sweep(pool, "base")
    refused: dict[str, Callable[[], object]] = {
        r"did you mean mr_thinking\?": lambda: api.sweep(pool, "mr_thinkin"),
        "strategy must be as in a configuration": lambda: api.replay(wrong, pool),
        "priors must be a section": lambda: api.open_pool(POOL, priors=letters),
        "rule must be one of last": lambda: api.front(table, rule="lst"),
        "benchmark must be one of made-up": lambda: api.plot_accuracy(run.accuracies(), "aime"),
        "name must be one of": lambda: api.plot_metrics(run.metrics(), "tokens"),
        "entry point": lambda: api.sweep(pool, "base", answer_rules="x"),
    }
    for says, ask in refused.items():
        with pytest.raises(ConfigError, match=says):
            ask()


def test_a_front_has_no_setting_that_another_beats() -> None:
    """Dearer along it is more accurate, and nothing off it is better for as few tokens."""
    pool = api.open_pool(POOL, priors=PRIORS)
    entries = ["base", {"kind": "mr_thinking", "n": [1, 2]}, {"kind": "esc", "n": 2, "window": 1}]
    table = api.sweep(pool, entries)
    best = api.front(table).to_pylist()

    assert best
    for before, after in itertools.pairwise(best):
        assert before["tokens_per_question"] < after["tokens_per_question"]
        assert before["accuracy"] < after["accuracy"]
    for row in table.to_pylist():
        if row["headline"] and row["chosen_on"] is None:
            assert any(
                other["accuracy"] >= row["accuracy"]
                and other["tokens_per_question"] <= row["tokens_per_question"]
                for other in best
            )
    with pytest.raises(ConfigError, match="benchmark must be one of"):
        api.front(table, "another")


def test_fronts_hold_strategies_against_the_controls() -> None:
    """Each family has a budget by budget accuracy within its interval and a difference to each
    control; all of them are drawn."""
    pool = api.open_pool(POOL)
    table = api.fronts(pool, [{"kind": "self_consistency", "n": [2, 3, 4]}])
    rows = table.to_pylist()
    families = {row["family"] for row in rows}
    held = {row["against"] for row in rows if row["family"] == "self_consistency (vote)"}

    assert {"self_consistency (vote)", "chain_asc (vote)", "mr_thinking (vote)"} <= families
    assert {"chain_asc (vote)", "mr_thinking (vote)"} <= held
    assert all(r["low"] <= r["value"] <= r["high"] for r in rows if r["measure"] == "accuracy")
    assert {row["series"] for row in drawn(api.plot_fronts(table))} == families
    with pytest.raises(ConfigError, match="benchmark must be one of"):
        api.plot_fronts(table, "another")


def test_what_cannot_be_replayed_is_said_before_anything_is() -> None:
    """A misspelt field, priors that cannot be, a strategy of its own prompts, several settings."""
    pool = api.open_pool(POOL)
    with pytest.raises(ConfigError, match="tua"):
        api.replay({"kind": "markovscale_star", "tua": 0.9}, pool)
    with pytest.raises(ConfigError, match="priors"):
        api.open_pool(POOL, priors={"a": 2})
    with pytest.raises(ConfigError, match="only ask for completions"):
        api.replay("budget_forcing", pool)
    with pytest.raises(ConfigError, match="one setting"):
        api.replay({"kind": "mr_thinking", "n": [1, 2]}, pool)


def test_rounds_of_a_run_and_of_a_pool_are_drawn(tmp_path: Path) -> None:
    """A row a round with its interval around it; the closed form begins where round 0 does."""
    run = api.open_run(whole(tmp_path).address)
    for source in (run, api.open_pool(POOL)):
        table = api.accuracy_by_round(source)
        for row in table.to_pylist():
            assert row["low"] <= row["accuracy"] <= row["high"]
            if row["round"] == 0 and row["closed_form"] is not None:
                assert row["closed_form"] == pytest.approx(row["accuracy"])
        for taken in (source, table):
            names = {row["series"] for row in drawn(api.plot_rounds(taken))}
            assert names == set(table["benchmark"].to_pylist())
    assert len(drawn(api.plot_accuracy(run, "other"))) == 5
    assert drawn(api.plot_accuracy(run)) == drawn(api.plot_accuracy(run.accuracies()))


def test_an_object_is_replayed_as_the_pool_was_drawn() -> None:
    """With its class's defaults it takes prompts and decoding of the pool, and decides as the same
    setting by name; its own are kept."""
    pool = api.open_pool(POOL)
    by_name = api.replay({"kind": "mr_thinking", "n": 2}, pool)

    assert api.replay(MRThinking(n=2), pool).equals(by_name)
    other = MRThinking(n=2, decoding=Decoding(temperature=0.123))
    with pytest.raises(ReplayMissError):
        api.replay(other, pool)


def test_strategies_are_listed_with_their_fields() -> None:
    """Every kind, with the fields that a configuration may set and their defaults."""
    listed = {row["kind"]: row for row in api.strategies().to_pylist()}

    assert listed.keys() == STRATEGIES.keys()
    assert (
        json.loads(listed["markovscale_star"]["fields"])["n"] == STRATEGIES["markovscale_star"]().n
    )
    assert listed["markovscale_star"]["needs_score"]
    assert all(row["about"] and "decoding" not in row["fields"] for row in listed.values())


OWN = """
from dataclasses import dataclass
from typing import ClassVar
from pipeline.strategies import STRATEGIES
from pipeline.strategies.sequential import MRThinking

@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(MRThinking):
    kind: ClassVar[str] = "mine"
"""


def test_a_strategy_of_a_file_needs_no_installation(tmp_path: Path) -> None:
    """`path/file.py:Class` is loaded from where it lies; a name that another module has, and a file
    that is not there, are refused."""
    pool = api.open_pool(POOL)
    (tmp_path / "own_of_a_file.py").write_text(OWN)
    (tmp_path / "json.py").write_text(OWN)
    mine = api.replay({"kind": f"{tmp_path}/own_of_a_file.py:Mine", "n": 2}, pool)
    known = api.replay({"kind": "mr_thinking", "n": 2}, pool)

    assert mine["completion_tokens"].equals(known["completion_tokens"])
    for file, says in (("json.py", "has the name of another module"), ("none.py", "No module")):
        with pytest.raises(ConfigError, match=says):
            api.replay({"kind": f"{tmp_path}/{file}:Mine", "n": 2}, pool)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_run(path: Path) -> None:
    """Every cell over the pool that ships, and every plot draws something."""
    space: dict[str, object] = {}
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        source = "".join(cell["source"])
        code = ast.parse(source)
        shown = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
        exec(compile(code, f"{path.name}, {cell['id']}", "exec"), space)
        if shown is not None:
            value = eval(compile(ast.Expression(shown.value), path.name, "eval"), space)
            if "api.plot_" in source:
                assert drawn(value)
        assert cell["outputs"]
    assert "api.plot_" in path.read_text()
