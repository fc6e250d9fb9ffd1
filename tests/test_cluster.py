"""Ray on one machine."""

import pytest

from jobs.cluster import cpus_of
from pipeline.config.runtime import RuntimeConfig


@pytest.mark.parametrize(
    ("generator", "controllers", "cores", "expected"),
    [
        ({"num_cpus": 0.3}, {"num_cpus": 0.3}, 8, 8),
        ({"num_cpus": 1.5}, {"num_cpus": 0.3}, 2, 4),
        ({"num_cpus": 1, "replicas": 4}, {"num_cpus": 1, "actors": 2}, 2, 8),
    ],
)
def test_a_run_always_finds_room_on_its_own_machine(generator, controllers, cores, expected):
    """Ray counts at least what pools, controllers and one more task ask for."""
    runtime = RuntimeConfig.model_validate({"generator": generator, "controllers": controllers})

    assert cpus_of(runtime, cores) == expected
