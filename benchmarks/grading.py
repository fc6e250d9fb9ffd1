"""How fast answers are graded, how long hostile ones take, and graders side by side.

    python -m benchmarks.grading [--quick] [--math500 FILE]     # speeds
    python -m benchmarks.grading --hostile                      # one line a hostile answer
    python -m benchmarks.grading --cases FILE... [--beside]     # verdicts by kind
    python -m benchmarks.grading --replies FILE                 # answers read of whole replies

Speeds are of exact comparison in one process, without its cache: plain numbers, and each gold
answer of MATH-500 against itself in a box and against the next one. FILE of ``--cases`` is JSONL
with ``id``, ``gold``, ``prediction`` and ``equal``, and ``kind`` or ``source``; ids that start with
``x`` are whole replies, which are extracted from first; ``--beside`` adds math-verify. FILE of
``--replies`` is JSONL with ``id``, ``reply`` and ``gold`` (null where there is no answer). The last
line is one JSON object.
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
    parser = argparse.ArgumentParser(description="grading: speed, hostile answers, case table")
    parser.add_argument("--quick", action="store_true", help="a second or two instead of ten")
    parser.add_argument("--math500", metavar="FILE", help="MATH-500 as JSONL")
    parser.add_argument("--hostile", action="store_true", help="times of hostile answers")
    parser.add_argument("--cases", metavar="FILE", nargs="+", help="verdicts on cases by kind")
    parser.add_argument("--beside", action="store_true", help="math-verify on the cases too")
    parser.add_argument("--replies", metavar="FILE", help="answers read of whole replies")
    options = parser.parse_args(arguments)
    print(described())
    if options.cases:
        result = {file: case_table(Path(file), options.beside) for file in options.cases}
    elif options.replies:
        result = reply_table(Path(options.replies))
    elif options.hostile:
        result = hostile_times()
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


HOSTILE = {
    "tower of powers": "9^{9^{9^{9^{9}}}}",
    "factorial of a billion": "(10^9)!",
    "factorial of a factorial of a factorial": "((10!)!)!",
    "power of a sum of six": "(a+b+c+d+f+g)^{150}",
    "sum of 39 quotients": "+".join(f"\\frac{{1}}{{x+{n}y+z^{n}}}" for n in range(1, 40)),
    "sum of 38 roots in a denominator": "1/("
    + "+".join(f"\\sqrt{{{n}}}" for n in range(2, 40))
    + ")",
    "tangents nested 38 deep": "\\tan(" * 38 + "x" + ")" * 38,
    "a million digits": "7" * 1_000_000,
    "100 kB of nested braces": "{" * 50_000 + "5" + "}" * 50_000,
    "100 kB of nested boxes": "\\boxed{" * 14_000,
    "unbalanced LaTeX": "\\frac{" * 2_000,
    "NUL and bidi characters": "\x00\u202e7\u2066\x00",
    "100,000 backslashes": "\\" * 100_000,
    "an integral of a tower of powers": r"\int 9^{9^{9^9}} dx",
    "a sum of a billion factorials": r"\sum_{k=1}^{10^9} k!",
}


def hostile_times() -> dict[str, Any]:
    """Wall time of each hostile answer through the pool, as answer and as whole reply."""
    result: dict[str, Any] = {}
    with GradingPool(workers=1) as pool:
        pool.grade_many([(r"\int_0^1 x dx", "1/2")])  # the worker is up before the first is timed
        for name, answer in HOSTILE.items():
            start = time.perf_counter()
            (verdict,) = pool.grade_many([("5", answer)])
            middle = time.perf_counter()
            pool.grade_many([("5", extract(answer))])
            seconds = (middle - start, time.perf_counter() - middle)
            result[name] = {"verdict": verdict.value, "answer_s": seconds[0], "reply_s": seconds[1]}
            print(f"{name:45} {verdict:9} answer {seconds[0]:.3f} s, reply {seconds[1]:.3f} s")
    return result


def reply_table(file: Path) -> dict[str, Any]:
    """How many whole replies are read right, and those that are not."""
    replies = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    answers = [extract(reply["reply"]) for reply in replies]
    counts: Counter[str] = Counter()
    with GradingPool() as pool:
        for reply, answer in zip(replies, answers, strict=True):
            if reply["gold"] is None:
                verdict = Verdict.RIGHT if answer is None else Verdict.WRONG
            else:
                (verdict,) = pool.grade_many([(reply["gold"], answer)])
            counts[verdict] += 1
            if verdict is not Verdict.RIGHT:
                print(f"{reply['id']}: {verdict}, {answer!r} for {reply['gold']!r}")
    result = {"replies": len(replies), **counts}
    print(f"replies: {result}")
    return result


def case_table(file: Path, beside: bool = False) -> dict[str, Any]:
    """Our verdicts by kind of case; in sum those of math-verify on bare and on boxed strings."""
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
    both = [("ours", ours)]
    if beside:
        both += _beside(cases)
    result: dict[str, Any] = {"cases": len(cases)}
    for name, verdicts in both:
        found = Counter((c["equal"], v) for c, v in zip(cases, verdicts, strict=True))
        result[name] = {
            "falsely_right": found[False, "right"],
            "equal_not_right": sum(n for (e, v), n in found.items() if e and v != "right"),
            "falsely_wrong": found[True, "wrong"],
            "open": sum(n for (_, v), n in found.items() if v not in ("right", "wrong")),
        }
        print(f"{name}: {result[name]}")
    return result


def _beside(cases: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Verdicts of math-verify on bare and on boxed strings."""
    bare = [_math_verify(c["gold"], c["prediction"]) for c in cases]
    boxed = [_math_verify(_box(c["gold"]), _box(c["prediction"])) for c in cases]
    return [("bare", bare), ("boxed", boxed)]


def _math_verify(gold: str, prediction: str) -> str:
    from math_verify import parse, verify

    try:
        same = verify(parse(gold), parse(prediction))
    except Exception as error:  # its errors are part of the comparison
        return type(error).__name__
    return "right" if same else "wrong"


def _box(answer: str) -> str:
    return answer if "boxed" in answer else f"\\boxed{{{answer}}}"


if __name__ == "__main__":
    main(sys.argv[1:])
