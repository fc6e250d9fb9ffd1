"""Seconds of processor time that each process of a run takes, while its engine works."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Self

import psutil

_EVERY_S = 0.2
_LOOKED_FOR = 5  # times that; finding new processes costs more than asking known ones
_AT_WORK = 0.2
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
        """CPU seconds by process, of the last `seconds` in which an engine worked; what is not
        named is Ray's. ``machine`` is what all processes took, those of others included."""
        engines = [pid for pid, name in self._names.items() if name in (_NAMES[0][1], _NAMES[1][1])]

        def worked(place: int) -> bool:
            (began, before), (ended, after) = self._seen[place - 2], self._seen[place]
            used = sum(after.get(pid, 0.0) - before.get(pid, 0.0) for pid in engines)
            return used > _AT_WORK * (ended - began)

        last = max(place for place in range(2, len(self._seen)) if worked(place))
        ended, after = self._seen[last]
        before = next(cpu for at, cpu in self._seen if at >= ended - seconds)
        total: Counter[str] = Counter()
        for pid, used in after.items():
            total[self._names.get(pid, "Ray's own")] += used - before.get(pid, 0.0)
        return {name: round(used, 2) for name, used in total.most_common()}

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
