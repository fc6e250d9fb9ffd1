"""Pools of this project as a log: several pools of other seeds become one.

Chains of each pool are chains of the whole, its samples follow those of the pools before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.core.errors import DataError
from pipeline.core.protocol import Completion, Observation, Pool
from pipeline.imports.entries import Entry, Log, renumbered
from pipeline.replay.exact import Recorded
from pipeline.replay.pool_rows import LEFT_OUT
from pipeline.replay.pools import CompletionPool, PoolQuestion, Verdicts, read_pool


def read_own(addresses: Sequence[str]) -> Log:
    """Read runs of ``jobs.collect`` and exported pools.

    Raises:
        DataError: where two were asked with other prompts or sampling parameters.
    """
    pools = [read_pool(address) for address in addresses]
    first = pools[0].science
    for pool in pools[1:]:
        for what in ("prompts", "decoding", "grader"):
            one, other = getattr(first, what), getattr(pool.science, what)
            if one != other:
                raise DataError(
                    f"pools of one must have the same {what}, {pools[0].address} and "
                    f"{pool.address} differ in it: {one} and {other}"
                )
    origins = [pool.imported for pool in pools]
    known = all(origin is None or origin.prompts == "known" for origin in origins)
    log = Log(prompts=first.prompts if known else None, context="last_answer")
    contexts = {"last_answer" if origin is None else origin.context for origin in origins}
    log.context = contexts.pop() if len(contexts) == 1 else "unknown"  # type: ignore[assignment]  # one of them
    decoding = first.decoding
    log.decoding = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "max_tokens": decoding.max_tokens,
    }
    verifiers = {pool.science.verifier.model for pool in pools if pool.science.verifier}
    log.scores = ", ".join(sorted(verifiers))
    chains, samples = list[Entry](), list[Entry]()
    for number, pool in enumerate(pools):
        for question in pool.questions:
            chains += _chains(pool, question, number)
            samples += _entries(
                pool, question, question.samples, question.sample_verdicts, Pool.PARALLEL, ""
            )
    log.entries = [*chains, *renumbered(samples)]
    return log


def _chains(pool: CompletionPool, question: PoolQuestion, number: int) -> Iterator[Entry]:
    for at, (rounds, verdicts) in enumerate(question.chains):
        name = str(1000 * number + at)
        yield from _entries(pool, question, rounds, verdicts, Pool.SEQUENTIAL, name)


def _entries(
    pool: CompletionPool,
    question: PoolQuestion,
    recorded: Sequence[Recorded],
    verdicts: Verdicts,
    kind: Pool,
    chain: str,
) -> Iterator[Entry]:
    asked = question.question
    for place, (entry, verdict) in enumerate(zip(recorded, verdicts, strict=True)):
        seen = entry.observation
        yield Entry(
            where=f"{pool.address}, question {asked.question_id}, {kind} {chain} {place}",
            question_id=asked.question_id,
            pool=kind,
            place=place,
            chain=chain,
            benchmark=asked.benchmark,
            model=pool.science.generator.model,
            question=asked.text,
            gold=() if question.gold is None else (question.gold,),
            level=question.level,
            right=None if verdict in (None, "ungraded") else verdict == "right",
            **_of(seen, known=pool.tokens != "none"),
        )


def _of(seen: Observation, *, known: bool) -> dict[str, Any]:
    if not isinstance(seen, Completion):
        return {"error": seen.error, "tokens": seen.completion_tokens}
    return {
        "text": None if seen.text == LEFT_OUT else seen.text,
        "answer": seen.answer,
        "score": seen.score,
        "tokens": seen.completion_tokens if known else None,
        "prompt_tokens": seen.prompt_tokens,
        "thinking_tokens": seen.thinking_tokens,
        "finish_reason": seen.finish_reason,
        "says_stop": seen.says_stop,
    }
