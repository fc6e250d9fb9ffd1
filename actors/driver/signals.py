"""*Signals*: turns SIGTERM, SIGINT and SIGHUP into a request to stop; starts the run monitor."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster.run_monitor import NAMESPACE, RunMonitor, monitor_name
from pipeline.config.runtime import RuntimeConfig
from pipeline.core.errors import MarkovScaleError

logger = logging.getLogger(__name__)

_ANSWER_S = 300.0
_TAKEN_S = 30.0  # how long the watch of a killed driver may take to die
_POLL_S = 0.5
_ONE_WISH_S = 1.0
"""Signals within that time are one: `ray job stop` sends one to the job and to its children, and
the job passes its own on (`jobs.supervision`)."""


class RunInterruptedError(MarkovScaleError, RuntimeError):
    """The run was asked to stop; everything durable is kept and it can be resumed."""

    status, ending = 75, "stopped"


class Signals:
    """SIGTERM, SIGINT and SIGHUP (the terminal is gone), as a wish to stop.

    The first one is noted; while `raising`, as during a long start, it interrupts as well. A second
    one always does. Handlers are installed after ray.init, which overwrites them.

    Args:
        hint: what is said with the interruption, such as how to go on.
    """

    def __init__(self, hint: str) -> None:
        self._stop = threading.Event()
        self._hint = hint
        self._name = ""
        self._noted_at = -math.inf
        self.raising = True

    @property
    def stop(self) -> bool:
        """Whether the run is to stop."""
        return self._stop.is_set()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The handlers, for as long as this lasts.

        Raises:
            RunInterruptedError: where a signal has interrupted what was done meanwhile.
        """
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup wants it
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        except KeyboardInterrupt as error:
            raise RunInterruptedError(f"stopped by {self._name}; {self._hint}") from error
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        del frame
        now = time.monotonic()
        if now - self._noted_at < _ONE_WISH_S:
            return
        self._noted_at, again = now, self._stop.is_set()
        self._name = signal.Signals(number).name
        self._stop.set()
        if self.raising or again:
            raise KeyboardInterrupt  # any other exception of a handler is lost within a call of Ray


def stop_grace_s(runtime: RuntimeConfig) -> float:
    """How long a run that is to stop lets completions finish (``runtime.drain_s``).

    Most of what Ray leaves a stopped job; the rest is for flushing and for ending the engines.
    """
    if runtime.drain_s is not None:
        return runtime.drain_s
    return max(1.0, 0.8 * float(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", "3")) - 1.4)


@contextmanager
def watching(run_id: str) -> Iterator[Any]:
    """The run's watch actor.

    Raises:
        RunInterruptedError: where another driver has this run at work in the same cluster.
    """
    watch = _new_watch(run_id)
    try:
        yield watch
    finally:
        ray.kill(watch)


def answer(asked: Any) -> Any:
    """What a run's monitor answers; it answers at once unless it, or Ray, hangs.

    Raises:
        ray.exceptions.GetTimeoutError: where it does not for five minutes.
    """
    try:
        return ray.get(asked, timeout=_ANSWER_S)
    except ray.exceptions.GetTimeoutError as error:
        raise ray.exceptions.GetTimeoutError(
            f"the run's monitor must answer within {_ANSWER_S:g} s: it hangs, or Ray does"
        ) from error


def _new_watch(run_id: str) -> Any:
    # beside the driver: on a node that can be lost it would take the whole run with it
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(RunMonitor).options(
        name=monitor_name(run_id),
        namespace=NAMESPACE,
        num_cpus=0,
        max_concurrency=10_000,
        scheduling_strategy=here,
    )
    give_up = time.monotonic() + _TAKEN_S
    while True:
        try:
            watch = actor.remote()
            ray.get(watch.totals.remote())
            return watch
        except ValueError as error:  # the name is taken
            if time.monotonic() > give_up:
                raise RunInterruptedError(
                    f"{run_id} is at work in this cluster already: stop that job first"
                ) from error
        time.sleep(_POLL_S)
