"""Checks that a cluster has the resources that a run needs, and reports what is waited for."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import ray

from actors.engines.hosts import hosting_of
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.capacity import Ask, Machine, asks_of, demand_words, free_words, shortage

logger = logging.getLogger(__name__)

FIRST_S = 15.0
EVERY_S = 60.0
_MONITOR_S = 10.0  # within which Ray's monitor first tells what nodes there are


def require_room(asks: Sequence[Ask]) -> None:
    """See that the cluster that was joined can hold all of this.

    What other jobs have taken counts as there, since it comes back; so does what an autoscaler may
    add, which is not known here.

    Raises:
        ConfigError: where it never can.
    """
    lacking = shortage(asks, machines())
    if lacking is not None and not autoscales():
        raise ConfigError(lacking)


def require_room_for(config: RunConfig) -> None:
    """`require_room`, for everything that a run needs before its first chain can move."""
    runtime = config.runtime
    models = config.science.models
    require_room(asks_of(runtime, [r for r in models if hosting_of(runtime, r).on_cluster]))


def machines() -> list[Machine]:
    """The nodes that live."""
    return [
        Machine(resources=node["Resources"], labels=node["Labels"])
        for node in ray.nodes()
        if node["Alive"]
    ]


def autoscales() -> bool:
    """Whether something adds nodes to this cluster when processes find no place.

    Ray's monitor runs in every cluster. Its second version does so by name of the cluster's
    settings; its first tells types of nodes, and where nobody adds nodes each node is its own type.
    """
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.autoscaler.v2.utils import is_autoscaler_v2
    from ray.experimental.internal_kv import _internal_kv_get

    if is_autoscaler_v2(fetch_from_server=True):
        return True
    give_up = time.monotonic() + _MONITOR_S
    while (told := _internal_kv_get(DEBUG_AUTOSCALING_STATUS)) is None:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.5)
    types = json.loads(told).get("autoscaler_report", {}).get("active_nodes", {})
    return any(not name.startswith("node_") for name in types)


def demands() -> Mapping[tuple[tuple[str, float], ...], int]:
    """Processes of the whole cluster that wait for a place, counted by what one takes."""
    from ray.autoscaler.v2.sdk import get_cluster_status

    status = get_cluster_status(ray.get_runtime_context().gcs_address)
    waiting: Counter[tuple[tuple[str, float], ...]] = Counter()
    for demand in status.resource_demands.ray_task_actor_demand:
        for shape in demand.bundles_by_count:
            waiting[tuple(sorted(shape.bundle.items()))] += shape.count
    return waiting


class Waiting:
    """Says what is waited for: once after a while, then from time to time.

    Args:
        what: is not up yet, in the plural.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._next_s = FIRST_S

    def look(self) -> None:
        """Say it where it is time to."""
        waited = time.monotonic() - self._began
        if waited < self._next_s:
            return
        self._next_s = waited + EVERY_S
        try:
            unplaced = demands()
            if not unplaced:
                logger.info("%s have their places and start, %.0f s so far", self._what, waited)
                return
            there, helped = machines(), autoscales()
            free = ray.available_resources()
        except ray.exceptions.RayError as error:
            logger.warning("%s are not up after %.0f s: %s", self._what, waited, error)
            return
        logger.warning(
            "%s are not up after %.0f s: no node has room yet for %s; %s; %s",
            self._what,
            waited,
            demand_words(unplaced),
            free_words(there, free),
            "its autoscaler may add nodes" if helped else "other jobs must free what they hold",
        )


@contextmanager
def waited_for(what: str) -> Iterator[None]:
    """Say what is waited for as long as this lasts."""
    waiting, over = Waiting(what), threading.Event()

    def watch() -> None:
        while not over.wait(1):
            try:
                waiting.look()
            except Exception:
                logger.exception("could not look what is waited for")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
