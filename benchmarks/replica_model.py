"""A generator replica in simulated time: every sequence of its batch gets a token a step.

A step takes ``base_s + sequence_s * n`` with n sequences in the batch: weights are read once a
step, and each sequence adds its share of attention and of matrix work. Prefill, KV limits and
preemptions are not modelled.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.workload import Job


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a step."""

    base_s: float
    sequence_s: float

    def step_s(self, sequences: int) -> float:
        """One token for each of `sequences`."""
        return self.base_s + self.sequence_s * sequences


def makespan(work: Sequence[Job], slots: int, speed: Speed) -> float:
    """Seconds that one replica takes for `work`, the longest chains first.

    All sequences get tokens at the same pace, so one count of steps serves them all: a chain of L
    tokens, whose rounds follow each other in one place, that enters at step v leaves at step v + L.

    Args:
        work: the chains.
        slots: sequences at once.
        speed: of the replica.
    """
    waiting = sorted((job.total for job in work), reverse=True)
    ends, waiting = waiting[:slots], waiting[slots:]
    heapq.heapify(ends)
    step, seconds = 0, 0.0
    while ends:
        seconds += (ends[0] - step) * speed.step_s(len(ends))
        step = ends[0]
        if waiting:
            heapq.heapreplace(ends, step + waiting.pop(0))
        else:
            heapq.heappop(ends)
    return seconds
