"""What it takes to read a finished run: seconds and memory of each job that does.

    python -m benchmarks.readers --quick
    python -m benchmarks.readers --questions 50000 --rounds 8 --characters 2000

A run directory is made in which every question is answered. New processes then read it, one a job:
``replay``, ``rival`` (`jobs.replay --strategy`), ``regrade`` and ``report``. The figures
of each are the most that its process held, with Python and all modules, and its seconds; grading
processes are apart. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import string
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.machine import described
from benchmarks.product import questions_of, scripted_config
from benchmarks.resume import _batched, _peak_mib
from benchmarks.workload import Job
from jobs import regrade, replay, report
from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.protocol import Completion, Observation, Request
from pipeline.records.outcome import SCHEMA as OUTCOMES
from pipeline.records.outcome import outcome_of, write_outcomes
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import Row, row_of
from pipeline.replay.exact import drive

_AT_WORK = 1_000  # questions whose rounds lie among each other
_SEGMENT_ROWS = 2_000
_STRATEGY = "mr_thinking"

_READERS: dict[str, Callable[[str], list[str]]] = {
    "replay": lambda run: [run],
    "rival": lambda run: [run, "--strategy", f"{run}/../rival.yaml"],
    "regrade": lambda run: [run, "--grader", "markovscale"],
    "report": lambda run: [run],
}
_RIVAL = "strategies: [{kind: mr_thinking, n: 4}]\n"


def _made(folder: str, questions: int, rounds: int, characters: int) -> str:
    """The address of a finished run."""
    values = scripted_config(questions)
    values["science"]["strategies"] = [{"kind": _STRATEGY, "n": rounds}]
    values["runtime"]["runs"] = folder
    run = RunDir.create(RunConfig.parse(values), "finished")
    work = [
        Job(question_id=str(n), text=f"{n}?", rounds=rounds, tokens=100) for n in range(questions)
    ]
    asked = questions_of(work)
    gold = pa.array(["1"] * questions)
    place = asked.schema.get_field_index("gold")
    run.folder.write_table("questions.parquet", asked.set_column(place, "gold", gold))
    epoch = Epoch(attempt=1, token=run.attempt(1).token, phase=0, slot="a", life=0)
    rows = _drawn(run, characters)
    for sequence, held in enumerate(_batched(rows, _SEGMENT_ROWS)):
        write_segment(run.journal, epoch, sequence, held)
    return run.address


def _drawn(run: RunDir, characters: int) -> Iterator[Row]:
    """Rows of the journal; the outcomes are written on the way."""
    strategy = strategies_of(run.config().science)[_STRATEGY]
    rng = random.Random(0)  # noqa: S311 - made-up texts
    letters = "".join(rng.choices(string.ascii_letters + " ", k=4 * characters))

    def answer(request: Request) -> Observation:
        number, start = rng.randrange(3), rng.randrange(3 * characters)
        text = f"{letters[start : start + characters]} \\boxed{{{number}}}"
        return Completion(
            text=text,
            answer=str(number),
            finish_reason="stop",
            prompt_tokens=100,
            completion_tokens=characters // 4,
        )

    outcomes = run.folder.child("outcomes", "attempt-1-phase-0")
    questions = run.folder.read_table("questions.parquet")
    for start in range(0, len(questions), _AT_WORK):
        rounds: list[list[Row]] = []
        ends: list[Row] = []
        for row in rows_of(questions.slice(start, _AT_WORK)):
            question = question_of(row)
            played = drive(strategy, question, answer)
            names: dict[str, Any] = {"run": run.run_id, "attempt": 1, "strategy": _STRATEGY}
            ends.append(
                outcome_of(
                    **names,
                    phase=_STRATEGY,
                    benchmark=question.benchmark,
                    question_id=question.question_id,
                    level=row["level"],
                    stop=played.stop,
                    observations=played.completions,
                    verdicts=[
                        "right" if getattr(each, "answer", None) == row["gold"] else "wrong"
                        for each in played.completions
                    ],
                    wasted_tokens=0,
                    seconds=1.0,
                )
            )
            rounds.append(
                [
                    row_of(**names, question=question, request=request, observation=seen)
                    for request, seen in zip(played.requests, played.completions, strict=True)
                ]
            )
        for of_round in zip(*rounds, strict=True):
            yield from of_round
        write_outcomes(outcomes, f"{start:09d}", pa.Table.from_pylist(ends, schema=OUTCOMES))


def _read(name: str, address: str) -> dict[str, float]:
    job = {"regrade": regrade, "report": report}.get(name, replay)
    began = time.perf_counter()
    assert job.main(_READERS[name](address)) == 0, f"{name} must read the run"
    seconds = time.perf_counter() - began
    return {f"{name}_s": round(seconds, 1), f"{name}_mib": round(_peak_mib())}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.readers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="2,000 questions, under 60 s")
    parser.add_argument("--questions", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=8, help="of each question")
    parser.add_argument("--characters", type=int, default=2_000, help="of a completion")
    parser.add_argument("--only", nargs="+", choices=list(_READERS), default=list(_READERS))
    parser.add_argument("--run", metavar="RUN", help="made before by --keep; none is made")
    parser.add_argument("--keep", metavar="DIR", help="make the run here, and leave it there")
    options = parser.parse_args(argv)
    questions = 2_000 if options.quick else options.questions
    print(described())
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        address = options.run or _made(
            options.keep or folder, questions, options.rounds, options.characters
        )
        Path(address, "..", "rival.yaml").write_text(_RIVAL)
        for name in options.only:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                figures |= pool.apply(_read, (name, address))
            print(figures, flush=True)
    text = questions * options.rounds * options.characters / 2**20
    print(json.dumps({"benchmark": "readers", "text_mib": round(text), **figures}))


if __name__ == "__main__":
    main()
