"""The same chains over a bare vLLM AsyncLLM, in the ways people drive it: what the product is
held against. No Ray, no journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.engines.engine_stats import EngineStats, Meter
from actors.routing.calls import ScoreCall
from benchmarks.workload import Job
from pipeline.core.errors import VerifierError
from pipeline.core.protocol import Failure

Round = Callable[[Job, int], Awaitable[None]]


class BareEngine:
    """One AsyncLLM, started with the product's own arguments.

    Args:
        meter: counts its steps.
        seeded: whether each request carries a sampling seed, as the product's do.
        verifier: a `VerifierEngine` that scores each completion before its chain goes on.
    """

    def __init__(
        self, llm: Any, tokenizer: Any, meter: Meter, *, seeded: bool, verifier: Any = None
    ) -> None:
        self._llm, self._tokenizer, self._seeded = llm, tokenizer, seeded
        self._meter, self._verifier = meter, verifier
        self._calls = 0
        self.tokens = 0

    async def round(self, job: Job, number: int) -> None:
        """One completion of a chain, scored where there is a verifier.

        Raises:
            VerifierError: where it has no score.
        """
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        self._calls += 1
        text = job.text if number == 0 else f"{job.text} was {number}"
        ids = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        params = SamplingParams(
            max_tokens=job.tokens,
            temperature=0.7,
            top_p=0.95,
            seed=self._calls if self._seeded else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        prompt, name = TokensPrompt(prompt_token_ids=ids), f"bare-{self._calls}"
        with self._meter.request():
            async for output in self._llm.generate(prompt, params, name):
                self.tokens += len(output.outputs[0].token_ids)
                reply = output.outputs[0].text
        if self._verifier is not None:
            scored = await self._verifier.serve(ScoreCall(job.text, reply, request_id=name))
            if isinstance(scored, Failure):
                raise VerifierError(f"a completion must have a score, got {scored.error}")

    def stats(self) -> EngineStats:
        """What the engine counted so far."""
        return self._meter.stats("bare", "generator", 0)

    async def reset(self) -> None:
        """Forget prefixes and counts before the next loop."""
        await self._llm.reset_prefix_cache()
        self.tokens = 0


async def raw(jobs: Sequence[Job], round_: Round, slots: int) -> None:
    """All completions independent, in the order given: what chains can at best come near."""
    del slots
    await asyncio.gather(*(round_(job, number) for job in jobs for number in range(job.rounds)))


async def barrier(jobs: Sequence[Job], round_: Round, slots: int) -> None:
    """One batch a round over all questions that still go on."""
    del slots
    for number in range(max(job.rounds for job in jobs)):
        await asyncio.gather(*(round_(job, number) for job in jobs if number < job.rounds))


async def chains(jobs: Sequence[Job], round_: Round, slots: int) -> None:
    """As many chains as the engine has slots, the next as soon as one ends, in the order given."""
    free = asyncio.Semaphore(slots)

    async def chain(job: Job) -> None:
        async with free:
            for number in range(job.rounds):
                await round_(job, number)

    await asyncio.gather(*(chain(job) for job in jobs))


def longest_first(jobs: Sequence[Job]) -> list[Job]:
    """Chains by their true total length, longest first."""
    return sorted(jobs, key=lambda job: -job.total)


LOOPS: dict[
    str, tuple[Callable[..., Awaitable[None]], Callable[[Sequence[Job]], Sequence[Job]]]
] = {
    "raw": (raw, longest_first),
    "barrier": (barrier, list),
    "arrival": (chains, list),
    "longest_first": (chains, longest_first),
}
"""By name: how completions are asked for, and in which order chains start."""


async def measure(
    engine: BareEngine, name: str, jobs: Sequence[Job], slots: int
) -> dict[str, float]:
    """Run one loop; tokens/s over its makespan."""
    loop, order = LOOPS[name]
    await engine.reset()
    before = engine.stats()
    began = time.perf_counter()
    await loop(order(jobs), engine.round, slots)
    seconds = time.perf_counter() - began
    after = engine.stats()
    return {
        "seconds": seconds,
        "tokens": engine.tokens,
        "tokens_per_s": engine.tokens / seconds,
        "slots_busy": (after.slot_s - before.slot_s) / seconds,
        "ms_a_step": 1_000 * seconds / max(1, after.steps - before.steps),
        "preemptions": after.preemptions - before.preemptions,
    }
