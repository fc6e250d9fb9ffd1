"""*Spending*, *AbortPolicy*: count what a run has spent, and decide when it must end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from actors.cluster.background import with_retries
from actors.driver.admission_control import Stats
from pipeline.config.runtime import RuntimeConfig
from pipeline.core.errors import MarkovScaleError
from pipeline.planning.run_caps import Capped, Spent, reached, spent_in_time
from pipeline.records.journal import CAPPED, journaled_tokens
from pipeline.records.run_dir import RunDir


class RunCappedError(MarkovScaleError, RuntimeError):
    """A cap of ``runtime.limits`` was reached before every chain had ended."""

    status, ending = 3, "capped"

    def __init__(self, name: str, spent: float, cap: float, address: str) -> None:
        self.cap = Capped(name=name, spent=spent, cap=cap)
        super().__init__(
            f"{self.cap.words}; go on with --resume {address} --set runtime.limits.{name}=MORE"
        )


class Spending:
    """The account of a run, for one attempt; opened before the engines start.

    Args:
        run: its directory.
        runtime: configuration of the attempt.
        roles: of the models that have pools.
        clock: seconds that do not go back.
    """

    def __init__(
        self,
        run: RunDir,
        runtime: RuntimeConfig,
        roles: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._clock = runtime.limits, clock
        self._address = run.address
        self._pools = {role: pool for role, pool in runtime.pools.items() if role in roles}
        self._replicas = {role: pool.replicas for role, pool in self._pools.items()}
        self._before = Spent()
        if self._limits.caps:
            gpus = {role: pool.gpus for role, pool in self._pools.items()}
            time_spent = spent_in_time(with_retries(run.metrics, "read the counters"), gpus)
            journaled = with_retries(lambda: journaled_tokens(run.journal), "read the journal")
            self._before = time_spent + Spent(tokens=journaled)
        self._began = self._looked = clock()
        self._tokens = self._gpu_s = 0.0
        self._engines_up = False

    def look(self, totals: Mapping[str, Any], engines: Stats) -> None:
        """Take what controllers and engines say now.

        Args:
            totals: of the run's monitor.
            engines: what answered last, by role.
        """
        self._count_time()
        for role, pool in self._pools.items():
            if pool.max_replicas is not None and engines.get(role):
                self._replicas[role] = len(engines[role])
        self._tokens = sum(totals[kind] for kind in CAPPED)

    def engines_start(self) -> None:
        """From now on their GPUs are the run's."""
        self._count_time()
        self._engines_up = True

    @property
    def whole(self) -> Spent:
        """Over all attempts."""
        return self._before + self._own()

    def reason(self) -> RunCappedError | None:
        """Why the run must end now; None while there is room under every cap."""
        name = reached(self.whole, self._limits)
        if name is None:
            return None
        spent = self.whole.amounts(self._limits)[name]
        return RunCappedError(name, spent, self._limits.caps[name], self._address)

    def figures(self) -> dict[str, Any]:
        """For the counters: ``spent``, seconds of this attempt; and where the run has caps
        ``limits``: spent and cap, by name."""
        self._count_time()
        own = self._own()
        found: dict[str, Any] = {"spent": {"gpu_s": own.gpu_s, "wall_s": own.wall_s}}
        if caps := self._limits.caps:
            spent = self.whole.amounts(self._limits)
            found["limits"] = {n: {"spent": spent[n], "cap": cap} for n, cap in caps.items()}
        return found

    @property
    def _gpus(self) -> float:
        return sum(self._replicas[role] * pool.gpus for role, pool in self._pools.items())

    def _own(self) -> Spent:
        return Spent(tokens=self._tokens, gpu_s=self._gpu_s, wall_s=self._looked - self._began)

    def _count_time(self) -> None:
        now = self._clock()
        passed_s, self._looked = now - self._looked, now
        if self._engines_up:
            self._gpu_s += passed_s * self._gpus


class RunFailedError(MarkovScaleError, RuntimeError):
    """The run was ended because going on would only cost."""


_MOST_FAILED = 0.5
"""Share of the finished questions that may fail, once `_LEAST_FINISHED` have finished."""
_LEAST_FINISHED = 20


class AbortPolicy:
    """Judges a run by the totals of its run monitor.

    Args:
        runtime: its limits.
        address: of the run directory, for the message.
    """

    def __init__(self, runtime: RuntimeConfig, address: str) -> None:
        self._runtime = runtime
        self._resume = f"resume with --resume {address}"

    def reason(self, totals: dict[str, Any], seconds: float) -> RunFailedError | None:
        """Why the run must end now: its journal cannot be written, nothing moves, or all fails.

        Args:
            totals: of the run's monitor.
            seconds: since the phase began; before that engines loaded, or the driver counted.
        """
        if totals["fatal"] is not None:
            return RunFailedError(f"{totals['fatal']}; {self._resume}")
        idle_s = min(totals["idle_s"], seconds)
        if idle_s > self._runtime.no_progress_timeout_s:
            return RunFailedError(
                f"a round must end every {self._runtime.no_progress_timeout_s:g} s, none did for "
                f"{idle_s:.0f} s; {self._resume}"
            )
        return self.failures(totals, least=_LEAST_FINISHED)

    def failures(self, totals: dict[str, Any], *, least: int) -> RunFailedError | None:
        """Why the run must end, where too many of at least `least` finished questions failed."""
        finished, failed = sum(totals["stops"].values()), totals["stops"].get("failed", 0)
        if finished < least or failed <= _MOST_FAILED * finished:
            return None
        return RunFailedError(
            f"failed questions must be at most {_MOST_FAILED:.0%} of those finished, got {failed} "
            f"of {finished}, the last with: {totals['last_error']}; once that is fixed, "
            f"{self._resume} --retry-failed"
        )
