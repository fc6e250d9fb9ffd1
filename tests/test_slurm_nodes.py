"""deploy/slurm.sh with real Ray on two nodes: a stopped run is queued again and loses nothing."""

import os

import pytest

from benchmarks.chaos_count import count
from benchmarks.running import newest_attempt, rounds_durable, scripted_run, until
from pipeline.records.run_dir import RunDir
from tests.slurm_nodes import ROOT, Nodes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root"),
]


@pytest.fixture
def nodes(tmp_path):
    """Two nodes that share `tmp_path`, the checkout of the job."""
    for part in ("actors", "benchmarks", "jobs", "pipeline"):
        (tmp_path / part).symlink_to(ROOT / part)
    made = Nodes(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def kill_head(nodes, _):
    """The head's GCS is killed: Ray ends the driver by itself."""
    (head,) = nodes.named("gcs_server")
    head.kill()


def warn(nodes, start):
    """The time is nearly up."""
    nodes.warn(start)


@pytest.mark.parametrize("ending", [warn, kill_head])
def test_a_stopped_run_is_queued_again_and_ends_whole(nodes, tmp_path, ending):
    """The first start ends with 75 and asks to be queued again; the second, by the same command,
    goes on with the same run and ends with 0. No round is lost, doubled or made up."""
    config = scripted_run(
        tmp_path, size=20, strategies=["mr_thinking"], scripted={"tokens_per_s": 5.0}
    )
    run, command = tmp_path / "runs" / "r", ("--config", str(config), "--name", "r")
    first = nodes.start(*command)
    until(
        lambda: first.poll() is not None or (newest_attempt(run) == 1 and rounds_durable(run) >= 5),
        240,
    )
    assert first.poll() is None, nodes.log.read_text()[-4000:]
    ending(nodes, first)
    status = first.wait(240)
    told = nodes.log.read_text()

    assert (status, nodes.requeued) == (75, True), told[-4000:]

    second = nodes.start(*command)

    assert second.wait(300) == 0, nodes.log.read_text()[-4000:]
    assert not nodes.requeued
    assert newest_attempt(run) == 2
    counted = count(RunDir.open(str(run)), tmp_path / "witness")
    assert counted.right, counted
    assert counted.chains == 20
