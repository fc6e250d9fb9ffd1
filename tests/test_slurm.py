"""deploy/slurm.sh under a Slurm and a Ray that are played by small scripts."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "deploy" / "slurm.sh"
FAKES = {
    "scontrol": 'case $1 in show) printf "node-7\\nnode-8\\n" ;; *) echo "scontrol $*" ;; esac',
    "srun": 'shift; "$@"; status=$?; exit ${STEP:-$status}',
    # symmetric-run on the head's node runs the command after `--` and ends with its status
    "ray": '[ "$1" = symmetric-run ] || exit 0; echo "ray $*"; '
    'sleep ${HEAD_STARTS:-0}; [ -z "$NO_HEAD" ] || exit 0; '
    'while [ "$1" != -- ]; do shift; done; shift; "$@"',
    "python": 'echo "driver at $RAY_ADDRESS: $*"; trap "exit 75" TERM; '
    '[ -z "$LISTENS" ] || touch "$LISTENS"; '
    "for i in $(seq $SLEEPS); do sleep 0.1; done; exit $STATUS",
}


@pytest.fixture
def batch(tmp_path, default_signals):
    """Starts the script as job 1234567 with what follows; the driver ends as `STATUS` says."""
    for name, body in FAKES.items():
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)

    def started(*arguments, status=0, sleeps=0, job=1234567, **more):
        environment = {
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": "node-[7-8]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_SUBMIT_DIR": str(tmp_path),
            "STATUS": str(status),
            "SLEEPS": str(sleeps),
            **more,
        }
        return subprocess.Popen(
            ["bash", str(SCRIPT), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return started


def ended(process):
    told, _ = process.communicate(timeout=30)
    return process.returncode, told


def test_the_run_joins_the_cluster_of_its_job_and_resumes_by_name(batch):
    """The first node is the head; the driver joins it with the arguments given, whole."""
    status, told = ended(batch("--config", "a b.yaml", "--name", "n"))

    assert status == 0
    assert "--address node-7:27700 --min-nodes 2" in told
    assert (
        "driver at node-7:27700: -m jobs.evaluate --resume-if-exists --config a b.yaml --name n"
        in told
    )
    assert "requeue" not in told


def test_ports_are_of_the_job_alone(batch):
    """All ports of a job differ and lie in a hundred of its own, below those that the kernel deals
    out; the next job has others."""
    found = []
    for job in (199, 200):
        _, told = ended(batch("--name", "n", job=job))
        line = next(line for line in told.splitlines() if line.startswith("ray symmetric-run"))
        ports = [int(port) for port in re.findall(r"(?:port=|node-7:)(\d+)", line)]
        assert len(ports) == len(set(ports)) == 9
        assert 10_000 <= min(ports) <= max(ports) < min(ports) + 100 < 32_768
        found.append(set(ports))
    assert not found[0] & found[1]


@pytest.mark.parametrize(("status", "again"), [(75, True), (1, False), (2, False), (3, False)])
def test_only_a_run_that_can_go_on_by_itself_is_queued_again(batch, status, again):
    """Status 75 requeues; a failure, a bad configuration and a cap do not. The status is kept."""
    ending, told = ended(batch("--name", "n", status=status))

    assert ending == status
    assert ("scontrol requeue 1234567" in told) == again


@pytest.mark.parametrize(("number", "again"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_signal_drains_the_run(batch, tmp_path, number, again):
    """Slurm's warning, SIGTERM, drains the run, which ends with 75 and is queued again; a user's
    SIGINT does the same without queueing."""
    listens, pid = tmp_path / "listens", tmp_path / "slurm-1234567-ray" / "driver.pid"
    process = batch("--name", "n", sleeps=600, LISTENS=str(listens))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if listens.exists() and pid.exists() and pid.read_text().strip():
            break
        time.sleep(0.05)
    process.send_signal(number)

    status, told = ended(process)

    assert status == 75
    assert ("scontrol requeue 1234567" in told) == again


def test_a_warning_before_the_driver_is_there_queues_the_job_again(batch, tmp_path):
    """While Ray is starting there is no run to drain: the step ends, and the job starts again."""
    process = batch("--name", "n", HEAD_STARTS="3")
    deadline = time.monotonic() + 20
    while not (tmp_path / "slurm-1234567-ray" / "0-0").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)

    status, told = ended(process)

    assert status == 75
    assert "scontrol requeue 1234567" in told


def test_without_a_name_nothing_is_started(batch):
    """A requeued job could not find its run directory."""
    status, told = ended(batch("--config", "c.yaml"))

    assert (status, told.count("\n")) == (2, 1)
    assert "--name must be given" in told


SKY = {
    # the head listens until it is ended; a worker stays while the head does
    "ray": 'echo "ray $*"; case $* in *--head*) exec "$REAL" -c "$LISTEN" ;; esac; touch joined; '
    "while (exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null; do sleep 0.1; done; exit 1",
    "python": "[ $1 != -c ] || { ls | grep -c joined | sed s/1/2/; exit; }; "
    'echo "job $*"; sleep 1; exit $STATUS',
    "sleep": 'exec "$REAL" -c "import sys, time; time.sleep(min(0.2, float(sys.argv[1])))" "$1"',
}
LISTEN = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    server.accept()[0].close()
"""


@pytest.mark.parametrize("status", [0, 75])
def test_every_node_of_skypilot_ends_with_the_run(tmp_path, status):
    """The head with the status of the job, its Ray and the other node right after it: a node that
    stayed would be billed until somebody looks."""
    task = yaml.safe_load((ROOT / "deploy" / "skypilot.yaml").read_text())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.touch()
    (tmp_path / "bin").mkdir()
    for name, body in SKY.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def node(rank):
        environment = {
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.2",
            "SKYPILOT_NODE_RANK": str(rank),
            "SKYPILOT_NUM_NODES": "2",
            "STATUS": str(status),
            "PORT": port,
            "REAL": sys.executable,
            "LISTEN": LISTEN,
        }
        return subprocess.Popen(
            ["bash", "-c", task["run"].replace("6379", port)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    worker, head = node(1), node(0)
    head_said, _ = head.communicate(timeout=60)
    worker_said, _ = worker.communicate(timeout=30)

    assert (head.returncode, worker.returncode) == (status, 0)
    assert "ray start --address 127.0.0.1" in worker_said
    assert "job -m jobs.evaluate" in head_said
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)))
    assert "--resume-if-exists" in task["run"]
    assert (ROOT / re.search(r"--config (\S+)", task["run"])[1]).is_file()
    subprocess.run(["bash", "-n", "-c", task["setup"]], check=True)
