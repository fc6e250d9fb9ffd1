"""What controller, client and journal cost a round, with engines that answer at once.

    python -m benchmarks.control_plane [--quick] [--chains 10000] [--rounds 8] [--latency 0.5]
    python -m benchmarks.control_plane --reply-chars 4500   # replies of some 1,200 tokens

Runs chains of MR-Thinking through the product's own `Chains`, client and journal on one event loop
with scripted in-process engines (no Ray, no Serve: `benchmarks.hops` shows what those add). First
with answers at once for the rate, then with all chains in flight for memory and event-loop lag.
Prints machine, configuration, and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains, tune_gc
from actors.controllers.journal_writer import JournalWriter
from actors.routing.calls import ROLES
from actors.routing.client import EngineClient
from benchmarks.in_process import InProcess
from benchmarks.machine import described
from pipeline.benchmarks.generated import questions
from pipeline.config.runtime import RequestConfig
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Completion, Question
from pipeline.store.storage import Folder
from pipeline.strategies.sequential import MRThinking


async def _grade(gold: str, completion: Completion, grader: object) -> str:
    return "right" if completion.answer == gold else "wrong"


def works_of(chains: int, rounds: int) -> list[Work]:
    """Questions of `rounds` scored rounds each."""
    strategy = MRThinking(
        n=rounds,
        decoding=Decoding(max_tokens=64),
        prompts=Prompts(first="{question}", revise="{question} was {answer}"),
    )
    return [
        Work(
            label="mr_thinking",
            phase="mr_thinking",
            strategy=strategy,
            question=Question(benchmark="arithmetic", question_id=i, text=text, seed=number),
            gold=gold,
        )
        for number, (i, text, gold) in enumerate(
            questions("arithmetic", chains, split="test", seed=0)
        )
    ]


def scripted(script: dict[str, Any]) -> dict[str, EngineClient]:
    """Clients of scripted engines in this process."""
    settings = RequestConfig()
    return {role: EngineClient(InProcess(role, **script), settings, role) for role in ROLES}


async def run(
    works: list[Work], in_flight: int, connect: Callable[[], dict[str, EngineClient]], folder: str
) -> dict[str, Any]:
    """All chains of `works` by one controller, `in_flight` at once; `connect` gives its clients."""
    journal = JournalWriter(Folder(folder), flush_s=5.0)
    chains = Chains(
        identity=RunIdentity(run="benchmark", attempt=1),
        pools=connect(),
        journal=journal,
        grade=_grade,
        recording_of=lambda work: None,
        in_flight=in_flight,
    )
    lags: list[float] = []
    watching = asyncio.create_task(_watch(lags))
    tune_gc()
    before = _rss()
    began, cpu_began = time.perf_counter(), time.process_time()
    running = []
    for number, work in enumerate(works):  # Ray Data hands over a few blocks at a time as well
        running.append(asyncio.create_task(chains.run(work)))
        if number % 64 == 63:
            await asyncio.sleep(0.01)
    peak, rounds = 0, sum(work.strategy.n for work in works)
    while chains.counters.rounds < rounds:
        peak = max(peak, _rss())
        await asyncio.sleep(0.01)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    watching.cancel()
    await journal.close()
    lost = sum(row is None for row in await asyncio.gather(*running))
    return {
        "rounds": chains.counters.rounds,
        "rounds_per_s": chains.counters.rounds / seconds,
        "seconds": seconds,
        "cpu_us_a_round": 1e6 * cpu_s / rounds,
        "lost": lost,
        "bytes_per_chain": max(0, peak - before) / len(works),
        "loop_lag_p99_ms": 1_000 * _quantile(lags, 0.99),
        "loop_lag_max_ms": 1_000 * max(lags, default=0.0),
    }


async def _watch(lags: list[float]) -> None:
    """How much later than asked for the loop comes back, every 10 ms."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + 0.01
        await asyncio.sleep(0.01)
        lags.append(max(0.0, loop.time() - due))


def _quantile(values: list[float], share: float) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under 50 s on 2 cores")
    parser.add_argument("--chains", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--reply-chars", type=int, default=0, help="of working in each reply")
    parser.add_argument("--latency", type=float, default=6.0, help="seconds a completion takes")
    arguments = parser.parse_args()
    repeats = 1 if arguments.quick else arguments.repeats
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        rates, cpu = [], []
        for repeat in range(repeats):
            works = works_of(1_000, arguments.rounds)
            chars = {"reply_chars": arguments.reply_chars}
            got = asyncio.run(run(works, 256, partial(scripted, chars), f"{folder}/rate-{repeat}"))
            rates.append(got["rounds_per_s"])
            cpu.append(got["cpu_us_a_round"])
            print(f"rate: {got['rounds']} rounds, {got['rounds_per_s']:,.0f}/s, lost {got['lost']}")
        rounds = 2 if arguments.quick else arguments.rounds
        works = works_of(arguments.chains, rounds)
        script = {
            "tokens": 55,
            "reply_chars": arguments.reply_chars,
            "tokens_per_s": 55 / arguments.latency,
            "slots": arguments.chains,
        }
        connect = partial(scripted, script)
        held = asyncio.run(run(works, arguments.chains, connect, f"{folder}/held"))
        print(f"held: {arguments.chains} chains in flight, {held}")
    spread = statistics.pstdev(rates) / statistics.mean(rates) if len(rates) > 1 else 0.0
    print(
        json.dumps(
            {
                "rounds_per_s": round(statistics.median(rates), 1),
                "rounds_per_s_spread": round(spread, 4),
                "cpu_us_a_round": round(statistics.median(cpu), 1),
                "chains_in_flight": arguments.chains,
                "bytes_per_chain": round(held["bytes_per_chain"]),
                "loop_lag_p99_ms": round(held["loop_lag_p99_ms"], 2),
                "loop_lag_max_ms": round(held["loop_lag_max_ms"], 2),
                "held_rounds_per_s": round(held["rounds_per_s"], 1),
                "lost": held["lost"],
                "cores": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
