"""Exports of a run: every accuracy is that of summary.json, and each file opens as its format."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from huggingface_hub import DatasetCard

from jobs.export import main
from jobs.results import write_summary
from pipeline.config.run import RunConfig
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Epoch, read_segment, write_segment
from tests.conftest import ROOT
from tests.export_runs import (
    RULES,
    RUNS,
    Accuracies,
    counted,
    exported,
    no_gold,
    partial,
    told,
    whole,
)
from tests.report_runs import made_up_config, question_rows, write_run

GOLDEN = ROOT / "tests" / "data" / "golden" / "387e40f"


@pytest.fixture(scope="module", params=RUNS, ids=lambda made: made.__name__)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of each kind, which no export changes."""
    made: RunDir = request.param(tmp_path_factory.mktemp("runs"))
    return made


def test_inspect_logs_have_the_accuracies_of_the_summary(tmp_path: Path, run: RunDir) -> None:
    """In the header and counted from the samples; a sample a question, a message a round."""
    headers: Accuracies = {}
    rows: list[tuple[str, str, str, bool]] = []
    for path in exported(run, "inspect", tmp_path / "logs").iterdir():
        with zipfile.ZipFile(path) as file:
            header = json.loads(file.read("header.json"))
            listed = json.loads(file.read("summaries.json"))
            found = [json.loads(file.read(f"samples/{one['id']}_epoch_1.json")) for one in listed]
            assert len(file.namelist()) == len(set(file.namelist())) == len(found) + 3
        strategy = header["eval"]["task_args"]["strategy"]
        benchmark = header["eval"]["dataset"]["name"]
        for score in header["results"]["scores"]:
            value = score["metrics"]["accuracy"]["value"]
            right = round(value * score["scored_samples"])
            headers[strategy, benchmark, score["name"]] = (right, score["scored_samples"], value)
        for sample in found:
            replies = [m for m in sample["messages"] if m["role"] == "assistant"]
            assert len(replies) == len(sample["events"])
            assert len(replies) >= sample["metadata"]["completions"]
            assert all(reply["metadata"].get("pool") for reply in replies)  # each was found
            rows += [
                (strategy, benchmark, rule, score["value"] == "C")
                for rule, score in sample["scores"].items()
            ]

    assert headers == counted(rows) == told(run)


def test_data_sets_have_the_accuracies_of_the_summary(tmp_path: Path, run: RunDir) -> None:
    """`datasets` loads the folder by its card, and the obvious query gives the accuracy."""
    folder = exported(run, "hf_dataset", tmp_path / "data-set")
    loaded = {
        name: load_dataset(str(folder), name, split="train", cache_dir=str(tmp_path / "cache"))
        for name in ("outcomes", "completions", "questions")
    }
    rows = [
        (row["strategy"], row["benchmark"], rule, row[f"verdict_{rule}"] == "right")
        for row in loaded["outcomes"]
        for rule in RULES
        if row[f"verdict_{rule}"] in ("right", "wrong")
    ]

    assert counted(rows) == told(run)
    drawn = sum(len(row["round_tokens"]) for row in loaded["outcomes"])
    assert len(loaded["completions"]) == drawn
    assert all(text for text, error in zip(
        loaded["completions"]["text"], loaded["completions"]["error"], strict=True) if not error
    )  # fmt: skip
    card = DatasetCard.load(folder / "README.md")
    assert [c["config_name"] for c in card.data.to_dict()["configs"]] == list(loaded)
    assert "synthetic" in card.data.to_dict()["tags"]


def test_lm_eval_logs_have_the_accuracies_of_the_summary(tmp_path: Path, run: RunDir) -> None:
    """Results and lines of every task and filter agree; the log can be imported again."""
    (results,) = exported(run, "lm_eval", tmp_path / "logs").glob("*/results_*.json")
    content, rows, stated = json.loads(results.read_text()), [], {}
    for path in sorted(results.parent.glob("samples_*.jsonl")):
        task = path.name.removeprefix("samples_").rpartition("_")[0]
        benchmark, _, strategy = task.rpartition("-")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        rows += [(strategy, benchmark, x["filter"], x["exact_match"] == 1.0) for x in lines]
        counts = Counter(line["filter"] for line in lines)
        for name, share in content["results"][task].items():
            if name.startswith("exact_match,"):
                rule = name.partition(",")[2]
                stated[strategy, benchmark, rule] = (
                    round(share * counts[rule]),
                    counts[rule],
                    share,
                )
        assert all(len(line["resps"][0]) >= 1 for line in lines)

    assert stated == counted(rows) == told(run)


def test_tables_have_the_accuracies_of_the_summary(tmp_path: Path, run: RunDir) -> None:
    """Both CSV files agree, line by line."""
    folder = exported(run, "csv", tmp_path / "tables")
    with (folder / "accuracies.csv").open(newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    with (folder / "questions.csv").open(newline="", encoding="utf-8-sig") as file:
        questions = list(csv.DictReader(file))
    with (folder / "completions.csv").open(newline="", encoding="utf-8-sig") as file:
        drawn = list(csv.DictReader(file))
    assert all(row["text"] for row in questions)
    whole_rounds = sum(not row["error"] for row in drawn)
    assert whole_rounds == sum(int(row["completions"]) for row in questions)
    rows = [
        (row["strategy"], row["benchmark"], rule, row[f"verdict_{rule}"] == "right")
        for row in questions
        for rule in RULES
        if row[f"verdict_{rule}"] in ("right", "wrong")
    ]
    stated = {
        (row["strategy"], row["benchmark"], row["answer_rule"]): (
            *(int(row[name]) for name in ("right", "graded")),
            float(row["accuracy"]),
        )
        for row in table
    }

    assert stated == counted(rows) == told(run)


@pytest.mark.parametrize("name", sorted(p.parent.name for p in GOLDEN.glob("*/config.json")))
def test_runs_of_an_earlier_version_are_exported(tmp_path: Path, name: str) -> None:
    """Resumed, retried, in phases, partial: the accuracies are those of their summaries, and every
    completion is found in the journal."""
    run = RunDir.open(str(shutil.copytree(GOLDEN / name, tmp_path / name)))
    data = exported(run, "hf_dataset", tmp_path / "out") / "data"
    outcomes = pq.read_table(data / "outcomes.parquet").to_pylist()
    rows = [
        (row["strategy"], row["benchmark"], rule, row[f"verdict_{rule}"] == "right")
        for row in outcomes
        for rule in RULES
        if row[f"verdict_{rule}"] in ("right", "wrong")
    ]
    completions = pq.read_table(data / "completions.parquet")

    assert counted(rows) == told(run)
    assert completions.num_rows == sum(len(row["round_tokens"]) for row in outcomes)
    assert completions["request_digest"].null_count == 0


def test_what_is_not_graded_has_no_lines_and_no_accuracy(tmp_path: Path) -> None:
    """lm-eval's lines are verdicts; the other formats have the questions all the same."""
    run = no_gold(tmp_path)
    logs = exported(run, "lm_eval", tmp_path / "logs")
    rows = pq.read_table(exported(run, "hf_dataset", tmp_path / "hf") / "data" / "outcomes.parquet")

    assert [path.read_text() for path in logs.rglob("*.jsonl")] == ["", ""]
    assert rows.num_rows == 6
    assert rows["verdict_last"].null_count == 6


def test_names_that_meet_keep_their_logs(tmp_path: Path) -> None:
    """Benchmark ``math`` under ``500-base`` and ``math-500`` under ``base`` are two logs, and two
    tasks."""
    strategies = ["base", {"kind": "mr_thinking", "label": "500-base"}]
    benchmarks = ("math", "math-500")
    config = made_up_config(tmp_path, strategies=strategies, benchmarks=benchmarks)
    run = write_run(config, "run", question_rows(4, benchmarks), metrics=False)
    logs = exported(run, "inspect", tmp_path / "logs")
    (results,) = exported(run, "lm_eval", tmp_path / "lm").rglob("results_*.json")

    assert len(list(logs.iterdir())) == 4
    assert len(json.loads(results.read_text())["results"]) == 4


def test_money_and_prompts_are_exported(tmp_path: Path) -> None:
    """Dollars are those of the tokens at the prices of the run, in every export and the summary;
    logs of inspect have the prompt of each round."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking"])
    values = config.model_dump(mode="json")
    values["runtime"]["limits"]["price_million_tokens"] = 2.0
    run = write_run(RunConfig.parse(values), "run", question_rows(2, ["made-up"]), metrics=False)
    entries = write_summary(run)["strategies"]
    for log in sorted(exported(run, "inspect", tmp_path / "logs").iterdir()):
        with zipfile.ZipFile(log) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            found = [json.loads(archive.read(name)) for name in names]
            header = json.loads(archive.read("header.json"))
        label = header["eval"]["task_args"]["strategy"]
        (usage,) = header["stats"]["model_usage"].values()
        (entry,) = (entry for entry in entries if entry["strategy"] == label)
        assert usage["total_cost"] == pytest.approx(entry["usd"])
        made = entry["tokens"]["completion_tokens"] + entry["tokens"]["wasted_tokens"]
        assert entry["usd"] == pytest.approx(2e-6 * made)
        for sample in found:
            roles = [message["role"] for message in sample["messages"]]
            assert roles == ["user", "assistant"] * entry["n"]
            assert all(event["input"] for event in sample["events"])
    tables = exported(run, "csv", tmp_path / "csv")
    with (tables / "accuracies.csv").open(encoding="utf-8-sig") as file:
        assert {float(row["usd"]) for row in csv.DictReader(file)} == {e["usd"] for e in entries}


def test_work_that_was_redone_is_not_exported_twice(tmp_path: Path) -> None:
    """Another row of the same request with another text is nobody's message."""
    run = whole(tmp_path)
    journal = run.folder.child("journal")
    again = [
        {**row, "text": "redone", "completion_tokens": 9_999}
        for name in journal.names()
        for row in read_segment(journal, name).to_pylist()
    ]
    write_segment(journal, Epoch(1, "abcdef", 0, "w", 1), 2, again)
    folder = exported(run, "hf_dataset", tmp_path / "data-set")
    texts = pq.read_table(folder / "data" / "completions.parquet")["text"].to_pylist()

    assert texts
    assert "redone" not in texts


def test_what_is_there_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder or file that exists is refused in one line, status 2."""
    run = partial(tmp_path)
    out = tmp_path / "out"
    arguments = [run.address, "--to", "csv", "--out", str(out)]
    out.write_text("mine")
    assert main(arguments) == 2
    assert out.read_text() == "mine"
    out.unlink()
    assert main(arguments) == 0
    assert "not finished" in capsys.readouterr().out

    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_no_run_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    out = tmp_path / "out"

    assert main([str(tmp_path / "nothing"), "--to", "csv", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not out.exists()
