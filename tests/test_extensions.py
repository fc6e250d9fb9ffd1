"""A new kind of model call and a new host need no change elsewhere: both are registered here."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import HOSTS, PoolSpec, clients_of
from actors.engines.launch import start_pools
from actors.engines.scripted import Held, ScriptedEngine
from actors.routing.calls import ROLES, Answer, Call, GenerateCall, Generated, Role
from actors.routing.transport import PoolAddress
from benchmarks.in_process import InProcess
from pipeline.config.endpoint import EndpointConfig
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig, RequestConfig, RuntimeConfig, Script
from pipeline.core.protocol import Failure
from tests.endpoints import asks

ELSEWHERE = PoolConfig(endpoint=EndpointConfig(base_urls=("http://elsewhere/v1",)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique(Answer):
    """What a critic says."""

    text: str


@dataclass(frozen=True, slots=True)
class CriticCall(Call[Critique]):
    """Asks what is wrong with a reply."""

    reply: str


class ScriptedCritic(ScriptedEngine):
    """Finds the same fault with everything."""

    kind = "critic"

    async def serve(self, call: CriticCall) -> Critique | Failure:
        """See `Engine.serve`."""
        fault = self._fault(call.reply, self.script.faults)
        failure = await self._hold(call, Held(7, None), self.script.score_s, fault)
        return failure or Critique(text=f"too short: {call.reply}")


class WithCritic(RuntimeConfig):
    """The pool section of the role."""

    critic: PoolConfig = ELSEWHERE


class OwnHost:
    """A host whose engine lives in the process that calls it."""

    def __init__(self, spec: PoolSpec) -> None:
        self.address = PoolAddress(host="endpoint", role=spec.role, at=spec.scripted or {})

    def wait(self) -> None:
        """It serves already."""

    def grow(self) -> bool:
        """It has one replica."""
        return False

    def stats(self) -> list[EngineStats]:
        """Nobody answers."""
        return []

    def stop(self) -> None:
        """Nothing runs."""


class OwnTransport(InProcess):
    """The way to it."""

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        super().__init__(address.role, **address.at)


async def test_a_third_role_and_another_host_are_served_like_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Started together, called by role, and tried again; what another role serves is refused."""
    place = f"{__name__}:ScriptedCritic"
    deadline_s = ROLES["verifier"].deadline_s
    critic = Role(call=CriticCall, deadline_s=deadline_s, engine=place, scripted=place)
    monkeypatch.setitem(ROLES, "critic", critic)
    monkeypatch.setitem(HOSTS, "endpoint", (f"{__name__}:OwnHost", f"{__name__}:OwnTransport"))
    script = Script(faults={"odd": "error"}, fault_times=1)
    runtime = WithCritic(scripted=script, generator=ELSEWHERE)
    models = dict.fromkeys(("generator", "critic"), GeneratorModel(model="none"))
    engines = start_pools(models, runtime, "extended", 200)
    clients = clients_of(engines.address, RequestConfig(backoff_s=0))

    assert clients.keys() == {"generator", "critic"}
    assert await clients["critic"].call(CriticCall("fine")) == Critique(text="too short: fine")
    again = await clients["critic"].call(CriticCall("odd"))
    assert again == Critique(text="too short: odd", attempts=2, wasted_tokens=7)
    assert isinstance(await clients["generator"].call(GenerateCall(asks())), Generated)
    with pytest.raises(TypeError, match=r"^a critic serves another call, got GenerateCall$"):
        await clients["critic"].call(GenerateCall(asks()))
    engines.stop()
