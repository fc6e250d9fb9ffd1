"""Write the run folders that later versions must read: run it with the code of the version to keep.

    git worktree add --detach /tmp/kept COMMIT
    cd /tmp/kept && PYTHONPATH=. python HERE/tests/data/golden/make.py HERE/tests/data/golden/COMMIT

Each run goes through the jobs, with Ray and scripted engines, as a user's would:

``plain``    base, mr_thinking and markovscale_t; nothing happened
``phased``   strategies with several phases: markovscale_0, dsc
``stopped``  plain's questions, told to stop in the middle of chains
``resumed``  ``stopped``, gone on with to its end
``failed``   plain's questions, of which the engines refuse two
``retried``  ``failed``, those two taken up again
``pool``     a collection; ``export`` is its export

What tells of the machine is taken out: folders in configurations, which are of the runtime part
and in no digest, and the kernel's name. So is ``work/``, which an attempt writes before it reads.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

PLAIN = ["base", "mr_thinking", "markovscale_t"]
REPLICA = {"num_gpus": 0, "num_cpus": 0.1}


def main(target: Path) -> None:
    """Run everything in a temporary folder, then copy it to `target`."""
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        made = Path(temporary)
        evaluate(made, "plain", PLAIN)
        evaluate(made, "phased", ["markovscale_0", "dsc"])
        stop(made, "resumed", PLAIN)
        shutil.copytree(made / "runs/resumed", made / "runs/stopped")
        resume(made, "resumed")
        refused = {"faults": {"54*71+5+76? was": "error", "22*79+7+920": "bad_request"}}
        evaluate(made, "retried", PLAIN, requests={"attempts": 1}, scripted=refused)
        shutil.copytree(made / "runs/retried", made / "runs/failed")
        resume(made, "retried", "--retry-failed")
        config = write_config(made, "pool", PLAIN)
        job("collect", "--config", config, "--name", "pool", "--rounds", "6", "--samples", "5")
        job("collect", "--export", str(made / "runs/pool"), str(made / "runs/export"))
        for run in sorted((made / "runs").iterdir()):
            anonymise(run, made)
            shutil.rmtree(run / "work", ignore_errors=True)
            shutil.copytree(run, target / run.name)


def write_config(folder: Path, name: str, strategies: list[str], **runtime: Any) -> str:
    """A configuration file; returns its path."""
    config = {
        "name": name,
        "science": {
            "benchmarks": [{"name": "arithmetic", "size": 200, "limit": 8}],
            "strategy": {"n": 4, "tau": 0.74},
            "strategies": strategies,
            "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
            "priors": {"a": 0.02, "b": 0.3},
            "generator": {"model": "none"},
            "verifier": {"model": "none"},
        },
        "runtime": {
            "host": "actors",
            "runs": str(folder / "runs"),
            "journal_flush_s": 5,
            "generator": REPLICA,
            "verifier": REPLICA,
            "controllers": {"actors": 1, "num_cpus": 0.1},
            "scripted": {},
            **runtime,
        },
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def evaluate(folder: Path, name: str, strategies: list[str], **runtime: Any) -> None:
    """A run to its end."""
    config = write_config(folder, name, strategies, **runtime)
    job("evaluate", "--config", config, "--name", name)


def stop(folder: Path, name: str, strategies: list[str]) -> None:
    """A run that is told to stop once it has three segments, with slow engines."""
    slow = {"journal_flush_s": 0.7, "drain_s": 0, "scripted": {"tokens_per_s": 40}}
    config = write_config(folder, name, strategies, **slow)
    process = subprocess.Popen(command("evaluate", "--config", config, "--name", name))
    while not list((folder / "runs" / name / "journal").glob("*-000002-*.parquet")):
        if process.poll() is not None:
            raise RuntimeError("the run must not end before it is stopped")
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    if process.wait(120) != 75:
        raise RuntimeError(f"a stopped run must exit with 75, got {process.returncode}")


def resume(folder: Path, name: str, *arguments: str) -> None:
    """The next attempt, with engines that answer at once and refuse nothing."""
    run = str(folder / "runs" / name)
    job("evaluate", "--resume", run, "--set", "runtime.scripted={}", *arguments)


def job(*arguments: str) -> None:
    """One job, which must end well."""
    subprocess.run(command(*arguments), check=True)


def command(verb: str, *arguments: str) -> list[str]:
    """The command line of a job of the version in the working folder."""
    os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    return [sys.executable, "-m", f"jobs.{verb}", *arguments]


def anonymise(run: Path, folder: Path) -> None:
    """Name the folder of runs ``runs`` wherever this machine's stood."""
    for path in sorted(run.rglob("*.json")):
        text = path.read_text().replace(json.dumps(str(folder / "runs")), '"runs"')
        path.write_text(text.replace(json.dumps(platform.platform()), '"Linux"'))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
