"""Draw the grid: chains and samples of a generator on the test questions, scored by the verifier.

    python -m tools.draw --generator FOLDER --verifier FOLDER --out FILE.npz

Draws what `jobs.collect --config configs/pools/steps.yaml` draws, with PyTorch in place of vLLM:
thousands of replies at once, which takes a minute where engines need ten. Writes ids and step
scores; `tools.pools` makes a pool of them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from pipeline.benchmarks.generated import gold, questions
from tools.corpus import prompt
from tools.model import load, sample
from tools.problems import answer_of
from tools.tokens import decode
from tools.train import MOST_NEW, prompt_ids, scored_ids, step_scores

SIZES = {2: 300, 4: 300, 6: 300, 9: 300, 12: 30}
"""Questions of each level, of the test split, seed 0."""


def grid_questions(sizes: dict[int, int]) -> list[tuple[str, str, str]]:
    """(benchmark, id, text) of all questions, level by level."""
    return [
        (f"steps-{level}", question.question_id, question.text)
        for level, size in sizes.items()
        for question in questions(f"steps-{level}", size, split="test", seed=0)
    ]


def main(argv: list[str] | None = None) -> int:
    """Draw, score and write."""
    parser = argparse.ArgumentParser(prog="tools.draw", description=__doc__)
    parser.add_argument("--generator", type=Path, required=True)
    parser.add_argument("--verifier", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--share", type=float, default=1.0, help="of the questions, to try it out")
    parser.add_argument("--at-once", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    began = time.monotonic()
    generator, verifier = load(args.generator, device), load(args.verifier, device)
    sizes = {level: max(1, round(size * args.share)) for level, size in SIZES.items()}
    asked = grid_questions(sizes)
    replies: list[list[int]] = []  # round by round, then sample by sample
    shown: list[str | None] = [None] * len(asked)
    for _ in range(args.rounds):
        prompts = [
            prompt_ids(prompt(text, answer))
            for (_, _, text), answer in zip(asked, shown, strict=True)
        ]
        drawn = sample(generator, prompts, most=MOST_NEW, at_once=args.at_once)
        replies += drawn
        shown = [answer_of(decode(ids)) for ids in drawn]
    in_rounds = time.monotonic() - began
    prompts = [prompt_ids(prompt(text)) for _, _, text in asked]
    replies += sample(generator, prompts * args.samples, most=MOST_NEW, at_once=args.at_once)
    in_samples = time.monotonic() - began - in_rounds
    texts = [text for _, _, text in asked] * (args.rounds + args.samples)
    read = [scored_ids(text, decode(ids)) for text, ids in zip(texts, replies, strict=True)]
    scores = [np.asarray(row, np.float32) for row in step_scores(verifier, read, device)]
    np.savez_compressed(
        args.out,
        sizes=np.array(list(sizes.items())),
        shape=np.array([args.rounds, args.samples, len(asked), args.seed]),
        ids=np.concatenate([np.asarray(ids, np.uint8) for ids in replies]),
        lengths=np.array([len(ids) for ids in replies], np.uint16),
        scores=np.concatenate(scores),
        steps=np.array([len(row) for row in scores], np.uint16),
        read=np.array([len(row) for row in read], np.uint16),
    )
    golds = [gold(text) for _, _, text in asked]
    right = np.array(
        [answer_of(decode(i)) == g for i, g in zip(replies[: len(asked)], golds, strict=True)]
    )
    print(
        f"{args.generator.name}: {len(replies)} replies, first answers right {right.mean():.3f}; "
        f"rounds {in_rounds:.0f} s, samples {in_samples:.0f} s, "
        f"all {time.monotonic() - began:.0f} s on {device}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
