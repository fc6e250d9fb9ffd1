"""Runs to export, and what their exports must say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from jobs.export import main
from jobs.results import write_summary
from pipeline.answers.answer_rules import AnswerRule
from pipeline.records.run_dir import RunDir
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run

STRATEGIES = ("base", "mr_thinking", "markovscale_0", "self_consistency", "best_of_n")
BENCHMARKS = ("made-up", "other")
ODD = ["../../x", "<b>&", "q 3", "é\n", "u\rv", "n\0l"]
RULES = tuple(rule.value for rule in AnswerRule)

Accuracies = dict[tuple[str, str, str], tuple[int, int, float]]
"""(right, graded, accuracy) by strategy, benchmark and answer rule."""


def whole(folder: Path) -> RunDir:
    """Every question of two benchmarks answered under strategies of all forms."""
    config = made_up_config(folder, strategies=STRATEGIES, benchmarks=BENCHMARKS)
    return write_run(config, "whole", question_rows(8, BENCHMARKS, ids=ODD), metrics=False)


def failed(folder: Path) -> RunDir:
    """Some questions failed after their first answer, one has no gold answer, and texts are odd."""
    config = made_up_config(folder, strategies=STRATEGIES, benchmarks=BENCHMARKS)
    rows = question_rows(8, BENCHMARKS, ids=ODD)
    rows[5]["gold"] = None
    engine = MadeUp(failing=["q 3", "q6"], replies={"../../x": "</script>\x00 <think> a"})
    return write_run(config, "failed", rows, engine, metrics=False)


def partial(folder: Path) -> RunDir:
    """Some strategies are behind, the last has nothing yet."""
    config = made_up_config(folder, strategies=STRATEGIES, benchmarks=BENCHMARKS)
    return write_run(config, "partial", question_rows(8, BENCHMARKS), done=50, metrics=False)


def all_failed(folder: Path) -> RunDir:
    """No question of a chain has got to its end."""
    config = made_up_config(folder, strategies=["base", "mr_thinking"])
    ids = [f"q{i}" for i in range(5)]
    return write_run(
        config, "all-failed", question_rows(5, ["made-up"]), MadeUp(failing=ids), metrics=False
    )


def no_gold(folder: Path) -> RunDir:
    """Nothing can be graded."""
    config = made_up_config(folder, strategies=["base", "best_of_n"])
    rows = [{**row, "gold": None} for row in question_rows(3, ["made-up"])]
    return write_run(config, "no-gold", rows, metrics=False)


RUNS = (failed, partial, all_failed)


def told(run: RunDir) -> Accuracies:
    """What summary.json says, of the rules with anything graded."""
    return {
        (entry["strategy"], entry["benchmark"], rule): tuple(
            counts[name] for name in ("right", "graded", "accuracy")
        )
        for entry in write_summary(run)["strategies"]
        for rule, counts in entry["accuracy"].items()
        if counts is not None and counts["graded"]
    }


def counted(rows: Iterable[tuple[str, str, str, bool]]) -> Accuracies:
    """Accuracies from (strategy, benchmark, rule, right) of each graded question."""
    seen: dict[tuple[str, str, str], Counter[bool]] = {}
    for *key, right in rows:
        seen.setdefault((key[0], key[1], key[2]), Counter())[right] += 1
    return {
        key: (counts[True], counts.total(), counts[True] / counts.total())
        for key, counts in seen.items()
    }


def exported(run: RunDir, to: str, out: Path) -> Path:
    """The folder of an export that went well."""
    assert main([run.address, "--to", to, "--out", str(out)]) == 0
    return out
