"""summary.json: the result of a run, written after every attempt, whole or partial."""

from __future__ import annotations

from typing import Any

from pipeline.config.strategies import rule_of, strategies_of
from pipeline.records.outcome import final_outcomes
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.report.cautions import cautions
from pipeline.report.summary import SUMMARY_VERSION, SUMMED, chain_fits, summarise
from pipeline.report.token_audit import ledger
from pipeline.report.utilisation import pool_report


def write_summary(run: RunDir) -> dict[str, Any]:
    """Sum up the outcomes that exist; returns what was written."""
    config = run.config()
    strategies = strategies_of(config.science)
    rules = {label: rule_of(config.science, s) for label, s in strategies.items()}
    outcomes = final_outcomes(rows_of(run.outcomes(columns=SUMMED)), strategies)
    asked = run.folder.read_table("questions.parquet")
    questions = asked.num_rows
    keys = zip(asked["benchmark"].to_pylist(), asked["question_id"].to_pylist(), strict=True)
    no_gold = frozenset(
        key for key, gold in zip(keys, asked["gold"].to_pylist(), strict=True) if gold is None
    )
    metrics, runtime, attempts = run.metrics(), config.runtime, len(run.attempts())
    a_replica = {role: pool.gpus for role, pool in runtime.pools.items()}
    summary = {
        "version": SUMMARY_VERSION,
        "run": run.run_id,
        "synthetic": config.runtime.scripted is not None,
        "questions": questions,
        "chains": questions * len(strategies),
        "chains_done": len(outcomes),
        "attempts": attempts,
        "warnings": list(cautions(run, config, outcomes)),
        "strategies": summarise(outcomes, strategies, rules, no_gold),
        "chain_fits": chain_fits(outcomes, strategies),
        "ledger": ledger(metrics, _with_engines(run) or attempts, run.journal),
        "pools": pool_report(metrics, a_replica),
    }
    run.folder.write_json("summary.json", summary)
    return summary


def _with_engines(run: RunDir) -> int:
    """Attempts that had something to do and started engines; 0 where no attempt noted that."""
    return len(run.folder.child("environment").names())
