"""The KubeRay manifest, held to the part of its CRD schema that it uses.

The whole CRD is over a megabyte, most of it the schema of pods. The excerpt was written from
KubeRay's API reference (ray.io/v1, release 1.5 and later) and from that of Kubernetes; it refuses
unknown fields, as the API server does under strict validation. It is tests/data/rayjob-schema.json.
"""

import json
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from jobs import evaluate
from pipeline.config.run import RunConfig

RAYJOB = json.loads(Path("tests/data/rayjob-schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def manifest():
    return yaml.safe_load(Path("deploy/rayjob.yaml").read_text(encoding="utf-8"))


def test_the_manifest_is_one_that_kuberay_takes(manifest):
    """Every field exists, has its type, and is one of its values."""
    jsonschema.Draft202012Validator(RAYJOB).validate(manifest)


def test_a_retry_resumes_the_run(manifest):
    """The entry point is one that this project has, names its run and resumes it by that name."""
    python, flag, module, *arguments = shlex.split(manifest["spec"]["entrypoint"])
    options = evaluate.parser().parse_args(arguments)

    assert (python, flag, module) == ("python", "-m", "jobs.evaluate")
    assert options.resume_if_exists
    assert options.name == manifest["metadata"]["name"]
    assert manifest["spec"]["backoffLimit"] > 0
    assert manifest["spec"]["shutdownAfterJobFinishes"] is True


def test_stopping_leaves_time_to_drain(manifest):
    """Ray kills a stopped job after three seconds unless told otherwise; a drain takes 120."""
    environment = yaml.safe_load(manifest["spec"]["runtimeEnvYAML"])

    assert int(environment["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) >= 150


def test_the_cluster_can_hold_the_run(manifest):
    """GPU groups start at none and reach the nodes that the run's plan counts; labels and idle
    time-out are those of cluster.yaml."""
    cluster = manifest["spec"]["rayClusterSpec"]
    options = evaluate.parser().parse_args(shlex.split(manifest["spec"]["entrypoint"])[3:])
    runtime = RunConfig.load(options.config).runtime
    launcher = yaml.safe_load(Path("cluster.yaml").read_text(encoding="utf-8"))

    for group in cluster["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert (group["minReplicas"], group["replicas"]) == (0, 0)
        assert group["maxReplicas"] >= runtime.plan.nodes
        assert group["labels"] == {"pool": group["groupName"]}
        assert group["resources"] == {"CPU": "4", "GPU": limits["nvidia.com/gpu"]}
        assert limits["nvidia.com/gpu"] == str(runtime.plan.gpus_per_node)
    assert cluster["autoscalerOptions"]["version"] == "v2"
    idle_s = cluster["autoscalerOptions"]["idleTimeoutSeconds"]
    assert idle_s == launcher["idle_timeout_minutes"] * 60


def test_versions_agree():
    """The manifest, the image's lock and pyproject.toml name one Ray."""
    manifest = yaml.safe_load(Path("deploy/rayjob.yaml").read_text(encoding="utf-8"))
    lock = Path("requirements/gpu.lock").read_text(encoding="utf-8").splitlines()

    assert f"ray=={manifest['spec']['rayClusterSpec']['rayVersion']}" in lock
