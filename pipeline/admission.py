"""How many chains to have at work, adapted to what the engines say of themselves.

The most that the KV cache carries is kappa C / G: its tokens over the tokens that a chain holds in
it, times a factor that is found by trying. Three states, looked at every few seconds:

- HARD: a request was preempted, so work is being done twice. The cap falls to three quarters of
  what is at work, and nobody is admitted until no more than that is left and nothing waits.
- SOFT: requests wait in the engines. The cap stays.
- CLEAR: nothing waits. Where the cap is what holds chains back, kappa grows by 2 %.

Admission is refilled in bursts of a tenth of the cap. The cap is never below `floor`, which is to
be what keeps the engines' batches full, and never above `ceiling`. This is the controller of
prime-rl's orchestrator in the form of a pure function; it has no clock but the one it is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

_CUT = 0.75
_GROWTH = 1.02
_BURST = 0.1
_FORGET = 0.98  # weight of older chains, each time one ends
_KAPPA = (0.05, 20.0)  # beyond these the tokens of a chain are wrong, not the factor


class Pressure(StrEnum):
    """What the engines say."""

    CLEAR = "clear"
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """What does not change while a run is on."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What engines and controllers say at one moment."""

    capacity_tokens: int
    """Of the KV caches of all generators; 0 where unknown."""
    preemptions: int
    """Of all generators since they started."""
    waiting: int
    """Requests that wait in the engines."""
    in_flight: int
    """Chains at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The state of the rule. `opened` makes the first one, `looked` and `ended` the next."""

    rule: AdmissionRule
    cap: int
    """Chains that may be at work."""
    kappa: float = 1.0
    frozen: bool = False
    """Whether nobody is admitted until the overload has drained."""
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

    def room(self, in_flight: int) -> int:
        """How many chains may be admitted now, >= 0."""
        if self.frozen:
            return 0
        return max(0, min(self.cap - in_flight, math.ceil(_BURST * self.cap)))

    def ended(self, tokens: int, seconds: float) -> Admission:
        """Learn from a chain that ended.

        Args:
            tokens: of its last prompt and completion together, >= 0.
            seconds: that it was at work, >= 0.
        """
        if tokens < 0 or not seconds >= 0:
            raise ValueError(f"tokens and seconds must be >= 0, got {tokens!r} and {seconds!r}")
        return replace(
            self,
            held_token_s=_FORGET * self.held_token_s + tokens * seconds,
            held_s=_FORGET * self.held_s + seconds,
        )

    def looked(self, seen: Seen, now_s: float) -> Admission:
        """Go on with what is seen at `now_s`, in seconds of any clock that does not go back.

        Within `window_s` of the last look nothing changes but that a preemption is answered at
        once, and that a frozen admission opens as soon as it may.

        Raises:
            ValueError: if the clock went back.
        """
        if now_s < self.at_s:
            raise ValueError(f"now_s must be >= {self.at_s!r}, got {now_s!r}")
        preempted = seen.preemptions > self.preemptions
        state = replace(
            self,
            preemptions=seen.preemptions,  # fewer than before: an engine was replaced
            pressure=_pressure(preempted, seen.waiting),
        )
        if preempted and not self.frozen:
            return state._cut(seen, now_s)
        if state.frozen:
            drained = seen.in_flight <= state.cap and not seen.waiting and not preempted
            return replace(state, frozen=not drained, at_s=now_s if drained else state.at_s)
        if now_s - state.at_s < state.rule.window_s:
            return state
        return state._grown(seen, now_s)

    def _cut(self, seen: Seen, now_s: float) -> Admission:
        cap = self._clamped(_CUT * seen.in_flight)
        each, kappa = self.tokens_a_chain, self.kappa
        if each and seen.capacity_tokens:  # so that growth goes on from here
            kappa = _between(cap * each / seen.capacity_tokens, *_KAPPA)
        return replace(self, cap=cap, kappa=kappa, frozen=True, at_s=now_s)

    def _grown(self, seen: Seen, now_s: float) -> Admission:
        kappa = self.kappa
        if self.pressure is Pressure.SOFT:
            return replace(self, at_s=now_s)
        if seen.in_flight >= self.cap:
            kappa = _between(kappa * _GROWTH, *_KAPPA)
        each = self.tokens_a_chain
        if not each or not seen.capacity_tokens:  # nothing to reckon with yet: try
            wanted = self.cap * kappa / self.kappa
            cap = self._clamped(math.ceil(wanted))
        else:
            cap = self._clamped(kappa * seen.capacity_tokens / each)
        return replace(self, cap=cap, kappa=kappa, at_s=now_s)

    def _clamped(self, cap: float) -> int:
        return max(self.rule.floor, min(self.rule.ceiling, math.floor(cap)))


def opened(rule: AdmissionRule, cap: int, now_s: float) -> Admission:
    """The state to begin with.

    Args:
        rule: the bounds.
        cap: chains to begin with, brought into them.
        now_s: as in `Admission.looked`.
    """
    return Admission(rule=rule, cap=max(rule.floor, min(rule.ceiling, cap)), at_s=now_s)


def shares(cap: int, controllers: int) -> tuple[int, ...]:
    """The cap divided among controllers as evenly as whole chains go; each has one at least."""
    if controllers < 1:
        raise ValueError(f"controllers must be >= 1, got {controllers}")
    each, over = divmod(cap, controllers)
    return tuple(max(1, each + (number < over)) for number in range(controllers))


def _pressure(preempted: bool, waiting: int) -> Pressure:
    if preempted:
        return Pressure.HARD
    return Pressure.SOFT if waiting else Pressure.CLEAR


def _between(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
