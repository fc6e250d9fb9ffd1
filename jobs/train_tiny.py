"""Train the embedded tiny generator and verifier from nothing, measure them, write their cards.

    python -m jobs.train_tiny --out models --device cuda        # about 6 minutes on one H100
    python -m jobs.train_tiny --out models --minutes-budget 120 # on a CPU: a shorter run

Reads nothing. Writes ``OUT/tiny-generator`` (with ``figures.json`` and ``priors.json``) and
``OUT/tiny-verifier``. Needs torch, transformers, safetensors, numpy and scipy; no Ray, no vLLM.
"""

from __future__ import annotations

import argparse
import logging
import math
from pathlib import Path

from actors.training.tiny_card import write_cards
from actors.training.tiny_measure import measure_chains, measure_verifier, targets
from actors.training.tiny_models import (
    GENERATOR,
    VERIFIER,
    device_name,
    fastest_device,
    load_generator,
    load_verifier,
    parameters,
    save_generator,
    save_verifier,
)
from actors.training.tiny_training import QUICK, Recipe, train_generator, train_verifier

MEASURED_SEED = 2026
"""Seed of the measured test questions; the priors' training questions use the next one."""


def main(argv: list[str] | None = None) -> int:
    """Parse, train, save, load what was saved, measure it, write the cards."""
    args = _parse(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    device = args.device or fastest_device()
    workers = 0 if args.quick else args.workers
    recipe = QUICK if args.quick else Recipe()
    seconds = 60 * args.minutes_budget
    generator, generator_fit = train_generator(
        recipe, seed=args.seed, device=device, workers=workers, seconds=0.55 * seconds
    )
    save_generator(generator, args.out / GENERATOR)
    verifier, verifier_fit = train_verifier(
        generator, recipe, seed=args.seed, seconds=0.25 * seconds
    )
    save_verifier(verifier, args.out / VERIFIER)

    generator = load_generator(args.out / GENERATOR, device)  # what is measured is what is saved
    verifier = load_verifier(args.out / VERIFIER, device)
    chains, texts, replies, right = measure_chains(
        generator, n=recipe.questions, split="test", rounds=recipe.rounds, seed=MEASURED_SEED
    )
    scores = measure_verifier(verifier, texts, replies, right)
    on_training, *_ = measure_chains(
        generator, n=recipe.questions, split="train", rounds=recipe.rounds, seed=MEASURED_SEED + 1
    )
    figures = {
        "command": _command(args, device),
        "device": device_name(device),
        "sampling": {"temperature": 0.7, "top_p": 0.95},
        "parameters": {GENERATOR: parameters(generator), VERIFIER: parameters(verifier)},
        "training": {GENERATOR: generator_fit._asdict(), VERIFIER: verifier_fit._asdict()},
        "chains": chains,
        "verifier": scores,
        "targets": targets(chains, scores),
    }
    write_cards(args.out, recipe, figures, on_training)
    print(f"first answers right {chains['p0']:.3f}, by round {chains['accuracy_by_round']}")
    print(f"a {chains['a']}, b {chains['b']}, L {chains['stationary_accuracy']}")
    print(f"AUC {scores['auc_first_answers']}; targets {figures['targets']}")
    print(f"written: {args.out / GENERATOR}, {args.out / VERIFIER}")
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="train_tiny", description="Train the embedded tiny models on generated arithmetic."
    )
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder to write to")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), help="default: cuda where there is one"
    )
    parser.add_argument(
        "--minutes-budget", type=float, default=math.inf, help="cut training to fit this time"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=6, help="processes that make batches")
    parser.add_argument("--quick", action="store_true", help="a few batches, to see it run")
    args = parser.parse_args(argv)
    if not args.minutes_budget > 0:
        parser.error(f"--minutes-budget must be > 0, got {args.minutes_budget}")
    if args.workers < 0 or args.seed < 0:
        parser.error(f"--workers and --seed must be >= 0, got {args.workers} and {args.seed}")
    return args


def _command(args: argparse.Namespace, device: str) -> str:
    """The command that repeats this run, without the folder it wrote to."""
    parts = ["python -m jobs.train_tiny --out models", f"--device {device}", f"--seed {args.seed}"]
    if args.minutes_budget < math.inf:
        parts.append(f"--minutes-budget {args.minutes_budget:g}")
    if args.quick:
        parts.append("--quick")
    return " ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
