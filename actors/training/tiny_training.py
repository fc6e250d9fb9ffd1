"""Training of the embedded tiny generator and verifier, from nothing.

The generator learns first drafts and revisions from the solutions of `tiny_tasks`; towards the end,
half of its batches revise its own answers. The verifier starts from the generator's backbone and
learns, from sampled solutions, what arithmetic says of each step. Nothing is tuned outside the
weights.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from actors.training.tiny_data import (
    IGNORED,
    GeneratorBatch,
    VerifierExamples,
    generator_batch,
    prompt,
    verifier_examples,
    worked_batches,
)
from actors.training.tiny_models import new_generator, new_verifier, step_logits
from actors.training.tiny_sampling import TEMPERATURE, sample_chains
from actors.training.tiny_tasks import draw_exercise
from actors.training.tiny_tokenizer import PAD
from pipeline.benchmarks import arithmetic, sums
from pipeline.benchmarks.generated import answer_of
from pipeline.core.errors import ConfigError

logger = logging.getLogger(__name__)

_PEAK_RATE = 2e-3
_WARM_UP = 0.1
_LOG_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How much of everything; the defaults are those of `arithmetic`."""

    task: str = arithmetic.BENCHMARK
    batch: int = 1024
    """Solutions a batch, for both models."""
    worked_batches: int = 3000
    """Generator batches of worked solutions alone."""
    own_batches: int = 800
    """Further generator batches, half of which revise the model's own answers."""
    own_answers: int = 8192
    """Questions answered anew each time that the own answers run out."""
    verifier_batches: int = 1500
    solutions: int = 262_144
    """Sampled solutions that the verifier learns from."""
    questions: int = 3000
    """Questions measured, of the test and of the training split each."""
    rounds: int = 9
    """Rounds of the measured chains: N = 8 and one more, for the correlation with round 0."""


RECIPES = {
    arithmetic.BENCHMARK: Recipe(),
    sums.BENCHMARK: Recipe(
        task=sums.BENCHMARK,
        batch=128,
        worked_batches=700,
        own_batches=0,
        verifier_batches=250,
        solutions=16_384,
    ),
}
"""How the shipped models of each task are made; sums are easy enough for a CPU."""


def quick(recipe: Recipe) -> Recipe:
    """A recipe for tests: every part runs, nothing is learnt."""
    return replace(
        recipe,
        batch=16,
        worked_batches=6,
        own_batches=4,
        own_answers=16,
        verifier_batches=4,
        solutions=32,
        questions=16,
        rounds=2,
    )


class Fit(NamedTuple):
    """What a training loop did."""

    batches: int
    seconds: float
    loss: float
    """Mean loss of the last tenth of the batches, in nats."""


def train_generator(
    recipe: Recipe, *, seed: int, device: str, workers: int, seconds: float = math.inf
) -> tuple[Any, Fit]:
    """A new generator, trained for the recipe's batches or `seconds`, whichever ends first.

    The share of batches on own answers and the learning rate follow the part of the batches, or of
    the time, that is gone, so a run cut by time is a shorter run of the same recipe.
    """
    import torch

    torch.manual_seed(seed)
    model = new_generator().to(device)
    total = recipe.worked_batches + recipe.own_batches
    own_from = recipe.worked_batches / total
    own = _own_revisions(model, recipe, seed)
    with worked_batches(recipe.task, seed, total, recipe.batch, workers) as worked:
        turn = 0

        def loss(progress: float) -> Any:
            nonlocal turn
            turn += progress >= own_from
            batch = next(own) if turn % 2 else next(worked)
            return _generator_loss(model, batch)

        fit = _fit(model, loss, batches=total, seconds=seconds)
    return model.eval(), fit


def train_verifier(
    generator: Any, recipe: Recipe, *, seed: int, seconds: float = math.inf
) -> tuple[Any, Fit]:
    """A verifier for what `generator` writes; a third of `seconds` at most goes into sampling."""
    import torch

    began = time.monotonic()
    examples = sampled_examples(
        generator, recipe.task, recipe.solutions, seed=seed, seconds=seconds / 3
    )
    logger.info("verifier: %d solutions sampled", len(examples.ids))
    torch.manual_seed(seed)
    device = generator.device
    verifier = new_verifier(generator).to(device)
    ids = torch.from_numpy(examples.ids).to(device)
    labels = torch.from_numpy(examples.labels).to(device)

    def loss(progress: float) -> Any:
        chosen = torch.randint(len(ids), (recipe.batch,), device=device)
        logits = step_logits(verifier, ids[chosen].long())
        return torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), labels[chosen].long().flatten(), ignore_index=IGNORED
        )

    left = seconds - (time.monotonic() - began)
    fit = _fit(verifier, loss, batches=recipe.verifier_batches, seconds=left)
    return verifier.eval(), fit


def sampled_examples(
    generator: Any, task: str, n: int, *, seed: int, seconds: float = math.inf
) -> VerifierExamples:
    """About `n` checked solutions of training questions: half first answers, half revisions.

    Sampled in turn at the temperature of runs and at 1, which shows more kinds of error.
    """
    rng = np.random.default_rng(np.random.SeedSequence((seed, 2)))
    began = time.monotonic()
    questions: list[str] = []
    replies: list[str] = []
    turn = 0
    while len(replies) < n and (turn == 0 or time.monotonic() - began < seconds):
        asked = [draw_exercise(task, rng).question for _ in range(max(1, min(4096, n // 2)))]
        chains = sample_chains(
            generator,
            asked,
            rounds=2,
            seed=_sampling_seed(seed, 2, turn),
            temperature=1.0 if turn % 2 else TEMPERATURE,
        )
        for drawn in chains:
            questions += asked
            replies += drawn
        turn += 1
    return verifier_examples(questions, replies)


def _own_revisions(generator: Any, recipe: Recipe, seed: int) -> Iterator[GeneratorBatch]:
    """Endless batches that revise the generator's own answers of first drafts and of revisions."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, 1)))
    turn = 0
    while True:
        exercises = [draw_exercise(recipe.task, rng) for _ in range(recipe.own_answers)]
        questions = [exercise.question for exercise in exercises]
        generator.eval()
        chains = sample_chains(generator, questions, rounds=2, seed=_sampling_seed(seed, 1, turn))
        generator.train()
        turn += 1
        pairs = [
            (prompt(exercise.question, answer_of(reply)), exercise.revision(rng))
            for replies in chains
            for exercise, reply in zip(exercises, replies, strict=True)
        ]
        order = rng.permutation(len(pairs))
        for start in range(0, len(pairs), recipe.batch):
            yield generator_batch([pairs[i] for i in order[start : start + recipe.batch]])


def _generator_loss(model: Any, batch: GeneratorBatch) -> Any:
    """Cross-entropy, in nats a token, of the solutions; prompts and padding do not count."""
    import torch

    ids = torch.from_numpy(batch.ids).to(model.device, non_blocking=True).long()
    prompt_tokens = torch.from_numpy(batch.prompt_tokens).to(model.device, non_blocking=True)
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    positions = torch.arange(1, ids.shape[1], device=model.device)
    counted = (positions >= prompt_tokens[:, None]) & (ids[:, 1:] != PAD)
    targets = ids[:, 1:].masked_fill(~counted, IGNORED)
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED
    )


def _fit(model: Any, loss_at: Callable[[float], Any], *, batches: int, seconds: float) -> Fit:
    """AdamW over one cycle of the learning rate, until `batches` or `seconds` have gone."""
    import torch

    device = next(model.parameters()).device.type
    optimizer = torch.optim.AdamW(model.parameters(), lr=_PEAK_RATE)
    losses: list[Any] = []
    began = time.monotonic()
    model.train()
    while (
        progress := max(len(losses) / batches, (time.monotonic() - began) / max(seconds, 1e-9))
    ) < 1:
        for group in optimizer.param_groups:
            group["lr"] = _PEAK_RATE * _one_cycle(progress)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_at(progress)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) % _LOG_EVERY == 0:
            elapsed = time.monotonic() - began
            logger.info("batch %d, loss %.4f, %.0f s", len(losses), loss.item(), elapsed)
    if not losses:
        raise ConfigError(f"training needs time for at least one batch, got {seconds:.0f} s")
    last = torch.stack(losses[-max(1, len(losses) // 10) :]).mean().item()
    if not math.isfinite(last):
        raise ConfigError(f"training must end with a finite loss, got {last}: try another --seed")
    return Fit(len(losses), time.monotonic() - began, last)


def _one_cycle(progress: float) -> float:
    """Share of the peak learning rate: a linear rise over the first tenth, then half a cosine."""
    if progress < _WARM_UP:
        return (progress + 1e-3) / (_WARM_UP + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * (progress - _WARM_UP) / (1 - _WARM_UP)))


def _sampling_seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
