"""Fit a map from a verifier's scores to probabilities of being right.

    python -m jobs.calibrate --pool TRAINING --out calibration.json
    python -m jobs.sweep --pool TEST --config FILE      # with calibration: calibration.json

Reads a pool (a run of ``jobs.collect``, or its export) and fits a map from score to the share of
graded completions of that score which are right (isotonic regression). Prints the calibration error
of the raw and of the mapped scores, fitted on one half of the questions and judged on the other.
The file holds the map fitted on all questions; give it as ``calibration: FILE`` to
``markovscale_t``, ``markovscale_star`` or ``markovscale_0`` for questions other than the pool's.
Exits with 0, or with 2 for input that does not fit.
"""

from __future__ import annotations

import argparse
import math
import posixpath
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from jobs.cli import VerbParser, at_least, log_to_stderr
from jobs.endings import in_one_line
from pipeline.core.errors import DataError

if TYPE_CHECKING:
    from pipeline.replay.pools import CompletionPool


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("calibrate", __doc__)
    options.add_argument("--pool", required=True, metavar="RUN", help="run or exported pool")
    options.add_argument("--out", required=True, metavar="FILE", help="JSON file to write")
    options.add_argument(
        "--seed", type=at_least(0), metavar="N", default=0, help="of the split into halves (0)"
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.replay.pools import read_pool
    from pipeline.statistics.calibration import calibrate, fit_isotonic
    from pipeline.store.storage import Folder

    log_to_stderr(arguments.level)
    out = arguments.out
    folder, file = Folder(posixpath.dirname(out) or "."), posixpath.basename(out)
    folder.prepare(file)
    pool = read_pool(arguments.pool)
    scores, right, questions = graded_scores(pool)
    try:
        before, after = calibrate(scores, right, questions, seed=arguments.seed)
    except ValueError as error:  # such as: of one question
        raise DataError(str(error)) from error
    name = posixpath.basename(pool.address.rstrip("/"))
    texts = [question.question.text for question in pool.questions]
    found = replace(fit_isotonic(scores, right), fitted_on=name, origin=pool.science.origin(texts))
    values = {
        "version": 1,
        "kind": found.kind,
        **asdict(found),
        "verifier": None if pool.science.verifier is None else pool.science.verifier.model,
        "scores_fitted": len(scores),
        "held_out": {
            when: {
                "n": r.n,
                "ece": r.ece,
                "brier": r.brier,
                "auc": None if math.isnan(r.auc) else r.auc,  # nan is no JSON
            }
            for when, r in (("before", before), ("after", after))
        },
    }
    folder.write_json(file, values)
    print(
        f"{len(scores):,} graded scores of {len(set(questions)):,} questions of {name}; on "
        f"held-out questions the expected calibration error goes from {before.ece:.3f} to "
        f"{after.ece:.3f}, the Brier score from {before.brier:.3f} to {after.brier:.3f}: "
        f"{arguments.out}"
    )
    return 0


def graded_scores(
    pool: CompletionPool,
) -> tuple[list[float], list[bool], list[tuple[str, str]]]:
    """Score, outcome and question of every scored completion that is right or wrong; questions of
    the same text are one.

    Raises:
        DataError: where there is none.
    """
    from pipeline.core.protocol import Completion

    first: dict[str, tuple[str, str]] = {}
    found = [
        (entry.observation.score, verdict == "right", first.setdefault(text, question.key))
        for question in pool.questions
        for text in (question.question.text,)
        for entries, verdicts in (
            (question.rounds, question.round_verdicts),
            (question.samples, question.sample_verdicts),
        )
        for entry, verdict in zip(entries, verdicts, strict=True)
        if isinstance(entry.observation, Completion)
        and entry.observation.score is not None
        and verdict in ("right", "wrong")
    ]
    if not found:
        raise DataError(f"a pool must have graded scores to calibrate, {pool.address} has none")
    scores, right, questions = zip(*found, strict=True)
    return list(scores), list(right), list(questions)


if __name__ == "__main__":
    sys.exit(main())
