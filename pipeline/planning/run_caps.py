"""Caps of a run: what it has spent, how controllers share the rest, and which chains go on.

Tokens are those of completions, of their lost tries, and of the judge. GPU hours and wall hours are
read off the counters of each attempt (``spent`` of a row of metrics). Pure: whoever calls has clock
and files. As a cap nears, the chains go on that need fewest tokens to their end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pipeline.config.runtime import LimitsConfig
from pipeline.records.trajectory import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent, each >= 0."""

    tokens: float = 0.0
    """Completion tokens."""
    gpu_s: float = 0.0
    """GPU seconds."""
    wall_s: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            tokens=self.tokens + other.tokens,
            gpu_s=self.gpu_s + other.gpu_s,
            wall_s=self.wall_s + other.wall_s,
        )

    def amounts(self, limits: LimitsConfig) -> dict[str, float]:
        """By the names of caps and in their units; only those that are capped."""
        named = {
            "completion_tokens": self.tokens,
            "gpu_hours": self.gpu_s / 3600,
            "wall_hours": self.wall_s / 3600,
            "usd": self.gpu_s / 3600 * (limits.price_gpu_hour or 0.0)
            + self.tokens / 1e6 * (limits.price_million_tokens or 0.0),
        }
        return {name: named[name] for name in limits.caps}


def reached(spent: Spent, limits: LimitsConfig) -> str | None:
    """The first cap that is reached, by name; None while there is room under all."""
    amounts = spent.amounts(limits)
    return next((name for name, cap in limits.caps.items() if amounts[name] >= cap), None)


def most_tokens(spent: Spent, limits: LimitsConfig) -> float:
    """Completion tokens that may come before a cap on tokens or their price is reached, >= 0; inf
    without one."""
    amounts, price = spent.amounts(limits), limits.price_million_tokens
    room = [math.inf]
    if limits.completion_tokens is not None:
        room.append(limits.completion_tokens - spent.tokens)
    if limits.usd is not None and price:
        room.append((limits.usd - amounts["usd"]) / price * 1e6)
    return max(0.0, min(room))


def tokens_left(spent: Spent, limits: LimitsConfig, *, tokens_per_s: float, gpus: float) -> float:
    """Completion tokens that are expected to come before any cap is reached, >= 0; inf without one,
    or where only time is capped and no speed is known.

    Args:
        spent: over all attempts.
        limits: the caps.
        tokens_per_s: speed of the run, >= 0; 0 where it is not known.
        gpus: that the run holds.
    """
    amounts, room = spent.amounts(limits), [most_tokens(spent, limits)]
    if tokens_per_s > 0:
        a_second = {
            "gpu_hours": gpus / 3600,
            "wall_hours": 1 / 3600,
            "usd": gpus / 3600 * (limits.price_gpu_hour or 0.0)
            + tokens_per_s / 1e6 * (limits.price_million_tokens or 0.0),
        }
        room += [
            (limits.caps[name] - amounts[name]) / rate * tokens_per_s
            for name, rate in a_second.items()
            if name in limits.caps and rate > 0
        ]
    return max(0.0, min(room))


def spent_in_time(metrics: Sequence[Row], gpus: Mapping[str, float]) -> Spent:
    """GPU seconds and wall seconds of the attempts that left counters; no tokens.

    Args:
        metrics: rows of all attempts, in their order.
        gpus: that one replica takes, by pool; for rows of versions that did not note what was
            spent, where the replicas of an attempt's last row count for all of it.
    """
    first: dict[int, Row] = {}
    last: dict[int, Row] = {}
    for row in metrics:
        first.setdefault(row["attempt"], row)
        last[row["attempt"]] = row
    found = Spent()
    for attempt, row in last.items():
        noted = row.get("spent")
        if noted is None:
            began = first[attempt]["time"] - first[attempt].get("phase_seconds", 0.0)
            wall_s = max(0.0, row["time"] - began)
            engines: Mapping[str, Sequence[Any]] = row.get("engines") or {}
            held = sum(len(replicas) * gpus.get(pool, 0.0) for pool, replicas in engines.items())
            noted = {"gpu_s": held * wall_s, "wall_s": wall_s}
        found += Spent(gpu_s=noted["gpu_s"], wall_s=noted["wall_s"])
    return found


class TokenLeases:
    """Divides what is left under a cap on tokens among controllers that know only what they spend.

    Each controller holds a lease on a number of tokens, counted from its start, and starts a
    completion only while it has spent less. Leases that are not spent never add up to more than
    what is left, so the cap is exceeded by no more than what each controller had in flight when it
    had spent its own. A controller gives back what it does not need when it renews.

    Args:
        controllers: how many there are at a time, >= 1.
        cap: tokens of all controllers together; inf is no cap. It may be moved.
    """

    def __init__(self, controllers: int = 1, cap: float = math.inf) -> None:
        self.controllers, self.cap = controllers, cap
        self._spent: dict[str, float] = {}
        self._held: dict[str, float] = {}

    @property
    def spent(self) -> float:
        """Tokens that all controllers have spent, as far as they said."""
        return sum(self._spent.values())

    @property
    def left(self) -> float:
        """What is left under the cap, >= 0."""
        return max(0.0, self.cap - self.spent)

    def renew(self, controller: str, spent: float, held: float, *, wanting: bool) -> float:
        """The tokens that a controller may have spent before it must start no completion.

        Args:
            controller: its name.
            spent: tokens that it has spent.
            held: its lease as it knows it, after it has given back what it does not need.
            wanting: whether it has completions to begin, or chains that may want some.
        """
        if math.isinf(self.cap):
            return math.inf
        self._spent[controller], self._held[controller] = spent, max(held, spent)
        if wanting:
            free = self.cap - sum(self._held.values())
            share = spent + self.left / self.controllers
            self._held[controller] += max(0.0, min(share - self._held[controller], free))
        return self._held[controller]

    def end(self, controller: str, spent: float) -> None:
        """End the lease of a controller that is gone; `spent` is all that counts of it."""
        self._spent[controller] = self._held[controller] = spent


def select_under_budget(chains: Mapping[str, float], left: float) -> frozenset[str]:
    """Select the chains that may ask for their next completion, by name; one at least.

    Those that need fewest tokens to their end come first, equal ones as they stand, so that as many
    as possible end.

    Args:
        chains: completion tokens that each chain at work still needs, > 0.
        left: completion tokens that may still be spent, >= 0.
    """
    order = sorted(chains, key=chains.__getitem__)
    needed = accumulate(chains[name] for name in order)
    taken = [name for name, tokens in zip(order, needed, strict=True) if tokens <= left]
    return frozenset(taken or order[:1])


def tails(work: Sequence[Row]) -> list[float]:
    """Completions expected of the chains of a phase that have not begun: of all, of all but the
    first, ..., 0.

    Args:
        work: its rows, in the order in which they begin.
    """
    backwards = accumulate(
        (float(row["expected_completions"]) for row in reversed(work)), initial=0.0
    )
    return list(backwards)[::-1]


def amount(name: str, value: float | None) -> str:
    """What was spent of a cap, or the cap itself, in words; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if name == "completion_tokens" else f"{value:,.4g}"


def standing(limits: Mapping[str, Mapping[str, float | None]]) -> str:
    """Spent, expected and cap of each cap, in words.

    Args:
        limits: as a row of metrics tells them, by name.
    """
    return "; ".join(
        f"{name} {amount(name, of['spent'])} spent, about {amount(name, of['expected'])} expected, "
        f"cap {amount(name, of['cap'])}"
        for name, of in limits.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """The cap of ``runtime.limits`` that ended a run, and what had been spent of it."""

    name: str
    spent: float
    cap: float

    @property
    def words(self) -> str:
        """Both in numbers."""
        return f"{self.name} {amount(self.name, self.spent)} of {amount(self.name, self.cap)} spent"
