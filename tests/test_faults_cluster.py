"""Runs on a cluster that outlives them: what is killed there, and what must not be left there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.chaos_count import count
from benchmarks.running import Job, newest_attempt, rounds_durable, scripted_run, titled, until
from pipeline.records.run_dir import RunDir
from tests.clusters import ENVIRONMENT

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1500)]


class Cluster:
    """A head and two nodes for controllers, as children of this process."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self.ray = RayCluster(
            initialize_head=True,
            head_node_args={"num_cpus": 4, "num_gpus": 0, "labels": {"pool": "head"}},
        )
        labels = {"pool": "controllers"}
        self.nodes = [self.ray.add_node(num_cpus=2, num_gpus=0, labels=labels) for _ in range(2)]


@pytest.fixture
def cluster(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = Cluster()
    try:
        yield made
    finally:
        made.ray.shutdown()


class Run:
    """A run on the cluster, attempt by attempt."""

    def __init__(self, cluster, folder) -> None:
        self.cluster, self.folder, self.run = cluster, folder, folder / "runs" / "r"
        self.jobs: list[Job] = []
        self.config = scripted_run(
            folder,
            size=20,
            strategies=["mr_thinking"],
            controllers={"num_cpus": 0.5, "label_selector": {"pool": "controllers"}},
            scripted={"tokens_per_s": 30.0},
        )

    def start(self) -> Job:
        """The next attempt, once it has made rounds durable."""
        resume = ["--resume", str(self.run)] if self.run.exists() else ["--name", "r"]
        before = newest_attempt(self.run)
        job = Job(
            [*resume, "--config", str(self.config)],
            self.folder / f"log-{len(self.jobs)}.txt",
            {"RAY_ADDRESS": self.cluster.ray.address},
            above=os.getpid(),
        )
        self.jobs.append(job)
        until(lambda: newest_attempt(self.run) > before or not job.running, 400)
        assert job.running, job.output()[-4000:]
        return job

    def right(self) -> bool:
        counted = count(RunDir.open(str(self.run)), self.folder / "witness")
        assert counted.right, counted
        return counted.chains == 20


@pytest.fixture
def run(cluster, tmp_path):
    """A run on the cluster, whose drivers end afterwards."""
    made = Run(cluster, tmp_path)
    yield made
    for job in made.jobs:
        job.end()


def test_plain_actors_die_with_their_driver(run):
    """After SIGKILL of the driver no engine, controller or watch of it survives a few seconds."""
    job = run.start()
    engines = titled(os.getpid(), "ray::EngineHost")
    job.kill(signal.SIGKILL)
    job.wait(30)
    began = time.monotonic()
    until(
        lambda: (
            not any(
                titled(os.getpid(), title)
                for title in ("ray::EngineHost", "ray::MapWorker", "ray::RunMonitor")
            )
        ),
        60,
    )

    assert len(engines) == 2
    assert time.monotonic() - began < 60
    assert run.start().wait(400) == 0
    assert run.right()


@pytest.mark.parametrize("how", ["killed", "drained"])
def test_a_node_with_controllers_that_goes_away(cluster, run, how):
    """Their chains go on from the journal on the other node."""
    job = run.start()
    until(lambda: rounds_durable(run.run) >= 5, 100)
    (controller,) = job.controllers()
    raylets = {node.node_id: node.all_processes["raylet"][0].process.pid for node in cluster.nodes}
    under = next(
        node
        for node in cluster.nodes
        if controller in titled(raylets[node.node_id], "ray::MapWorker")
    )
    if how == "killed":
        cluster.ray.remove_node(under, allow_graceful=False)
    else:
        subprocess.run(
            [
                str(Path(sys.executable).with_name("ray")),
                "drain-node",
                *("--address", cluster.ray.address, "--node-id", under.node_id),
                *("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"),
                *("--deadline-remaining-seconds", "5"),
            ],
            check=True,
            timeout=120,
        )
        time.sleep(6)
        cluster.ray.remove_node(under, allow_graceful=True)

    assert job.wait(400) == 0, job.output()[-4000:]
    assert run.right()
