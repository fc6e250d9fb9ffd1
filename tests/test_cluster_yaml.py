"""The cluster files, by Ray's own validation and its own autoscaler's scheduler."""

from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
from ray.autoscaler.v2.utils import ResourceRequestUtil
from ray.core.generated import autoscaler_pb2, common_pb2

from pipeline.config.run import RunConfig

FILES = ("cluster.yaml", "deploy/gcp.yaml")
CONFIGS = [
    str(path)
    for path in sorted(Path("configs").glob("*.yaml"))
    if RunConfig.load(str(path)).runtime.plan is not None
]

pytestmark = pytest.mark.ray  # imports it; no cluster is started

LABEL_IN = common_pb2.LabelSelectorOperator.LABEL_OPERATOR_IN


def read(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def launched(path, *, bundles, labels=None, failing=()):
    """Node types that Ray's scheduler would launch for bundles of one shape, by name."""
    config = AutoscalingConfig(read(path), skip_content_hash=True)
    selectors = None
    if labels:
        constraints = [(key, LABEL_IN, [value]) for key, value in labels.items()]
        selectors = [constraints]
    shape, count = bundles
    request = ResourceRequestUtil.make(shape, label_selectors=selectors)
    scores = dict.fromkeys(failing, 0.0)
    reply = ResourceDemandScheduler(None).schedule(
        SchedulingRequest(
            disable_launch_config_check=True,
            node_type_configs=config.get_node_type_configs(),
            max_num_nodes=config.get_max_num_worker_nodes(),
            resource_requests=[autoscaler_pb2.ResourceRequestByCount(request=request, count=count)],
            cloud_resource_availabilities=scores,
            recoverable_resource_availabilities=scores,
        )
    )
    # without a running head the scheduler first launches one
    return {
        item.instance_type: item.count for item in reply.to_launch if item.instance_type != "head"
    }


@pytest.mark.parametrize("path", FILES)
def test_ray_accepts_the_file(path):
    """Ray prepares and validates it, and finds the fault in it when there is one."""
    validate_config(prepare_config(read(path)))
    with pytest.raises(Exception, match="Additional properties are not allowed"):
        validate_config(prepare_config(read(path) | {"max_worker": 4}))


@pytest.mark.parametrize("path", FILES)
def test_a_cpu_head_and_nodes_of_four_gpus_from_none_to_four(path):
    """The head has no GPU, GPU nodes have four, none is kept up, and four are the most."""
    config = prepare_config(read(path))
    types = config["available_node_types"]
    workers = [kind for name, kind in types.items() if name != config["head_node_type"]]

    assert types["head"]["resources"]["GPU"] == 0
    assert {kind["resources"]["GPU"] for kind in workers} == {4}
    assert {kind["min_workers"] for kind in workers} == {0}
    assert {kind["max_workers"] for kind in workers} == {4}
    assert config["max_workers"] == 4


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("run", CONFIGS)
def test_nodes_outlive_the_restart_of_a_replica(path, run):
    """Idle nodes stay longer than a replica that was restarted takes to load its model."""
    runtime = RunConfig.load(run).runtime
    load_s = 600  # of a model of this size from a node's own disk, at most

    assert read(path)["idle_timeout_minutes"] * 60 >= load_s
    assert runtime.plan.nodes <= read(path)["max_workers"]


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("run", CONFIGS)
def test_every_pool_finds_its_nodes(path, run):
    """Ray's scheduler launches nodes for the largest size of each pool, on nodes of its label."""
    runtime = RunConfig.load(run).runtime
    for pool in (runtime.generator, runtime.verifier):
        gpus = pool.engine.tensor_parallel_size
        replicas = pool.max_replicas or pool.replicas
        nodes = launched(
            path,
            bundles=({"GPU": gpus, "CPU": pool.num_cpus}, replicas),
            labels=pool.label_selector,
        )

        assert sum(nodes.values()) == -(-replicas * gpus // 4)
        if "pool" in pool.label_selector:
            assert all(name.startswith(pool.label_selector["pool"]) for name in nodes)


@pytest.mark.parametrize("path", FILES)
def test_cpu_work_does_not_start_gpu_nodes(path):
    """Controllers fit the head; were they too many, GPU nodes would not be launched for one."""
    config = prepare_config(read(path))
    head = config["available_node_types"]["head"]["resources"]["CPU"]

    for run in CONFIGS:
        controllers = RunConfig.load(run).runtime.controllers
        assert controllers.actors * controllers.num_cpus + 4 <= head


@pytest.mark.parametrize("path", FILES)
def test_authentication_is_set_and_nothing_is_installed_at_start(path):
    """Token mode on every node, the token mounted, the dashboard closed, Ray from the image."""
    config = prepare_config(read(path))
    commands = [
        *config["setup_commands"],
        *config["head_setup_commands"],
        *config["worker_setup_commands"],
    ]

    assert "-e RAY_AUTH_MODE=token" in config["docker"]["run_options"]
    assert config["file_mounts"] == {"/root/.ray/auth_token": "~/.ray/auth_token"}
    assert "--dashboard-host=127.0.0.1" in " ".join(config["head_start_ray_commands"])
    assert commands == []
