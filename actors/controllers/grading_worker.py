"""The process that `actors.controllers.grading` may kill: a computer algebra system behind a pipe.

Run as ``python -m actors.controllers.grading_worker MEMORY_BYTES TIMEOUT_S``; reads one JSON
request a line from standard input, ``[gold, prediction]``, and answers each with one line, a
`Judgement` by value. It ends when its input does, so it does not outlive whoever started it, and a
request that holds the interpreter is ended by a limit on processor time.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import threading
from collections.abc import Iterator
from enum import StrEnum
from queue import SimpleQueue

_WARM_UP = (("1", "2"), (r"\sin 2x", r"2\sin x\cos x"), (r"\int_0^1 x dx", r"\frac{1}{2}"))
"""Judged before the first request, so that no request waits for imports and caches."""


class Judgement(StrEnum):
    """What a computer algebra system made of a pair."""

    READY = "ready"
    """Not of a pair: the worker is up."""
    EQUAL = "equal"
    DIFFERENT = "different"
    UNPARSED = "unparsed"
    """One of the two could not be parsed."""
    ERROR = "error"
    """It raised, or ran out of memory."""


def judge(gold: str, prediction: str) -> Judgement:
    """math-verify with its defaults on a pair, each in a box of its own.

    Its own time limits are off: they need the main thread and an alarm signal, and the process
    that asked kills this one instead.
    """
    from math_verify import parse, verify

    try:
        expected = parse(f"\\boxed{{{gold}}}", parsing_timeout=None)
        given = parse(f"\\boxed{{{prediction}}}", parsing_timeout=None)
        if not expected or not given:
            return Judgement.UNPARSED
        same = verify(expected, given, timeout_seconds=None)
    except Exception:  # hostile input brings any error out of the parser; ERROR reports it
        return Judgement.ERROR
    return Judgement.EQUAL if same else Judgement.DIFFERENT


def _lines() -> Iterator[str]:
    """Lines of standard input, read beside the work so that its end ends the process at once."""
    queue: SimpleQueue[str] = SimpleQueue()

    def pump() -> None:
        for line in sys.stdin:
            queue.put(line)
        os._exit(0)

    threading.Thread(target=pump, daemon=True).start()
    while True:
        yield queue.get()


def _say(judgement: Judgement) -> None:
    sys.stdout.write(f"{judgement}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Serve requests until the input ends."""
    memory_bytes, timeout_s = int(arguments[0]), float(arguments[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(2_000)
    logging.disable(logging.CRITICAL)  # math-verify warns of every parse without a time limit
    for gold, prediction in _WARM_UP:
        judge(gold, prediction)
    _say(Judgement.READY)
    for line in _lines():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        allowed = int(usage.ru_utime + usage.ru_stime + timeout_s) + 2
        resource.setrlimit(
            resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1])
        )
        gold, prediction = json.loads(line)
        _say(judge(gold, prediction))


if __name__ == "__main__":
    main(sys.argv[1:])
