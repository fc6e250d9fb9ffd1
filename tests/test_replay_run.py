"""The two guarantees of replay, with the live controller."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.journals import read_journal
from pipeline.config.collection import make_collection
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.records.outcome import outcome_of
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import Row
from pipeline.replay.exact import replay_phases
from pipeline.replay.pool_rows import Digests
from pipeline.replay.pools import CompletionPool, read_pool
from pipeline.replay.run import replay_run
from pipeline.strategies import STRATEGIES
from tests.live import ScriptedGenerator, config_of, create, live
from tests.pool_engines import PoolGenerator, PoolVerifier

ROUNDS, SAMPLES = 8, 8

STRATEGIES_LIVE: list[Any] = [
    *(kind for kind in STRATEGIES if kind != "budget_forcing"),
    {"kind": "budget_forcing", "num_ignore": 1},
    {"kind": "markovscale_star", "label": "no-gate", "gate": False, "tau": 0.6},
    {"kind": "dsc", "label": "dsc-paper", "profile": "paper"},
    {"kind": "esc", "label": "esc-paper", "profile": "paper", "window": 3},
]


async def test_a_run_replays_record_for_record(tmp_path: Path) -> None:
    """Guarantee (a), for every registered strategy: the journal of a live run leads replay to every
    outcome that the run wrote, through every record and no other."""
    run = create(config_of(str(tmp_path), STRATEGIES_LIVE, size=3))
    generator = await live(run)

    found = replay_run(run)

    assert found.differences == ()
    assert found.outcomes == len(STRATEGIES_LIVE) * 3
    assert (found.records, found.unused) == (len(generator.served), 0)


async def test_the_models_own_stop_flag_is_recorded_and_replayed(tmp_path: Path) -> None:
    """Found in replies by the pattern of the run, kept in the journal, and what stops a chain."""
    entry = {"kind": "settled", "repeat": None, "stop_flag": True}
    generator = {"model": "scripted", "stop_flag": r"[02468]\}"}
    run = create(config_of(str(tmp_path), [entry], generator=generator))
    await live(run)
    rows = rows_of(read_journal(run.journal).table)

    assert [row["says_stop"] for row in rows] == [
        bool(re.search(r"[02468]\}", row["text"])) for row in rows
    ]
    assert {row["stop_reason"] for row in rows_of(run.outcomes())} >= {"confident"}
    assert replay_run(run).differences == ()
    with pytest.raises(ConfigError, match=r"science\.generator\.stop_flag must be given"):
        config_of(str(tmp_path), [entry])


async def test_failures_replay_too(tmp_path: Path) -> None:
    """A request that failed is a record like any other."""
    run = create(config_of(str(tmp_path), ["mr_thinking", "markovscale_0"]))
    ids = [row["question_id"] for row in rows_of(run.folder.read_table("questions.parquet"))]
    failing = (f"mr_thinking/arithmetic/{ids[0]}#2", f"markovscale_0/arithmetic/{ids[1]}#1")
    await live(run, ScriptedGenerator(Script(p0=0.5), failing))

    assert replay_run(run).differences == ()
    stops = {(r["strategy"], r["question_id"]): r["stop_reason"] for r in rows_of(run.outcomes())}
    assert stops[("mr_thinking", ids[0])] == "failed"


async def test_a_changed_outcome_is_found(tmp_path: Path) -> None:
    """The comparison names strategy, question, column and both values."""
    run = create(config_of(str(tmp_path), ["mr_thinking"], size=1))
    await live(run)
    folder = run.folder.child("outcomes", "attempt-1-phase-0")
    (row,) = rows_of(folder.read_table("part-0.parquet"))
    changed = pa.Table.from_pylist(
        [{**row, "stop_rounds": [0]}], schema=folder.read_table("part-0.parquet").schema
    )
    folder.write_table("part-0.parquet", changed)

    (difference,) = replay_run(run).differences
    assert difference.startswith("mr_thinking, question")
    assert "stop_rounds: written [0], replayed [0, 1, 2, 3, 4, 5, 6, 7]" in difference


async def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    """Questions without an outcome are not silently left out."""
    run = create(config_of(str(tmp_path), ["mr_thinking"], size=2))
    await live(run)
    folder = run.folder.child("outcomes", "attempt-1-phase-0")
    folder.write_table("part-0.parquet", folder.read_table("part-0.parquet").slice(0, 1))

    with pytest.raises(DataError, match="a run must be finished to be replayed"):
        replay_run(run)


async def test_a_run_that_decided_by_what_is_gone_is_refused(tmp_path: Path) -> None:
    """It is not replayed by other rules than its own."""
    run = create(config_of(str(tmp_path), [{"kind": "mr_thinking", "n": 3}], size=1))
    await live(run)
    attempts = run.folder.child("attempts")
    entry = attempts.read_json("0001.json")
    entry["config"]["science"]["strategies"][0]["fields"]["score_every"] = 2
    attempts.write_json("0001.json", entry)

    with pytest.raises(ConfigError, match=r"mr_thinking\.score_every must be 1 or left out, got 2"):
        replay_run(RunDir.open(run.address))


POOL_STRATEGIES: list[Any] = [
    "base",
    "mr_thinking",
    "markovscale_t",
    {"kind": "markovscale_star", "tau": 0.7},
    {"kind": "markovscale_star", "label": "no-stop", "stopping": False},
    "markovscale_0",
    {"kind": "chain_asc", "threshold": 0.9},
    {"kind": "agree", "weights": {"w": [2.0, 1.0, 0.5], "v": [-1, 0, 0, 1, 1, 1, 0, 0]}},
    "settled",
    {"kind": "settled", "label": "scored", "repeat": None, "score_at_least": 0.5},
    "chain_expected_agreement",
    {"kind": "expected_agreement", "n": 8},
    "best_of_n",
    {"kind": "best_of_n", "label": "product", "aggregation": "product", "profile": "paper"},
    {"kind": "beacon", "cost": 0.01},
    "self_consistency",
    {"kind": "self_consistency", "label": "weighted", "weighted": True},
    {"kind": "esc", "window": 3},
    {"kind": "asc", "batch": 2},
    {"kind": "dsc", "profile": "paper"},
]


async def collected(tmp_path: Path, fail: tuple[str, ...] = ()) -> tuple[RunDir, CompletionPool]:
    """A pool that the live controller drew from scripted engines."""
    values = config_of(str(tmp_path), ["base"]).model_dump(mode="json")
    make_collection(values, ROUNDS, SAMPLES)
    run = create(RunConfig.parse(values), "pool")
    await live(run, ScriptedGenerator(Script(p0=0.5, a=0.1, b=0.3), fail))
    return run, read_pool(run.address, text=True)


async def test_the_live_controller_over_a_pool_decides_as_its_replay(tmp_path: Path) -> None:
    """Guarantee (b), for every strategy that a pool can replay: the controller against engines that
    serve the pool, in which a chain failed, writes the outcomes that replay over the pool gives,
    column for column."""
    config = config_of(str(tmp_path), POOL_STRATEGIES)
    run = create(config)
    ids = [row["question_id"] for row in rows_of(run.folder.read_table("questions.parquet"))]
    _, pool = await collected(tmp_path, (f"sequential/arithmetic/{ids[0]}#3",))
    await live(run, PoolGenerator(pool), PoolVerifier(pool))

    found = replay_run(run)
    assert found.differences == ()
    assert found.outcomes == len(POOL_STRATEGIES) * len(ids)
    again = replayed_over(pool, config, run)
    written = {(r["strategy"], r["phase"], r["question_id"]): r for r in rows_of(run.outcomes())}
    assert again.keys() <= written.keys()
    for key, row in again.items():
        assert row == {name: written[key][name] for name in row}


def replayed_over(
    pool: CompletionPool, config: RunConfig, run: RunDir
) -> dict[tuple[str, str, str], Row]:
    """By strategy, last phase and question: what replay over the pool gives for a run's questions,
    as an outcome without what only a live run has."""
    questions = [question_of(r) for r in rows_of(run.folder.read_table("questions.parquet"))]
    of_pool = {q.question.question_id: q for q in pool.questions}
    answers = {key: q.answers(Digests()) for key, q in of_pool.items()}
    found: dict[tuple[str, str, str], Row] = {}
    for label, strategy in strategies_of(config.science).items():
        phase = strategy.phases()[-1].name
        for question_id, replayed in replay_phases(
            strategy, questions, lambda asked, request: answers[asked.question_id](request)
        ).items():
            verdicts = of_pool[question_id].verdicts()
            row = outcome_of(
                run=run.run_id,
                attempt=1,
                strategy=label,
                phase=phase,
                benchmark="arithmetic",
                question_id=question_id,
                level=None,
                stop=replayed.stop,
                observations=replayed.completions,
                verdicts=[verdicts[request.address] for request in replayed.requests],
                wasted_tokens=0,
                seconds=0.0,
            )
            for name in ("seconds", "epoch", "sequence"):
                row.pop(name, None)
            found[(label, phase, question_id)] = row
    return found
