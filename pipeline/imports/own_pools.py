"""*Own pools*: reads pools of this project as a log, and starts runs from one.

Chains of each pool are chains of the whole, its samples follow those of the pools before it. What a
pool has of a new run's requests is recorded as the run's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Completion, Observation, Pool, Request
from pipeline.imports.entries import Entry, Log, renumbered
from pipeline.records.journal import as_requested
from pipeline.records.questions import question_of, read_questions
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import Row, row_of
from pipeline.replay.exact import Recorded, drive
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
    log.decoding = {n: getattr(first.decoding, n) for n in ("temperature", "top_p", "max_tokens")}
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
    of_pool = question.question
    for place, (entry, verdict) in enumerate(zip(recorded, verdicts, strict=True)):
        seen = entry.observation
        yield Entry(
            where=f"{pool.address}, question {of_pool.question_id}, {kind} {chain} {place}",
            question_id=of_pool.question_id,
            pool=kind,
            place=place,
            chain=chain,
            benchmark=of_pool.benchmark,
            model=pool.science.generator.model,
            question=of_pool.text,
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


_ROWS = 20_000  # a segment


class _MissingError(LookupError):
    """The pool has no completion for a request."""


def pool_to_go_on_from(address: str) -> CompletionPool:
    """A pool whose prompts are known.

    Raises:
        ConfigError: where they are not.
    """
    pool = read_pool(address, text=True)
    if pool.imported is not None and pool.imported.prompts != "known":
        raise ConfigError(
            f"a run can continue only a pool whose prompts are known, those of {address} were not "
            f"recorded ({pool.imported.format}): collect a pool of your own"
        )
    return pool


def ask_alike(values: dict[str, Any], pool: CompletionPool) -> None:
    """Give the values of a configuration the prompts and the sampling of a pool, in place."""
    settings = pool.science.model_dump(mode="json")
    values.setdefault("science", {}).update(
        prompts=settings["prompts"], decoding=settings["decoding"]
    )


def carry_over(pool: CompletionPool, run: RunDir, config: RunConfig) -> int:
    """Record what a pool has of a new run's requests in its journal; returns the completions.

    Args:
        pool: from `pool_to_go_on_from`.
        run: new, with its questions. The next attempt finds what was recorded.
        config: of the run.

    Raises:
        ConfigError: where another model drew or scored the pool, or nothing of it fits.
    """
    science = config.science
    for role, mine in science.models.items():
        theirs = pool.science.models.get(role)
        if theirs is not None and theirs.model != mine.model:
            raise ConfigError(
                f"science.{role}.model must be that of the pool, {theirs.model!r}, got "
                f"{mine.model!r}"
            )
    held = {question.question.text: question for question in pool.questions}
    rows = list(_rows(held, run, config))
    if not rows:
        raise ConfigError(
            f"a run must ask what {pool.address} answers, no request of it does: questions, "
            "prompts and sampling parameters must be the same, and scores be there where a "
            "verifier is named"
        )
    newest = run.newest()
    epoch = Epoch(newest.number, newest.token, 0, "pool", 0)
    for sequence, start in enumerate(range(0, len(rows), _ROWS)):
        part = rows[start : start + _ROWS]
        write_segment(run.journal, epoch, sequence, part, run=run.run_id)
    return len(rows)


def _rows(held: Mapping[str, PoolQuestion], run: RunDir, config: RunConfig) -> Iterator[Row]:
    verifier = config.science.verifier
    for label, strategy in strategies_of(config.science).items():
        for facts in rows_of(read_questions(run.folder)):
            question = question_of(facts)
            if question.text not in held:
                continue
            found: list[tuple[Request, Observation]] = []
            with suppress(_MissingError):  # the run draws the rest
                drive(strategy, question, partial(_answer, held[question.text], found))
            for request, seen in found:
                yield row_of(
                    run=run.run_id,
                    attempt=run.newest().number,
                    strategy=label,
                    question=question,
                    request=request,
                    observation=seen,
                    generator=config.science.generator.model,
                    verifier=None if verifier is None else verifier.model,
                )


def _answer(
    held: PoolQuestion, found: list[tuple[Request, Observation]], request: Request
) -> Observation:
    """The pool's completion for a request, noted in `found`."""
    if request.pool is Pool.PARALLEL:
        entries, at = held.samples, request.sample
    else:
        known = request.chain < len(held.chains)
        entries, at = held.chains[request.chain][0] if known else (), request.round
    if at >= len(entries) or entries[at].digest != request.digest():
        raise _MissingError
    seen = entries[at].observation
    if not isinstance(seen, Completion) or (request.score and seen.score is None):
        raise _MissingError
    found.append((request, as_requested(seen, request)))
    return found[-1][1]
