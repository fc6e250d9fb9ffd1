"""What drafting tokens ahead (speculative decoding) gains on real text, by chains in flight.

    python -m benchmarks.speculation --model FOLDER --benchmark gsm8k --path FILE --gpu
    python -m benchmarks.speculation ... --methods none,ngram,suffix --in-flight 1,8,64,256

One engine a method, started as the product starts it. Chains of MR-Thinking (each round is shown
the answer before it) run with so many in flight; each count has its own questions, the same for
every method. Printed: tokens a step and sequence, tokens/s, seconds a chain, the share of drafted
tokens that was accepted; and whether lengths and accuracies stay within each other's 95 %
intervals over questions. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import described

SPECULATION: dict[str, dict[str, Any] | None] = {
    "none": None,
    "ngram": {"method": "ngram", "tokens": 5, "lookup": [2, 5]},
    "suffix": {"method": "suffix", "tokens": 16},
}


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain that ended."""

    seconds: float
    tokens: int
    right: float
    """Share of its rounds with a right answer."""


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", required=True, help="folder of a model with a chat template")
    parser.add_argument("--benchmark", default="gsm8k")
    parser.add_argument("--path", required=True, help="the benchmark's file")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--methods", default="none,ngram,suffix")
    parser.add_argument("--in-flight", default="1,8,64,256")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=320)
    parser.add_argument("--chains", type=int, default=2, help="chains for each one in flight")
    parser.add_argument("--least", type=int, default=12, help="chains of each count at least")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--cudagraphs", help="vLLM's cudagraph_mode, else its default")
    parser.add_argument("--quick", action="store_true", help="in flight 1 and 4, two rounds")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


async def measure(options: argparse.Namespace, method: str) -> dict[str, Any]:
    """One method at every count of chains in flight."""
    from actors.engines.generator import GeneratorEngine
    from pipeline.benchmarks import BenchmarkSource, load

    pool: dict[str, Any] = {
        "engine": {
            "max_num_seqs": max(_counts(options)),
            "max_num_batched_tokens": 16_384 if options.gpu else 4_096,
            "enforce_eager": not options.gpu,
            "extra": {"compilation_config": {"cudagraph_mode": options.cudagraphs}}
            if options.cudagraphs
            else {},
        },
        "speculation": SPECULATION[method],
        "num_gpus": None if options.gpu else 0,
        "num_cpus": 2,
    }
    from actors.engines import vllm_setup
    from pipeline.config.runtime import PoolConfig

    os.environ.update(vllm_setup.environment(PoolConfig.model_validate(pool)))
    began = time.perf_counter()
    engine = GeneratorEngine({"model": options.model, "max_model_len": 2_048}, pool)
    await engine.warm_up()
    print(f"{method}: ready after {time.perf_counter() - began:.0f} s", flush=True)
    items = load(BenchmarkSource(name=options.benchmark, path=options.path)).items
    results: dict[str, Any] = {}
    first = 0
    for count in _counts(options):
        chains = max(options.least, count * options.chains)
        chosen = [items[(first + k) % len(items)] for k in range(chains)]
        first += chains
        before = engine.stats("bench")
        began = time.perf_counter()
        done = await _all(engine, chosen, count, options)
        seconds = time.perf_counter() - began
        after = engine.stats("bench")
        tokens = sum(chain.tokens for chain in done)
        # sequences times steps: what an engine that drafts nothing has as tokens
        turns = tokens - (after.accepted_tokens - before.accepted_tokens)
        drafted = after.draft_tokens - before.draft_tokens
        results[str(count)] = {
            "chains": len(done),
            "tokens": tokens,
            "tokens_per_s": tokens / seconds,
            "tokens_a_step": tokens / turns,
            "seconds_a_chain": statistics.median(chain.seconds for chain in done),
            "accepted": (after.accepted_tokens - before.accepted_tokens) / drafted
            if drafted
            else None,
            "length": _interval([chain.tokens / options.rounds for chain in done]),
            "accuracy": _interval([chain.right for chain in done]),
        }
        print(f"{method}, {count} in flight:", json.dumps(results[str(count)]), flush=True)
    engine.shutdown()
    return results


async def _all(
    engine: Any, items: Sequence[Any], in_flight: int, options: argparse.Namespace
) -> list[Chain]:
    places = asyncio.Semaphore(in_flight)

    async def one(item: Any) -> Chain:
        async with places:
            return await _chain(engine, item, options)

    return await asyncio.gather(*(one(item) for item in items))


async def _chain(engine: Any, item: Any, options: argparse.Namespace) -> Chain:
    from actors.routing.calls import GenerateCall
    from pipeline.answers import Verdict, extract, grade
    from pipeline.core.decoding import Decoding
    from pipeline.core.protocol import Completion, Failure, Question, decisions
    from pipeline.core.seeds import question_seed
    from pipeline.strategies.mr_thinking import MRThinking

    decoding = Decoding(max_tokens=options.max_tokens, temperature=options.temperature)
    strategy = MRThinking(n=options.rounds, decoding=decoding, score=False)
    seed = question_seed(0, options.benchmark, item.question_id)
    question = Question(
        benchmark=options.benchmark, question_id=item.question_id, text=item.text, seed=seed
    )
    began = time.perf_counter()
    loop = decisions(strategy, question)
    requests = next(loop)
    tokens = right = 0
    while True:
        (request,) = requests
        name = f"{item.question_id}-{request.round}-{time.perf_counter_ns()}"
        made = await engine.serve(GenerateCall(request, request_id=name))
        if isinstance(made, Failure):
            raise RuntimeError(f"a completion must come, got {made.error}")
        tokens += made.completion_tokens
        answer = extract(made.text)
        right += answer is not None and grade(item.gold, answer) is Verdict.RIGHT
        told = Completion(text=made.text, answer=answer, completion_tokens=made.completion_tokens)
        try:
            requests = loop.send([told])
        except StopIteration:
            return Chain(time.perf_counter() - began, tokens, right / options.rounds)


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean with its 95 % interval, normal."""
    mean = statistics.fmean(values)
    half = 1.96 * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def _counts(options: argparse.Namespace) -> list[int]:
    return [int(count) for count in options.in_flight.split(",")]


def main() -> None:
    """Measure and print."""
    options = _options().parse_args()
    if options.quick:
        options.in_flight, options.rounds = "1,4", 2
    if options.child:
        method, target = options.child.split("=", 1)
        Path(target).write_text(json.dumps(asyncio.run(measure(options, method))), "utf-8")
        return
    print(described(), flush=True)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for method in options.methods.split(","):
            target = Path(folder) / f"{method}.json"
            child = ["--child", f"{method}={target}"]
            command = [sys.executable, "-m", "benchmarks.speculation", *sys.argv[1:], *child]
            subprocess.run(command, check=True)  # noqa: S603 - this very script
            results[method] = json.loads(target.read_text("utf-8"))
    plain = results.get("none", {})
    for method, counts in results.items():
        for count, figures in counts.items():
            against = plain.get(count)
            if against is None or method == "none":
                continue
            gain = figures["tokens_per_s"] / against["tokens_per_s"]
            same = all(_meet(figures[name], against[name]) for name in ("length", "accuracy"))
            print(
                f"{method}, {count} in flight: {gain:.2f} times the tokens/s, "
                f"{figures['tokens_a_step']:.2f} tokens a step, lengths and accuracies "
                f"{'within intervals of each other' if same else 'DIFFER'}"
            )
    print(json.dumps(results))


def _meet(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[1] <= b[2] and b[1] <= a[2]


if __name__ == "__main__":
    main()
