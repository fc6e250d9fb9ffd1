"""Seconds of processor time that each process of a run takes, while its engine works."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import Self

import psutil

_EVERY_S = 0.2
_LOOKED_FOR = 5  # times that; finding new processes costs more than asking known ones
_ENGINE, _CONTROLLER = "ray::EngineHost", "ray::MapWorker(FlatMap(Controller))"
_NAMES = (
    (_ENGINE, "engine's actor"),
    ("VLLM::", "vLLM's engine"),
    (_CONTROLLER, "controller"),
    ("ray::RunMonitor", "run monitor"),
    ("ray::Write", "Ray Data's tasks"),
    ("ray::IDLE", "Ray Data's tasks"),
)


class Processes:
    """Watches this process and all that it starts, for as long as the context lasts."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, dict[int, float]]] = []
        self._names = {os.getpid(): "driver"}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def while_working(self, seconds: float) -> dict[str, float]:
        """CPU seconds by process, in those `seconds` of a controller's life in which engines took
        the most. What is not named is Ray's; ``machine`` is all, processes of others included."""
        engines = self._named("engine's actor", "vLLM's engine")
        alive = [set(self._named("controller")) & used.keys() for _, used in self._seen]

        def taken(first: int) -> dict[int, float]:
            began_s, began = self._seen[first]
            ended: dict[int, float] = {}
            for at_s, used in self._seen[first:]:
                ended |= used  # a process that has ended keeps its last figure
                if at_s >= began_s + seconds:
                    break
            return {pid: cpu_s - began.get(pid, 0.0) for pid, cpu_s in ended.items()}

        spans = [taken(first) for first, controllers in enumerate(alive) if controllers]
        most = max(spans, key=lambda span: sum(span.get(pid, 0.0) for pid in engines))
        total: defaultdict[str, float] = defaultdict(float)
        for pid, cpu_s in most.items():
            total[self._names.get(pid, "Ray's own")] += cpu_s
        return {name: round(cpu_s, 2) for name, cpu_s in total.items()}

    def _named(self, *names: str) -> list[int]:
        return [pid for pid, name in self._names.items() if name in names]

    def _watch(self) -> None:
        own = psutil.Process()
        known, self._names[0] = [own], "machine"
        while not self._over.wait(_EVERY_S):
            if len(self._seen) % _LOOKED_FOR == 0:
                known = [own, *own.children(recursive=True)]
            used = {0: _machine()}
            for process in known:
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    times = process.cpu_times()
                    used[process.pid] = times.user + times.system
                    self._name(process)
            self._seen.append((time.monotonic(), used))

    def _name(self, process: psutil.Process) -> None:
        title = " ".join(process.cmdline()[:1])
        for start, name in _NAMES:
            if title.startswith(start):
                self._names[process.pid] = name


def _machine() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))
