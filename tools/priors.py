"""Write p0, a and b of the demo's questions: those of their level, on validation questions.

    python -m tools.priors --validation DIR/validation-steps-small.json --out models/steps-small

Reads the chains and samples that `tools.train solutions` wrote.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from pipeline.benchmarks.generated import gold
from tools.draw import grid_questions
from tools.problems import answer_of

DEMO = {2: 60, 9: 40}
"""Questions of each level in configs/laptop-steps.yaml."""


def main(argv: list[str] | None = None) -> int:
    """Write ``priors.csv``, a row a question."""
    parser = argparse.ArgumentParser(prog="tools.priors", description=__doc__)
    parser.add_argument("--validation", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    texts = json.loads(args.validation.read_text(encoding="utf-8"))
    golds = [gold(question) for question in texts["questions"]]
    with (args.out / "priors.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["benchmark", "question_id", "p0", "a", "b"])
        for level, size in DEMO.items():
            here = [i for i, other in enumerate(texts["levels"]) if other == level]
            chains = [[replies[i] for replies in texts["rounds"]] for i in here]
            right = np.array([_right(c, golds[i]) for c, i in zip(chains, here, strict=True)])
            p0 = np.mean([_right(texts["samples"][i], golds[i]) for i in here])
            before, after = right[:, 1:-1], right[:, 2:]
            a = (before & ~after).sum() / before.sum()
            b = (~before & after).sum() / (~before).sum()
            for benchmark, question_id, _ in grid_questions({level: size}):
                writer.writerow([benchmark, question_id, *(f"{x:.3f}" for x in (p0, a, b))])
    return 0


def _right(replies: list[str], gold: str) -> list[bool]:
    return [answer_of(reply) == gold for reply in replies]


if __name__ == "__main__":
    raise SystemExit(main())
