"""An endpoint whose run monitor cannot be reached."""

import asyncio
from typing import ClassVar

import ray

from actors.controllers.chain_types import Counters
from actors.serving.deployment import EndpointReplica


async def test_one_broken_connection_to_the_run_monitor_is_tried_again(monkeypatch):
    """The monitor lives, so the endpoint goes on; where it is gone, the endpoint ends and its
    driver learns why."""
    calls = []

    class Monitor:
        class report:
            @staticmethod
            async def remote(*_):
                calls.append(1)
                if len(calls) == 1:
                    raise ray.exceptions.ActorUnavailableError("broken", b"0" * 16)
                if len(calls) == 4:
                    raise ray.exceptions.ActorDiedError
                return 7

    class Answers:
        counters = Counters()
        limits: ClassVar = []

        def limit(self, share):
            self.limits.append(share)

        async def drain(self, grace_s):
            self.limits.append(grace_s)

    monkeypatch.setattr("actors.serving.deployment._REPORT_EVERY_S", 0.001)
    replica = object.__new__(EndpointReplica)
    replica._watch, replica._answering = Monitor(), Answers()
    replica._reports, replica._life, replica._trouble = 0, 1, None
    await asyncio.wait_for(replica._report(), 10)

    assert Answers.limits == [7, 7, 0.0]
    assert await replica.begin(None) == "its run monitor is gone"
