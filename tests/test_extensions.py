"""A new kind of model call and a new host need no change elsewhere: both are registered here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.journal_writer import JournalWriter
from actors.driver.admission_control import AdmissionControl, StatsPoller
from actors.engines.engine_stats import Meter
from actors.engines.hosts import HOSTS, Hosting, clients_of, hosting_of
from actors.engines.launch import Engines, start_pools
from actors.routing.calls import ROLES, GenerateCall, Role
from actors.routing.transport import EnginesAddress
from pipeline.benchmarks.generated import arithmetic
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import RequestConfig, RuntimeConfig
from pipeline.core.decoding import Decoding
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Question, Request
from pipeline.planning.capacity import asks_of
from pipeline.report.utilisation import as_lines, pool_report
from pipeline.store.storage import Folder
from pipeline.strategies.sequential import MRThinking
from tests.extensions import CriticCall, Critique, WithCritic
from tests.test_balance import row, stats

MODEL = GeneratorModel(model="none")
SETTINGS = RequestConfig(deadline_s=0.2, score_deadline_s=0.3, attempts=2, backoff_s=0)


@pytest.fixture
def critic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third role, in the table of roles."""
    role = Role(
        call=CriticCall,
        deadline_s=lambda requests: requests.score_deadline_s,
        engine="tests.extensions:ScriptedCritic",
        scripted="tests.extensions:ScriptedCritic",
    )
    monkeypatch.setitem(ROLES, "critic", role)


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host in the table of hosts, in place of Ray's actors."""
    added = Hosting("tests.extensions:HttpHost", "tests.extensions:HttpTransport", on_cluster=False)
    monkeypatch.setitem(HOSTS, "actors", added)


@contextmanager
def pools(runtime: RuntimeConfig, *roles: str) -> Iterator[Engines]:
    """Started pools of these roles."""
    engines = start_pools(dict.fromkeys(roles, MODEL), runtime, "extended", 200)
    yield engines
    engines.stop()


@pytest.mark.usefixtures("critic")
async def test_a_third_role_is_started_and_called_like_the_others() -> None:
    """Answered, tried again with what that cost, ended by its own deadline; no other call is."""
    script = {"in_process": True, "faults": {"odd": "error", "ice": "hang"}, "fault_times": 1}
    with pools(WithCritic(scripted=script), "generator", "critic") as engines:
        clients = clients_of(engines.address, SETTINGS)
        critic = clients["critic"]
        outcomes = [await critic.call(CriticCall(text)) for text in ("fine", "odd")]
        late = await clients_of(engines.address, SETTINGS.model_copy(update={"attempts": 1}))[
            "critic"
        ].call(CriticCall("ice"))
        with pytest.raises(TypeError, match=r"^a critic serves another call, got GenerateCall$"):
            await critic.call(GenerateCall(_request("?")))

    assert clients.keys() == {"generator", "critic"}
    assert outcomes == [
        Critique(text="too short: fine"),
        Critique(text="too short: odd", attempts=2, wasted_tokens=7),
    ]
    assert late == Failure(error="deadline: not within 0.3 s", completion_tokens=7)


@pytest.mark.usefixtures("critic")
def test_a_third_role_is_polled_admitted_and_reported_like_the_others() -> None:
    """Its queue holds the run back, the cluster must have room for it, and the report names it."""
    waiting = Meter(8)
    waiting.waiting = 5

    class Told:
        def stats(self) -> Any:
            return {
                "generator": [Meter(100).stats("g0", "generator", 0)],
                "critic": [waiting.stats("c0", "critic", 0)],
            }

    account = StatsPoller(Told())
    account.last_look()
    account.close()
    control = AdmissionControl(
        RuntimeConfig(), 100, EnginesAddress(pools={}, in_flight=150, most=150), account, print
    )
    names = ("in_flight", "waiting", "samples", "samples_waiting", "held_s", "held_token_s")
    seen = control._seen(dict.fromkeys(names, 0))
    rows = [row(at, 100, [stats(up=at, slot=at / 10)]) for at in (10, 20)]
    for each in rows:
        each["engines"]["critic"] = [
            stats("c0", up=each["phase_seconds"], slot=each["phase_seconds"])
        ]
    report = pool_report(rows)
    assert report is not None

    assert seen.unscored == 5
    assert [ask.what for ask in asks_of(WithCritic(), ROLES)][: len(ROLES)] == [*ROLES]
    assert (report["bound_by"], report["critic"]["replicas"]) == ("critic", 1)
    assert "critic: 1 replica 100% used" in as_lines(report)[0]
    assert as_lines(report)[1].endswith("bound by the critic: more replicas of it")


@pytest.mark.usefixtures("http")
async def test_engines_behind_http_take_the_decisions_of_those_in_the_process(
    tmp_path: Path,
) -> None:
    """Chains over the added host end as over the known one; nothing of Ray is asked for."""

    async def outcomes(runtime: RuntimeConfig, name: str) -> list[Any]:
        with pools(runtime, "generator", "verifier") as engines:
            return await _run(engines, tmp_path / name)

    script = {"tokens": 20, "p0": 0.5}
    here = await outcomes(RuntimeConfig(scripted={"in_process": True, **script}), "here")
    there = await outcomes(RuntimeConfig(scripted=script), "there")

    assert here == there
    assert not hosting_of(RuntimeConfig(), "generator").on_cluster


@pytest.mark.usefixtures("http")
async def test_deadlines_and_aborts_reach_engines_behind_http() -> None:
    """The engine keeps the deadline and says what the tries cost; a cancelled call runs nowhere."""
    with pools(
        RuntimeConfig(scripted={"tokens": 100, "tokens_per_s": 100.0}), "generator"
    ) as engines:
        generator = clients_of(engines.address, SETTINGS)["generator"]
        asks = GenerateCall(_request("slow"))
        late = await generator.call(asks)
        task = asyncio.create_task(generator.call(asks))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
        (seen,) = engines.stats()["generator"]

    assert isinstance(late, Failure)
    assert late.error == "deadline: not within 0.2 s (try 2)"
    assert (seen.aborted, seen.running) == (3, 0)


def _request(text: str) -> Request:
    turn = Message("user", text)
    return Request(messages=(turn,), max_tokens=200, temperature=0.7, top_p=0.95, seed=0)


async def _run(engines: Engines, folder: Path) -> list[Any]:
    """Outcomes of a few chains, without times."""
    journal = JournalWriter(Folder(str(folder)), flush_s=0.02)
    chains = Chains(
        identity=RunIdentity(run="r", attempt=1),
        pools=clients_of(engines.address, RequestConfig()),
        journal=journal,
        grade=_grade,
        recording_of=lambda work: None,
        in_flight=4,
    )
    strategy = MRThinking(n=3, decoding=Decoding(max_tokens=256))
    drawn = enumerate(arithmetic(5, split="test", seed=0))
    rows = await asyncio.gather(
        *(
            chains.run(
                Work(
                    label="s",
                    phase="p",
                    strategy=strategy,
                    question=Question(
                        benchmark="arithmetic", question_id=id_, text=text, seed=number
                    ),
                    gold=gold,
                )
            )
            for number, (id_, text, gold) in drawn
        )
    )
    await journal.close()
    when = ("seconds", "epoch", "sequence")
    return [{k: v for k, v in (row or {}).items() if k not in when} for row in rows]


async def _grade(gold: str, completion: Any, *_: object) -> str:
    return "right" if completion.answer == gold else "wrong"
