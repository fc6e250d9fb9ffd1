"""Train an embedded tiny generator and its verifier from nothing, measure them, write their cards.

    python -m jobs.train_tiny --task arithmetic --device cuda         # about 6 minutes on one H100
    python -m jobs.train_tiny --task sums --device cpu                # about 20 minutes
    python -m jobs.train_tiny --task arithmetic --minutes-budget 120  # on a CPU: a shorter run
    python -m jobs.train_tiny --task sums --measure                   # figures and cards alone

Reads nothing. Writes ``OUT/tiny-generator`` (with ``figures.json`` and ``priors.json``) and
``OUT/tiny-verifier``, or ``OUT/sums-generator`` and ``OUT/sums-verifier``. Needs torch,
transformers, safetensors, pyarrow, numpy and scipy; no Ray, no vLLM.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from actors.training.tiny_card import recorded_training, write_cards
from actors.training.tiny_measure import measure, measure_chains
from actors.training.tiny_models import (
    GENERATOR,
    VERIFIER,
    device_name,
    fastest_device,
    folder_name,
    load_generator,
    load_verifier,
    parameters,
    save_generator,
    save_verifier,
)
from actors.training.tiny_training import RECIPES, quick, train_generator, train_verifier
from jobs.cli import VerbParser, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError
from pipeline.store.storage import Folder

MEASURED_SEED = 2026
"""Seed of the measured test questions; the priors' training questions use the next one."""


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Parse, train, save, load what was saved, measure it, write the cards."""
    args = _parse(argv)
    log_to_stderr(args.level)
    device = args.device or fastest_device()
    if device == "cuda" and fastest_device() != "cuda":
        raise ConfigError("--device cuda must find a GPU, PyTorch finds none")
    recipe = quick(RECIPES[args.task]) if args.quick else RECIPES[args.task]
    folders = {model: args.out / folder_name(args.task, model) for model in (GENERATOR, VERIFIER)}
    for folder in folders.values():
        Folder(str(folder)).prepare("README.md")
    trained = recorded_training(folders[GENERATOR]) if args.measure else _train(args, device)

    generator = load_generator(folders[GENERATOR], device)  # what is measured is what is saved
    verifier = load_verifier(folders[VERIFIER], device)
    size = {"n": recipe.questions, "rounds": recipe.rounds}
    measured = measure(generator, verifier, recipe.task, seed=MEASURED_SEED, **size)
    on_training, *_ = measure_chains(
        generator, recipe.task, split="train", seed=MEASURED_SEED + 1, **size
    )
    figures = {
        **trained,
        "measured_by": _command(args, device),
        "measured_on": device_name(device),
        "sampling": {"temperature": 0.7, "top_p": 0.95},
        "parameters": {GENERATOR: parameters(generator), VERIFIER: parameters(verifier)},
        **measured,
    }
    write_cards(folders, recipe, figures, on_training)
    chains, scores = measured["chains"], measured["verifier"]
    print(f"first answers right {chains['p0']:.3f}, by round {chains['accuracy_by_round']}")
    print(f"a {chains['a']}, b {chains['b']}, L {chains['stationary_accuracy']}")
    print(f"rightness correlated with that of round 0: {chains['correlation_with_round_0']}")
    print(f"AUC {scores['auc_all_rounds']}, within a question {scores['auc_within_questions']}")
    print(f"best scored right {scores['accuracy_of_best_scored']}; targets {measured['targets']}")
    print(f"written: {folders[GENERATOR]}, {folders[VERIFIER]}")
    return 0


def _train(args: argparse.Namespace, device: str) -> dict[str, Any]:
    """Train and save both models; returns what the figures say of it."""
    recipe = quick(RECIPES[args.task]) if args.quick else RECIPES[args.task]
    seconds = 60 * args.minutes_budget
    generator, generator_fit = train_generator(
        recipe,
        seed=args.seed,
        device=device,
        workers=0 if args.quick else args.workers,
        seconds=0.55 * seconds,
    )
    save_generator(generator, args.out / folder_name(args.task, GENERATOR))
    verifier, verifier_fit = train_verifier(
        generator, recipe, seed=args.seed, seconds=0.25 * seconds
    )
    save_verifier(verifier, args.out / folder_name(args.task, VERIFIER))
    return {
        "command": _command(args, device),
        "device": device_name(device),
        "training": {GENERATOR: generator_fit._asdict(), VERIFIER: verifier_fit._asdict()},
    }


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = VerbParser("train_tiny", __doc__)
    parser.add_argument(
        "--task",
        choices=tuple(RECIPES),
        default="arithmetic",
        help="what the models learn (arithmetic)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=Path("models"),
        help="folder to write to (models)",
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), help="where to train (cuda where there is one)"
    )
    parser.add_argument(
        "--minutes-budget",
        type=float,
        metavar="MINUTES",
        default=math.inf,
        help="cut training to fit this time",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="of weights and batches (0)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", default=6, help="processes that make batches (6)"
    )
    parser.add_argument("--quick", action="store_true", help="a few batches, to see it run")
    parser.add_argument(
        "--measure", action="store_true", help="train nothing: measure the models that OUT has"
    )
    args = parser.parse_args(argv)
    if not args.minutes_budget > 0:
        parser.error(f"--minutes-budget must be > 0, got {args.minutes_budget}")
    if args.workers < 0 or args.seed < 0:
        parser.error(f"--workers and --seed must be >= 0, got {args.workers} and {args.seed}")
    return args


def _command(args: argparse.Namespace, device: str) -> str:
    """The command that repeats this run, without the folder it wrote to."""
    parts = [f"python -m jobs.train_tiny --task {args.task} --device {device}"]
    if args.measure:
        parts.append("--measure")
    else:
        parts.append(f"--seed {args.seed}")
        if args.minutes_budget < math.inf:
            parts.append(f"--minutes-budget {args.minutes_budget:g}")
    if args.quick:
        parts.append("--quick")
    return " ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
