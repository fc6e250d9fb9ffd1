"""A run as a process of its own, and the processes it has started: to be watched and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from pipeline.records.run_dir import RunDir

ROOT = Path(__file__).resolve().parent.parent


class Job:
    """``python -m jobs.evaluate`` in a process group of its own.

    Args:
        arguments: of the command line.
        log: file that its output is appended to.
        environment: further environment variables.
        above: process whose descendants are the run's; None where Ray is the driver's own.
    """

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        environment: dict[str, str] | None = None,
        above: int | None = None,
    ) -> None:
        self.log, self._above = log, above
        with log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "jobs.evaluate", *arguments],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "RAY_AUTH_MODE": "disabled", **(environment or {})},
            )

    @property
    def running(self) -> bool:
        """Whether the driver lives."""
        return self.process.poll() is None

    def processes(self, title: str) -> dict[int, psutil.Process]:
        """Processes of the run whose title begins with `title`, by process id."""
        return titled(self._above or self.process.pid, title)

    def family(self) -> list[psutil.Process]:
        """Every process of the run that lives now, the driver's own included."""
        with contextlib.suppress(psutil.NoSuchProcess):
            above = psutil.Process(self._above or self.process.pid)
            return [above, *above.children(recursive=True)]
        return []

    def named(self, name: str) -> list[int]:
        """Process ids of the run's processes of a program, such as ``raylet``."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() == name:
                    found.append(process.pid)
        return found

    def drivers(self) -> list[int]:
        """Process ids of the driver and of the process that watches it (`jobs.supervision`)."""
        return [p.pid for p in self.family() if "jobs.evaluate" in titled_as(p)]

    def controllers(self) -> dict[int, psutil.Process]:
        """Controller actors."""
        return self.processes("ray::MapWorker(FlatMap(Controller))")

    def replicas(self, witness: Path) -> dict[str, list[int]]:
        """Process ids of engine replicas by kind; generators have left a file in `witness`."""
        generators = {int(path.name.split("-")[0]) for path in witness.glob("*.txt")}
        hosts = list(self.processes("ray::EngineHost"))
        return {
            "generator": [pid for pid in hosts if pid in generators],
            "verifier": [pid for pid in hosts if pid not in generators],
        }

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the driver; Ray's own processes on this machine die with it."""
        self.process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """The exit status."""
        return self.process.wait(seconds)

    def end(self) -> None:
        """Leave nothing running."""
        if self.running:
            family = [psutil.Process(self.process.pid)]
            with contextlib.suppress(psutil.NoSuchProcess):
                family += family[0].children(recursive=True)
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.wait(30)

    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")


def titled(ancestor: int, title: str) -> dict[int, psutil.Process]:
    """Descendants of a process whose title begins with `title`, by process id."""
    found = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(ancestor).children(recursive=True):
            if titled_as(child).startswith(title):
                found[child.pid] = child
    return found


def titled_as(process: psutil.Process) -> str:
    """The title of a process; nothing where it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return " ".join(process.cmdline())
    return ""


def scripted_run(folder: Path, **runtime: Any) -> Path:
    """A configuration file for scripted engines on plain actors, with a witness of what they make.

    Args:
        folder: where the file, the runs and the generation logs go.
        runtime: fields over the runtime part; ``scripted``, ``size`` and ``n`` are taken apart.
    """
    scripted = {"witness": str(folder / "witness"), **runtime.pop("scripted", {})}
    size, n = runtime.pop("size", 40), runtime.pop("n", 4)
    replica = {"num_gpus": 0, "num_cpus": 0.1}
    config = {
        "name": "scripted",
        "science": {
            "benchmarks": [{"name": "arithmetic", "size": size, "split": "test"}],
            "strategy": {"n": n, "tau": 0.95},
            "strategies": runtime.pop("strategies", ["mr_thinking", "markovscale_t"]),
            "decoding": {"max_tokens": 256},
            "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
            "priors": {"a": 0.05, "b": 0.3},
            "generator": {"model": "none"},
            "verifier": {"model": "none"},
        },
        "runtime": {
            "runs": str(folder / "runs"),
            "journal_flush_s": 0.5,
            "generator": replica,
            "verifier": replica,
            "controllers": {"actors": 1, "num_cpus": 0.1},
            "requests": {"deadline_s": 60, "backoff_s": 0.2, "no_replica_timeout_s": 120},
            "scripted": scripted,
            **runtime,
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def newest_attempt(run: str | Path) -> int:
    """The latest attempt of a run that has made something durable; 0 before any has."""
    names = (path.name for path in (Path(run) / "journal").glob("*.parquet"))
    return max((int(name[:4]) for name in names), default=0)


def rounds_durable(run: str | Path) -> int:
    """Rounds in a run's journal."""
    from benchmarks.journals import read_journal

    return int(read_journal(RunDir.open(str(run)).journal).table.num_rows)


def until(wanted: Callable[[], Any], seconds: float, pause_s: float = 0.1) -> Any:
    """The first true value of `wanted`.

    Raises:
        TimeoutError: if there is none in time.
    """
    give_up = time.monotonic() + seconds
    while True:
        value = wanted()
        if value:
            return value
        if time.monotonic() > give_up:
            raise TimeoutError(f"{wanted} must come true within {seconds:g} s")
        time.sleep(pause_s)
