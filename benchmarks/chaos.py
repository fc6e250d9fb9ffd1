"""Kill random parts of a run every few seconds, resume it, and prove that nothing came of it.

    python -m benchmarks.chaos             thousands of chains, 10 minutes of kills
    python -m benchmarks.chaos --quick     a short one

Controllers, engine replicas and the driver (with all of Ray) are killed, or the driver is
told to stop by SIGTERM; engines are scripted, on plain Ray actors. Afterwards an independent count
(`benchmarks.chaos_count`) holds journal and outcomes against what the engines say they made and
against the same chains computed undisturbed. The last line is the account as JSON; the exit status
is 1 where anything was lost, doubled, made up or decided otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.chaos_count import count
from benchmarks.machine import described
from benchmarks.running import Job, newest_attempt, scripted_run
from pipeline.records.run_dir import RunDir

_NAME = "chaos"
_RESUMABLE = 75
_WEIGHTS = {"controller": 4, "generator": 4, "verifier": 3, "driver": 1, "drain": 1}
_QUICK = ("generator", "controller", "verifier", "generator", "driver")
_START_S = 400.0
_END_S = 3_600.0
_ENDS = 4  # attempts that may still fail of what was killed last
_IN_FLIGHT = 48
_ROUNDS = 3.6  # of a chain, about


class Chaos:
    """One disturbed run.

    Args:
        folder: for everything.
        chains: how many, over two strategies.
        seconds: how long parts are killed, counted from the first durable round.
        every_s: mean pause between kills.
        seed: of the choices.
        victims: killed in this order, and then nothing more; None chooses at random.
        controllers: how many there are.
    """

    def __init__(
        self,
        folder: Path,
        *,
        chains: int,
        seconds: float,
        every_s: float,
        seed: int,
        victims: Sequence[str] | None = None,
        controllers: int = 2,
    ) -> None:
        self.folder, self.run = folder, folder / "runs" / _NAME
        self.witness = folder / "witness"
        self._seconds, self._every_s = seconds, every_s
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._victims = None if victims is None else list(victims)
        self.kills: Counter[str] = Counter()
        self.exits: Counter[int] = Counter()
        self.recovery_s: dict[str, list[float]] = {}
        rounds = chains * _ROUNDS
        latency_s = 0.6 * seconds * _IN_FLIGHT / rounds  # kills take the rest of the time
        self._config = scripted_run(
            folder,
            size=chains // 2,
            generator={"num_gpus": 0, "num_cpus": 0.1, "replicas": 2},
            controllers={"actors": controllers, "num_cpus": 0.1, "in_flight": _IN_FLIGHT},
            scripted={"tokens_per_s": 55 / latency_s, "score_s": 0.05},
        )

    def disturb(self) -> None:
        """Run to the end, killing meanwhile."""
        job = self._start()
        try:
            began = time.monotonic()
            while time.monotonic() - began < self._seconds and job.running and self._victims != []:
                time.sleep(self._random.uniform(0.5, 1.5) * self._every_s)
                job = self._one_kill(job)
            for _ in range(_ENDS):
                status = job.wait(_END_S)
                self.exits[status] += 1
                if status == 0:
                    return
                job = self._start()
            raise RuntimeError(f"the run must end, exits so far: {dict(self.exits)}")
        finally:
            job.end()

    def _start(self) -> Job:
        """A new run or its next attempt, once it makes rounds durable."""
        resume = (self.run / "config.json").exists()
        arguments = ["--resume", str(self.run)] if resume else ["--name", _NAME]
        before = newest_attempt(self.run)
        job = Job([*arguments, "--config", str(self._config)], self.folder / "log.txt")
        began = time.monotonic()
        while job.running and newest_attempt(self.run) == before:
            if time.monotonic() - began > _START_S:
                job.end()
                raise TimeoutError(f"an attempt must journal within {_START_S:g} s")
            time.sleep(0.1)
        return job

    def _one_kill(self, job: Job) -> Job:
        if self._victims is None:
            victim = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        else:
            victim = self._victims.pop(0)
        if victim in ("driver", "drain"):
            job.kill(signal.SIGKILL if victim == "driver" else signal.SIGTERM)
            self.kills[victim] += 1
            began = time.monotonic()
            self.exits[job.wait(60)] += 1
            successor = self._start()
            self._note(victim, began)
            return successor
        pids = self._pids(job, victim)
        if pids:
            pid = self._random.choice(pids)
            _kill(pid)
            self.kills[victim] += 1
            self._await_successor(job, victim, pids)
        return job

    def _pids(self, job: Job, kind: str) -> list[int]:
        if kind == "controller":
            return list(job.controllers())
        return job.replicas(self.witness)[kind]

    def _await_successor(self, job: Job, kind: str, before: list[int]) -> None:
        began = time.monotonic()
        while job.running and time.monotonic() - began < 15:
            if set(self._pids(job, kind)) - set(before):
                self._note(kind, began)
                return
            time.sleep(0.1)

    def _note(self, kind: str, began: float) -> None:
        self.recovery_s.setdefault(kind, []).append(time.monotonic() - began)

    def account(self) -> dict[str, Any]:
        """What came of it."""
        counted = count(RunDir.open(str(self.run)), self.witness)
        return {
            "kills": sum(self.kills.values()),
            **counted.as_dict(),
            "right": counted.right,
            "killed": dict(self.kills),
            "attempts": len(RunDir.open(str(self.run)).attempts()),
            "recovery_s": {
                kind: round(sorted(times)[len(times) // 2], 1)
                for kind, times in self.recovery_s.items()
            },
        }


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def main(argv: list[str] | None = None) -> int:
    """Disturb, count, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="under 50 s on 2 cores")
    parser.add_argument("--chains", type=int, default=4_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=5.0, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.chains, arguments.seconds, arguments.every = 80, 10.0, 0.5
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(
            Path(folder),
            chains=arguments.chains,
            seconds=arguments.seconds,
            every_s=arguments.every,
            seed=arguments.seed,
            victims=_QUICK if arguments.quick else None,
            controllers=1 if arguments.quick else 2,
        )
        began = time.monotonic()
        try:
            chaos.disturb()
        except Exception:
            print((Path(folder) / "log.txt").read_text(errors="replace")[-4000:])
            raise
        account = {**chaos.account(), "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(account))
    return 0 if account["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
