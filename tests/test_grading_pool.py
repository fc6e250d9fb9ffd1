"""The killable pool: right where exact comparison is not enough, never hanging, nothing left."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.controllers import grading
from actors.controllers.grading import Grader, GradingPool
from pipeline.answers import Verdict
from pipeline.answers.reading import cached_reading
from tests.answer_cases import PROVED_DIFFERENT, PROVED_EQUAL
from tests.test_answers_hostile import HOSTILE

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "grading_cases.jsonl"
HANGS = r"\sum_{k=1}^{10^8} k!"  # keeps sympy busy for longer than anybody waits


@pytest.fixture(scope="module")
def pool() -> Iterator[GradingPool]:
    with GradingPool(workers=1, timeout_s=10.0) as opened:
        yield opened


@pytest.fixture
def hasty() -> Iterator[GradingPool]:
    with GradingPool(workers=1, timeout_s=1.0) as opened:
        yield opened


def running(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running(pid)


def test_a_fault_of_the_grader_costs_one_verdict(
    pool: GradingPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A pair that exact comparison breaks on is told and goes to a worker, which may know more."""

    def broken(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(grading, "find", broken)
    with caplog.at_level("ERROR"):
        verdicts = pool.grade_many([("1/2", "0.5"), ("3", "4")])

    assert verdicts == [Verdict.RIGHT, Verdict.WRONG]
    assert "could not compare '1/2' with '0.5'" in caplog.text


def test_expressions_are_proved_equal_or_different(pool: GradingPool) -> None:
    """What relates functions, sums and integrals to other expressions is decided in a worker."""
    equal = pool.grade_many(PROVED_EQUAL)
    different = pool.grade_many(PROVED_DIFFERENT)

    assert [pair for pair, v in zip(PROVED_EQUAL, equal, strict=True) if v != "right"] == []
    assert different == [Verdict.WRONG] * len(PROVED_DIFFERENT)


def test_what_is_not_read_is_ungraded_without_a_process() -> None:
    """A verdict needs the whole of both sides; where one was not read, there is none."""
    pairs = [
        (r"p \equiv 1 \pmod 4", r"p \equiv 3 \bmod n!!"),
        ("5", r"3 \to 5"),
        ("5", r"2^5 \bmod 5"),
    ]
    with GradingPool() as fresh:
        verdicts = fresh.grade_many(pairs)
        started = fresh.process_ids

    assert verdicts == [Verdict.UNGRADED] * len(pairs)
    assert started == []


def test_cases_of_each_kind_with_a_worker(pool: GradingPool) -> None:
    """With a worker for what is open, equal pairs are RIGHT and unequal ones are not."""
    cases = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    verdicts = pool.grade_many([(case["gold"], case["prediction"]) for case in cases])
    pairs = zip(cases, verdicts, strict=True)

    assert [case["id"] for case, v in pairs if (v is Verdict.RIGHT) is not case["equal"]] == []


EXPENSIVE = {
    **HOSTILE,
    "powers of sums": "(a+b+c+d)^2(e+f+g+h)^2(i+j+k+l)^2(m+n+o+p)^2",
    "small power of a sum": "(a+b+c+d+e+f)^{20}",
    "many roots": "+".join(f"\\sqrt{{{10**15 + 7 * n}}}" for n in range(14)),
    "factorials": "+".join(f"{n}!" for n in range(900, 940)),
    "wide matrix": "\\begin{pmatrix}" + "\\\\".join(["1&2&3&4"] * 28) + "\\end{pmatrix}",
    "chain of inequalities": "<".join("abcdefgh" * 10),
    "units in a row": "5 " + "m " * 150,
    "many logarithms": "\\log_{2}x+" * 30 + "1",
    "list of fractions": ",".join(f"{n}/7" for n in range(70)),
}


def test_in_place_costs_are_bounded() -> None:
    """Whatever is graded, an event loop is held for less than 5 ms (here five times that, for busy
    machines); the rest is a worker's."""

    def seconds(fresh: GradingPool, gold: str, prediction: str) -> float:
        cached_reading.cache_clear()
        start = time.thread_time()
        fresh.in_place(gold, prediction)
        return time.thread_time() - start

    with GradingPool() as fresh:
        for name, answer in EXPENSIVE.items():
            for pair in (("5", answer), (answer, "\\frac{x}{2}"), (answer, answer + "+1")):
                assert any(seconds(fresh, *pair) < 0.025 for _ in range(3)), name


def test_graders_differ_where_they_should(pool: GradingPool) -> None:
    """The paper's grader takes the last box of the thinking too; ours takes none of it."""
    reply = "<think>perhaps \\boxed{7}, as I said"

    verdicts = [
        asyncio.run(pool.grade_reply("7", reply, grader))
        for grader in (Grader.MARKOVSCALE, Grader.MATH_VERIFY, Grader.PAPER)
    ]

    assert verdicts == [Verdict.WRONG, Verdict.WRONG, Verdict.RIGHT]


def test_a_worker_that_overruns_or_dies_is_replaced(hasty: GradingPool) -> None:
    """A pair that hangs is UNGRADED in time, and the next one runs; a crash costs one verdict and
    no exception."""
    hasty.grade_many([(r"\sin 2x", r"2\sin x\cos x")])
    (before,) = hasty.process_ids
    start = time.monotonic()
    verdict = hasty.grade_many([("5", HANGS)])
    seconds = time.monotonic() - start
    after = hasty.grade_many([(r"\sin 2x", r"2\sin x\cos x")])

    assert verdict == [Verdict.UNGRADED]
    assert seconds < 60  # the pair itself would take hours
    assert after == [Verdict.RIGHT]
    assert not running(before)
    (pid,) = hasty.process_ids
    assert pid != before
    killer = threading.Timer(0.3, os.kill, (pid, 9))
    killer.start()
    verdict = hasty.grade_many([("5", HANGS)])
    killer.join()

    assert verdict == [Verdict.UNGRADED]


def test_a_machine_without_room_for_a_worker_costs_its_verdicts_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No exception reaches the chain, which would end the run; the next pair tries anew."""
    start = subprocess.Popen

    def refused(*given: object, **more: object) -> None:
        monkeypatch.setattr(subprocess, "Popen", start)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with GradingPool(workers=1) as fresh:
        monkeypatch.setattr(subprocess, "Popen", refused)
        verdicts = [fresh.grade_many([(r"\sin 2x", r"2\sin x\cos x")]) for _ in range(2)]

    assert verdicts == [[Verdict.UNGRADED], [Verdict.RIGHT]]


def test_works_from_any_thread_and_loop(pool: GradingPool) -> None:
    """Verdicts are the same from event loops in threads that are not the main one."""
    verdicts: list[list[Verdict]] = []

    async def some() -> list[Verdict]:
        pairs = [(r"\sin 2x", r"2\sin x\cos x"), ("0.5", r"\frac12"), ("1", "2")]
        return list(await asyncio.gather(*(pool.grade(gold, answer) for gold, answer in pairs)))

    threads = [threading.Thread(target=lambda: verdicts.append(asyncio.run(some()))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert verdicts == [[Verdict.RIGHT, Verdict.RIGHT, Verdict.WRONG]] * 2


def test_memory_is_bounded() -> None:
    """A worker cannot take more memory than it was given."""
    with GradingPool(workers=1, timeout_s=1.0, memory_bytes=300 << 20) as small:
        verdict = small.grade_many([(r"\int_0^1 x dx", "1/2")])
        (pid,) = small.process_ids
        limits = Path(f"/proc/{pid}/limits").read_text()
        verdict += small.grade_many([("5", HANGS)])

    line = next(line for line in limits.splitlines() if line.startswith("Max address space"))
    assert verdict == [Verdict.RIGHT, Verdict.UNGRADED]
    assert line.split()[3] == str(300 << 20)


def test_close_leaves_no_process() -> None:
    """After closing, also in the middle of a pair, no worker runs and no new pair is taken."""
    opened = GradingPool(workers=1, timeout_s=600.0)
    assert opened.grade_many([(r"\int_0^1 x dx", "1/2")]) == [Verdict.RIGHT]
    hanging = opened.submit("5", HANGS)
    (pid,) = opened.process_ids
    opened.close()

    assert hanging.result(timeout=60) is Verdict.UNGRADED
    assert not running(pid)
    with pytest.raises(RuntimeError, match="must be open"):
        opened.submit("1", "1")


def test_workers_do_not_outlive_a_killed_host() -> None:
    """Killing the host with SIGKILL ends its workers, idle or busy."""
    program = (
        "import sys\n"
        "from actors.controllers.grading import GradingPool\n"
        "pool = GradingPool(workers=1, timeout_s=600.0)\n"
        "pool.grade_many([(r'\\int_0^1 x dx', '1/2')])\n"
        "print(*pool.process_ids, flush=True)\n"
        f"pool.grade_many([('5', r'{HANGS}')])\n"
    )
    host = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    time.sleep(0.3)
    alive = running(pid)
    host.kill()
    host.wait()
    host.stdout.close()

    assert alive
    assert wait_until_gone(pid, 60)


@pytest.mark.parametrize(("workers", "timeout_s"), [(0, 1.0), (1, 0.0)])
def test_refuses_settings_that_cannot_be(workers: int, timeout_s: float) -> None:
    """Settings are checked where they are given."""
    with pytest.raises(ValueError, match="must be"):
        GradingPool(workers=workers, timeout_s=timeout_s)
