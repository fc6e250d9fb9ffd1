"""What it takes to go on with a run: seconds and memory, by the size of its journal.

    python -m benchmarks.resume --quick
    python -m benchmarks.resume --questions 100000 --rounds 4 --characters 8000

A run directory is made whose questions all stopped halfway. A new process then does what the driver
does at the start of an attempt and of each phase: it checks every segment, finds what is left, and
lays out what was recorded for the controllers. Others look the questions up, as controllers do that
are handed 16 at a time in turn. ``driver_mib`` and ``controller_mib`` are the most that a process
held, with Python and all modules, and of the controllers that of the largest; ``text_mib`` is what
the texts of the journal have; ``cpu_s`` counts the imports too. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import string
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from actors.driver.run_phases import RunPhases
from benchmarks.machine import described
from benchmarks.product import questions_of, scripted_config
from benchmarks.workload import Job
from pipeline.config.run import RunConfig
from pipeline.records.question_blocks import RecordedWork
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import SCHEMA, Row

_HANDED = 16  # questions that a controller is handed at once


def _made(folder: str, questions: int, rounds: int, characters: int, segment_rows: int) -> RunDir:
    """A run directory whose questions have so many rounds recorded, half of all."""
    values = scripted_config(questions)
    values["science"]["strategies"] = [{"kind": "mr_thinking", "n": 2 * rounds}]
    values["runtime"]["runs"] = folder
    run = RunDir.create(RunConfig.parse(values), "resumed")
    work = [
        Job(question_id=str(number), text=f"{number}?", rounds=2 * rounds, tokens=characters // 4)
        for number in range(questions)
    ]
    run.folder.write_table("questions.parquet", questions_of(work))
    epoch = Epoch(attempt=1, token=run.attempt(1).token, phase=0, slot="a", life=0)
    rows = _rows([job.question_id for job in work], rounds, characters)
    for sequence, held in enumerate(_batched(rows, segment_rows)):
        write_segment(run.journal, epoch, sequence, held)
    return run


def _batched(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    """Lists of `size` rows; the last may be shorter."""
    while held := list(islice(rows, size)):
        yield held


def _rows(ids: Sequence[str], rounds: int, characters: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)  # texts that do not compress to nothing
    letters = "".join(rng.choice(list(string.ascii_letters + " "), 4 * characters + 1))
    for question_id in ids:
        for number in range(rounds):
            start = int(rng.integers(3 * characters + 1))
            yield dict.fromkeys(SCHEMA.names) | {
                "run": "resumed",
                "attempt": 1,
                "strategy": "mr_thinking",
                "benchmark": "arithmetic",
                "question_id": question_id,
                "pool": "main",
                "chain": 0,
                "round": number,
                "sample": 0,
                "request_digest": f"{question_id}-{number}",
                "completion_tokens": characters // 4,
                "text": letters[start : start + characters],
                "finish_reason": "stop",
                "answer": "1",
                "step_scores": [0.5] * 8,
                "score": 0.5,
                "seed": number,
            }


def _peak_mib() -> float:
    """The most that this process has held; ru_maxrss would also tell of the one that started it."""
    with open("/proc/self/status") as status:
        (line,) = (each for each in status if each.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


def _gone_on(address: str) -> dict[str, float]:
    """What a driver does before the chains of a phase start."""
    run = RunDir.open(address)
    began = time.perf_counter()
    phases = RunPhases(run, run.config(), run.attempt(1))
    phases.prepare()
    left = phases.work(0)
    seconds = {"driver_s": time.perf_counter() - began, "driver_cpu_s": time.process_time()}
    return {"left": len(left), **seconds, "driver_mib": _peak_mib()}


def _looked_up(address: str, questions: int, number: int, of: int) -> dict[str, float]:
    """What one of several controllers does as it meets its questions."""
    run = RunDir.open(address)
    began = time.perf_counter()
    recorded = RecordedWork(run, Epoch(1, run.attempt(1).token, phase=0, slot=f"b{number}", life=0))
    for question in range(questions):
        if question // _HANDED % of == number:
            assert recorded.of(("mr_thinking", "arithmetic", str(question))) is not None
    seconds = {"controller_s": time.perf_counter() - began, "controller_cpu_s": time.process_time()}
    return {**seconds, "controller_mib": _peak_mib()}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.resume", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="10,000 questions, under 50 s")
    parser.add_argument("--questions", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=4, help="recorded of each question")
    parser.add_argument("--controllers", type=int, default=2)
    parser.add_argument("--segment-rows", type=int, default=2_000, help="completions a segment")
    parser.add_argument("--characters", type=int, default=2_000, help="of a completion")
    options = parser.parse_args(argv)
    questions = 10_000 if options.quick else options.questions
    rows = questions * options.rounds
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        run = _made(folder, questions, options.rounds, options.characters, options.segment_rows)
        print(f"{rows:,} completions of {options.characters:,} characters", flush=True)
        fresh = multiprocessing.get_context("spawn")
        with fresh.Pool(1, maxtasksperchild=1) as pool:
            figures = pool.apply(_gone_on, (run.address,))
        with fresh.Pool(options.controllers) as pool:
            shares = [
                (run.address, questions, n, options.controllers) for n in range(options.controllers)
            ]
            seen = pool.starmap(_looked_up, shares, chunksize=1)
        figures |= {name: max(each[name] for each in seen) for name in seen[0]}
    figures["text_mib"] = rows * options.characters / 2**20
    print(json.dumps({"benchmark": "resume", "rows": rows, **figures}))


if __name__ == "__main__":
    main()
