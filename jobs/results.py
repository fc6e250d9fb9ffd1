"""*write_summary*: writes summary.json, the result of a run, after every attempt."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipeline.planning.run_caps import Capped
from pipeline.records.run_dir import RunDir
from pipeline.report.run_data import read_run
from pipeline.report.summary import SUMMARY_VERSION, chain_fits, summarise, summed
from pipeline.report.usage import endpoint_usage, judge_usage, pool_report


def write_summary(run: RunDir, capped: Capped | None = None) -> dict[str, Any]:
    """Sum up the outcomes that exist; returns what was written.

    Args:
        run: its directory.
        capped: the cap that ended the newest attempt, where one did.
    """
    found = read_run(run.address, summed)
    runtime = found.config.runtime
    summary = {
        "version": SUMMARY_VERSION,
        "run": run.run_id,
        "synthetic": found.synthetic,
        "questions": len(found.questions),
        "chains": found.chains,
        "chains_done": found.chains_done,
        "attempts": len(found.attempts),
        "capped": capped and {**asdict(capped), "attempt": run.newest().number},
        "not_run": [each.as_dict() for each in found.not_run],
        "warnings": list(found.warnings),
        "strategies": summarise(found.cells, runtime.prices()),
        "chain_fits": chain_fits(found.cells),
        "pools": pool_report(found.metrics),
    }
    endpoint = runtime.generator.endpoint
    if endpoint is not None:
        summary["usage"] = endpoint_usage(run.journal, endpoint.usd_per_million)
    judge = runtime.verifier.endpoint
    if judge is not None and found.config.science.verifier is not None:
        summary["judge_usage"] = judge_usage(run.journal, judge.usd_per_million)
    run.folder.write_json("summary.json", summary)
    return summary
