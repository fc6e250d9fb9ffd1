"""Several runs as one submission: names, places, statuses and signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml

from jobs import suite
from pipeline.core.errors import ConfigError
from pipeline.records.run_dir import RunDir

PAPER = ["configs/qwen-7b.yaml", "configs/llama-8b.yaml"]


def script(text):
    return [sys.executable, "-c", text]


def test_each_run_has_a_directory_named_after_suite_and_configuration():
    """A resubmission finds every run by the same address."""
    assert suite.runs_of(PAPER, ["runtime.runs=s3://bucket/runs"], "paper") == [
        ("configs/qwen-7b.yaml", "s3://bucket/runs/paper-qwen-7b"),
        ("configs/llama-8b.yaml", "s3://bucket/runs/paper-llama-8b"),
    ]


def test_two_runs_of_one_name_are_refused():
    """They would write into one directory."""
    with pytest.raises(ConfigError, match=r"must have different names, .* both called qwen-7b"):
        suite.runs_of([PAPER[0], PAPER[0]], [], "paper")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "x", "configs/none.yaml"], "must be a readable YAML file"),
        (["--name", "../x", *PAPER], "a suite's name must be"),
    ],
)
def test_nothing_starts_where_anything_cannot_be(arguments, message, capsys):
    """Every configuration is read before the first run is started."""
    assert suite.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_lines_carry_the_names_of_their_runs(capsys):
    """Output and errors of all runs come out together, and can be told apart."""
    loud = "import sys; print('out'); print('err', file=sys.stderr)"
    statuses = suite.run_all(["a", "b"], [script(loud), script("print('b'); exit(3)")], 2)

    assert statuses == [0, 3]
    assert sorted(capsys.readouterr().out.splitlines()) == ["[a] err", "[a] out", "[b] b"]


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_no_more_run_at_once_than_are_let(tmp_path, at_once):
    """Each run notes when it began and ended; never do more overlap than allowed."""
    note = (
        "import sys, time, json\n"
        "began = time.time(); time.sleep(0.5)\n"
        "json.dump([began, time.time()], open(sys.argv[1], 'w'))\n"
    )
    places = [tmp_path / f"{i}.json" for i in range(4)]
    suite.run_all(list("abcd"), [[*script(note), str(place)] for place in places], at_once)
    spans = [json.loads(place.read_text()) for place in places]
    most = max(sum(began <= at < ended for began, ended in spans) for at, _ in spans)

    assert most <= at_once


WAITS = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
    "open(sys.argv[1], 'w').close()\n"
    "time.sleep(60)\n"
)


def test_a_signal_stops_the_runs_and_starts_no_other(tmp_path):
    """What runs is told to stop and ends in its own way; what waits for a place never starts."""
    ready = tmp_path / "ready"

    def stop():
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=stop, daemon=True).start()
    began = time.monotonic()
    waits = [*script(WAITS), str(ready)]
    statuses = suite.run_all(["a", "b"], [waits, script("print('never')")], 1)

    assert statuses == [75, 75]
    assert time.monotonic() - began < 30
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_reaches_a_run_that_is_just_being_started(monkeypatch):
    """It is told as soon as it is there: else nobody would stop it."""

    class Signalled(subprocess.Popen):
        """A signal comes before anybody knows of the process."""

        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            signal.raise_signal(signal.SIGTERM)

    class Threadless:
        """A thread whose work is done by whoever starts it, where signals are handled."""

        def __init__(self, target, args):
            self.start = lambda: target(*args)

        def is_alive(self):
            return False

    monkeypatch.setattr(suite.subprocess, "Popen", Signalled)
    monkeypatch.setattr(suite.threading, "Thread", Threadless)
    began = time.monotonic()
    (status,) = suite.run_all(["a"], [script("import time; time.sleep(20)")], 1)

    assert status == -signal.SIGTERM
    assert time.monotonic() - began < 20


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_suite_ends_in_one_report(tmp_path):
    """Two runs, each with a Ray of its own here, become two run directories and one page."""
    for name in ("one", "two"):
        config = {
            "name": name,
            "science": {
                "benchmarks": [{"name": "arithmetic", "size": 4}],
                "strategies": ["mr_thinking"],
                "strategy": {"n": 2},
                "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
                "generator": {"model": name},
                "verifier": {"model": "scripted"},
            },
            "runtime": {
                "runs": str(tmp_path / "runs"),
                "controllers": {"num_cpus": 0.5},
                "scripted": {"in_process": True},
            },
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config))
    files = [str(tmp_path / f"{name}.yaml") for name in ("one", "two")]
    command = [sys.executable, "-m", "jobs.suite", "--name", "all", "--at-once", "1", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "all-one: done\nall-two: done\n" in done.stdout
    page = (tmp_path / "runs" / "all.html").read_text()
    for name in ("one", "two"):
        run = RunDir.open(str(tmp_path / "runs" / f"all-{name}"))
        assert run.outcomes().num_rows == 4
        assert f"all-{name}" in page


def test_a_suite_goes_on_where_nobody_reads_it(tmp_path):
    """Else its runs would end with whoever read their lines."""
    done = tmp_path / "done"
    job = (
        "import sys; from jobs.endings import ignore_broken_pipe; from jobs.suite import run_all\n"
        "ignore_broken_pipe()\n"
        'told = \'print("x" * 1_000_000); open(sys.argv[1], "w").close()\'\n'
        "run = [sys.executable, '-c', f'import sys; {told}', sys.argv[1]]\n"
        "sys.exit(max(run_all(['a', 'b'], [run, run], 2)))"
    )
    command = f'set -o pipefail; "{sys.executable}" -c "$JOB" "{done}" | true'
    ended = subprocess.run(["bash", "-c", command], timeout=60, env={**os.environ, "JOB": job})

    assert (ended.returncode, done.exists()) == (0, True)
