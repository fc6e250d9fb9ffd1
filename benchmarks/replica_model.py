"""A generator replica in simulated time: every sequence of its batch gets a token a step.

A step takes ``base_s + sequence_s * n`` with n sequences in the batch: weights are read once a
step, and each sequence adds its share of attention and of matrix work. Prefill, KV limits and
preemptions are not modelled.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from benchmarks.workload import Job, jobs

WEIGHT_BYTES = 15.2e9
"""Of a 7B model in bfloat16."""
BANDWIDTH = 0.6 * 3.35e12
"""What decoding reaches of an H100's memory bandwidth, in bytes/s; an assumption."""

MEASURED_S = 26.1
"""One H100 with vLLM 0.26, bare AsyncLLM: 7B shape, 256 slots, `CALIBRATION`, longest first."""
CALIBRATION = {"count": 1_000, "mean_tokens": 160, "most_tokens": 400}
SLOTS = 256


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a step."""

    base_s: float
    sequence_s: float

    def step_s(self, sequences: int) -> float:
        """One token for each of `sequences`."""
        return self.base_s + self.sequence_s * sequences

    def tokens_per_s(self, sequences: int) -> float:
        """Of a replica whose batch holds `sequences`."""
        return sequences / self.step_s(sequences)


@dataclass(slots=True)
class Replica:
    """Sequences in a batch, and those that wait for a place in it, the most urgent first.

    All sequences get tokens at the same pace, so one count of steps serves them all: a request of
    L tokens that enters at step v leaves at step v + L.
    """

    speed: Speed
    slots: int
    step: float = 0.0
    at_s: float = 0.0
    slot_s: float = 0.0
    """Integral of the share of slots in use."""
    due: float = float("inf")
    """When the owner's next look at this replica is scheduled; the owner's to keep."""
    _batch: list[tuple[float, int, int]] = field(default_factory=list)
    _queue: list[tuple[float, int, int, int]] = field(default_factory=list)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def enter(self, now_s: float, name: int, tokens: int, priority: float = 0.0) -> None:
        """Take a request."""
        self._advance(now_s)
        number = next(self._count)
        if len(self._batch) < self.slots:
            heapq.heappush(self._batch, (self.step + tokens, number, name))
        else:
            heapq.heappush(self._queue, (priority, number, name, tokens))

    def next_s(self) -> float:
        """When the next sequence leaves, if nothing enters before; inf when empty."""
        if not self._batch:
            return float("inf")
        left = self._batch[0][0] - self.step
        return self.at_s + max(0.0, left) * self.speed.step_s(len(self._batch))

    def leave(self, now_s: float) -> list[int]:
        """Names of the requests that are done at `now_s`; those that waited take their places."""
        self._advance(now_s)
        done = []
        while self._batch and self._batch[0][0] <= self.step + 1e-6:
            done.append(heapq.heappop(self._batch)[2])
            if self._queue:
                _, number, name, tokens = heapq.heappop(self._queue)
                heapq.heappush(self._batch, (self.step + tokens, number, name))
        return done

    def _advance(self, now_s: float) -> None:
        running = len(self._batch)
        if running:
            elapsed = now_s - self.at_s
            self.step += elapsed / self.speed.step_s(running)
            self.slot_s += elapsed * running / self.slots
        self.at_s = now_s


def makespan(work: Sequence[Job], loop: str, slots: int, speed: Speed) -> float:
    """Seconds that one replica takes for `work`, driven as in `benchmarks.bare_loops`.

    Args:
        work: the chains, in arrival order.
        loop: ``raw`` (longest first), ``raw_arrival``, ``barrier``, ``arrival`` or
            ``longest_first``.
        slots: sequences at once.
        speed: of the replica.
    """
    longest = loop in ("raw", "longest_first")
    chains = sorted(work, key=lambda job: -job.total) if longest else list(work)
    replica = Replica(speed, slots)
    now = 0.0
    if loop in ("raw", "raw_arrival"):
        return _drain(replica, [job.tokens for job in chains for _ in range(job.rounds)], now)
    if loop == "barrier":
        for number in range(max(job.rounds for job in chains)):
            now = _drain(replica, [job.tokens for job in chains if number < job.rounds], now)
        return now
    drawn = [0] * len(chains)
    waiting = iter(range(len(chains)))
    for name in itertools.islice(waiting, slots):
        replica.enter(now, name, chains[name].tokens)
    while (now := replica.next_s()) < float("inf"):
        for name in replica.leave(now):
            drawn[name] += 1
            following = name if drawn[name] < chains[name].rounds else next(waiting, None)
            if following is not None:
                replica.enter(now, following, chains[following].tokens)
    return replica.at_s


def _drain(replica: Replica, tokens: Sequence[int], now: float) -> float:
    for name, count in enumerate(tokens):
        replica.enter(now, name, count)
    while (soon := replica.next_s()) < float("inf"):
        replica.leave(soon)
    return replica.at_s


@cache
def calibrated(measured_s: float = MEASURED_S, base_s: float = WEIGHT_BYTES / BANDWIDTH) -> Speed:
    """The speed with which the calibration's chains take as long as they did.

    One figure decides one number: `sequence_s`. `base_s` is the time to read the weights.

    Raises:
        ValueError: where the chains take longer than that even with `base_s` alone.
    """
    work = jobs(**CALIBRATION)
    speed = Speed(base_s, 0.0)
    if makespan(work, "longest_first", SLOTS, speed) > measured_s:
        raise ValueError(f"base_s must allow {measured_s:g} s, got {base_s:g}")
    return _bisected(
        lambda each: makespan(work, "longest_first", SLOTS, replace(speed, sequence_s=each)),
        measured_s,
        speed,
    )


def _bisected(seconds: Callable[[float], float], wanted: float, speed: Speed) -> Speed:
    low, high = 0.0, 1e-3
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) < wanted else (low, middle)
    return replace(speed, sequence_s=(low + high) / 2)
