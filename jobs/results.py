"""summary.json: the result of a run, written after every attempt, whole or partial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.strategies import rule_of, rules_of, strategies_of
from pipeline.planning.run_caps import Capped
from pipeline.records.outcome import FINAL, final_rows
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import RunDir
from pipeline.records.trajectory import Row
from pipeline.report.capped import NotRun, not_run
from pipeline.report.cautions import cautions, read_for_cautions
from pipeline.report.summary import FITTED, SUMMARY_VERSION, chain_fits, summarise, summed
from pipeline.report.usage import endpoint_usage, judge_usage, ledger
from pipeline.report.utilisation import pool_report


def write_summary(run: RunDir, capped: Capped | None = None) -> dict[str, Any]:
    """Sum up the outcomes that exist; returns what was written.

    Args:
        run: its directory.
        capped: the cap that ended the newest attempt, where one did.
    """
    config = run.config()
    strategies = strategies_of(config.science)
    rules = rules_of(config.science)
    headlines = {label: rule_of(config.science, s) for label, s in strategies.items()}

    def final(columns: Sequence[str]) -> Iterator[Row]:
        yield from final_rows(run.outcomes(columns=columns), strategies)

    asked = read_questions(run.folder).select(["benchmark", "question_id", "gold"])
    questions = asked.num_rows
    no_gold = frozenset(_keys(asked.filter(pc.is_null(asked["gold"]))))
    done: dict[tuple[str, str], set[str]] = {}
    for row in final(FINAL):
        done.setdefault((row["strategy"], row["benchmark"]), set()).add(row["question_id"])
    left = not_run(strategies, _keys(asked), done)
    del asked, done
    metrics, runtime, attempts = run.metrics(), config.runtime, len(run.attempts())
    a_replica = {role: pool.gpus for role, pool in runtime.pools.items()}
    prices = runtime.prices()
    entries = summarise(final(summed(rules)), strategies, headlines, no_gold, rules, prices)
    summary = {
        "version": SUMMARY_VERSION,
        "run": run.run_id,
        "synthetic": config.runtime.scripted is not None,
        "questions": questions,
        "chains": questions * len(strategies),
        "chains_done": sum(entry["questions"] for entry in entries),
        "attempts": attempts,
        "capped": capped and {**asdict(capped), "attempt": run.newest().number},
        "not_run": [each.as_dict() for each in left],
        "warnings": list(cautions(run, config, final(read_for_cautions(config)))),
        "strategies": _with_not_run(entries, left),
        "chain_fits": chain_fits(final(FITTED), strategies),
        "ledger": ledger(metrics, _with_engines(run) or attempts, run.journal),
        "pools": pool_report(metrics, a_replica),
    }
    endpoint = runtime.generator.endpoint
    if endpoint is not None:
        summary["usage"] = endpoint_usage(run.journal, endpoint.usd_per_million)
    judge = runtime.verifier.endpoint
    if judge is not None and config.science.verifier is not None:
        summary["judge_usage"] = judge_usage(run.journal, judge.usd_per_million)
    run.folder.write_json("summary.json", summary)
    return summary


def _keys(asked: pa.Table) -> Iterator[tuple[str, str]]:
    return zip(*(asked[name].to_pylist() for name in ("benchmark", "question_id")), strict=True)


def _with_not_run(entries: list[dict[str, Any]], left: Sequence[NotRun]) -> list[dict[str, Any]]:
    """Entries with the number of questions beside those that they are of."""
    numbers = {(each.strategy, each.benchmark): each.questions for each in left}
    return [
        {**entry, "not_run": numbers.get((entry["strategy"], entry["benchmark"]), 0)}
        for entry in entries
    ]


def _with_engines(run: RunDir) -> int:
    """Attempts that had something to do and started engines; 0 where no attempt noted that."""
    return len(run.folder.child("environment").names())
