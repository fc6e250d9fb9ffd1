"""An endpoint whose driver is gone, or silent for a while."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from actors.controllers.chain_types import Counters
from actors.serving.app import Endpoint
from actors.serving.deployment import EndpointReplica


async def test_an_endpoint_that_nobody_attends_takes_no_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a minute after its driver's last word requests are 503; they are taken again once the
    driver, which was only paused, says something."""
    now, limits = [100.0], list[int]()
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("actors.serving.deployment.time", clock)
    answering: Any = SimpleNamespace(
        counters=Counters(rounds=7),
        limit=limits.append,
        draining=False,
        models=SimpleNamespace(served={}),
    )
    replica: Any = object.__new__(EndpointReplica)
    replica._answering, replica._attended_at = None, 0.0
    replica._answers_by = lambda engines: answering
    replica._endpoint = Endpoint(healthy=replica._why_not)
    transport = httpx2.ASGITransport(app=replica._endpoint.app())

    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:

        async def statuses() -> tuple[int, int]:
            listed, health = await http.get("/v1/models"), await http.get("/health")
            return listed.status_code, health.status_code

        starting = await statuses()
        counters = await replica.attend(None, 5)
        attended = await statuses()
        now[0] += 31
        alone = await statuses()
        await replica.attend(None, 6)
        again = await statuses()

    assert counters["rounds"] == 7
    assert limits == [5, 6]
    assert [starting, attended, alone, again] == [(503, 503), (200, 200), (503, 503), (200, 200)]
