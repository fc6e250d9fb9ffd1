"""What it takes to find what is left of a run, and to sum it up, by the number of its outcomes.

    python -m benchmarks.outcomes --quick
    python -m benchmarks.outcomes --questions 1000000 --rounds 64

A run directory is made in which all questions but one have their outcome. A new process then reads
the outcomes as the driver does at the start of an attempt and of each phase, and another writes the
summary as the driver does at the end. ``peak_mib`` and ``summary_mib`` are the most that they held,
with Python, all modules and the list of questions; ``outcomes_mib`` is what the outcomes added to
the first. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.driver.run_phases import RunPhases
from benchmarks.machine import described
from benchmarks.product import questions_of, scripted_config
from benchmarks.resume import _peak_mib
from benchmarks.workload import Job
from jobs.results import write_summary
from pipeline.config.run import RunConfig
from pipeline.records.outcome import SCHEMA, write_outcomes
from pipeline.records.run_dir import RunDir

_ROWS_A_FILE = 5_000


def _made(folder: str, questions: int, rounds: int) -> str:
    """The address of a run directory in which one question is left."""
    values = scripted_config(questions)
    values["science"]["strategies"] = [{"kind": "mr_thinking", "n": rounds}]
    values["runtime"]["runs"] = folder
    run = RunDir.create(RunConfig.parse(values), "done")
    ids = [str(number) for number in range(questions)]
    work = [Job(question_id=i, text=f"{i}?", rounds=rounds, tokens=100) for i in ids]
    run.folder.write_table("questions.parquet", questions_of(work))
    outcomes = run.folder.child("outcomes", "attempt-1-phase-0")
    for start in range(0, questions - 1, _ROWS_A_FILE):
        held = ids[start : min(start + _ROWS_A_FILE, questions - 1)]
        write_outcomes(outcomes, f"{start:09d}", _outcomes(held, rounds, start))
    return run.address


def _outcomes(ids: Sequence[str], rounds: int, seed: int) -> pa.Table:
    rng, rows = np.random.default_rng(seed), len(ids)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * rounds)
    drawn = rows * rounds
    lists = {
        "round_answers": pa.array(rng.integers(0, 1_000, drawn).astype(str)),
        "round_scores": pa.array(rng.random(drawn)),
        "round_verdicts": pa.array(rng.choice(["right", "wrong"], drawn)),
        "round_tokens": pa.array(rng.integers(100, 900, drawn)),
        "posterior_path": pa.array(rng.random(drawn)),
        "stop_rounds": pa.array(np.tile(np.arange(rounds, dtype=np.int32), rows)),
    }
    texts = {
        "run": "done",
        "strategy": "mr_thinking",
        "phase": "mr_thinking",
        "benchmark": "arithmetic",
        "stop_reason": "budget",
    }
    columns = []
    for field in SCHEMA:
        if field.name in lists:
            columns.append(pa.ListArray.from_arrays(offsets, lists[field.name]))
        elif field.name == "question_id":
            columns.append(pa.array(ids))
        elif field.name in texts:
            columns.append(pa.array([texts[field.name]] * rows))
        elif field.nullable:
            columns.append(pa.nulls(rows, field.type))
        else:
            columns.append(pa.array(np.ones(rows), field.type))
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _left(address: str) -> dict[str, float]:
    """What a driver does to find what is left."""
    run = RunDir.open(address)
    phases = RunPhases(run, run.config(), run.attempt(1))
    before, began = _peak_mib(), time.perf_counter()
    done = phases._done()
    seconds, peak = time.perf_counter() - began, _peak_mib()
    assert phases.pending(), "one question is left"
    return {
        "done": len(done),
        "outcomes_s": round(seconds, 2),
        "outcomes_mib": round(peak - before),
        "peak_mib": round(_peak_mib()),
    }


def _summed(address: str) -> dict[str, float]:
    """What a driver does at the end."""
    began = time.perf_counter()
    summary = write_summary(RunDir.open(address))
    assert summary["chains_done"] == summary["chains"] - 1, "one question is left"
    seconds = round(time.perf_counter() - began, 2)
    return {"summary_s": seconds, "summary_mib": round(_peak_mib())}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.outcomes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="20,000 questions, under 30 s")
    parser.add_argument("--questions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=64, help="of each question")
    options = parser.parse_args(argv)
    questions = 20_000 if options.quick else options.questions
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        address = _made(folder, questions, options.rounds)
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            figures = pool.apply(_left, (address,)) | pool.apply(_summed, (address,))
    print(json.dumps({"questions": questions, "rounds": options.rounds, **figures}))


if __name__ == "__main__":
    main()
