"""A real autoscaler and Serve over fake nodes: from no node to some and back, one lost, two runs.

The scenario is that of `benchmarks.autoscaling`, whose figure docs/cluster.md shows.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from benchmarks.autoscaling import MAX_NODES, RUNS, draw
from pipeline.records.run_dir import RunDir, rows_of

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The scenario, played once: its samples and the folder with both runs."""
    folder = tmp_path_factory.mktemp("autoscaling")
    command = [sys.executable, "-m", "benchmarks.autoscaling", "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_100, check=False)
    assert done.returncode == 0, done.stderr[-6_000:]
    return json.loads(done.stdout.splitlines()[-1]), folder


def times(result):
    return {event["event"]: event["s"] for event in result["events"]}


def test_nodes_come_for_the_runs_and_go_after_them(played):
    """There is no GPU node before, at least two during, and none after; never more than allowed."""
    result, _ = played
    nodes = [at["nodes"] for at in result["samples"]]

    assert (nodes[0], nodes[-1]) == (0, 0)
    assert 2 <= max(nodes) <= MAX_NODES


def test_pools_grow_while_chains_wait_and_go_with_their_runs(played):
    """The large run's pool grows from one replica to more than one, and to none at its end."""
    result, _ = played
    replicas = [at["replicas"]["large"] for at in result["samples"]]
    first = next(count for count in replicas if count)

    assert first == 1
    assert max(replicas) > 1
    assert replicas[-1] == 0


def test_gpu_nodes_come_for_replicas_alone(played):
    """Before the first chain works one replica of each pool is up, which one node holds: reading
    work rows, controllers and watch ask for CPUs of the head and bring up no GPU node."""
    result, _ = played
    before = [at["nodes"] for at in result["samples"] if at["s"] < times(result)["small submitted"]]

    assert max(before) == 1


def test_a_second_run_shares_the_cluster(played):
    """Both runs have chains in flight at the same moment."""
    result, _ = played

    assert any(all(at["in_flight"][run] > 0 for run in RUNS) for at in result["samples"])


def test_a_lost_node_costs_no_question(played):
    """Chains were in flight when the node was lost; every question has one outcome, none failed."""
    result, folder = played
    lost = times(result)["a node is lost"]
    during = next(at for at in result["samples"] if at["s"] >= lost)

    assert during["in_flight"]["large"] > 0
    assert set(result["status"].values()) == {0}
    for run, questions in RUNS.items():
        outcomes = rows_of(RunDir.open(str(folder / "runs" / run)).outcomes())
        assert len({row["question_id"] for row in outcomes}) == len(outcomes) == questions
        assert {row["stop_reason"] for row in outcomes} == {"budget"}


def test_no_node_waits_for_the_other_run(played):
    """The last node ends only after both runs did: nodes do not go under a run that needs them."""
    result, _ = played
    at = times(result)

    assert at["no GPU node is left"] > at["both runs ended"]


def test_the_figure_is_a_picture(played, tmp_path):
    """Samples become a time line that a browser can show."""
    result, _ = played
    draw(result, tmp_path / "figure.svg")

    root = xml.etree.ElementTree.parse(tmp_path / "figure.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
