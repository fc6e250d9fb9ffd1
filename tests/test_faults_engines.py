"""Real engines on the embedded models, killed inside a run."""

import os
import signal
from collections import Counter

import psutil
import pytest

from benchmarks.journals import read_journal
from benchmarks.running import Job, rounds_durable, titled, until
from pipeline.records.run_dir import RunDir, rows_of

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1500)]


def test_engines_and_driver_are_killed_and_nothing_is_lost_or_left(tmp_path):
    """One vLLM engine dies inside its live actor and another one hangs there for ever; both are
    replaced. Then the driver is killed: no process survives, the resume draws nothing durable
    again, and every question has its outcome."""
    run = tmp_path / "runs" / "r"
    common = [
        *("--config", "configs/laptop.yaml", "--set", f"runtime.runs={tmp_path / 'runs'}"),
        *("--set", "science.benchmarks.0.size=60", "--set", "science.strategies=[mr_thinking]"),
        # engines in processes of their own, as on GPUs
        *("--set", 'runtime.generator.env={VLLM_ENABLE_V1_MULTIPROCESSING: "1"}'),
        *("--set", 'runtime.verifier.env={VLLM_ENABLE_V1_MULTIPROCESSING: "1"}'),
        *("--set", "runtime.generator.health_timeout_s=30"),
        *("--set", "runtime.verifier.health_timeout_s=30"),
    ]
    jobs = [Job([*common, "--name", "r"], tmp_path / "log-0.txt")]
    try:
        until(lambda: (run.exists() and rounds_durable(run) >= 10) or not jobs[0].running, 600)
        engines = titled(jobs[0].process.pid, "VLLM::EngineCore")
        for pid, number in zip(engines, (signal.SIGKILL, signal.SIGSTOP), strict=True):
            os.kill(pid, number)
        driver = jobs[0].process.pid
        until(
            lambda: (
                len(titled(driver, "VLLM::EngineCore").keys() - engines.keys()) == 2
                or not jobs[0].running
            ),
            400,
        )
        before = rounds_durable(run)
        family = psutil.Process(jobs[0].process.pid).children(recursive=True)
        jobs[0].kill()
        jobs[0].wait(60)
        left = psutil.wait_procs(family, timeout=200)[1]
        durable = {
            key_of(row) for row in rows_of(read_journal(RunDir.open(str(run)).journal).table)
        }
        jobs.append(Job([*common, "--resume", str(run)], tmp_path / "log-1.txt"))
        status = jobs[1].wait(900)
    finally:
        for job in jobs:
            job.end()
    opened = RunDir.open(str(run))
    rows = rows_of(read_journal(opened.journal).table)
    outcomes = rows_of(opened.outcomes())

    assert len(engines) == 2
    assert before <= len(durable)
    assert left == []
    assert status == 0, jobs[1].output()[-4000:]
    assert len(outcomes) == len({row["question_id"] for row in outcomes}) == 60
    assert [row["error"] for row in outcomes] == [None] * 60
    assert max(Counter(map(key_of, rows)).values()) == 1
    assert durable == {key_of(row) for row in rows if row["attempt"] == 1}


def key_of(row):
    return (row["question_id"], row["round"])
