"""Jobs end with one line and a status whatever becomes of what they read, write and print."""

import errno
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from ray.serve.exceptions import RayServeException

from jobs import evaluate
from jobs.endings import EXIT_BROKEN_PIPE, in_one_line
from pipeline.core.errors import ConfigError, EngineError
from pipeline.records.run_dir import RunDir
from tests.attempts import attempt, config_of, new_run
from tests.live import Engines

POOL = "data/pools/arithmetic"
ENDS = {
    "config": (ConfigError("x must be y"), 2, "error: x must be y\n"),
    "disk": (OSError(errno.EIO, "Input/output error", "f"), 2, "error: [Errno 5] Input"),
    "engine": (EngineError("no engine"), 1, "failed: no engine\n"),
    "memory": (MemoryError(), 1, "failed: this process has no memory left\n"),
    "reader gone": (BrokenPipeError(errno.EPIPE, "Broken pipe"), EXIT_BROKEN_PIPE, ""),
    "endpoint": (RayServeException("no replica"), 75, "stopped: Ray failed (RayServeException: no"),
    "Ctrl-C": (KeyboardInterrupt(), 130, ""),
}


@pytest.mark.parametrize("kind", ENDS)
def test_whatever_ends_a_job_is_one_line_and_a_status(kind, capsys):
    """And no traceback."""
    error, status, told = ENDS[kind]

    @in_one_line
    def job(argv=None):
        raise error

    assert job([]) == status
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert said.count("\n") == bool(told)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run."""
    import asyncio

    folder = tmp_path_factory.mktemp("endings")
    run = new_run(config_of(folder, size=12, n=2))
    asyncio.run(attempt(run, Engines()))
    return run.address


def unusable(folder: Path) -> dict[str, str]:
    """Places that no file can be written to, or below."""
    (folder / "file").write_text("x")
    (folder / "folder" / "x").mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    return {
        "below a file": f"{folder}/file/x",
        "a folder": f"{folder}/folder",
        "a pipe": f"{folder}/pipe",
        "/proc": "/proc/nobody/x",
        "NUL": f"{folder}/a\0b",
        "no UTF-8": f"{folder}/\udc80/x",
        "nobody's": "~nosuchuser/x",
        "a name too long": f"{folder}/{'x' * 300}",
        "no bucket": "s3://",
    }


WRITERS = {
    "report": lambda run, out: [run, "--out", out],
    "calibrate": lambda run, out: ["--pool", POOL, "--out", out],
    "sweep": lambda run, out: [
        *("--pool", POOL, "--config", "configs/sweeps/small.yaml", "--out", out)
    ],
    "paper": lambda run, out: ["--pool", POOL, "--out", f"{out}/paper.html/x"],
    "export": lambda run, out: [run, "--to", "csv", "--out", out],
    "train": lambda run, out: ["--pool", POOL, "--only", "agree", "--out", f"{out}/agree.json/x"],
}


@pytest.mark.parametrize("verb", WRITERS)
def test_a_place_that_cannot_be_written_is_said_before_the_work(
    verb, finished, tmp_path, capsys, monkeypatch
):
    """One line, status 2, and what stood there stands there still. That of long work is said
    before it: here the work is never reached."""
    job = importlib.import_module(f"jobs.{verb}")
    if hasattr(job, "read_pool"):
        monkeypatch.setattr(job, "read_pool", lambda *_: pytest.fail("the work was begun"))
    for what, out in unusable(tmp_path).items():
        if verb in ("export", "paper", "train") and what in ("a folder",):
            continue  # folders are what they write
        status = job.main(WRITERS[verb](finished, out))
        said = capsys.readouterr().err
        assert (status, said.count("\n")) == (2, 1), (what, said)
        assert said.startswith("error: ")
    assert (tmp_path / "pipe").is_fifo()
    assert not list(tmp_path.rglob(".unfinished*"))


def test_a_pool_is_exported_to_no_folder_of_others(finished, tmp_path, capsys):
    """Its card is a README.md, and would replace another."""
    from jobs.collect import main

    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "code.py").write_text("mine")
    assert main(["--export", POOL, str(tmp_path)]) == 2
    assert main(["--export", finished, str(tmp_path)]) == 2
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "code.py" in capsys.readouterr().err


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run by bash, with the status of the first of a pipeline."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, **environment},
    )


PYTHON = sys.executable


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("{python} -m jobs >&-", 0),
        ("{python} -m jobs >/dev/full", 2),
    ],
)
def test_output_that_nobody_takes_is_no_traceback(command, status):
    """A closed output ends it quietly, a full disk with one line."""
    ended = shell(command.format(python=PYTHON))

    assert ended.returncode == status
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    assert ended.stderr.count("\n") == (status == 2)


def test_a_reader_that_is_gone_ends_it_quietly(finished):
    """As `head` leaves a pipe; here it has left before the job begins."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [PYTHON, "-m", "jobs.status", finished, "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=250,
    )
    os.close(write)

    assert (ended.returncode, ended.stderr) == (EXIT_BROKEN_PIPE, b"")


GOES_ON = """
import os, sys
from jobs.supervision import supervised

def job():
    print("table " * 10_000, flush=True)
    print("line", file=sys.stderr, flush=True)
    import logging
    from jobs.cli import log_to_stderr
    log_to_stderr()
    logging.getLogger("jobs").info("progress")
    assert os.pipe()[0] > 2
    open(sys.argv[1], "w").write("done")
    return 3

sys.exit(supervised(job))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="supervision is for Linux")
@pytest.mark.parametrize("rest", ["| true", ">&-", "2>&- >&- <&-", ">/dev/full 2>/dev/full", ""])
def test_a_run_goes_on_where_nobody_reads_it(tmp_path, rest):
    """What it costs is not thrown away for its log; the status is its own."""
    job, done = tmp_path / "job.py", tmp_path / "done"
    job.write_text(GOES_ON)
    ended = shell(f"{PYTHON} {job} {done} {rest}", PYTHONPATH=os.getcwd())

    assert ended.returncode == 3
    assert done.read_text() == "done"
    assert "Traceback" not in ended.stderr


KINDS = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "null": lambda data: b"null",
    "list": lambda data: b"[[]]",
    "changed": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "garbage": lambda data: b"\xff\0" * 99,
}


@pytest.mark.parametrize("name", ["environment/attempt-1.json", "summary.json"])
@pytest.mark.parametrize("kind", KINDS)
def test_facts_for_people_that_are_torn_block_nothing(tmp_path, name, kind, capsys):
    """What a run wrote down of its machine, and its summary, are left out."""
    run = new_run(config_of(tmp_path, size=2, n=1))
    facts = {"versions": {"ray": "1"}, "capped": None, "attempts": 1}
    run.folder.write(name, KINDS[kind](json.dumps(facts).encode()))

    for verb, more in (("status", []), ("report", [])):
        assert importlib.import_module(f"jobs.{verb}").main([run.address, *more]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["empty", "half", "changed"])
async def test_questions_that_are_torn_block_no_resume(tmp_path, kind, capsys):
    """Whoever only reads them says so in one line; a resume reads the benchmarks anew."""
    from jobs.evaluate import parser
    from jobs.run_options import opened_run

    run = new_run(config_of(tmp_path, size=3, n=2))
    await attempt(run, Engines())
    whole = run.folder.read("questions.parquet")
    torn = KINDS[kind](whole)
    run.folder.write("questions.parquet", torn)

    for verb, more in (("status", []), ("replay", []), ("regrade", ["--grader", "paper"])):
        assert importlib.import_module(f"jobs.{verb}").main([run.address, *more]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    resumed, _, number = opened_run(parser().parse_args(["--resume", run.address]))
    assert number == 2
    assert resumed.folder.read_table("questions.parquet").num_rows == 3
    (aside,) = resumed.folder.child("corrupt").names()
    assert resumed.folder.child("corrupt").read(aside) == torn


async def test_a_run_without_outcomes_is_no_traceback(tmp_path, capsys):
    """Such as one whose journal was lost."""
    from jobs.replay import main

    run = new_run(config_of(tmp_path, size=3, n=2))
    assert main([run.address]) == 2
    assert "must be finished to be replayed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ray.exceptions.RaySystemError("a\nthe head is gone"), 75, "stopped: Ray failed (RaySys"),
        (MemoryError(), 1, "failed: this process has no memory left; resume with"),
        (OSError(errno.EIO, "Input/output error"), 1, "failed: [Errno 5] Input/output error; res"),
    ],
)
def test_whatever_ends_an_attempt_is_one_line_and_a_summary(
    finished, monkeypatch, capsys, error, status, line
):
    """Before and after the attempt itself as well, such as while priors are filled in."""

    def fails(*_):
        raise error

    monkeypatch.setattr("jobs.cluster.start_ray", lambda *_: None)
    monkeypatch.setattr("jobs.priors.fill_priors", fails)
    run = RunDir.open(finished)

    assert evaluate.execute(run, run.config(), 1) == status
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)
    assert run.folder.read_json("summary.json")["chains_done"] == 12
