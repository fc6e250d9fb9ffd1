"""One attempt of a run on a cluster: engines up, phases through, engines down, whatever happens."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import ray

from actors.flow import PhaseFlow
from actors.hosts import start_engines
from actors.watch import NAMESPACE, Watch, watch_name
from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.errors import MarkovScaleError
from pipeline.journal import read_journal
from pipeline.phases import phases_of
from pipeline.plan import (
    PREPARED,
    folded_statistics,
    phase_count,
    phase_work,
    prepared_statistics,
)
from pipeline.protocol import Statistics
from pipeline.recorded import write_recorded
from pipeline.run_dir import RunDir, rows_of
from pipeline.trajectory import Row

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_METRICS_EVERY_S = 10.0
_DRAIN_S = 120.0


class RunFailedError(MarkovScaleError, RuntimeError):
    """The run was ended because going on would only cost."""


class RunInterruptedError(MarkovScaleError, RuntimeError):
    """The run was asked to stop; everything durable is kept and it can be resumed."""


Progress = Callable[[dict[str, Any]], None]


class Attempt:
    """Runs what is left of a run.

    Args:
        run: its directory, with questions.parquet written.
        config: configuration of this attempt.
        number: of the attempt.
        progress: told the totals every ten seconds.
    """

    def __init__(
        self, run: RunDir, config: RunConfig, number: int, progress: Progress | None = None
    ) -> None:
        self._run, self._config, self._number = run, config, number
        self._progress = progress
        self._strategies = strategies_of(config.science)
        self._questions = rows_of(run.folder.read_table("questions.parquet"))
        self._metrics = run.metrics()
        self._stop = threading.Event()

    def execute(self) -> None:
        """Take every question to its outcome.

        Raises:
            RunInterruptedError: after SIGTERM or SIGINT; resume later.
            RunFailedError: where nothing but failures comes, nothing comes at all, or the journal
                cannot be written.
        """
        corrupt = read_journal(self._run.journal, set_aside=True).corrupt
        for segment in corrupt:
            logger.warning("journal segment %s set aside: %s", segment.name, segment.why)
        if not self._pending():
            logger.info("nothing left to do in %s", self._run.address)
            return
        with self._signals(), self._watching() as watch, self._engines() as engines:
            for phase in range(phase_count(self._strategies)):
                self._phase(phase, watch, engines)

    def _pending(self) -> bool:
        done = self._done()
        return any(
            phase_work(self._strategies, phase, self._questions, self._statistics(), done)
            for phase in range(phase_count(self._strategies))
        ) or any(self._unfolded(phase) for phase in range(phase_count(self._strategies) - 1))

    def _unfolded(self, phase: int) -> list[str]:
        """Labels of strategies whose finished phase has not been folded yet."""
        labels = []
        for label, strategy in self._strategies.items():
            phases = phases_of(strategy)
            if phase + 1 < len(phases) and not self._run.statistics(label, phases[phase].name):
                labels.append(label)
        return labels

    def _phase(self, phase: int, watch: Any, engines: Any) -> None:
        if phase == 0:
            self._prepare()
        work = phase_work(
            self._strategies, phase, self._questions, self._statistics(), self._done()
        )
        logger.info("phase %d: %d chains to run", phase, len(work))
        if work:
            journal = read_journal(self._run.journal).table
            wanted = [(r["strategy"], r["benchmark"], r["question_id"]) for r in work]
            write_recorded(self._run, self._number, phase, journal, wanted)
            flow = PhaseFlow(
                self._run,
                self._number,
                phase,
                work,
                engines.address,
                self._config.runtime.controllers,
            )
            self._attend(flow, watch, engines, phase, len(work))
        self._fold(phase)

    def _attend(self, flow: PhaseFlow, watch: Any, engines: Any, phase: int, chains: int) -> None:
        """Watch a phase to its end; drain it where it must not go on."""
        reason: MarkovScaleError | None = None
        began = told = time.monotonic()
        before = sum(ray.get(watch.totals.remote())["stops"].values())
        while flow.running:
            flow.wait(_POLL_S)
            totals = ray.get(watch.totals.remote())
            if reason is None:
                reason = self._reason_to_end(totals)
                if reason is not None:
                    logger.warning("draining: %s", reason)
                    ray.get(watch.drain.remote())
                    drained_at = time.monotonic()
            elif time.monotonic() - drained_at > _DRAIN_S:
                logger.warning("chains did not drain within %.0f s, leaving them", _DRAIN_S)
                raise reason
            if time.monotonic() - told >= _METRICS_EVERY_S or not flow.running:
                told = time.monotonic()
                self._tell(totals, engines, phase, (before, chains), told - began)
        flow.result()
        if reason is not None:
            raise reason

    def _reason_to_end(self, totals: dict[str, Any]) -> MarkovScaleError | None:
        runtime = self._config.runtime
        resume = f"resume with --resume {self._run.address}"
        if self._stop.is_set():
            return RunInterruptedError(f"stopped by a signal; {resume}")
        if totals["fatal"] is not None:
            return RunFailedError(f"{totals['fatal']}; {resume}")
        finished, failed = sum(totals["stops"].values()), totals["stops"].get("failed", 0)
        enough = finished >= runtime.min_questions_before_giving_up
        if enough and failed > runtime.max_failed_share * finished:
            return RunFailedError(
                f"failed questions must be at most {runtime.max_failed_share:.0%} of those "
                f"finished, got {failed} of {finished}, the last with: {totals['last_error']}"
            )
        if totals["idle_s"] > runtime.no_progress_timeout_s:
            return RunFailedError(
                f"a round must end every {runtime.no_progress_timeout_s:g} s, none did for "
                f"{totals['idle_s']:.0f} s; {resume}"
            )
        return None

    def _tell(
        self,
        totals: dict[str, Any],
        engines: Any,
        phase: int,
        chains: tuple[int, int],
        seconds: float,
    ) -> None:
        row = {
            **totals,
            "time": time.time(),
            "attempt": self._number,
            "phase": phase,
            "chains": chains[1],
            "chains_stopped": sum(totals["stops"].values()) - chains[0],
            "phase_seconds": seconds,
            "engines": {
                pool: [asdict(replica) for replica in replicas]
                for pool, replicas in engines.stats().items()
            },
        }
        self._metrics.append(row)
        self._run.write_metrics(self._metrics)
        if self._progress is not None:
            self._progress(row)

    def _prepare(self) -> None:
        for label, strategy in self._strategies.items():
            if self._run.statistics(label, PREPARED) is None:
                learnt = prepared_statistics(strategy, self._questions)
                if learnt is not None:
                    self._run.write_statistics(label, PREPARED, learnt)

    def _fold(self, phase: int) -> None:
        """Learn from a finished phase, once."""
        labels = self._unfolded(phase)
        if not labels:
            return
        journal = read_journal(self._run.journal).table
        known = self._statistics()
        for label in labels:
            strategy = self._strategies[label]
            phases = phases_of(strategy)
            before = known.get((label, phases[phase - 1].name if phase else PREPARED), {})
            learnt = folded_statistics(label, strategy, phase, self._questions, journal, before)
            self._run.write_statistics(label, phases[phase].name, learnt)

    def _statistics(self) -> dict[tuple[str, str], dict[str, Statistics]]:
        names = [
            (label, name)
            for label, strategy in self._strategies.items()
            for name in (PREPARED, *(phase.name for phase in phases_of(strategy)))
        ]
        read = {key: self._run.statistics(*key) for key in names}
        return {key: value for key, value in read.items() if value is not None}

    def _done(self) -> set[tuple[str, str, str, str]]:
        rows: list[Row] = rows_of(self._run.outcomes())
        return {(r["strategy"], r["phase"], r["benchmark"], r["question_id"]) for r in rows}

    @contextmanager
    def _watching(self) -> Iterator[Any]:
        watch = (
            ray.remote(Watch)
            .options(name=watch_name(self._run.run_id), namespace=NAMESPACE, num_cpus=0)
            .remote()
        )
        try:
            yield watch
        finally:
            ray.kill(watch)

    @contextmanager
    def _engines(self) -> Iterator[Any]:
        engines = start_engines(self._config.science, self._config.runtime, self._run.run_id)
        try:
            yield engines
        finally:
            engines.stop()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT drain the run. Installed after ray.init, which overwrites them."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            signal.signal(number, lambda *_: self._stop.set())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
