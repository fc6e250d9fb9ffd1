"""One attempt of a run on a cluster: engines up, phases through, engines down, whatever happens."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import ray

from actors.account import EngineAccount
from actors.breaker import Breaker, RunFailedError
from actors.environment import write_environment
from actors.flow import PhaseFlow
from actors.guard import RunInterruptedError, Signals, reap_orphans, stop_grace_s, watching
from actors.hosts import start_engines
from actors.metrics import RunMetrics
from actors.patience import patiently
from actors.room import Waiting, require_room_for
from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.errors import MarkovScaleError
from pipeline.journal import JournalRead, read_journal
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
from pipeline.schedule import running_means
from pipeline.trajectory import Row

logger = logging.getLogger(__name__)

_POLL_S = 0.2
_METRICS_EVERY_S = 10.0
_DRAIN_S = 60.0  # beyond the grace: flushing, and rows on their way


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
        self._entry = run.attempt(number)
        self._taken_over = False
        self._account: EngineAccount
        self._exported: RunMetrics
        self._breaker = Breaker(config.runtime, run.address)
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
        """
        reap_orphans()
        corrupt = patiently(
            lambda: read_journal(self._run.journal, set_aside=True).corrupt, "read the journal"
        )
        for segment in corrupt:
            logger.warning("journal segment %s set aside: %s", segment.name, segment.why)
        self._prepare()
        if not self._pending():
            logger.info("nothing left to do in %s", self._run.address)
            return
        require_room_for(self._config)
        try:
            with self._signals.installed(), watching(self._run.run_id) as watch:
                self._phases(watch)
        except ray.exceptions.RayError as error:
            logger.error("Ray failed: %s", error)  # the cause may stand in the middle of it
            reason = str(error).strip().splitlines()[-1]
            raise RunInterruptedError(
                f"Ray failed ({type(error).__name__}: {reason}); {self._resume}"
            ) from error

    def _phases(self, watch: Any) -> None:
        write_environment(self._run, self._number)
        self._exported = RunMetrics(self._run.run_id)
        with self._engines() as engines:
            self._account = EngineAccount(engines)
            self._signals.raising = False
            try:
                for phase in range(phase_count(self._strategies)):
                    self._phase(phase, watch, engines)
                failed = self._breaker.failures(ray.get(watch.totals.remote()), least=1)
                if failed is not None:
                    raise failed
            finally:
                self._account.last_look()
                self._account.close()
                self._close_metrics()

    def _pending(self) -> bool:
        """Whether anything is left. Phase by phase: who takes part in one is known once those
        before it are done and folded."""
        done = self._done()
        for phase in range(phase_count(self._strategies)):
            known = self._statistics()
            if phase_work(self._strategies, phase, self._questions, known, done):
                return True
            if self._unfolded(phase):
                return True
        return False

    def _unfolded(self, phase: int) -> list[str]:
        """Labels of strategies whose finished phase has not been folded yet."""
        labels = []
        for label, strategy in self._strategies.items():
            phases = phases_of(strategy)
            if phase + 1 < len(phases) and not self._run.statistics(label, phases[phase].name):
                labels.append(label)
        return labels

    def _phase(self, phase: int, watch: Any, engines: Any) -> None:
        journal = self._journal()
        work = phase_work(
            self._strategies,
            phase,
            self._questions,
            self._statistics(),
            self._done(),
            running_means(journal.table),
        )
        logger.info("phase %d: %d chains to run", phase, len(work))
        if work:
            wanted = [(r["strategy"], r["benchmark"], r["question_id"]) for r in work]
            patiently(
                lambda: write_recorded(self._run, self._number, phase, journal, wanted),
                "write what is recorded",
            )
            before = ray.get(watch.totals.remote())
            flow = PhaseFlow(
                self._run,
                self._entry,
                phase,
                work,
                engines.address,
                self._config.runtime.controllers,
            )
            self._attend(flow, watch, phase, len(work), before)
        self._fold(phase)

    def _attend(
        self, flow: PhaseFlow, watch: Any, phase: int, chains: int, before: dict[str, Any]
    ) -> None:
        """Watch a phase to its end; drain it where it must not go on.

        Args:
            flow: its pipeline.
            watch: of the run.
            phase: its number.
            chains: how many it has.
            before: totals of the watch before it began.
        """
        reason: MarkovScaleError | None = None
        began = told = time.monotonic()
        stopped = sum(before["stops"].values())
        up = before["controllers"] + self._config.runtime.controllers.actors
        waiting = Waiting("controllers")
        while flow.running:
            flow.wait(_POLL_S)
            totals = ray.get(watch.totals.remote())
            if totals["controllers"] < up and reason is None:
                waiting.look()
            if reason is None:
                reason = self._reason_to_end(totals)
                if reason is not None:
                    logger.warning("draining: %s", reason)
                    grace_s = stop_grace_s(self._config.runtime) if self._signals.stop else 0.0
                    ray.get(watch.drain.remote(grace_s))
                    give_up = time.monotonic() + grace_s + _DRAIN_S
            elif time.monotonic() > give_up:
                logger.warning("chains did not drain in time, leaving them")
                raise reason
            if time.monotonic() - told >= _METRICS_EVERY_S or not flow.running:
                told = time.monotonic()
                self._account.look()
                self._tell(totals, phase, (stopped, chains), told - began)
        try:
            flow.result()
        except Exception as error:
            if reason is None and not isinstance(error, ray.exceptions.RayError):
                reason = RunFailedError(f"the pipeline of phase {phase} broke: {error}")
            if reason is None:
                raise
            raise reason from error
        if reason is not None:
            raise reason

    def _reason_to_end(self, totals: dict[str, Any]) -> MarkovScaleError | None:
        if self._signals.stop:
            return RunInterruptedError(f"stopped by a signal; {self._resume}")
        if self._taken_over:
            return RunInterruptedError(f"another attempt has taken {self._run.address} over")
        return self._breaker.reason(totals)

    def _look_for_others(self) -> None:
        """Note whether another attempt has begun since this one."""
        try:
            newest = self._run.attempts()[-1]
        except OSError:
            return  # storage fails for the moment: the next look will tell
        self._taken_over = newest["token"] != self._entry.token

    def _tell(
        self,
        totals: dict[str, Any],
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
            **self._engine_figures(),
        }
        self._look_for_others()
        self._write_metrics(row)
        self._exported.update(row)
        if self._progress is not None:
            self._progress(row)

    def _engine_figures(self) -> dict[str, Any]:
        """What the engines said last."""
        return {
            "engines": {
                pool: [asdict(replica) for replica in replicas]
                for pool, replicas in self._account.latest.items()
            },
            "engines_say": self._account.totals(),
        }

    def _close_metrics(self) -> None:
        """Complete the attempt's last row by what the engines said last."""
        if self._metrics and self._metrics[-1]["attempt"] == self._number:
            self._write_metrics({**self._metrics.pop(), **self._engine_figures()})

    def _write_metrics(self, row: dict[str, Any]) -> None:
        self._metrics.append(row)
        try:
            self._run.write_metrics(self._metrics)
        except OSError as error:  # figures can wait; the journal is the controllers' business
            logger.warning("metrics.jsonl not written: %s", error)

    def _journal(self) -> JournalRead:
        return patiently(lambda: read_journal(self._run.journal), "read the journal")

    def _prepare(self) -> None:
        for label, strategy in self._strategies.items():
            if self._run.statistics(label, PREPARED) is None:
                learnt = prepared_statistics(strategy, self._questions)
                if learnt is not None:
                    self._write_statistics(label, PREPARED, learnt)

    def _fold(self, phase: int) -> None:
        """Learn from a finished phase, once."""
        labels = self._unfolded(phase)
        if not labels:
            return
        journal = self._journal().table
        known = self._statistics()
        for label in labels:
            strategy = self._strategies[label]
            phases = phases_of(strategy)
            before = known.get((label, phases[phase - 1].name if phase else PREPARED), {})
            learnt = folded_statistics(label, strategy, phase, self._questions, journal, before)
            self._write_statistics(label, phases[phase].name, learnt)

    def _write_statistics(self, label: str, phase: str, learnt: dict[str, Statistics]) -> None:
        patiently(
            lambda: self._run.write_statistics(label, phase, learnt, attempt=self._number),
            "write statistics",
        )

    def _statistics(self) -> dict[tuple[str, str], dict[str, Statistics]]:
        names = [
            (label, name)
            for label, strategy in self._strategies.items()
            for name in (PREPARED, *(phase.name for phase in phases_of(strategy)))
        ]
        read = patiently(
            lambda: {key: self._run.statistics(*key) for key in names}, "read statistics"
        )
        return {key: value for key, value in read.items() if value is not None}

    def _done(self) -> set[tuple[str, str, str, str]]:
        rows: list[Row] = rows_of(patiently(self._run.outcomes, "read outcomes"))
        retry_before = self._entry.retry_before or 0
        return {
            (r["strategy"], r["phase"], r["benchmark"], r["question_id"])
            for r in rows
            if not (r["error"] is not None and r["attempt"] < retry_before)
        }

    @contextmanager
    def _engines(self) -> Iterator[Any]:
        engines = start_engines(self._config.science, self._config.runtime, self._run.run_id)
        try:
            yield engines
        finally:
            engines.stop()
