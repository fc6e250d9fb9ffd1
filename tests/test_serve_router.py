"""The policy inside Serve's router: counted from the choice on, and never more than once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.routing import serve_router
from actors.routing.serve_router import StickyRouter

pytestmark = pytest.mark.ray

REPLICAS: list[Any] = [
    SimpleNamespace(replica_id=SimpleNamespace(unique_id=name)) for name in "wxyz"
]


@pytest.fixture
def router() -> StickyRouter:
    """A router as Serve sets it up, without Serve."""
    router = StickyRouter.__new__(StickyRouter)
    router._deployment_id = SimpleNamespace(app_name="tests")
    router.initialize_state(margin=8)
    return router


def request(number: int) -> Any:
    """A request that waits for a replica, of a session of its own."""
    metadata = SimpleNamespace(session_id=f"s{number}", internal_request_id=f"r{number}")
    return SimpleNamespace(metadata=metadata)


def loads(router: StickyRouter) -> dict[str, int]:
    """Requests that each replica is thought to hold."""
    return {name: router.policy.load(name) for name in "wxyz"}


async def test_a_burst_is_spread_before_any_replica_has_answered(router: StickyRouter) -> None:
    """Hundreds are chosen for in the milliseconds that a replica takes to accept the first."""
    for number in range(400):
        await router.choose_replicas(REPLICAS, request(number))

    assert loads(router) == dict.fromkeys("wxyz", 100)


async def test_a_request_is_counted_once_from_choice_to_completion(router: StickyRouter) -> None:
    """Also where it was chosen for twice, and where another replica than the chosen one took it."""
    asked = request(1)
    await router.choose_replicas(REPLICAS, asked)
    (chosen,), (other,), *_ = await router.choose_replicas(REPLICAS, asked)
    assert sum(loads(router).values()) == 1

    router.on_request_routed(asked, other.replica_id, None)
    assert loads(router) == {**dict.fromkeys("wxyz", 0), other.replica_id.unique_id: 1}

    router.on_request_completed(chosen.replica_id, "r1")  # it had rejected the request
    assert sum(loads(router).values()) == 1
    router.on_request_completed(other.replica_id, "r1")
    assert not any(loads(router).values())
    assert router.policy.stats().sent == {other.replica_id.unique_id: 1}


async def test_a_request_cancelled_before_a_replica_took_it_is_not_counted_for_ever(
    router: StickyRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Serve says nothing of it."""
    now = 1_000.0
    monkeypatch.setattr(serve_router.time, "monotonic", lambda: now)
    for number in range(8):
        await router.choose_replicas(REPLICAS, request(number))
    now += 61
    await router.choose_replicas(REPLICAS, request(9))

    assert sum(loads(router).values()) == 1
