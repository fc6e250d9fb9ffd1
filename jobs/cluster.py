"""*Cluster*: joins a Ray cluster, or starts Ray on this machine."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from actors.cluster.process_guard import ProcessGuard
from pipeline.config.runtime import RuntimeConfig
from pipeline.core.errors import MarkovScaleError
from pipeline.store.local import INSTALLED, PROJECT

_CONNECT_S = 30.0
_SAYS_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # the kind of the frame that every server of gRPC begins with
_NOT_SENT = (".git", ".venv", "venv", "__pycache__")  # besides what .gitignore and .rayignore name


class ClusterError(MarkovScaleError, RuntimeError):
    """Ray could not be started or joined."""

    status, ending = 75, "stopped"


def start_ray(runtime: RuntimeConfig, own: Sequence[str] = ()) -> None:
    """Join the cluster that the configuration or the environment names, else start Ray here.

    Args:
        runtime: names the cluster.
        own: top-level modules of the user that workers import too.

    A cluster of its own listens on the loopback interface only, without dashboard and without token
    authentication. On a cluster, ``RAY_AUTH_MODE`` is the cluster's (docs/operations.md).

    Raises:
        ClusterError: saying why there is no Ray.
    """
    joins = _joined(runtime)
    # set before Ray is imported: it reads them then
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if joins:
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")  # tries of a second each
        # Ray's own list, of which it warns line by line: ours is in `_init`
        os.environ.setdefault("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", "")
    else:
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        # despite its name it holds for Linux too: without it every port is open to the network
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    if ray.is_initialized():
        return
    try:
        _init(ray, runtime, joins, [_place_of(name) for name in own])
    except Exception as error:  # Ray raises a bare Exception where its processes do not come up
        what = f"join the Ray cluster at {joins}" if joins else "start Ray on this machine"
        raise ClusterError(f"could not {what}: {error}") from error
    logging.getLogger("ray.serve").setLevel(logging.WARNING)


def _joined(runtime: RuntimeConfig) -> str | None:
    """The cluster to join; None where Ray is started here."""
    return runtime.ray_address or os.environ.get("RAY_ADDRESS")


def cpus_of(runtime: RuntimeConfig, cores: int) -> int:
    """CPUs that Ray on this machine counts: its cores, or more where the run asks for more.

    They are shares, not cores. Were there fewer than pools, controllers and one task that reads or
    writes ask for, the run would wait for ever.
    """
    pools = runtime.pools.values()
    required = sum(pool.num_cpus * (pool.max_replicas or pool.replicas) for pool in pools)
    required += runtime.controllers.num_cpus * runtime.controllers.actors
    return max(cores, ceil(required + 1))


def _place_of(module: str) -> Path:
    """The folder of a package, or the file of a module."""
    file = sys.modules[module].__file__
    if file is None:  # a package without __init__.py
        return Path(next(iter(sys.modules[module].__path__)))
    return Path(file).parent if Path(file).name == "__init__.py" else Path(file)


def _init(ray: Any, runtime: RuntimeConfig, joins: str | None, own: Sequence[Path]) -> None:
    if joins:
        _check_reachable(joins)  # Ray itself would try for ten minutes
        submitted = "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ
        environment: dict[str, Any] | None = None
        if not submitted:
            sent = [str(path) for path in own if "site-packages" not in path.parts]
            if INSTALLED:
                environment = {"py_modules": [str(PROJECT), *sent]}
            else:
                environment = {"working_dir": str(PROJECT), "excludes": [*_NOT_SENT]}
                environment |= {"py_modules": sent} if sent else {}
        try:
            ray.init(
                address=joins, runtime_env=environment, log_to_driver=False, logging_level="warning"
            )
        except Exception as error:
            mode = os.environ.get("RAY_AUTH_MODE", "not set")
            raise ClusterError(
                f"{error} (RAY_AUTH_MODE must be that of the cluster, it is {mode} here)"
            ) from error
    else:
        ProcessGuard()
        _importable_by_workers(own)
        ray.init(
            address="local",
            num_cpus=cpus_of(runtime, os.cpu_count() or 1),
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            logging_level="warning",
        )


def _check_reachable(address: str) -> None:
    if address.startswith(("http://", "https://")):
        raise ValueError(
            "that is where jobs are submitted; a program joins at HOST:6379, or is submitted with "
            "RAY_API_SERVER_ADDRESS set instead of RAY_ADDRESS"
        )
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto" and the like
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as probe:
        if os.environ.get("RAY_USE_TLS", "0") not in ("0", "false"):
            return
        probe.sendall(_SAYS_HTTP2)
        frame = probe.recv(9, socket.MSG_WAITALL)
        if frame[3:4] != bytes([_SETTINGS]):
            raise ConnectionError("what listens there is not Ray, whose port is 6379 unless set")


def _importable_by_workers(own: Sequence[Path]) -> None:
    """Worker processes inherit the environment of the Ray that this process starts."""
    folders = [str(path.parent) for path in own if "site-packages" not in path.parts]
    paths = [
        *([] if INSTALLED else [str(PROJECT)]),
        *folders,
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
