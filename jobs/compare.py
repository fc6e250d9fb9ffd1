"""Compare strategies of one run, or two runs, on the questions that both answered.

    python -m jobs.compare RUN
    python -m jobs.compare RUN --strategy markovscale_t --strategy mr_thinking
    python -m jobs.compare RUN RUN --strategy markovscale_t --rule last

Prints the differences in accuracy (adjusted Wald, at the level of the corrected test) and in tokens
(Student), and the exact McNemar test, corrected for all comparisons (Holm). MR-Thinking as the
second side is read by its answer rule with the most right answers; the correction covers its other
rules. Reads run directories, needs no cluster, writes nothing. Exits with 0, or with 2 for input
that does not fit.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from jobs.cli import VerbParser, add_shared, log_to_stderr, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.answers.answer_rules import Rule
    from pipeline.report.run_data import RunData
    from pipeline.results.compare import Comparison
    from pipeline.statistics.intervals import Interval


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("compare", __doc__)
    options.add_argument("runs", nargs="+", metavar="RUN", help="run directory (one or two)")
    options.add_argument(
        "--strategy",
        action="append",
        default=[],
        metavar="LABEL",
        help="strategy to compare (at most twice)",
    )
    options.add_argument(
        "--rule", metavar="NAME", help="answer rule of both sides (each strategy's own)"
    )
    add_shared(options, "--json")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from jobs.tables import print_synthetic
    from pipeline.report.comparison import comparisons_of
    from pipeline.report.run_data import read_runs

    log_to_stderr(arguments.level)
    if len(arguments.strategy) > 2:
        raise ConfigError("--strategy may be given twice, not more")
    if len(arguments.runs) > 2:
        raise ConfigError(f"one or two runs can be compared, got {len(arguments.runs)}")
    runs = read_runs(arguments.runs)
    for run in runs:
        if not run.cells:
            raise ConfigError(
                f"a run to compare must have outcomes, {run.run.address} has none yet"
            )
    rule = None if arguments.rule is None else _rule(arguments.rule, runs)
    made = comparisons_of(runs, arguments.strategy, rule)
    if arguments.json:
        facts = {
            "synthetic": any(run.synthetic for run in runs),
            "comparisons": [_facts(c) for c in made],
        }
        print(json.dumps(facts))
        return 0
    console = terminal()
    for run in runs:
        if run.synthetic:
            print_synthetic(console, run.run_id)
    _print_comparisons(console, made)
    return 0


def _rule(name: str, runs: Sequence[RunData]) -> Rule:
    from pipeline.report.run_data import rules_in

    known = {rule.value: rule for rule in rules_in(cell for run in runs for cell in run.cells)}
    if name not in known:
        raise ConfigError(f"--rule must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def _facts(c: Comparison) -> dict[str, Any]:
    """A comparison for a script: shares in [0, 1], differences first minus second, 95 % intervals;
    null where it is not known."""
    return {
        "benchmark": c.first.benchmark,
        "sides": [
            {
                "run": side.source,
                "strategy": side.of.cell.label,
                "rule": side.rule,
                "accuracy": _interval(side.accuracy),
            }
            for side in (c.first, c.second)
        ],
        "questions": c.n_questions,
        "left_out": c.left_out,
        "only_first": None if c.accuracy is None else c.only_first,
        "only_second": None if c.accuracy is None else c.only_second,
        "accuracy_difference": _interval(c.accuracy),
        "p_adjusted": c.p_adjusted,
        "comparisons": c.tests,
        "primary": c.primary,
        "distinguishable": c.distinguishable,
        "tokens_difference": _interval(c.tokens),
        "tokens_saved": _interval(c.saved),
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    known = found is not None and not math.isnan(found.value)
    return {name: getattr(found, name) for name in ("value", "low", "high")} if known else None


def _print_comparisons(console: Console, made: list[Comparison]) -> None:
    from pipeline.report import words
    from pipeline.report.verdict import differences, figures_words, one_question

    for benchmark in dict.fromkeys(c.first.benchmark for c in made):
        own = [c for c in made if c.first.benchmark == benchmark]
        console.print(f"\n{benchmark}", style="bold")
        for c in own:
            console.print(f"\n  {_sides(c)}{' (primary)' if c.primary else ''}", soft_wrap=True)
            lines = differences(c) or ["No question is graded on both sides."]
            tokens = f"The difference in tokens per question is {words.count_with(c.tokens)}."
            for text in (figures_words(c), *lines, tokens):
                console.print(f"    {text}", soft_wrap=True)
        for n in sorted({c.n_questions for c in own if c.n_questions}):
            tests = max(c.tests for c in own if c.n_questions == n)
            console.print(f"\nOn {n} questions {one_question(n, tests)}.", soft_wrap=True)
    tested = max((c.tests for c in made), default=0)
    if tested > 1:
        console.print(
            f"p-values are corrected for up to {tested} comparisons (Holm); the "
            "primary one, of the first MarkovScale variant, for its kind alone."
        )


def _sides(c: Comparison) -> str:
    first, second = c.first.of.cell.name, c.second.of.cell.name
    if c.first.rule == c.second.rule:
        return f"{first} against {second}, both by {c.first.rule}"
    return f"{first} by {c.first.rule} against {second} by {c.second.rule}"


if __name__ == "__main__":
    sys.exit(main())
