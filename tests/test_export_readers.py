"""Exports, opened by the programs that they are for (requirements/readers.lock)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.records.run_dir import RunDir
from tests.export_runs import RUNS, Accuracies, counted, exported, told

pytestmark = pytest.mark.readers


@pytest.mark.parametrize("made", RUNS)
def test_inspect_reads_its_logs(tmp_path: Path, made: Callable[[Path], RunDir]) -> None:
    """Logs, samples, summaries and data frames; accuracies are those of summary.json."""
    from inspect_ai.analysis import evals_df, messages_df, samples_df
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
    from inspect_ai.scorer import value_to_float

    run = made(tmp_path)
    folder = str(exported(run, "inspect", tmp_path / "logs"))
    number, stated, rows, drawn = value_to_float(), Accuracies(), [], 0
    logs = [read_eval_log(info) for info in list_eval_logs(folder)]
    for log in logs:
        assert log.results is not None
        assert log.samples
        key = (log.eval.task_args["strategy"], str(log.eval.dataset.name))
        for score in log.results.scores:
            accuracy = score.metrics["accuracy"].value
            graded = score.scored_samples or 0
            stated[*key, score.name] = (round(accuracy * graded), graded, accuracy)
        for sample in log.samples:
            drawn += sum(message.role == "assistant" for message in sample.messages)
            for rule, own in (sample.scores or {}).items():
                rows.append((*key, rule, bool(number(own.value))))
        assert len(read_eval_log_sample_summaries(log.location)) == len(log.samples)

    assert stated == counted(rows) == told(run)
    assert len(evals_df(folder)) == len(logs)
    assert len(samples_df(folder)) == sum(len(log.samples or ()) for log in logs)
    assert drawn <= len(messages_df(folder)) <= 2 * drawn + len(samples_df(folder))
