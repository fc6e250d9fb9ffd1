"""*GradingPool*: grades answers: exact comparison first, else in a process that can be killed.

`GradingPool` is used from any thread or event loop of an actor. Most pairs are decided in place
(`pipeline.answers.find`), within a budget of work that takes less than 5 ms. What is beyond it, or
is open and may be proved, goes to one of a few worker processes with a limit on memory; a worker
that overruns its time is killed and replaced. No process is started before the first pair needs
one, and none is forked: a Ray actor has threads. `pebble.ProcessPool` (5.2) grades as fast, but
breaks for good, with every pair that waits, where a worker dies that has none; here that costs
nothing, and one that dies at a pair costs its verdict alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from actors.controllers.command_grader import run_check, run_command
from actors.controllers.grading_worker import Judgement
from pipeline.answers import Verdict
from pipeline.answers.extract import last_box
from pipeline.answers.graders import MATH, GraderSettings
from pipeline.answers.grading import Finding, find

logger = logging.getLogger(__name__)

_STARTUP_S = 60.0
_PATIENCE = 1.8
_MAX_CHARS = 20_000
_REMEMBERED = 8_192
_PLACE_CHARS = 400
_PLACE_WORK = 180
"""What may be read and compared in place."""
_ROOT = Path(__file__).resolve().parents[2]


class Grader(StrEnum):
    """Which relation decides that an answer is right."""

    MARKOVSCALE = "markovscale"
    """Ours: typed exact comparison, and sympy for pairs of expressions that it leaves open."""
    MATH_VERIFY = "math_verify"
    """math-verify with its defaults on our extracted answer."""
    PAPER = "paper"
    """As the code behind the paper's tables: math-verify with its defaults on the last box of the
    whole reply, thinking included; whatever goes wrong counts as wrong, so it is never UNGRADED."""


class _Pair(NamedTuple):
    """What a worker is asked."""

    grader: str
    gold: str
    prediction: str
    ordered: bool
    timeout_s: float
    memory_bytes: int


class GradingPool:
    """A few worker processes, started when first needed.

    Args:
        workers: how many pairs may be with the computer algebra system at a time.
        timeout_s: processor time that one pair may take there, and 1.8 times as much on the clock,
            so that a verdict does not depend on the machine's load; an overrun is UNGRADED.
        memory_bytes: address space of a worker.
    """

    def __init__(
        self,
        workers: int = 2,
        timeout_s: float = 2.5,
        memory_bytes: int = 1 << 30,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be >= 1, got {workers!r}")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be > 0, got {timeout_s!r}")
        self.timeout_s = timeout_s
        self.memory_bytes = memory_bytes
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="grading")
        self._slot = threading.local()  # each thread of the executor owns one worker process
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._known: dict[_Pair, Future[Verdict]] = {}
        """Verdicts of workers, overruns included, that were asked for last."""
        self._closed = False

    async def grade(
        self,
        gold: str,
        prediction: str | None,
        grader: str = Grader.MARKOVSCALE,
        settings: GraderSettings = MATH,
    ) -> Verdict:
        """The verdict on an extracted answer; replies go to `grade_reply`, which extracts."""
        return await asyncio.wrap_future(self.submit(gold, prediction, grader, settings))

    async def grade_reply(self, gold: str, text: str, grader: str = Grader.MARKOVSCALE) -> Verdict:
        """The verdict on a whole reply, from which each grader extracts as it does."""
        return await self.grade(gold, answer_for(text, grader), grader)

    def grade_many(
        self,
        pairs: Iterable[tuple[str, str | None]],
        grader: str = Grader.MARKOVSCALE,
        settings: GraderSettings = MATH,
    ) -> list[Verdict]:
        """Verdicts on (gold, prediction) pairs, in their order; blocks until all are there."""
        futures = [self.submit(gold, prediction, grader, settings) for gold, prediction in pairs]
        return [future.result() for future in futures]

    def submit(
        self,
        gold: str,
        prediction: str | None,
        grader: str = Grader.MARKOVSCALE,
        settings: GraderSettings = MATH,
    ) -> Future[Verdict]:
        """The verdict as a future, already done where exact comparison decides.

        Args:
            gold: the reference answer.
            prediction: an extracted answer; None is WRONG.
            grader: of mathematical answers; other kinds of `settings` know one grader each.
            settings: the benchmark's grader.
        """
        if self._closed:
            raise RuntimeError("the grading pool must be open, got a closed one")
        chosen = Grader(grader)
        if settings.kind != "math":
            return self._other_kind(gold, prediction, settings)
        if chosen is Grader.PAPER and prediction is not None:
            prediction = last_box(prediction) if "boxed" in prediction else prediction
        if prediction is None or not prediction.strip():
            return _done(Verdict.WRONG)
        if chosen is Grader.MARKOVSCALE:
            gold = settings.in_points(gold)
            verdict = self.in_place(gold, prediction, ordered=settings.ordered)
            if verdict is not None:
                return _done(verdict)
        if len(gold) + len(prediction) > _MAX_CHARS:
            return _done(_verdict(Judgement.ERROR, chosen))
        pair = _Pair(chosen, gold, prediction, settings.ordered, self.timeout_s, self.memory_bytes)
        return self._with_worker(pair)

    def feedback(self, settings: GraderSettings, question: str, answer: str) -> Future[str | None]:
        """What a command says of an answer that knows no gold answer; None where it says nothing
        (`actors.controllers.command_grader.run_check`)."""
        return self._executor.submit(run_check, settings, question, answer)

    def _with_worker(self, pair: _Pair) -> Future[Verdict]:
        with self._lock:  # rounds of a chain ask the same again and again
            known = self._known.get(pair)
            if known is None:
                while len(self._known) >= _REMEMBERED:
                    self._known.pop(next(iter(self._known)))
                known = self._executor.submit(self._judged, pair)
                self._known[pair] = known
        return known

    def _other_kind(
        self, gold: str, prediction: str | None, settings: GraderSettings
    ) -> Future[Verdict]:
        verdict = settings.settled(gold, prediction)
        if verdict is not None or prediction is None:
            return _done(verdict or Verdict.WRONG)
        if settings.kind == "judge":  # a model's verdict is in the journal, or nowhere
            return _done(Verdict.UNGRADED)
        if settings.kind == "command":
            return self._executor.submit(run_command, settings, gold, prediction)
        limits = (settings.timeout_s, settings.memory_mb << 20)
        return self._with_worker(_Pair(settings.kind, gold, prediction, False, *limits))

    def in_place(self, gold: str, prediction: str, *, ordered: bool = False) -> Verdict | None:
        """The verdict of exact comparison within its budget; None where a worker may try more."""
        if len(gold) + len(prediction) > _PLACE_CHARS:
            return Verdict.RIGHT if gold.strip() == prediction.strip() else None
        try:
            finding = find(gold, prediction, limit=_PLACE_WORK, ordered=ordered)
        except Exception:  # a fault of ours must not cost the chain, whose rounds are paid for
            logger.exception("could not compare %r with %r", gold, prediction)
            return None
        if finding in (Finding.RIGHT, Finding.WRONG):
            return Verdict(finding.value)
        return Verdict.UNGRADED if finding is Finding.UNREAD else None

    def close(self) -> None:
        """End every worker and wait until they are gone; verdicts still open become UNGRADED."""
        with self._lock:
            self._closed = True  # no worker starts after this
            workers = list(self._workers)
        for worker in workers:
            worker.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._workers.clear()

    def __enter__(self) -> GradingPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def process_ids(self) -> list[int]:
        """Ids of the workers that run now."""
        with self._lock:
            return sorted(worker.process.pid for worker in self._workers)

    def _judged(self, pair: _Pair) -> Verdict:
        """Runs in a thread of the executor."""
        judgement = Judgement.ERROR
        worker = self._worker()
        if worker is None:  # the next one may be had
            with self._lock:
                self._known.pop(pair, None)
        else:
            answer = worker.ask(list(pair), pair.timeout_s)
            if answer is None:
                self._discard(worker)
                self._start()  # it gets ready while this thread waits for its next pair
            else:
                judgement = answer
        if judgement is Judgement.ERROR and ":" in pair.grader:
            logger.warning("grader %s raised, or took too long or too much memory", pair.grader)
        return _verdict(judgement, pair.grader)

    def _worker(self) -> _Worker | None:
        """This thread's worker, ready; None when none can be had."""
        worker: _Worker | None = getattr(self._slot, "worker", None)
        if worker is None or worker.process.poll() is not None:
            if worker is not None:
                self._discard(worker)
            worker = self._start()
        if worker is not None and not worker.ready:
            worker.ready = worker.read(_STARTUP_S) is Judgement.READY
            if not worker.ready:
                self._discard(worker)
                return None
        return worker

    def _start(self) -> _Worker | None:
        """A new worker for this thread, not yet ready; None where none can be had any more."""
        with self._lock:
            if self._closed:
                return None
            try:
                worker = _Worker()
            except OSError as error:
                logger.warning("no process for grading: %s", error)
                return None
            self._workers.add(worker)
        self._slot.worker = worker
        return worker

    def _discard(self, worker: _Worker) -> None:
        worker.kill()
        with self._lock:
            self._workers.discard(worker)
        self._slot.worker = None


class _Worker:
    """One worker process and its pipes."""

    def __init__(self) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "actors.controllers.grading_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # a Ctrl-C at the terminal is for the run, which then closes us
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout
        self.ready = False

    def ask(self, request: list[Any], timeout_s: float) -> Judgement | None:
        """What the worker says; None if it died or did not answer in time."""
        try:
            self.stdin.write(json.dumps(request).encode() + b"\n")
            self.stdin.flush()
        except (BrokenPipeError, ValueError):
            return None
        return self.read(_PATIENCE * timeout_s)

    def read(self, seconds: float) -> Judgement | None:
        """The next line from the worker; it comes in one piece."""
        try:
            if not select.select([self.stdout], [], [], seconds)[0]:
                return None
            return Judgement(os.read(self.stdout.fileno(), 4096).decode().strip())
        except (OSError, ValueError):
            return None

    def kill(self) -> None:
        """End the process and its pipes; may be called more than once, from any thread."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout):
            try:
                pipe.close()
            except (BrokenPipeError, OSError):
                continue


def answer_for(text: str, grader: str, settings: GraderSettings = MATH) -> str | None:
    """What of a whole reply a grader is shown."""
    if Grader(grader) is Grader.PAPER and settings.kind == "math":
        return last_box(text)
    return settings.answer_of(text)


def _verdict(judgement: Judgement, grader: str) -> Verdict:
    if judgement is Judgement.EQUAL:
        return Verdict.RIGHT
    if grader == Grader.PAPER or judgement is Judgement.DIFFERENT:
        return Verdict.WRONG
    return Verdict.UNGRADED


def _done(verdict: Verdict) -> Future[Verdict]:
    future: Future[Verdict] = Future()
    future.set_result(verdict)
    return future
