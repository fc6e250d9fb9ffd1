"""Command lines of the offline jobs: what they take, write, print and refuse."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from actors.training.backbone_features import cache_address
from benchmarks.synthetic_pool import write_synthetic_pool
from jobs import collect, sweep, train
from jobs.pool_config import beside, cache_of, pool_config
from jobs.run_options import opened_run
from pipeline.config.collection import make_collection
from pipeline.config.run import RunConfig
from pipeline.config.sweep import SweepConfig, grid
from pipeline.core.errors import ConfigError
from pipeline.replay.pools import read_pool
from pipeline.replay.sweep import SCHEMA

GRIDS = """
strategies:
  - base
  - {kind: mr_thinking, n: [2, 4]}
  - {kind: markovscale_star, n: 4, tau: [0.6, 0.9], gamma: [2, 10]}
  - {kind: esc, n: 4, window: 2}
priors: {a: 0.06, b: 0.3}
"""


@pytest.fixture
def pool(tmp_path: Path) -> str:
    """An exported pool of 24 made-up questions."""
    address = str(tmp_path / "pool")
    write_synthetic_pool(address, questions=24, rounds=4, samples=4)
    return address


def test_a_sweep_writes_its_table_and_prints_what_stands_out(
    pool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row a setting, benchmark and rule, chosen settings apart; synthetic pools say so."""
    (tmp_path / "grids.yaml").write_text(GRIDS)
    status = sweep.main(["--pool", pool, "--config", str(tmp_path / "grids.yaml")])
    printed = capsys.readouterr().out
    table = pq.read_table(Path(pool) / "sweep.parquet")

    assert status == 0
    assert table.schema.equals(SCHEMA)
    rows = table.to_pylist()
    grid_rows = [row for row in rows if row["chosen_on"] is None]
    assert len(grid_rows) == 8 * 4 * len(read_pool(pool).benchmarks)
    assert {row["chosen_on"] for row in rows} <= {None, "held_out", "test"}
    assert printed.startswith("SYNTHETIC")
    assert "8 settings over 24 questions" in printed
    assert printed.split()[-1] == str(Path(pool) / "sweep-fronts.parquet")
    assert "these questions (too good)" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GRIDS + "nonsense: 1\n", "nonsense is not a field"),
        (GRIDS.replace("priors: {a: 0.06, b: 0.3}", ""), "markovscale_star needs a and b"),
        ("- base\n", "must hold fields, got list"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_in_words(
    pool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """Exit status 2 and one message on what must hold."""
    (tmp_path / "grids.yaml").write_text(text)

    assert sweep.main(["--pool", pool, "--config", str(tmp_path / "grids.yaml")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(Path("configs/sweeps").glob("*.yaml")), ids=str)
def test_every_sweep_file_can_be_built(path: Path) -> None:
    """With the prompts and the decoding of the embedded configuration."""
    science = RunConfig.load("configs/laptop.yaml").science

    assert grid(SweepConfig.load(str(path)), science)


def collected(values: dict[str, Any], rounds: int | None, samples: int | None) -> list[Any]:
    make_collection(values, rounds, samples)
    return [(e["label"], e["fields"]["n"]) for e in values["science"]["strategies"]]


def test_any_runs_configuration_makes_a_collection() -> None:
    """64 and 64 unless told otherwise; on a resume the depth stays unless told otherwise."""
    values = RunConfig.read("configs/laptop.yaml")

    assert collected(values, None, None) == [("sequential", 64), ("parallel", 64)]
    assert values["science"].keys().isdisjoint({"strategy", "priors", "answer_rule"})
    again = RunConfig.parse(values).model_dump(mode="json")
    assert collected(again, 128, None) == [("sequential", 128), ("parallel", 64)]
    assert collected(again, None, 0) == [("sequential", 128)]
    assert collected(again, None, None) == [("sequential", 128)]


@pytest.mark.parametrize(("rounds", "samples"), [(-1, 1), (0, 0), (1, -3)])
def test_a_depth_that_cannot_be_is_refused(rounds: int, samples: int) -> None:
    """Negative, or nothing at all."""
    with pytest.raises(ConfigError, match="must"):
        make_collection(RunConfig.read("configs/laptop.yaml"), rounds, samples)


def test_features_are_looked_for_where_jobs_features_puts_them(tmp_path: Path) -> None:
    """In the cache that the run names, else beside the pool, be that a bucket or a folder, where
    the run was drawn or where it was moved."""
    (tmp_path / "elsewhere").mkdir()
    command = ["--config", "configs/laptop.yaml", "--set", f"runtime.runs={tmp_path}"]
    for name, own in (("plain", []), ("shared", ["--set", "runtime.features.cache=/shared"])):
        arguments = collect.parser().parse_args([*command, "--name", name, *own])
        run, config, _ = opened_run(arguments, partial(make_collection, rounds=2, samples=2))
        assert cache_of(run.address) == cache_address(config)
        moved = shutil.move(run.address, tmp_path / "elsewhere" / name)
        assert cache_of(str(moved)) == cache_address(pool_config(str(moved), None, []))
        shutil.move(moved, run.address)

    assert cache_of(run.address) == "/shared"
    assert beside("s3://bucket/runs/test") == "s3://bucket/runs/features"
    assert beside("test") == "features"


def test_training_needs_a_backbone(pool: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripted engines have no states."""
    assert train.main(["--pool", pool, "--out", "/nonexistent"]) == 2
    assert "a predictor needs a backbone" in capsys.readouterr().err


def test_a_resume_of_a_collection_is_a_collection(tmp_path: Path) -> None:
    """Opened again with more rounds, the run directory takes the deeper configuration."""
    base = ["--config", "configs/laptop.yaml", "--name", "c", "--set", f"runtime.runs={tmp_path}"]
    first = collect.parser().parse_args([*base, "--rounds", "2", "--samples", "3"])
    run, _, attempt = opened_run(
        first, partial(make_collection, rounds=first.rounds, samples=first.samples)
    )
    deeper = collect.parser().parse_args(["--resume", run.address, "--rounds", "4"])
    again, config, number = opened_run(
        deeper, partial(make_collection, rounds=deeper.rounds, samples=deeper.samples)
    )

    assert (attempt, number, again.address) == (1, 2, run.address)
    entries = json.loads(config.model_dump_json())["science"]["strategies"]
    assert [(e["label"], e["fields"]) for e in entries] == [
        ("sequential", {"n": 4}),
        ("parallel", {"n": 3}),
    ]
