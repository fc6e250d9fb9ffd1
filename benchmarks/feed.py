"""How fast questions reach controllers and engines: Ray Data's part of the pipeline, in full.

    python -m benchmarks.feed --quick
    python -m benchmarks.feed --questions 20000 --controllers 4 --replicas 16

- ``questions_per_s``: chains of one round that scripted engines answer at once, through Ray Data,
  controllers, journal and outcomes: what one-round work can at best come to,
- ``filled_s``: from the first request until nine tenths of the slots of every replica are in use,
  where completions take 6 s; more than that means that some ended before.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from benchmarks.machine import described
from benchmarks.workload import Job

_SLOTS = 256
_TOKENS, _TOKENS_PER_S = 120, 20  # a completion takes 6 s


def _work(questions: int, tokens: int) -> list[Job]:
    return [
        Job(question_id=str(number), text=f"{number}?", rounds=1, tokens=tokens)
        for number in range(questions)
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.feed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="1,500 questions, under 50 s")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=4, help=f"of {_SLOTS} slots, to be filled")
    options = parser.parse_args(argv)
    from benchmarks.product import run_chains, scripted_config

    questions = 1_500 if options.quick else options.questions
    print(described())
    at_once = scripted_config(questions, slots=_SLOTS, controllers=options.controllers)
    answered = run_chains(at_once, _work(questions, 1))
    print(f"{questions} questions in {answered['seconds']:.1f} s", flush=True)
    chains = round(1.1 * _SLOTS * options.replicas)
    slow = scripted_config(
        chains,
        replicas=options.replicas,
        slots=_SLOTS,
        tokens_per_s=_TOKENS_PER_S,
        controllers=options.controllers,
    )
    filled = run_chains(slow, _work(chains, _TOKENS))
    figures = {
        "benchmark": "feed",
        "questions": questions,
        "controllers": options.controllers,
        "questions_per_s": questions / answered["seconds"],
        "loop_lag_ms": answered["loop_lag_ms"],
        "slots": _SLOTS * options.replicas,
        "filled_s": filled["filled_s"],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
