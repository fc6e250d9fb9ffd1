"""A run on a real cluster that has too little room for it: refused, or told what it waits for."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from benchmarks.fake_cluster import FakeCluster
from benchmarks.running import Job, scripted_run, until
from pipeline.records.run_dir import RunDir
from tests.clusters import ENVIRONMENT, ROOT

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]


HOLDER = """
import ray, sys
ray.init(address="auto", log_to_driver=False)

@ray.remote(num_cpus=float(sys.argv[1]))
class Holder:
    def there(self):
        return True

holder = Holder.remote()
ray.get(holder.there.remote())
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cluster(monkeypatch):
    """One node of two CPUs and of one GPU that is none; nobody adds another."""
    from ray.cluster_utils import Cluster

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1})
    try:
        yield made
    finally:
        made.shutdown()


@contextmanager
def holding(address, cpus):
    """Another job has this many CPUs."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(cpus)],
        env={**os.environ, "RAY_ADDRESS": address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout.readline() == "held\n"
        yield
    finally:
        other.communicate(timeout=60)  # closes its input, at which it ends


def run_on(address, folder, **runtime):
    config = scripted_run(folder, size=4, strategies=["mr_thinking"], **runtime)
    return Job(["--config", str(config), "--name", "r"], folder / "log", {"RAY_ADDRESS": address})


def test_what_the_cluster_never_can_hold_is_refused_at_once(cluster, tmp_path):
    """One line says what is asked for, what there is and what to lower; the status is 2, and the
    run goes on once that was done."""
    pool = {"num_gpus": 1, "num_cpus": 0.1, "replicas": 3}
    job = run_on(cluster.address, tmp_path, generator=pool)
    status = job.wait(120)
    lines = [line for line in job.output().splitlines() if line.startswith("error: ")]
    resumed = Job(
        ["--resume", str(tmp_path / "runs" / "r"), "--set", "runtime.generator.replicas=1"],
        tmp_path / "log",
        {"RAY_ADDRESS": cluster.address},
    )

    assert (status, len(lines)) == (2, 1), job.output()
    assert re.search(
        r"room for 3 x generator \(0\.1 CPU, 1 GPU\), .* got 1 node with 2 CPU and 1 GPU: it has "
        r"places for 1 of 3 x generator; lower what runtime\.generator, .* or add nodes; "
        r"resume with --resume \S+/runs/r$",
        lines[0],
    )
    assert resumed.wait(180) == 0, resumed.output()


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (1.95, r"engines are not up after \d+ s: they load, or wait for a node"),
        (1.75, r"controllers are not up after \d+ s: they load, or wait for a node"),
    ],
)
def test_what_others_hold_is_waited_for_aloud(cluster, tmp_path, held, said):
    """A line says what is not up; then the run goes on."""
    with holding(cluster.address, held):
        job = run_on(cluster.address, tmp_path)
        until(lambda: re.search(said, job.output()) or not job.running, 180)
        assert job.running, job.output()
    status = job.wait(180)

    assert status == 0, job.output()
    assert RunDir.open(str(tmp_path / "runs" / "r")).outcomes().num_rows == 4


def test_where_nodes_may_come_nothing_is_refused(tmp_path):
    """With an autoscaler a run waits for nodes, says so, and can be stopped meanwhile."""
    node = {"resources": {"CPU": 4, "GPU": 4}, "labels": {}, "max_workers": 1}
    cluster = FakeCluster(
        {"gpu": node},
        max_workers=1,
        idle_timeout_s=60,
        head_cpus=2,
        environment={"PYTHONPATH": str(ROOT)},
    )
    try:
        pool = {"num_gpus": 4, "num_cpus": 0.1, "replicas": 2}  # one more than may come
        job = run_on(cluster.address, tmp_path, generator=pool)
        said = r"engines are not up after \d+ s"
        until(lambda: re.search(said, job.output()) or not job.running, 180)
        assert job.running, job.output()
        job.kill(signal.SIGTERM)
        status = job.wait(120)
    finally:
        cluster.stop()

    assert status == 75, job.output()
