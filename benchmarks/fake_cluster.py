"""A Ray cluster on this machine whose real autoscaler starts and ends fake GPU nodes.

The autoscaler (v2), its scheduler and its idle time-out are Ray's own; a "node" is another raylet
on this machine that says it has GPUs. Only scripted engines can run there. Everything runs below a
temporary folder of its own, by which its processes are known when it is stopped: nobody else's Ray
is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

HEAD_NODE_ID = "f" * 51 + "00000"
_PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
_LISTS = (
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "initialization_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "cluster_synced_files",
    "rsync_exclude",
    "rsync_filter",
)


class FakeCluster:
    """Up from construction until `stop`.

    Args:
        node_types: Ray's ``available_node_types`` without the head and without ``node_config``.
        max_workers: nodes besides the head, of all types together.
        idle_timeout_s: after which a node without work is ended.
        head_cpus: CPUs that the head says it has.
        environment: more variables for Ray's processes.
    """

    def __init__(
        self,
        node_types: Mapping[str, Mapping[str, Any]],
        *,
        max_workers: int,
        idle_timeout_s: float,
        head_cpus: int = 8,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # short: a socket's path has at most 107 characters
        self._folder = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
        self.address = f"127.0.0.1:{_free_port()}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "disabled",
            "RAY_FAKE_CLUSTER": "1",
            "RAY_enable_autoscaler_v2": "1",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            # else every node begins with a worker process a CPU, needed or not
            "RAY_prestart_worker_first_driver": "0",
            "RAY_enable_worker_prestart": "0",
            **(environment or {}),
        }
        config = self._folder / "autoscaling.json"
        config.write_text(json.dumps(self._config(node_types, max_workers, idle_timeout_s)))
        command = [
            str(Path(sys.executable).with_name("ray")),
            *("start", "--head", "--disable-usage-stats", "--include-dashboard=false"),
            f"--port={self.address.rpartition(':')[2]}",
            "--node-ip-address=127.0.0.1",
            f"--num-cpus={head_cpus}",
            "--num-gpus=0",
            "--object-store-memory=200000000",
            f"--temp-dir={self._folder}",
            f"--autoscaling-config={config}",
            "--labels=pool=head",
        ]
        head = {
            "RAY_CLOUD_INSTANCE_ID": HEAD_NODE_ID,
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_NODE_ID,
        }
        try:
            subprocess.run(  # noqa: S603 (the command is ours)
                command,
                env={**self.environment, **head},
                check=True,
                capture_output=True,
                timeout=120,
            )
        except BaseException:
            self.stop()
            raise

    def _config(
        self, node_types: Mapping[str, Mapping[str, Any]], max_workers: int, idle_timeout_s: float
    ) -> dict[str, Any]:
        head = {"resources": {"CPU": 8}, "node_config": {}, "max_workers": 0}
        types = {name: {"node_config": {}, **kind} for name, kind in node_types.items()}
        return {
            "cluster_name": "fake",
            "max_workers": max_workers,
            "upscaling_speed": 10,
            "idle_timeout_minutes": idle_timeout_s / 60,
            "provider": {
                "type": "external",
                "module": _PROVIDER,
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
                "launch_multiple": True,
                "head_node_id": HEAD_NODE_ID,
                "gcs_address": self.address,
            },
            "auth": {},
            "head_node_type": "ray.head.default",
            "available_node_types": {**types, "ray.head.default": head},
            "file_mounts": {},
            "file_mounts_sync_continuously": False,
            **{name: [] for name in _LISTS},
        }

    def raylets(self) -> dict[str, psutil.Process]:
        """The raylets that live, by node id; the head's is `HEAD_NODE_ID`."""
        found = {}
        for process in self._processes():
            try:
                if process.name() == "raylet":
                    node = process.environ().get("RAY_OVERRIDE_NODE_ID_FOR_TESTING", "")
                    found[node] = process
            except psutil.Error:  # it ended while we looked
                continue
        return found

    def workers(self) -> list[str]:
        """Ids of the nodes that live, without the head."""
        return sorted(node for node in self.raylets() if node != HEAD_NODE_ID)

    def stop(self) -> None:
        """End every process of this cluster."""
        for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            ours = self._processes()
            for process in ours:
                _signal(process, number)
            psutil.wait_procs(ours, timeout=patience_s)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        """Those whose command line or parents name the cluster's folder."""
        mark, ours = str(self._folder), {}
        for process in psutil.process_iter():
            try:
                if any(mark in part for part in process.cmdline()):
                    ours[process.pid] = process
                    ours.update({child.pid: child for child in process.children(recursive=True)})
            except psutil.Error:
                continue
        ours.pop(os.getpid(), None)
        return list(ours.values())


def wait_until(condition: Any, timeout_s: float, what: str) -> Any:
    """The first true value of `condition`.

    Raises:
        TimeoutError: naming what did not come.
    """
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        if value := condition():
            return value
        time.sleep(0.25)
    raise TimeoutError(f"{what} must come within {timeout_s:g} s")


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.Error:  # ended by itself
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
