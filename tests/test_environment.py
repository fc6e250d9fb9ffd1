"""What is kept of the machine that a run ran on."""

from __future__ import annotations

import platform

from actors.driver.driver import environment_of


def test_the_cluster_is_told_in_plain_facts() -> None:
    """Sizes, kinds of accelerators and versions; what Ray does not name is none."""
    cluster = {"CPU": 64.0, "GPU": 8.0, "memory": 2.0**33, "accelerator_type:H100": 8.0}
    found = environment_of(cluster, nodes=2)

    assert found["cluster"] == {
        "nodes": 2,
        "cpus": 64.0,
        "gpus": 8.0,
        "accelerators": "H100",
        "memory_gib": 8.0,
    }
    assert found["versions"]["python"] == platform.python_version()
    assert {"ray", "torch", "pyarrow"} <= found["versions"].keys()
    assert environment_of({}, nodes=1)["cluster"]["accelerators"] == "none"
