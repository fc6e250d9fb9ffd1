"""Places and files that cannot be what they are named as: one line, and nothing is made or lost."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs import evaluate, status
from pipeline.core.errors import ConfigError
from pipeline.records.run_dir import RunDir
from pipeline.store.storage import Folder
from tests.attempts import attempt, config_of, new_run
from tests.live import Engines

# -- the folder itself ----------------------------------------------------------------------------


ADDRESSES = [
    "C:\\runs", "S3://b/x", "az://c/x", "hdfs://h/x", "~nosuchuser/runs", "a\0b", "/proc",
    "s3://", "gs:///x", "s3://b/x?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_place_that_cannot_hold_runs_is_said_in_one_line(address, tmp_path, capsys):
    """Status 2 before anything is started, for a new run and for a look at one."""
    config = config_of(tmp_path)
    path = tmp_path / "c.json"
    values = config.model_dump(mode="json")
    values["runtime"]["runs"] = address
    path.write_text(json.dumps(values))

    assert evaluate.main(["--config", str(path), "--name", "x"]) == 2
    assert status.main([f"{address}/x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("error: ") for line in lines] == [True, True]


@pytest.mark.parametrize("text", [None, "[]", "{", "[1]", '[{"attempt": 1}]', "\xff"])
def test_a_run_without_readable_attempts_is_said_in_one_line(tmp_path, text, capsys):
    """A resume ends with status 2."""
    run = new_run(config_of(tmp_path))
    (tmp_path / "r" / "attempts" / "0001.json").unlink()
    if text is not None:
        (tmp_path / "r" / "attempts.json").write_bytes(text.encode("latin-1"))

    assert evaluate.main(["--resume", run.address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "attempts" in line


async def test_a_run_that_is_moved_is_not_made_again(tmp_path):
    """Its writers fail where it was, and a resume where it is now draws no durable round again."""
    config = config_of(tmp_path)
    run = RunDir.open(new_run(config).address)
    await attempt(run, Engines(stop_after=9))
    (tmp_path / "r").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="was it moved"):
        run.journal.write("x", b"")
    with pytest.raises(FileNotFoundError, match="was it moved"):
        run.folder.child("outcomes", "p").write("x", b"")

    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
    assert not run.folder.exists()
    moved, again = RunDir.open(str(tmp_path / "moved")), Engines()
    await attempt(moved, again, moved.resume(config))
    assert len(again.served) == 6 * 4 - 9


def test_a_name_is_as_durable_as_its_file(tmp_path, monkeypatch):
    """The folder is synchronised after each rename, and so is the one that a new folder lies in."""
    synchronised, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synchronised.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    folder = Folder(str(tmp_path))
    folder.write("a/x", b"1")
    folder.child("a").move("x", "b/y")

    folders = [path for path in synchronised if Path(path).is_dir()]
    a = str(tmp_path / "a")
    assert folders[:2] == [str(tmp_path), a]  # a is made; x appears in it
    assert folders[2] == a  # b is made
    assert {a, f"{a}/b"} == set(folders[3:])


def test_of_two_that_make_one_run_the_second_is_refused(tmp_path):
    """And the first owns it."""
    config = config_of(tmp_path)

    def make(_):
        try:
            return RunDir.create(config, "r")
        except ConfigError:
            return None

    with ThreadPoolExecutor(4) as threads:
        made = [run for run in threads.map(make, range(4)) if run is not None]

    assert len(made) == 1
    assert made[0].newest().number in made[0]._begun


# -- files that a user names ----------------------------------------------------------------------

NO_FILES = [b"", b"PAR1", b"PAR1" + b"\0" * 99, b"\xff\xfe\x00garbage" * 99]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        *((kind, data) for kind in ("parquet", "json", "predictor") for data in NO_FILES),
        *((kind, NO_FILES[-1]) for kind in ("jsonl", "csv")),  # the others are tables without rows
    ],
)
def test_a_file_that_is_something_else_is_said_in_one_line(tmp_path, kind, data, capsys):
    """Priors or a predictor that are no such file: status 2, and nothing of Python's."""
    file = tmp_path / ("predictor.json" if kind == "predictor" else f"priors.{kind}")
    file.write_bytes(data)
    config = config_of(tmp_path / "runs")
    values = config.model_dump(mode="json")
    named = {"predictor": str(tmp_path)} if kind == "predictor" else {"file": str(file)}
    values["science"]["priors"] = named
    if kind == "predictor":
        values["runtime"]["scripted"] = None
    path = tmp_path / "c.json"
    path.write_text(json.dumps(values))

    assert evaluate.main(["--config", str(path), "--name", "x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.parametrize("field", ["id", "question", "answer"])
def test_half_a_character_in_a_row_is_refused_by_its_line(tmp_path, field, capsys):
    """A lone surrogate, which no file can hold: named as other bad rows are, and skipped if those
    may be; looking at the rows shows them."""
    rows = [
        {"id": "1", "question": "1+1?", "answer": "2"},
        {"id": "2", "question": "2+2?", "answer": "4"} | {field: "\ud800"},
    ]
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = config_of(tmp_path / "runs").model_dump(mode="json")
    values["science"]["benchmarks"] = [{"name": "mine", "path": str(path)}]
    file = tmp_path / "c.json"
    file.write_text(json.dumps(values))
    arguments = ["--config", str(file), "--name", "x"]

    assert evaluate.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be text, got half a character" in line
    assert "set.jsonl, line 2" in line
    with pytest.raises(SystemExit) as done:
        evaluate.main(
            [*arguments, "--show-rows", "9", "--set", "science.benchmarks.0.skip_bad_rows=true"]
        )
    assert done.value.code == 0
    assert "1+1?" in capsys.readouterr().out
