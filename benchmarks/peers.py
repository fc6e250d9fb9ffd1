"""The same chains in the two ways that people write first, beside the product.

    python -m benchmarks.peers --quick
    python -m benchmarks.peers --chains 256 --slots 48     # with the product on vLLM as well

- ``llm_batches``: a script over vLLM's offline `LLM` that generates a batch a round, on the tiny
  model (its weights never end a text, so each completion is as long as it is asked to be),
- ``product_vllm``: the product on the same model and chains; left out with --quick,
- ``actor_a_question``: one Ray actor a question, as many alive as the engine has slots, each asking
  a scripted engine for one round after the other,
- ``product_scripted``: the product on such an engine.
Rates are tokens/s from the first request to the last completion; ``start_s`` is what comes before.
The first two have vLLM with the same slots, threads and caches, and have answered a batch before.
Each request of the product has a seed, as in any run, and its time is also that of the journal, of
outcomes, and of the processes that Ray starts for these. ``cpu_s`` is the processor time of that
span, by process: it depends less than rates do on what else the machine does.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bare_loops import longest_first
from benchmarks.machine import described
from benchmarks.processes import Processes
from benchmarks.workload import Job, jobs, model_of

_MEAN_TOKENS, _MOST_TOKENS = 48, 120


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="under 50 s on 2 idle cores")
    parser.add_argument("--chains", type=int, default=192)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--tokens-per-s", type=float, default=120, help="of a scripted sequence")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--no-vllm", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def llm_batches(options: argparse.Namespace, work: Sequence[Job]) -> dict[str, float]:
    """A batch a round over vLLM's offline engine."""
    from actors.engines import vllm_setup
    from benchmarks.product import scripted_config
    from pipeline.config.run import RunConfig

    config = RunConfig.parse(scripted_config(len(work), slots=options.slots))
    pool = config.runtime.generator
    os.environ.update(vllm_setup.environment(pool))
    began = time.perf_counter()
    from vllm import LLM, SamplingParams, TokensPrompt

    with tempfile.TemporaryDirectory() as folder:
        llm = LLM(
            **model_of("tiny", Path(folder) / "model", "generator"),
            max_model_len=_MOST_TOKENS + 64,
            max_num_seqs=options.slots,
            max_num_batched_tokens=4_096,
            enforce_eager=not options.gpu,
            disable_log_stats=True,
        )
        tokenizer = llm.get_tokenizer()
        warm = SamplingParams(max_tokens=2, temperature=0.7, top_p=0.95)
        first = TokensPrompt(prompt_token_ids=tokenizer.encode("1"))
        llm.generate([first] * options.slots, [warm] * options.slots, use_tqdm=False)
        started_s = time.perf_counter() - began
        began, used, tokens = time.perf_counter(), time.process_time(), 0
        for number in range(max(job.rounds for job in work)):
            left = [job for job in work if number < job.rounds]
            prompts, params = [], []
            for job in left:
                text = job.text if number == 0 else f"{job.text} was {number}"
                ids = tokenizer.apply_chat_template(
                    [{"role": "user", "content": text}],
                    add_generation_prompt=True,
                    return_dict=False,
                )
                prompts.append(TokensPrompt(prompt_token_ids=ids))
                params.append(SamplingParams(max_tokens=job.tokens, temperature=0.7, top_p=0.95))
            outputs = llm.generate(prompts, params, use_tqdm=False)
            tokens += sum(len(output.outputs[0].token_ids) for output in outputs)
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - used
    assert tokens == sum(job.total for job in work), "completions must be as long as asked for"
    return {
        "tokens_per_s": tokens / seconds,
        "seconds": seconds,
        "cpu_s": cpu_s,
        "start_s": started_s,
    }


class QuestionActor:
    """A chain that is a process of its own."""

    def __init__(self, engine: str, namespace: str) -> None:
        import ray

        self._engine = ray.get_actor(engine, namespace=namespace)

    def run(self, job: Job) -> tuple[float, float, int, int]:
        """All rounds: first request, last completion, tokens, and memory of this process."""
        import psutil
        import ray

        from actors.routing.calls import GenerateCall
        from pipeline.core.prompts import Message
        from pipeline.core.protocol import Request

        began, tokens = time.time(), 0
        for number in range(job.rounds):
            text = job.text if number == 0 else f"{job.text} was {number}"
            request = Request(
                messages=(Message(role="user", content=text),),
                max_tokens=job.tokens,
                temperature=0.7,
                top_p=0.95,
                round=number,
            )
            call = GenerateCall(request, request_id=uuid.uuid4().hex, deadline_s=600.0)
            tokens += ray.get(self._engine.serve.remote(call)).completion_tokens
        return began, time.time(), tokens, psutil.Process().memory_info().rss


def actor_a_question(config: dict[str, Any], work: Sequence[Job], slots: int) -> dict[str, float]:
    """One actor a question, as many alive as the engine has slots."""
    import ray

    from actors.engines.launch import start_pools
    from actors.routing.transport import NAMESPACE
    from jobs.cluster import start_ray
    from pipeline.config.run import RunConfig

    parsed = RunConfig.parse(config)
    start_ray(parsed.runtime)
    engines = start_pools(
        {"generator": parsed.science.generator},
        parsed.runtime,
        "peers",
        parsed.science.decoding.max_tokens,
    )
    try:
        name = engines.address.pools["generator"].at["replicas"][0]
        actor = ray.remote(QuestionActor).options(num_cpus=0)
        waiting, results = list(reversed(work)), []
        running: dict[Any, Any] = {}
        while waiting or running:
            while waiting and len(running) < slots:
                chain = actor.remote(name, NAMESPACE)
                running[chain.run.remote(waiting.pop())] = chain
            done, _ = ray.wait(list(running))
            for reference in done:
                results.append(ray.get(reference))
                ray.kill(running.pop(reference))
    finally:
        engines.stop()
    began, ended, tokens, memory = zip(*results, strict=True)
    assert sum(tokens) == sum(job.total for job in work), "completions must be of the length asked"
    seconds = max(ended) - min(began)
    return {
        "tokens_per_s": sum(tokens) / seconds,
        "seconds": seconds,
        "mb_a_chain": max(memory) / 1e6,
    }


def _in_child(arguments: list[str]) -> dict[str, float]:
    """The offline engine in a process of its own, which is gone when it ends."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "benchmarks.peers", *arguments, "--child", str(target)]
        subprocess.run(command, check=True)  # noqa: S603 - this very script
        figures: dict[str, float] = json.loads(target.read_text("utf-8"))
    return figures


def _product_on_vllm(options: argparse.Namespace, work: list[Job]) -> dict[str, Any]:
    from benchmarks.product import run_chains, scripted_config

    config = scripted_config(len(work), slots=options.slots, most_tokens=_MOST_TOKENS)
    del config["runtime"]["scripted"]
    config["runtime"]["generator"]["engine"] |= {
        "max_num_batched_tokens": 4_096,
        "enforce_eager": not options.gpu,
    }
    config["runtime"]["generator"]["num_gpus"] = 1 if options.gpu else 0
    with tempfile.TemporaryDirectory() as folder:
        config["science"]["generator"] = {
            **model_of("tiny", Path(folder) / "model", "generator"),
            "max_model_len": _MOST_TOKENS + 64,
        }
        with Processes() as processes:
            figures: dict[str, Any] = run_chains(config, work)
        return figures | {"cpu_s": processes.while_working(figures["seconds"])}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _options().parse_args(arguments)
    if options.quick:
        options.chains = min(options.chains, 32)
    work = longest_first(jobs(options.chains, mean_tokens=_MEAN_TOKENS, most_tokens=_MOST_TOKENS))
    if options.child:
        Path(options.child).write_text(json.dumps(llm_batches(options, work)), "utf-8")
        return
    print(described())
    print(f"{len(work)} chains, {sum(job.total for job in work):,} tokens, {options.slots} slots")
    figures: dict[str, Any] = {"benchmark": "peers", "chains": len(work)}
    if not options.no_vllm:
        figures["llm_batches"] = _in_child(arguments)
        print("llm_batches", figures["llm_batches"], flush=True)
        if not options.quick:
            figures["product_vllm"] = _product_on_vllm(options, work)
            print("product_vllm", figures["product_vllm"], flush=True)
    from benchmarks.product import run_chains, scripted_config

    config = scripted_config(
        len(work),
        slots=options.slots,
        tokens_per_s=options.tokens_per_s,
        most_tokens=_MOST_TOKENS,
    )
    figures["actor_a_question"] = actor_a_question(config, work, options.slots)
    print("actor_a_question", figures["actor_a_question"], flush=True)
    figures["product_scripted"] = run_chains(config, work)
    print("product_scripted", figures["product_scripted"], flush=True)
    for product, rival in (
        ("product_vllm", "llm_batches"),
        ("product_scripted", "actor_a_question"),
    ):
        if product in figures and rival in figures:
            ratio = figures[product]["tokens_per_s"] / figures[rival]["tokens_per_s"]
            figures[f"product_over_{rival}"] = ratio
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
