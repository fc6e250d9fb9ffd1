"""Seconds from a cold start to the first completion, and what they are spent on.

    python -m benchmarks.start_up --quick         # tiny model, plain actors
    python -m benchmarks.start_up --model /models/my-7b --gpu
    python -m benchmarks.start_up --scripted      # all but the engine

One question with one token, through the product's own path, in a fresh process:
- ``imports``: Python, and the modules of the driver,
- ``ray``: Ray of its own on this machine,
- ``engines``: from the watch actor to engines that can serve: a process, vLLM's import, the model,
- ``first_completion``: Ray Data, a controller, the request, and the word of it,
- ``end``: what is left until the outcome is written and the engines are gone; not in the sum.
A further fresh process says how long vLLM's import takes alone (``import_vllm``, a part of
``engines``); run before, it also warms the page cache, so that the rest is a warm start of a cold
process. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import described
from benchmarks.workload import Job

PARTS = ("imports", "ray", "engines", "first_completion")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.start_up", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="one repeat, under 50 s on 2 cores")
    parser.add_argument("--model", default="models/tiny-generator")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--scripted", action="store_true", help="a scripted engine, no vLLM")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def _config(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.product import scripted_config

    config = scripted_config(1, slots=8, most_tokens=1)
    config["name"] = "start-up"
    runtime = config["runtime"]
    runtime["journal_flush_s"] = 0.05  # a finished round is told of at once
    if not options.scripted:
        del runtime["scripted"]
        config["science"]["generator"] = {"model": options.model, "max_model_len": 256}
        runtime["generator"] |= {
            "num_gpus": 1 if options.gpu else 0,
            "engine": {
                "max_num_seqs": 8,
                "max_num_batched_tokens": 512,
                "enforce_eager": not options.gpu,
            },
        }
    return config


class _Milestones(logging.Handler):
    """When the driver said that the first phase begins: engines can serve then."""

    def __init__(self) -> None:
        super().__init__()
        self.phase_at: float | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("phase 1 of "):
            self.phase_at = time.time()


def _first_completion(run_id: str, seen: list[float]) -> None:
    """Note when the run's watch first knows of a completion."""
    import ray

    from actors.cluster.run_monitor import NAMESPACE, monitor_name

    while True:
        try:
            watch = ray.get_actor(monitor_name(run_id), namespace=NAMESPACE)
            while not ray.get(watch.totals.remote())["rounds"]:
                time.sleep(0.02)
        except (ValueError, ray.exceptions.RayError):  # not there yet
            time.sleep(0.02)
            continue
        seen.append(time.time())
        return


def _child(options: argparse.Namespace) -> dict[str, float]:
    """In a fresh process: start, run one question, and say when what was reached."""
    import psutil

    from actors.driver.driver import Attempt
    from benchmarks.product import questions_of
    from jobs.cluster import start_ray
    from pipeline.config.run import RunConfig
    from pipeline.records.run_dir import RunDir

    created, imported = psutil.Process().create_time(), time.time()
    milestones = _Milestones()
    driver = logging.getLogger("actors.driver.driver")
    driver.setLevel(logging.INFO)
    driver.addHandler(milestones)
    with tempfile.TemporaryDirectory() as runs:
        config = _config(options)
        config["runtime"]["runs"] = runs
        parsed = RunConfig.parse(config)
        run = RunDir.create(parsed, f"start-up-{time.time_ns()}")
        work = [Job(question_id="0", text="12*34+56?", rounds=1, tokens=1)]
        run.folder.write_table("questions.parquet", questions_of(work))
        start_ray(parsed.runtime)
        ray_at = time.time()
        seen: list[float] = []
        threading.Thread(target=_first_completion, args=(run.run_id, seen), daemon=True).start()
        Attempt(run, parsed, 1).execute()
        ended = time.time()
        assert run.outcomes().num_rows == 1, "the question must have its outcome"
    assert milestones.phase_at is not None, "the driver must say when a phase begins"
    assert seen, "the watch must have been told of the completion"
    return {
        "imports": imported - created,
        "ray": ray_at - imported,
        "engines": milestones.phase_at - ray_at,
        "first_completion": seen[0] - milestones.phase_at,
        "end": ended - seen[0],
    }


def _import_vllm_s() -> float:
    began = time.perf_counter()
    code = "from vllm.v1.engine.async_llm import AsyncLLM"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)  # noqa: S603 - fixed
    return time.perf_counter() - began


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _options().parse_args(arguments)
    if options.child:
        Path(options.child).write_text(json.dumps(_child(options)), "utf-8")
        return
    print(described())
    figures: dict[str, Any] = {"benchmark": "start_up"}
    if not options.scripted:
        figures["import_vllm"] = _import_vllm_s()
        print(f"import vllm: {figures['import_vllm']:.1f} s", flush=True)
    runs: list[dict[str, float]] = []
    for _ in range(1 if options.quick else options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "times.json"
            command = [sys.executable, "-m", "benchmarks.start_up", *arguments]
            command += ["--child", str(target)]
            subprocess.run(command, check=True)  # noqa: S603 - this very script
            runs.append(json.loads(target.read_text("utf-8")))
        print({name: round(seconds, 2) for name, seconds in runs[-1].items()}, flush=True)
    for name in (*PARTS, "end"):
        figures[name] = statistics.median(run[name] for run in runs)
    wholes = [sum(run[name] for name in PARTS) for run in runs]
    figures["seconds_to_first_completion"] = statistics.median(wholes)
    figures["spread"] = (max(wholes) - min(wholes)) / statistics.median(wholes)
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}))


if __name__ == "__main__":
    main()
