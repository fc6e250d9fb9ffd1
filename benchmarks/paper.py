"""How long the paper's whole evaluation of a pool takes, and how much memory.

    python -m benchmarks.paper --quick   # 200 questions, under 20 s on 2 cores
    python -m benchmarks.paper           # 1,919 questions x (64 rounds + 64 samples)

Writes a synthetic pool of five benchmarks to a temporary folder and runs ``jobs.paper`` over it in
a process of its own, whose seconds and memory are told: reading, replaying, tables, page. Prints,
last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.synthetic_pool import write_synthetic_pool

DEPTH = 64
"""Rounds, and samples, a question."""


def main(argv: Sequence[str] | None = None) -> None:
    """Make a pool, evaluate it, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.paper", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="a smaller pool")
    parser.add_argument("--questions", type=int, help="in all (1,919)")
    arguments = parser.parse_args(argv)
    questions = arguments.questions or (200 if arguments.quick else 1_919)
    with tempfile.TemporaryDirectory() as folder:
        write_synthetic_pool(f"{folder}/pool", questions=questions, rounds=DEPTH, samples=DEPTH)
        command = ["--pool", f"{folder}/pool", "--out", f"{folder}/out"]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "jobs.paper", *command], check=True)  # noqa: S603 - ours
        seconds = time.perf_counter() - started
        written = sum(file.stat().st_size for file in Path(f"{folder}/out").iterdir())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "benchmark": "paper",
                "questions": questions,
                "completions": questions * 2 * DEPTH,
                "seconds": seconds,
                "cpu_s": used.ru_utime + used.ru_stime,
                "peak_mib": used.ru_maxrss / 1024,
                "written_mib": written / 2**20,
                "cores": os.cpu_count(),
                "machine": platform.platform(),
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main()
