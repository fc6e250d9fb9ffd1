"""*AdmissionControl*: adapts the number of chains in flight to the statistics of engines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from actors.engines.engine_stats import EngineStats
from actors.engines.launch import Engines, slots_of
from actors.routing.calls import GENERATOR
from actors.routing.transport import EnginesAddress
from pipeline.config.runtime import RuntimeConfig
from pipeline.planning.admission import (
    Admission,
    AdmissionRule,
    EngineCounts,
    Pressure,
    opened,
    rule_of,
    worst,
)

logger = logging.getLogger(__name__)

Stats = dict[str, list[EngineStats]]

_LAST_LOOK_S = 1.0
_ASK_EVERY_S = 2.5


class StatsPoller:
    """Keeps the figures of engines; a replica that does not answer holds nobody up."""

    def __init__(self, engines: Engines, clock: Callable[[], float] = time.monotonic) -> None:
        self._engines, self._clock = engines, clock
        self._asking: Future[Stats] | None = None
        self._read_at: float | None = None
        self._thread = ThreadPoolExecutor(1, "engine-stats")
        self._lives: dict[tuple[str, str], EngineStats] = {}
        self.latest: Stats = {}
        """What answered last, by role."""
        self.answers = 0
        """How often `latest` was renewed."""

    def look(self) -> None:
        """Take the answer, if there is one, and ask again every few seconds; waits for nothing."""
        if self._asking is not None and self._asking.done():
            self._take(self._asking)
            self._asking = None
        now = self._clock()
        due = self._read_at is None or now - self._read_at >= _ASK_EVERY_S
        if self._asking is None and due:
            self._read_at = now
            self._asking = self._thread.submit(self._engines.stats)

    def last_look(self) -> None:
        """Ask once more, now that nothing is generated; a replica that hangs is not waited for."""
        for pending in (self._asking, self._thread.submit(self._engines.stats)):
            if pending is None:
                continue
            try:
                pending.exception(timeout=_LAST_LOOK_S)
            except FutureTimeoutError:
                return
            self._take(pending)

    def close(self) -> None:
        """Ask nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def preemptions(self) -> int:
        """Of all lives of all generators."""
        return sum(stats.preemptions for stats in self._lives.values())

    def _take(self, answer: Future[Stats]) -> None:
        error = answer.exception()
        if error is not None:
            logger.warning("engines did not say what they counted: %s", error)
            return
        self.latest = answer.result()
        self.answers += 1
        for stats in self.latest[GENERATOR]:
            self._lives[stats.replica, stats.life] = stats


class AdmissionControl:
    """Adapts the number of chains at work to what engines say; keeps it where it is fixed.

    Where engines say nothing it stays as well.

    Args:
        runtime: the attempt's configuration; `controllers.in_flight` fixes the number.
        max_tokens: most new tokens of a completion.
        address: of the engines, with the number to begin with.
        account: what the engines say.
        set_limit: takes the number of chains that may be at work now, whenever it changes.
        clock: seconds that do not go back.
    """

    def __init__(
        self,
        runtime: RuntimeConfig,
        max_tokens: int,
        address: EnginesAddress,
        account: StatsPoller,
        set_limit: Callable[[int], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime, self._max_tokens, self._most = runtime, max_tokens, address.most
        self._account, self._set_limit, self._clock = account, set_limit, clock
        cap = address.in_flight
        bounds = AdmissionRule(floor=cap, ceiling=cap)  # until the engines have said something
        self._state = opened(bounds, cap, clock())
        self._answers = account.answers
        self._learnt = (0, 0.0, 0.0)
        self._pressures: list[Pressure] = []
        self._last: list[Pressure] = []
        self._cuts = 0
        set_limit(self._state.limit)

    def step(self, totals: Mapping[str, Any]) -> None:
        """Look at what is new; to be called several times a second.

        Args:
            totals: of the run's watch.
        """
        if self._runtime.controllers.in_flight is not None:
            return
        if self._account.answers == self._answers or not self._account.latest.get(GENERATOR):
            return
        self._answers = self._account.answers
        before = self._state
        self._state = (
            self._learning(totals).under(self._rule()).looked(self._seen(totals), self._clock())
        )
        self._pressures.append(self._state.pressure)
        self._note(before)
        if self._state.limit != before.limit:
            self._set_limit(self._state.limit)

    def figures(self) -> dict[str, Any]:
        """What stands now, for the counters; ``pressure`` is the worst since the last call, or the
        last one that was seen."""
        state, pressures = self._state, self._pressures or self._last
        self._pressures, self._last = [], pressures[-1:]
        return {
            "cap": state.cap,
            "limit": state.limit,
            "floor": state.rule.floor,
            "ceiling": state.rule.ceiling,
            "pressure": worst(pressures).value if pressures else None,
            "cuts": self._cuts,
            "tokens_a_chain": state.tokens_a_chain,
        }

    def _rule(self) -> AdmissionRule:
        runtime = self._runtime
        slots = slots_of(self._account.latest[GENERATOR], self._max_tokens)
        return rule_of(runtime.controllers, slots=slots, most=self._most)

    def _learning(self, totals: Mapping[str, Any]) -> Admission:
        """The state, with the chains that ended since the last look."""
        now = (sum(totals["stops"].values()), totals["held_token_s"], totals["held_s"])
        if any(b < a for a, b in zip(self._learnt, now, strict=True)):
            self._learnt = (0, 0.0, 0.0)  # an endpoint that was started again counts anew
        chains, token_s, seconds = (b - a for a, b in zip(self._learnt, now, strict=True))
        self._learnt = now
        return self._state.ended(chains, token_s, seconds)

    def _seen(self, totals: Mapping[str, Any]) -> EngineCounts:
        others = dict(self._account.latest)
        generators = others.pop(GENERATOR)
        capacities = [replica.kv_capacity_tokens for replica in generators]
        return EngineCounts(
            capacity_tokens=sum(capacities) if all(capacities) else 0,
            preemptions=self._account.preemptions,
            waiting=sum(replica.waiting for replica in generators),
            unscored=sum(each.waiting for replicas in others.values() for each in replicas),
            in_flight=max(totals["in_flight"], totals["samples"]),
            held_back=totals["waiting"] + totals["samples_waiting"],
        )

    def _note(self, before: Admission) -> None:
        state = self._state
        lowered = state.limit < before.limit or state.cap < before.cap
        if state.frozen and not before.frozen and lowered:
            self._cuts += 1
            logger.info(
                "requests were preempted: at most %d chains at work instead of %d, and at most "
                "%d until that has drained",
                state.cap,
                before.cap,
                state.limit,
            )
        elif before.frozen and not state.frozen and state.limit > before.limit:
            logger.info("drained: up to %d chains at work again", state.cap)
