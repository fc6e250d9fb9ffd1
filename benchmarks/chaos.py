"""Disturb a run every few seconds, resume it, and prove that nothing came of it.

    python -m benchmarks.chaos             thousands of chains, 10 minutes of faults
    python -m benchmarks.chaos --quick     a short one

Controllers, engine replicas, Ray's own processes and the driver (with all of Ray) are killed, or
stopped by SIGSTOP and woken again; controllers and replicas also hang for good (SIGSTOP and never
woken), and must be replaced within the stated limit; the driver is told to stop by SIGTERM; the
disk is full for a while, or slow and failing with EIO. Engines are scripted. Afterwards an
independent count (`benchmarks.chaos_count`) holds journal and outcomes against what the engines say
they made and against the same chains computed undisturbed. The last line is the account as JSON;
the exit status is 1 where anything was lost, doubled, made up, decided otherwise, left running or
stuck beyond its limit.
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

import psutil

from benchmarks.chaos_count import count
from benchmarks.chaos_faults import RAY as _RAY
from benchmarks.chaos_faults import Disk, hanging
from benchmarks.machine import described
from benchmarks.running import Job, newest_attempt, scripted_run
from pipeline.records.run_dir import RunDir

_NAME = "chaos"
_WEIGHTS = {"controller": 4, "generator": 4, "verifier": 3, "driver": 1, "drain": 1, "ray": 1}
_WEIGHTS |= {"hang": 6, "hung": 6, "storage": 2, "full": 2}
_QUICK = ("driver", "generator", "controller", "hang", "hung", "storage", "full", "verifier")
_HANGS = ("controller", "generator", "verifier", "driver", "gcs_server", "raylet")
_HUNG = ("controller", "generator", "verifier")
_LONG_HANG_S = 60.0
_HEALTH_S = 10.0
_HUNG_MOST_S = {"controller": 30.0, "generator": _HEALTH_S, "verifier": _HEALTH_S}
"""After which a process that hangs is killed, by its kind; its successor may take `_STARTS_S`."""
_STARTS_S = 60.0
_START_S = 400.0
_END_S = 3_600.0
_ENDS = 4  # attempts that may still fail of what was killed last
_IN_FLIGHT = 48
_RAY_ENDS_S = 120.0  # the driver looks for a lost head for 60 s
_LEFT_S = 20.0  # a driver's reaper ends what it leaves in about a second
_ROUNDS = 3.6  # of a chain, about


class Chaos:
    """One disturbed run.

    Args:
        folder: for everything.
        chains: how many, over two strategies.
        seconds: how long faults come, counted from the first durable round.
        every_s: mean pause between faults.
        seed: of the choices.
        victims: kinds of faults, in this order, and then nothing more; None chooses at random.
        controllers: how many there are.
        fault_s: most seconds that something hangs or storage fails; once in a long run a minute.
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
        fault_s: float = 15.0,
    ) -> None:
        self.folder, self._fault_s = folder, fault_s
        self.disk = Disk(folder)
        self.run = self.disk.place / "runs" / _NAME
        self.witness = folder / "witness"
        self._seconds, self._every_s = seconds, every_s
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._victims = None if victims is None else list(victims)
        self.kills: Counter[str] = Counter()
        self.exits: Counter[int] = Counter()
        self._family: set[psutil.Process] = set()
        self._hung_long = fault_s < _LONG_HANG_S / 6
        self.recovery_s: dict[str, list[float]] = {}
        self.stuck = 0
        """Processes that hung and were not replaced in time."""
        rounds = chains * _ROUNDS
        latency_s = 0.6 * seconds * _IN_FLIGHT / rounds  # kills take the rest of the time
        self._config = scripted_run(
            folder,
            size=chains // 2,
            generator={
                "num_gpus": 0,
                "num_cpus": 0.1,
                "replicas": 2,
                "health_timeout_s": _HEALTH_S,
            },
            verifier={"num_gpus": 0, "num_cpus": 0.1, "health_timeout_s": _HEALTH_S},
            controllers={"actors": controllers, "num_cpus": 0.1, "in_flight": _IN_FLIGHT},
            scripted={"tokens_per_s": 55 / latency_s, "score_s": 0.05},
            runs=str(self.run.parent),
        )

    def disturb(self) -> None:
        """Run to the end, with faults meanwhile."""
        job = self._start()
        try:
            began = time.monotonic()
            while self._victims if self._victims is not None else self._left(began) > 0:
                time.sleep(self._random.uniform(0.5, 1.5) * self._every_s)
                if not job.running:
                    if job.wait(0) == 0:
                        break
                    job = self._successor(job, "ended", time.monotonic())
                self._family |= set(job.family())
                job = self._one_fault(job)
            for _ in range(_ENDS):
                self._family |= set(job.family())
                status = job.wait(_END_S)
                self.exits[status] += 1
                if status == 0:
                    return
                job = self._start()
            raise RuntimeError(f"the run must end, exits so far: {dict(self.exits)}")
        finally:
            job.end()

    def _left(self, began: float) -> float:
        return began + self._seconds - time.monotonic()

    def close(self) -> None:
        """Take the disk away."""
        self.disk.close()

    def _start(self) -> Job:
        """A new run or its next attempt, once it makes rounds durable."""
        resume = (self.run / "config.json").exists()
        arguments = ["--resume", str(self.run)] if resume else ["--name", _NAME]
        before = newest_attempt(self.run)
        job = Job(
            [*arguments, "--config", str(self._config)],
            self.folder / "log.txt",
            self.disk.environment,
        )
        began = time.monotonic()
        while job.running and newest_attempt(self.run) == before:
            if time.monotonic() - began > _START_S:
                job.end()
                raise TimeoutError(f"an attempt must journal within {_START_S:g} s")
            time.sleep(0.1)
        return job

    def _one_fault(self, job: Job) -> Job:
        if self._victims is None:
            kind = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        else:
            kind = self._victims.pop(0)
        began = time.monotonic()
        match kind:
            case "driver" | "drain":
                job.kill(signal.SIGKILL if kind == "driver" else signal.SIGTERM)
                return self._successor(job, kind, began)
            case "ray":
                name = self._random.choice(_RAY)
                for pid in self._pids(job, name):
                    self._kill(pid, f"{name} killed")
                    return self._successor(job, name, began)
            case "hang":
                self._hang(job)
            case "hung":
                self._hung(job)
            case "storage":
                self._count("storage failing")
                self.disk.fail(self._random.uniform(0.3, 1.0) * self._fault_s)
            case "full" if self.disk.refused is None:
                self._count("disk full")
                self.disk.full(self._random.uniform(0.3, 1.0) * self._fault_s)
            case "controller" | "generator" | "verifier":
                pids = self._pids(job, kind)
                if pids:
                    self._kill(self._random.choice(pids), f"{kind} killed")
                    self._await_successor(job, kind, pids, kind)
        return job

    def _hang(self, job: Job) -> None:
        """Stop all processes of one kind for a while."""
        kind = self._random.choice(_HANGS)
        seconds = self._random.uniform(0.3, 1.0) * self._fault_s
        if not self._hung_long:
            self._hung_long, seconds = True, _LONG_HANG_S
        self._count(f"{kind} stopped for a while")
        with hanging(self._pids(job, kind)):
            time.sleep(seconds)

    def _hung(self, job: Job) -> None:
        """Stop a process for good; it must be replaced."""
        kind = self._random.choice(_HUNG)
        pids = self._pids(job, kind)
        if not pids:
            return
        self._count(f"{kind} hung for good")
        with hanging([self._random.choice(pids)]):
            limit_s = _HUNG_MOST_S[kind] + _STARTS_S
            replaced = self._await_successor(job, kind, pids, f"hung {kind}", limit_s)
        self.stuck += job.running and not replaced

    def _successor(self, job: Job, kind: str, began: float) -> Job:
        """The next attempt, once this one has ended."""
        if kind in ("driver", "drain"):
            self._count({"driver": "driver killed", "drain": "driver told to stop"}[kind])
        self.exits[job.wait(_RAY_ENDS_S)] += 1
        successor = self._start()
        self._note(kind, began)
        return successor

    def _count(self, what: str) -> None:
        self.kills[what] += 1

    def _kill(self, pid: int, what: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self._count(what)

    def _pids(self, job: Job, kind: str) -> list[int]:
        if kind == "controller":
            return list(job.controllers())
        if kind == "driver":
            return job.drivers()
        if kind in _RAY:
            return job.named(kind)
        return job.replicas(self.witness)[kind]

    def _await_successor(
        self, job: Job, kind: str, before: list[int], what: str, limit_s: float = 15.0
    ) -> bool:
        began = time.monotonic()
        while job.running and time.monotonic() - began < limit_s:
            if set(self._pids(job, kind)) - set(before):
                self._note(what, began)
                return True
            time.sleep(0.1)
        return False

    def _note(self, kind: str, began: float) -> None:
        self.recovery_s.setdefault(kind, []).append(time.monotonic() - began)

    def account(self) -> dict[str, Any]:
        """What came of it."""
        counted = count(RunDir.open(str(self.run)), self.witness)
        _, left = psutil.wait_procs(self._family, timeout=_LEFT_S)
        return {
            "faults": sum(self.kills.values()),
            **counted.as_dict(),
            "left_running": len(left),
            "stuck": self.stuck,
            "right": counted.right and not left and not self.stuck,
            "injected": dict(self.kills),
            "exits": dict(self.exits),
            "attempts": len(RunDir.open(str(self.run)).attempts()),
            "recovery_s": {
                kind: round(sorted(times)[len(times) // 2], 1)
                for kind, times in self.recovery_s.items()
            },
        }


def _in_turn(faults: int | None, seed: int) -> list[str] | None:
    """So many faults of all kinds, each as often as its weight says, in a random order."""
    if faults is None:
        return None
    every = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
    dice = random.Random(seed)  # noqa: S311 - no secret
    kinds: list[str] = []
    while len(kinds) < faults:
        kinds += dice.sample(every, len(every))
    return kinds[:faults]


def main(argv: list[str] | None = None) -> int:
    """Disturb, count, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="under a minute on 2 cores")
    parser.add_argument("--chains", type=int, default=4_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=5.0, help="mean seconds between faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, help="so many, in place of --seconds")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.chains, arguments.seconds, arguments.every = 60, 12.0, 0.5
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(
            Path(folder),
            chains=arguments.chains,
            seconds=arguments.seconds,
            every_s=arguments.every,
            seed=arguments.seed,
            victims=_QUICK if arguments.quick else _in_turn(arguments.faults, arguments.seed),
            controllers=1 if arguments.quick else 2,
            fault_s=1.5 if arguments.quick else 15.0,
        )
        if chaos.disk.refused is not None:
            print(f"no full disks: a small file system cannot be mounted: {chaos.disk.refused}")
        began = time.monotonic()
        try:
            chaos.disturb()
        except Exception:
            print((Path(folder) / "log.txt").read_text(errors="replace")[-4000:])
            raise
        else:
            seconds = round(time.monotonic() - began, 1)
            account = {**chaos.account(), "seconds": seconds}
        finally:
            chaos.close()
    print(json.dumps(account))
    return 0 if account["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
