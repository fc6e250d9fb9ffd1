"""Several Ray nodes on one machine: where actors go, and what the loss of a node costs."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from benchmarks.fake_cluster import wait_until
from benchmarks.journals import read_journal
from pipeline.records.run_dir import RunDir, rows_of
from tests.clusters import ENVIRONMENT

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

QUESTIONS = 24


@pytest.fixture
def nodes(monkeypatch):
    """A head with CPUs, two nodes of four GPUs for generators and one for verifiers."""
    from ray.cluster_utils import Cluster

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 4, "num_gpus": 0, "labels": {"pool": "head"}},
    )
    try:
        gpus = {"num_cpus": 4, "num_gpus": 4}
        yield (
            cluster,
            [cluster.add_node(**gpus, labels={"pool": "generator"}) for _ in range(2)],
            cluster.add_node(**gpus, labels={"pool": "verifier"}),
        )
    finally:
        cluster.shutdown()


def config(runs, generator):
    return {
        "science": {
            "benchmarks": [{"name": "arithmetic", "size": QUESTIONS}],
            "strategies": ["mr_thinking"],
            "strategy": {"n": 4},
            "decoding": {"max_tokens": 256},
            "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
            "generator": {"model": "scripted"},
            "verifier": {"model": "scripted"},
        },
        "runtime": {
            "runs": str(runs),
            "journal_flush_s": 0.5,
            # a whole node each, so that every generator node has one
            "generator": {
                **generator,
                "engine": {"tensor_parallel_size": 4, "max_num_seqs": 8},
                "label_selector": {"pool": "generator"},
            },
            "verifier": {
                "replicas": 1,
                "engine": {"max_num_seqs": 8},
                "label_selector": {"pool": "verifier"},
            },
            "controllers": {
                "num_cpus": 0.5,
                "rows_per_block": 4,
                "label_selector": {"pool": "head"},
            },
            "requests": {"backoff_s": 0.2},
            "scripted": {"slots": 8, "tokens": 55, "tokens_per_s": 10},
        },
    }


def start(cluster, folder, generator):
    """The job, as a process that joins the cluster."""
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config(folder / "runs", generator)))
    command = [sys.executable, "-m", "jobs.evaluate", "--config", str(path), "--name", "run"]
    log = (folder / "log").open("wb")
    with log:
        return subprocess.Popen(
            command, env={**os.environ, "RAY_ADDRESS": cluster.address}, stdout=log, stderr=log
        )


PLACES = """
import json, ray, sys
from ray.util.state import list_actors
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="fatal")
print(json.dumps([
    [a.class_name, a.name, a.node_id] for a in list_actors(filters=[("state", "=", "ALIVE")])
]))
"""


def places(cluster):
    """(class, name, node) of every actor that lives."""
    done = subprocess.run(
        [sys.executable, "-c", PLACES, cluster.address], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rounds_done(folder):
    """Completions that are durable so far."""
    run = folder / "runs" / "run" / "journal"
    return read_journal(RunDir.open(str(run.parent)).journal).table.num_rows if run.is_dir() else 0


def test_a_lost_node_costs_rounds_but_no_question(nodes, tmp_path):
    """Pools are on nodes of their label, the rest beside the driver; with one of two generator
    nodes killed in the middle, every question still gets its one outcome."""
    cluster, generators, verifier = nodes
    process = start(cluster, tmp_path, {"replicas": 2})
    try:
        wait_until(lambda: rounds_done(tmp_path) >= 8 or process.poll(), 240, "first rounds")
        assert process.poll() is None, (tmp_path / "log").read_text()[-4_000:]
        where = places(cluster)
        cluster.remove_node(generators[0], allow_graceful=False)
        before = rounds_done(tmp_path)
        status = process.wait(300)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    head = cluster.head_node.node_id
    ours = [
        (kind, name, node)
        for kind, name, node in where
        if "engine" in name.lower() or "markov" in name
    ]
    by_pool = {
        pool: {node for _, name, node in ours if pool in name} for pool in ("generator", "verifier")
    }

    assert status == 0, (tmp_path / "log").read_text()[-4_000:]
    assert by_pool["generator"] == {node.node_id for node in generators}
    assert by_pool["verifier"] == {verifier.node_id}
    assert {node for _, name, node in ours if name.endswith("-watch")} == {head}
    assert {node for kind, _, node in where if kind.startswith("MapWorker")} == {head}
    assert 8 <= before < 4 * QUESTIONS
    _check_whole(tmp_path)


def _check_whole(folder):
    """Every question has its one outcome, of all its rounds."""
    outcomes = rows_of(RunDir.open(str(folder / "runs" / "run")).outcomes())
    assert len({row["question_id"] for row in outcomes}) == len(outcomes) == QUESTIONS
    assert {row["stop_reason"] for row in outcomes} == {"budget"}
    assert {row["completions"] for row in outcomes} == {4}


def test_an_elastic_pool_grows_and_shrinks_with_its_cluster(nodes, tmp_path):
    """It begins with its fewest replicas and takes a node that comes later; when a node is lost its
    replica waits for another one, whose replica serves again; every question has its outcome."""
    cluster, generators, _ = nodes
    cluster.remove_node(generators[0], allow_graceful=False)
    process = start(cluster, tmp_path, {"min_replicas": 1, "max_replicas": 3})
    added = []

    def where():
        names = [(name, node) for _, name, node in places(cluster) if "generator" in name]
        return {node for _, node in names}

    def add():
        labels = {"pool": "generator"}
        added.append(cluster.add_node(num_cpus=4, num_gpus=4, labels=labels).node_id)

    def serving():
        """The replicas that made completions, as the journal's last rounds and metrics say."""
        run = RunDir.open(str(tmp_path / "runs" / "run"))
        return [len(row["engines"]["generator"]) for row in run.metrics() if row.get("engines")]

    try:
        wait_until(lambda: rounds_done(tmp_path) >= 4 or process.poll(), 240, "first rounds")
        assert process.poll() is None, (tmp_path / "log").read_text()[-4_000:]
        assert where() == {generators[1].node_id}
        add()
        wait_until(lambda: where() == {generators[1].node_id, *added}, 60, "a second replica")
        cluster.remove_node(generators[1], allow_graceful=False)
        wait_until(lambda: where() == set(added), 60, "one replica")
        add()
        wait_until(lambda: where() == set(added), 60, "a replica on the third node")
        status = process.wait(300)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()

    assert status == 0, (tmp_path / "log").read_text()[-4_000:]
    assert max(serving()) == 2
    _check_whole(tmp_path)
