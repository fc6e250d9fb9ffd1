"""How fast answers are graded, and verdicts on cases by kind.

    python -m benchmarks.grading [--quick] [--math500 FILE]     # speeds
    python -m benchmarks.grading --cases FILE...                # verdicts by kind

Speeds are of exact comparison in one process, without its cache: plain numbers, and each gold
answer of MATH-500 against itself in a box and against the next one. FILE of ``--cases`` is JSONL
with ``id``, ``gold``, ``prediction`` and ``equal``, and ``kind`` or ``source``; ids that start with
``x`` are whole replies, which are extracted from first. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.controllers.grading import GradingPool
from benchmarks.machine import described
from pipeline.answers import Verdict, extract, grade
from pipeline.answers.graders import GraderSettings
from pipeline.answers.reading import cached_reading
from pipeline.benchmarks import BenchmarkSource, load

Pairs = Sequence[tuple[str, str]]


def main(arguments: list[str]) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description="grading: speed, case table")
    parser.add_argument("--quick", action="store_true", help="a second or two instead of ten")
    parser.add_argument("--math500", metavar="FILE", help="MATH-500 as JSONL")
    parser.add_argument("--cases", metavar="FILE", nargs="+", help="verdicts on cases by kind")
    options = parser.parse_args(arguments)
    print(described())
    if options.cases:
        result = {file: case_table(Path(file)) for file in options.cases}
    else:
        result = speeds(options.math500, repeats=3 if options.quick else 9)
    print(json.dumps(result))


def speeds(math500: str | None, repeats: int) -> dict[str, Any]:
    """Gradings a second, median and spread over `repeats` passes."""
    result: dict[str, Any] = {"numbers": rate(number_pairs(), repeats)}
    if math500 is not None:
        result["math500"] = rate(latex_pairs(math500), repeats)
    for name, figures in result.items():
        print(
            f"{name}: {figures['per_s']:.0f} gradings/s (median of {repeats} passes over "
            f"{figures['pairs']} pairs, {figures['slowest_per_s']:.0f} to "
            f"{figures['fastest_per_s']:.0f}; {figures['per_cpu_s']:.0f} a second of processor "
            f"time), {figures['right']} right, "
            f"{figures['wrong']} wrong, {figures['ungraded']} ungraded"
        )
    return result


def number_pairs() -> Pairs:
    """Integers, decimals and plain fractions against equal and different ones."""
    pairs = [(str(n), str(n + n % 2)) for n in range(1_000)]
    pairs += [(f"{n}.5", f"{2 * n + 1 + n % 2}/2") for n in range(500)]
    pairs += [(f"{n},000", f"{n}000") for n in range(1, 500)]
    return pairs


def latex_pairs(file: str) -> Pairs:
    """Each gold answer of MATH-500 that is no plain integer, boxed and against the next one."""
    items = load(BenchmarkSource(name="math500", path=file)).items
    golds = [item.gold for item in items if item.gold and not item.gold.lstrip("-").isdigit()]
    boxed = [(gold, f"\\boxed{{{gold}}}") for gold in golds]
    return boxed + list(zip(golds, golds[1:] + golds[:1], strict=True))


def rate(pairs: Pairs, repeats: int) -> dict[str, Any]:
    """Gradings a second over passes that each start with an empty cache."""
    rates, cpu_rates, verdicts = [], [], []
    for _ in range(repeats):
        cached_reading.cache_clear()
        start, cpu_start = time.perf_counter(), time.process_time()
        verdicts = [grade(gold, prediction) for gold, prediction in pairs]
        rates.append(len(pairs) / (time.perf_counter() - start))
        cpu_rates.append(len(pairs) / (time.process_time() - cpu_start))
    return {
        "pairs": len(pairs),
        "per_s": statistics.median(rates),
        "slowest_per_s": min(rates),
        "fastest_per_s": max(rates),
        "per_cpu_s": statistics.median(cpu_rates),
        **{verdict.value: verdicts.count(verdict) for verdict in Verdict},
    }


def case_table(file: Path) -> dict[str, Any]:
    """Verdicts by kind of case."""
    cases = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    pairs = [
        (c["gold"], extract(c["prediction"]) if c["id"].startswith("x") else c["prediction"])
        for c in cases
    ]
    kinds_of = [GraderSettings(ordered=bool(c.get("ordered"))) for c in cases]
    with GradingPool() as pool:
        futures = [
            pool.submit(gold, answer, settings=settings)
            for (gold, answer), settings in zip(pairs, kinds_of, strict=True)
        ]
        ours = [future.result().value for future in futures]
    kinds: dict[str, Counter[tuple[bool, str]]] = {}
    for case, verdict in zip(cases, ours, strict=True):
        kind = case.get("kind") or case["source"]
        kinds.setdefault(kind, Counter())[case["equal"], verdict] += 1
    columns = [(equal, verdict.value) for equal in (True, False) for verdict in Verdict]
    names = [f"{'equal' if equal else 'unequal'}: {verdict}" for equal, verdict in columns]
    print("| kind | " + " | ".join(names) + " |")
    print("|---" * (1 + len(names)) + "|")
    for kind, counts in [*kinds.items(), ("all", sum(kinds.values(), Counter()))]:
        print(f"| {kind} | " + " | ".join(str(counts[column] or "") for column in columns) + " |")
    found = Counter((c["equal"], v) for c, v in zip(cases, ours, strict=True))
    result: dict[str, Any] = {
        "cases": len(cases),
        "falsely_right": found[False, "right"],
        "equal_not_right": sum(n for (e, v), n in found.items() if e and v != "right"),
        "falsely_wrong": found[True, "wrong"],
        "open": sum(n for (_, v), n in found.items() if v not in ("right", "wrong")),
    }
    print(result)
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
