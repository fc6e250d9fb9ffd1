"""docs/cluster.md, run as a newcomer would: every command of its rehearsal, on a local cluster."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from benchmarks.fake_cluster import wait_until
from benchmarks.journals import read_journal
from jobs import evaluate
from pipeline.records.run_dir import RunDir, rows_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cluster.md"
SIZES = {"first": 12, "second": 300}
"""Questions of each run of the rehearsal."""


def blocks(title):
    """The shell blocks of one section of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```bash\n(.*?)^```$", section, re.M | re.S)


def test_the_first_command_prints_a_plan(capsys):
    """The first command of the page prints the plan of a cluster run."""
    command, *_ = blocks("Plan a run")
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    assert words[:3] == ["python", "-m", "jobs.evaluate"]
    with pytest.raises(SystemExit) as ended:
        evaluate.main(words[3:])

    assert ended.value.code == 0
    assert "tensor parallel 4 (2 at least, for room)" in capsys.readouterr().out


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What a clone would have of this folder: tracked files only, as they are now."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.mark.ray
def test_the_upload_has_all_code_and_little_else(checkout, tmp_path):
    """What --working-dir sends: every module, model and configuration, no tests, no history."""
    from ray._private.runtime_env import packaging

    archive = tmp_path / "upload.zip"
    packaging.create_package(str(checkout), archive, include_gitignore=True)
    with zipfile.ZipFile(archive) as upload:
        names = set(upload.namelist())
    code = {
        str(path.relative_to(checkout))
        for package in ("pipeline", "actors", "jobs")
        for path in (checkout / package).rglob("*.py")
    }
    data = {str(path.relative_to(checkout)) for path in (checkout / "configs").glob("*.yaml")}

    assert len(code) > 100
    assert code <= names
    assert data <= names
    assert "models/tiny-generator/model.safetensors" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", ".git/", "runs/"))]
    assert archive.stat().st_size < 30_000_000


def _path():
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def rehearsal(checkout, tmp_path_factory):
    """The page's two terminals, with ports and folders of their own: output and run directories."""
    home = tmp_path_factory.mktemp("home")
    temporary = tempfile.mkdtemp(prefix="ms-", dir="/tmp")  # a socket's path must be short
    port, dashboard, agent = _free_ports(3)
    first, *second = (
        block.replace(
            "--port=6379",
            f"--port={port} --dashboard-agent-listen-port={agent} --temp-dir={temporary}",
        )
        .replace("--dashboard-port=8265", f"--dashboard-port={dashboard}")
        .replace("127.0.0.1:8265", f"127.0.0.1:{dashboard}")
        for block in blocks("A rehearsal on one machine")
    )
    environment = {**os.environ, "PATH": _path(), "HOME": str(home)}
    environment.pop("RAY_AUTH_MODE", None)
    with (home / "head.log").open("wb") as log:
        head = subprocess.Popen(
            ["bash", "-e", "-c", first],
            cwd=checkout,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: "--block" in (home / "head.log").read_text(errors="replace") or head.poll(),
            120,
            "the head",
        )
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(second)],
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1_500,
        )
        (home / "transcript.txt").write_text(done.stdout)
        yield done, home / "markovscale-runs"
    finally:
        os.killpg(head.pid, signal.SIGINT)  # Ctrl-C
        try:
            head.wait(60)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_every_command_works(rehearsal):
    """No command fails, the table of the first run is printed, and the jobs end as told."""
    done, _ = rehearsal

    assert done.returncode == 0, done.stdout[-6_000:]
    assert f"arithmetic: {SIZES['first']} questions" in done.stdout
    assert re.search(r"stopped: .*resume with --resume .*/second", done.stdout)
    assert f"arithmetic: {SIZES['second']} questions" in done.stdout


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_every_question_has_its_outcomes(rehearsal):
    """Both runs are whole, and the first has its report."""
    _, runs = rehearsal
    for name, questions in SIZES.items():
        summary = json.loads((runs / name / "summary.json").read_text())
        assert (summary["questions"], summary["chains_done"]) == (questions, summary["chains"])
    assert (runs / "first" / "report.html").stat().st_size > 10_000


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_resume_goes_on_where_the_stop_left(rehearsal):
    """Two attempts share the journal, and no round of the first is drawn a second time."""
    _, runs = rehearsal
    run = RunDir.open(str(runs / "second"))
    rows = rows_of(read_journal(run.journal).table)
    keys = [
        (r["strategy"], r["benchmark"], r["question_id"], r["chain"], r["round"], r["sample"])
        for r in rows
    ]

    assert {row["attempt"] for row in rows} == {1, 2}
    assert len(keys) == len(set(keys))
