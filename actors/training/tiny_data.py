"""Training data of the tiny models, as padded arrays of token ids.

Batch `index` of a recipe is a pure function of (seed, index), so any number of worker processes
makes the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from actors.training.tiny_tasks import draw_exercise
from actors.training.tiny_tokenizer import BOS, EOS, PAD, STEP, encode
from pipeline.benchmarks.builtin import check_steps
from pipeline.benchmarks.generated import TINY_PROMPTS, steps_of

IGNORED = -1
"""Label of a position without a step end."""

Ids = npt.NDArray[np.uint8]


class GeneratorBatch(NamedTuple):
    """Prompts with their solutions."""

    ids: Ids
    """(B, T), right-padded."""
    prompt_tokens: npt.NDArray[np.int64]
    """(B,); the loss is on what follows the prompt."""


class VerifierExamples(NamedTuple):
    """Solutions with a verdict at the end of each step."""

    ids: Ids
    """(B, T), right-padded."""
    labels: npt.NDArray[np.int8]
    """(B, T): 1 right, 0 wrong, `IGNORED` where no step ends."""


def prompt(question: str, previous: str | None = None) -> str:
    """What the generator is asked: the question, or the question and its previous answer."""
    message = TINY_PROMPTS.ask(question)
    if previous is not None:
        message = TINY_PROMPTS.ask_again(question, previous)
    return message[0].content


def prompt_ids(text: str) -> Ids:
    """Ids of a prompt, as the generator's chat template gives them for one user turn."""
    return np.concatenate(([BOS], encode(text + "\n"))).astype(np.uint8)


def padded(rows: Sequence[Ids], *, left: bool = False) -> Ids:
    """Rows of ids as one array (B, longest), padded on the right or the left."""
    table = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.uint8)
    for target, row in zip(table, rows, strict=True):
        target[len(target) - len(row) if left else 0 :][: len(row)] = row
    return table


def generator_batch(pairs: Sequence[tuple[str, Sequence[str]]]) -> GeneratorBatch:
    """A batch of (prompt, steps)."""
    prompts = [prompt_ids(text) for text, _ in pairs]
    replies = [np.append(encode("\n\n".join(steps)), np.uint8(EOS)) for _, steps in pairs]
    rows = [np.concatenate(pair) for pair in zip(prompts, replies, strict=True)]
    return GeneratorBatch(padded(rows), np.array([len(row) for row in prompts], dtype=np.int64))


def worked_batch(task: str, seed: int, index: int, size: int) -> GeneratorBatch:
    """Half first drafts, half revisions of right or wrong answers, from the training split."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, index)))
    pairs: list[tuple[str, Sequence[str]]] = []
    for _ in range(size):
        exercise = draw_exercise(task, rng)
        if rng.random() < 0.5:
            pairs.append((prompt(exercise.question), exercise.draft(rng)))
        else:
            asked_again = prompt(exercise.question, exercise.shown(rng))
            pairs.append((asked_again, exercise.revision(rng)))
    return generator_batch(pairs)


@contextmanager
def worked_batches(
    task: str, seed: int, count: int, size: int, workers: int
) -> Iterator[Iterator[GeneratorBatch]]:
    """Batches 0..count-1 in order, made by `workers` processes, or in this one if 0."""
    jobs = ((task, seed, index, size) for index in range(count))
    if workers == 0:
        yield (worked_batch(*job) for job in jobs)
        return
    import multiprocessing

    with multiprocessing.get_context("forkserver").Pool(workers) as pool:
        yield pool.imap(_worked_batch, jobs, chunksize=4)


def _worked_batch(job: tuple[str, int, int, int]) -> GeneratorBatch:
    return worked_batch(*job)


def scored_steps_ids(question: str, reply: str) -> tuple[Ids, npt.NDArray[np.int64]]:
    """What the verifier reads, as its chat template gives it, and where its steps end."""
    parts: list[Ids] = [prompt_ids(question)]
    for step in steps_of(reply):
        parts.append(np.append(encode(step), np.uint8(STEP)))
    ids = np.append(np.concatenate(parts), np.uint8(EOS))
    return ids, np.flatnonzero(ids == STEP)


def verifier_examples(questions: Sequence[str], replies: Sequence[str]) -> VerifierExamples:
    """Replies with the verdicts of `check_steps`; those without a step are left out.

    Raises:
        ValueError: if no reply has a step.
    """
    rows, ends, verdicts = [], [], []
    for question, reply in zip(questions, replies, strict=True):
        checked = check_steps(question, reply)
        if checked:
            ids, positions = scored_steps_ids(question, reply)
            rows.append(ids)
            ends.append(positions)
            verdicts.append(checked)
    if not rows:
        raise ValueError(f"at least one reply must have a step, got {len(replies)} without")
    table = padded(rows)
    labels = np.full(table.shape, IGNORED, dtype=np.int8)
    for target, positions, checked in zip(labels, ends, verdicts, strict=True):
        target[positions] = checked
    return VerifierExamples(table, labels)
