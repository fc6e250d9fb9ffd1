"""What a run says of rows left out, golds misread and budgets ignored."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs import evaluate
from jobs.results import write_summary
from jobs.run_options import opened_run
from jobs.tables import print_summary
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.records.run_dir import RunDir
from pipeline.report.page import report_page
from pipeline.report.run_data import read_run
from pipeline.report.run_warnings import warnings_of
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run


def config_file(folder: Path, rows: Sequence[dict[str, Any]], **source: Any) -> Path:
    """A configuration whose one benchmark has these rows."""
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = {"name": "mine", "path": str(data), **source}
    values = {
        "science": {
            "benchmarks": [benchmark],
            "strategies": ["base"],
            "generator": {"model": "none"},
        },
        "runtime": {"runs": str(folder / "runs"), "scripted": {}},
    }
    file = folder / "run.yaml"
    file.write_text(json.dumps(values))  # JSON is YAML
    return file


BAD: list[dict[str, Any]] = [{"question": "1?", "answer": 1}, {"question": "2?", "answer": None}]
COPIES: list[dict[str, Any]] = [{"question": "2+2?", "answer": 4}] * 2
INDEX: list[dict[str, Any]] = [{"question": "Which?", "answer": 1, "alternatives": ["x", "y"]}]


def opened(file: Path) -> Any:
    """A new run of a configuration."""
    return opened_run(evaluate.parser().parse_args(["--config", str(file), "--name", "r"]))[0]


@pytest.mark.parametrize(
    ("rows", "source", "says"),
    [
        (BAD, {"skip_bad_rows": True}, "1 row of mine left out, the first in"),
        (COPIES, {}, "1 of 2 questions of mine repeat the text of another"),
        (INDEX, {}, "1 of 1 gold answers of mine look like the place of a choice"),
    ],
)
def test_a_misread_benchmark_is_told_at_the_start_in_the_summary_and_in_the_report(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    rows: list[dict[str, Any]],
    source: dict[str, Any],
    says: str,
) -> None:
    """Rows that were left out, and golds that look like places of choices."""
    with caplog.at_level(logging.WARNING):
        run = opened(config_file(tmp_path, rows, **source))
    summary = write_summary(run)
    print_summary(summary, run.address)
    page = report_page([read_run(run.address)])

    assert says in caplog.text
    assert says in summary["warnings"][0]
    assert says in " ".join(capsys.readouterr().out.split())
    assert says in page


def test_a_thinking_budget_that_was_not_kept_is_told(tmp_path: Path) -> None:
    """A chain that thought longer than all its completions may; nothing where none did."""
    config = made_up_config(tmp_path, strategies=["base"])
    values = config.model_dump(mode="json")
    values["science"]["decoding"]["thinking_budget"] = 10
    run = write_run(RunConfig.parse(values), "r", question_rows(20, ["made-up"]), MadeUp())
    told = read_run(run.address).warnings
    values["science"]["decoding"]["thinking_budget"] = 9_000
    other = write_run(RunConfig.parse(values), "s", question_rows(20, ["made-up"]), MadeUp())

    assert len(told) == 1
    assert told[0].startswith("the engine ignored the thinking budget of 10 tokens")
    assert read_run(other.address).warnings == ()


@pytest.mark.parametrize(
    ("generator", "extra", "warns"),
    [
        ({}, {}, True),
        ({"reasoning": {"open": "<r>", "close": "</r>"}}, {}, False),
        ({}, {"reasoning_parser": "qwen3"}, False),
    ],
)
def test_a_budget_without_an_end_of_thinking_is_told_before_anything_starts(
    generator: dict[str, Any], extra: dict[str, Any], warns: bool
) -> None:
    """vLLM must be told what ends the thinking, by the pair or by its parser."""
    config = RunConfig.parse(
        {
            "science": {
                "benchmarks": [{"name": "arithmetic"}],
                "strategies": ["base"],
                "generator": {"model": "g", **generator},
                "decoding": {"thinking_budget": 5},
            },
            "runtime": {"generator": {"engine": {"extra": extra}}},
        }
    )

    assert bool(config.warnings()) is warns


def test_rows_are_shown_with_what_was_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--show-rows`` names the fields that are read and those that are not, and warns."""
    with pytest.raises(SystemExit):
        evaluate.main(["--config", str(config_file(tmp_path, INDEX)), "--show-rows", "1"])
    printed = capsys.readouterr().out

    assert "mine: question from question; answer from answer; not read: alternatives" in printed
    assert "warning: 1 of 1 gold answers of mine look like the place of a choice" in printed
    assert '"gold": "1"' in printed


def test_a_misspelt_field_of_a_benchmark_is_told_with_those_there_are() -> None:
    """Only once, and not as a list that is too short."""
    with pytest.raises(ConfigError) as refused:
        RunConfig.parse(
            {
                "science": {
                    "benchmarks": [{"name": "mine", "file": "x"}],
                    "strategies": ["base"],
                    "generator": {"model": "g"},
                }
            }
        )
    (line,) = str(refused.value).splitlines()

    assert line.startswith("science.benchmarks.0.file is not a field of this section")
    assert "did you mean path? it has name, path, hf_dataset" in line


def test_a_resume_takes_golds_whose_commas_an_earlier_version_left_out(tmp_path: Path) -> None:
    """The one difference in reading that is no other question."""
    file = config_file(tmp_path, [{"question": "1?", "answer": "58,500"}])
    run = opened(file)
    table = run.folder.read_table("questions.parquet")
    names = table.schema.names
    old = table.set_column(names.index("gold"), table.schema.field("gold"), [["58500"]])
    run.folder.write_table("questions.parquet", old)
    again = opened_run(evaluate.parser().parse_args(["--resume", run.address]))

    assert again[2] == 2


@pytest.mark.parametrize(("p0", "reason"), [(0.9, "gated"), (0.2, "budget")])
def test_a_gate_that_decides_alike_for_all_is_named_with_its_numbers(
    tmp_path: Path, p0: float, reason: str
) -> None:
    """Where it stopped all chains or none the sentence gives mean p0 and L; where it stopped some
    there is none."""
    config = made_up_config(tmp_path, strategies=["markovscale_t"])
    row: dict[str, Any] = {
        **{"strategy": "markovscale_t", "benchmark": "made-up", "stop_reason": reason},
        **{"p0": p0, "a": 0.1, "b": 0.3, "thinking_tokens": 0, "completions": 1},
    }
    write_run(config, "run", question_rows(2, ["made-up"]))
    run = RunDir.open(f"{config.runtime.runs}/run")
    [said] = warnings_of(run, config, [row] * 30)
    mixed = [{**row, "stop_reason": "gated" if i % 2 else "budget"} for i in range(60)]

    assert f"stopped {30 if reason == 'gated' else 0} of 30 chains of made-up" in said
    assert f"mean p0 is {p0:.3f}, L 0.750" in said
    assert warnings_of(run, config, mixed) == ()
