"""*EngineStats*, *Meter*: statistics of one engine, for admission, metrics and the report."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """One replica at one moment; totals are since its process started."""

    replica: str
    kind: str
    """The role of its model."""
    max_num_seqs: int
    kv_capacity_tokens: int
    """Tokens that the KV cache holds; 0 where unknown."""
    running: int
    """Sequences in the engine's batch."""
    waiting: int
    """Sequences that wait for a place in it."""
    kv_usage: float
    """Share of the KV cache in use, in [0, 1]."""
    preemptions: int
    requests: int
    """Requests taken, of which `aborted` were cut (deadline or cancellation)."""
    aborted: int
    prompt_tokens: int
    completion_tokens: int
    """All that were made, those of aborted requests included."""
    aborted_tokens: int
    """Those of aborted requests."""
    up_s: float
    """Since the engine was ready."""
    busy_s: float
    """Of `up_s`, with at least one request in the replica."""
    slot_s: float
    """Integral of running / max_num_seqs over time: the share of slots used, times seconds. That of
    a vLLM verifier is `busy_s`: it reads a whole prompt in one step."""
    life: str = ""
    """Which process of the replica counted this: another one after each restart."""
    span_s: float = 0.0
    """From the first request taken to the last one ended, pauses between them included."""
    steps: int = 0
    """Of the engine: each adds a token to every sequence in the batch, or reads prompts."""


_COUNTED = (
    *("max_num_seqs", "running", "waiting", "kv_usage", "preemptions", "requests", "aborted"),
    *("prompt_tokens", "completion_tokens", "aborted_tokens", "steps"),
)
"""Fields of `EngineStats` that a `Meter` holds by the same names."""


class Meter:
    """Counters of one engine. `batch` and `count` may be called from any thread, the rest is of its
    event loop."""

    def __init__(self, max_num_seqs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_num_seqs = max_num_seqs
        self.requests = self.aborted = 0
        self.prompt_tokens = self.completion_tokens = self.aborted_tokens = 0
        self.preemptions = self.steps = 0
        self.running = self.waiting = self.in_flight = 0
        self.kv_usage = 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._life = uuid.uuid4().hex[:8]
        self._started = self._at = self.last_progress = clock()
        self._busy_s = self._slot_s = 0.0
        self._first: float | None = None
        self._last = self._started

    def ready(self) -> None:
        """Begin to count time and steps: the engine can serve from now on."""
        with self._lock:
            self.steps = self.running = self.waiting = 0
            self._busy_s = self._slot_s = 0.0
            self._first = None
            self._started = self._at = self.last_progress = self._clock()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request for as long as it is in the replica."""
        with self._lock:
            self._advance()
            if not self.in_flight:
                self.last_progress = self._at  # an idle engine has not been slow
            if self._first is None:
                self._first = self._at
            self.in_flight += 1
            self.requests += 1
        try:
            yield
        finally:
            with self._lock:
                self._advance()
                self._last = self._at
                self.in_flight -= 1
                # an engine that has nothing left to do makes no step that would say so
                self.running = min(self.running, self.in_flight)
                if not self.in_flight:
                    self.waiting = 0

    def batch(self, running: int, waiting: int, kv_usage: float) -> None:
        """Note how full the engine is after a step."""
        with self._lock:
            self._advance()
            self.last_progress = self._at
            self.steps += 1
            self.running, self.waiting, self.kv_usage = running, waiting, kv_usage

    def count(self, **more: int) -> None:
        """Add to counters, by name."""
        with self._lock:
            for name, number in more.items():
                setattr(self, name, getattr(self, name) + number)

    def stalled_s(self) -> float:
        """Seconds without a step while there was work; 0 for an idle engine."""
        return self._clock() - self.last_progress if self.in_flight else 0.0

    def stats(self, replica: str, kind: str, kv_capacity_tokens: int) -> EngineStats:
        """What stands at this moment."""
        with self._lock:
            self._advance()
        return EngineStats(
            replica=replica,
            kind=kind,
            kv_capacity_tokens=kv_capacity_tokens,
            **{name: getattr(self, name) for name in _COUNTED},
            up_s=self._at - self._started,
            busy_s=self._busy_s,
            slot_s=self._slot_s,
            life=self._life,
            span_s=0.0 if self._first is None else self._last - self._first,
        )

    def _advance(self) -> None:
        now = self._clock()
        elapsed = now - self._at
        if self.in_flight:
            self._busy_s += elapsed
        self._slot_s += elapsed * self.running / self.max_num_seqs
        self._at = now
