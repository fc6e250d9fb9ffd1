"""Admission: how many chains to keep in flight, adapted to queue, KV cache and preemptions.

More chains than the engines' batches hold keep those full while others are scored or between two
rounds; too many thrash the KV cache. Three states, looked at every few seconds:

- HARD: a request was preempted, so work is being done twice. The cap falls to three quarters of
  what is at work, and nobody is admitted above the floor until no more than that is left and no
  queue is. Then it is refilled in bursts of a tenth.
- SOFT: requests queue in an engine, so more chains would only wait as well. The cap stays.
- CLEAR: neither. Where the cap is what holds chains back, it grows: by 2 %, or by up to a tenth
  where the KV cache has room for more. It is taken to carry kappa C / G chains: its tokens over
  those that a chain holds in it, times a factor that is found by trying.

A request or two wait at any moment in a large pool: only more than a fiftieth of the chains at work
are a queue. The cap is never below `floor`, which keeps the batches full whatever happens, and
never above `ceiling`. This is the controller of prime-rl's orchestrator in the form of a pure
function, but that a cap comes down for preemptions alone: tokens a chain are an estimate, a
preemption is not. It has no clock but the one it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pipeline.config.runtime import ControllerConfig
from pipeline.core.protocol import Completion, Observation

_CUT = 0.75
_GROWTH = 1.02
_BURST = 0.1
_QUEUE = 0.02
_FORGET = 0.98  # weight of older chains, each time one ends
_KAPPA = (0.05, 20.0)  # beyond these the tokens of a chain are wrong, not the factor


class Pressure(StrEnum):
    """What the engines say; the later, the more."""

    CLEAR = "clear"
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """What does not follow from what is seen."""

    floor: int
    """Chains that keep the engines' batches full; the cap is never lower."""
    ceiling: int
    """Chains that the controllers can carry; the cap is never higher."""
    window_s: float = 5.0
    """Time between two changes of the cap."""

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.ceiling:
            raise ValueError(
                f"floor must be in [1, ceiling], got {self.floor} and ceiling {self.ceiling}"
            )
        if not self.window_s > 0:
            raise ValueError(f"window_s must be > 0, got {self.window_s!r}")

    def within(self, cap: float) -> int:
        """A cap, brought into the bounds."""
        return max(self.floor, min(self.ceiling, math.floor(cap)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCounts:
    """What engines and controllers say at one moment."""

    capacity_tokens: int
    """Of the KV caches of all generators; 0 where unknown."""
    preemptions: int
    """Of all generators since they started."""
    waiting: int
    """Requests that wait in the generators."""
    unscored: int = 0
    """Requests that wait in the verifiers."""
    in_flight: int
    """Chains at work, or requests of those that ask for several at once, whichever are more."""
    held_back: int
    """Chains and such requests that controllers have and do not admit."""

    def queued(self, requests: int) -> bool:
        """Whether so many requests that wait are a queue."""
        return requests > _QUEUE * self.in_flight


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The state of the rule. `opened` makes the first one; the methods make the next."""

    rule: AdmissionRule
    cap: int
    """Chains that may be at work."""
    limit: int
    """Chains that may be at work now: less than `cap` while an overload drains, and after it."""
    kappa: float = 1.0
    frozen: bool = False
    """Whether an overload is draining."""
    pressure: Pressure = Pressure.CLEAR
    preemptions: int = 0
    """That have been answered."""
    at_s: float
    """When the cap was last looked at."""
    held_token_s: float = 0.0
    """Decaying sum of tokens times seconds over chains that ended."""
    held_s: float = 0.0
    """Decaying sum of their seconds."""

    @property
    def tokens_a_chain(self) -> float | None:
        """What a chain holds in the KV cache, long ones counting more; None before one ended."""
        return self.held_token_s / self.held_s if self.held_s else None

    def under(self, rule: AdmissionRule) -> Admission:
        """Go on within other bounds: replicas came or went."""
        cap = rule.within(self.cap)
        return replace(self, rule=rule, cap=cap, limit=max(rule.floor, min(cap, self.limit)))

    def ended(self, chains: int, held_token_s: float, held_s: float) -> Admission:
        """Learn from chains that ended.

        Args:
            chains: how many, >= 0.
            held_token_s: sum over them of the tokens that each held (`held_tokens`) times the
                seconds that it was at work, >= 0.
            held_s: sum of those seconds, >= 0.
        """
        if chains < 0 or not (held_token_s >= 0 and held_s >= 0):
            raise ValueError(
                f"chains, held_token_s and held_s must be >= 0, got {chains!r}, "
                f"{held_token_s!r} and {held_s!r}"
            )
        weight = _FORGET**chains
        return replace(
            self,
            held_token_s=weight * self.held_token_s + held_token_s,
            held_s=weight * self.held_s + held_s,
        )

    def looked(self, seen: EngineCounts, now_s: float) -> Admission:
        """Go on with what is seen at `now_s`, in seconds of any clock that does not go back.

        Within `window_s` of the last look the cap changes for a preemption only.

        Raises:
            ValueError: if the clock went back.
        """
        if now_s < self.at_s:
            raise ValueError(f"now_s must be >= {self.at_s!r}, got {now_s!r}")
        preempted = seen.preemptions > self.preemptions
        state = replace(self, preemptions=seen.preemptions, pressure=_pressure(preempted, seen))
        if preempted and not self.frozen:
            return state._cut(seen, now_s)
        if state.frozen:
            if preempted or seen.queued(seen.waiting) or seen.in_flight > state.cap:
                return state
            state = replace(state, frozen=False, at_s=now_s)
        elif now_s - state.at_s >= state.rule.window_s:
            state = state._grown(seen, now_s)
        return state._refilled(seen.in_flight)

    def _cut(self, seen: EngineCounts, now_s: float) -> Admission:
        cap = min(self.cap, self.rule.within(_CUT * seen.in_flight))
        carried, kappa = self._carried(seen), self.kappa
        if carried:  # so that growth goes on from here
            kappa = _between(cap / carried, *_KAPPA)
        limit = self.rule.floor
        return replace(self, cap=cap, limit=limit, kappa=kappa, frozen=True, at_s=now_s)

    def _grown(self, seen: EngineCounts, now_s: float) -> Admission:
        if self.pressure is not Pressure.CLEAR or not seen.held_back or self.limit < self.cap:
            return replace(self, at_s=now_s)
        kappa = _between(self.kappa * _GROWTH, *_KAPPA)
        carried = self._carried(seen)
        wanted = math.ceil(self.cap * _GROWTH)
        if carried:
            wanted = max(wanted, min(math.floor(kappa * carried), self.cap + self._burst))
        return replace(self, cap=self.rule.within(wanted), kappa=kappa, at_s=now_s)

    def _refilled(self, in_flight: int) -> Admission:
        return replace(self, limit=min(self.cap, max(self.limit, in_flight + self._burst)))

    @property
    def _burst(self) -> int:
        return math.ceil(_BURST * self.cap)

    def _carried(self, seen: EngineCounts) -> float | None:
        """C / G: chains whose tokens the KV caches hold; None where that cannot be reckoned."""
        each = self.tokens_a_chain
        return seen.capacity_tokens / each if each and seen.capacity_tokens else None


def opened(rule: AdmissionRule, cap: int, now_s: float) -> Admission:
    """The state to begin with.

    Args:
        rule: the bounds.
        cap: chains to begin with, brought into them.
        now_s: as in `Admission.looked`.
    """
    cap = rule.within(cap)
    return Admission(rule=rule, cap=cap, limit=cap, at_s=now_s)


def held_tokens(observations: Sequence[Observation]) -> int:
    """Tokens that a chain holds in the KV cache at the end of one action.

    Those of a prompt, which its samples share, and of all completions.
    """
    prompts = (seen.prompt_tokens for seen in observations if isinstance(seen, Completion))
    return max(prompts, default=0) + sum(seen.completion_tokens or 0 for seen in observations)


def worst(pressures: Iterable[Pressure]) -> Pressure:
    """The highest of some pressures; CLEAR of none."""
    order = list(Pressure)
    return max(pressures, key=order.index, default=Pressure.CLEAR)


def _pressure(preempted: bool, seen: EngineCounts) -> Pressure:
    if preempted:
        return Pressure.HARD
    queue = seen.queued(seen.waiting) or seen.queued(seen.unscored)
    return Pressure.SOFT if queue else Pressure.CLEAR


def _between(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


MARGIN = 1.5
"""A chain is in the verifier, or between rounds, for part of its time."""


def usual(slots: int) -> int:
    """Chains that keep a generator pool full without swamping it: what a run begins with.

    Args:
        slots: sequences that all of its replicas work on at once
            (`pipeline.planning.sizing.slots`). With `max_num_seqs` of all in their place it is what
            controllers are sized for: how long completions really are is not known before, and
            where they are short the cap grows beyond what their limit would allow for.
    """
    return math.ceil(MARGIN * slots)


def rule_of(controllers: ControllerConfig, *, slots: int, most: int) -> AdmissionRule:
    """The bounds for the replicas that there are; the floor keeps their batches full.

    Args:
        controllers: of what holds the chains.
        slots: as in `usual`, of the replicas that there are.
        most: chains that the controllers are sized for.
    """
    floor = max(1, slots)
    return AdmissionRule(floor=floor, ceiling=max(floor, controllers.holds(most)))


def shares(cap: int, controllers: int) -> tuple[int, ...]:
    """The cap divided among controllers as evenly as whole chains go; each has one at least."""
    if controllers < 1:
        raise ValueError(f"controllers must be >= 1, got {controllers}")
    each, over = divmod(cap, controllers)
    return tuple(max(1, each + (number < over)) for number in range(controllers))
