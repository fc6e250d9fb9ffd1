"""How long chains take on some replicas: each is sequential, and a fuller batch is slower.

Chains of the same length are a class. They are admitted longest first into as many places as there
are; all that work make a token a step, and a step takes as long as its batch makes it. What is left
out: prompts, rounds of unequal length, routing that is not even.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of one length."""

    count: float
    tokens: float
    """Of each, made one after the other."""


def makespan_s(
    chains: Iterable[Chains], *, replicas: int, places: int, step_s: Callable[[float], float]
) -> float:
    """Seconds until the last chain has ended.

    Args:
        chains: by class.
        replicas: that share them evenly.
        places: sequences that one replica works on at once, >= 1.
        step_s: seconds of a step of one replica by the sequences in its batch, never falling.
    """
    waiting = sorted((c for c in chains if c.count > 0 and c.tokens > 0), key=lambda c: -c.tokens)
    waiting.reverse()  # the longest is popped first
    working: list[tuple[float, float]] = []
    """(tokens made by a chain that always worked when these end, how many)."""
    busy = made = seconds = 0.0
    capacity = float(replicas * places)
    while waiting or working:
        while waiting and busy < capacity:
            longest = waiting.pop()
            begun = min(longest.count, capacity - busy)
            heapq.heappush(working, (made + longest.tokens, begun))
            busy += begun
            if longest.count > begun:
                waiting.append(Chains(longest.count - begun, longest.tokens))
        end, _ = working[0]
        seconds += (end - made) * step_s(max(busy / replicas, min(busy, 1.0)))
        made = end
        while working and working[0][0] <= made:
            busy -= heapq.heappop(working)[1]
        if not working:
            busy = 0.0
    return seconds
