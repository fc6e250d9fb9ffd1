"""What the client makes of deadlines, deaths, errors and garbage; engines in this process."""

import asyncio
import time
from typing import Any

import pytest

from actors.routing.bundles import CallServer
from actors.routing.calls import Call, GenerateCall, Generated, ScoreCall
from actors.routing.client import EngineClient, grace_s
from actors.routing.transport import NoReplicaError
from benchmarks.in_process import InProcess, ProcessCall
from pipeline.config.runtime import RequestConfig
from pipeline.core.errors import EngineDeadError, ErrorKind
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Request

SETTINGS = RequestConfig(
    deadline_s=0.2, score_deadline_s=0.2, attempts=3, backoff_s=0, no_replica_timeout_s=0.2
)


def client(
    role: str = "generator", settings: RequestConfig = SETTINGS, **script: Any
) -> EngineClient:
    """A client of a scripted engine in this process."""
    return EngineClient(InProcess(role, **script), settings, role)


def asks(text: str = "what?", seed: int = 0) -> Request:
    """A request for a reply to `text`."""
    turn = Message("user", text)
    return Request(messages=(turn,), max_tokens=200, temperature=0.7, top_p=0.95, seed=seed)


async def test_a_bad_request_is_tried_once() -> None:
    """What cannot succeed anywhere is not tried again."""
    outcome = await client(faults={"bad": "bad_request"}).call(
        GenerateCall(asks("bad"), session="s")
    )

    assert outcome == Failure(error="bad_request: scripted", completion_tokens=0)


async def test_an_error_is_tried_again_with_the_same_seed_and_its_tokens_are_counted() -> None:
    """The second try succeeds with the reply of an undisturbed one; the first try was paid for."""
    undisturbed = await client().call(GenerateCall(asks("odd")))
    outcome = await client(faults={"odd": "error"}, fault_times=1).call(
        GenerateCall(asks("odd"), session="s")
    )

    assert isinstance(undisturbed, Generated)
    assert isinstance(outcome, Generated)
    assert (outcome.text, outcome.attempts) == (undisturbed.text, 2)
    assert outcome.wasted_tokens == undisturbed.completion_tokens
    assert outcome.unknown_attempts == 0


async def test_after_the_last_attempt_a_failure_says_why_and_what_it_cost() -> None:
    """Three tries were paid for."""
    undisturbed = await client().call(GenerateCall(asks("odd")))
    outcome = await client(faults={"odd": "error"}).call(GenerateCall(asks("odd")))

    assert isinstance(undisturbed, Generated)
    assert outcome == Failure(
        error="engine: scripted (try 3)", completion_tokens=3 * undisturbed.completion_tokens
    )


async def test_pauses_between_tries_double_up_to_64_times_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1, 2, 4, ..., 64 and no longer, however often a request is tried."""
    pauses: list[float] = []

    async def paused(seconds: float) -> None:
        pauses.append(seconds)

    patient = client(settings=SETTINGS.model_copy(update={"attempts": 10, "backoff_s": 0.5}),
                     faults={"odd": "error"})  # fmt: skip
    monkeypatch.setattr("actors.routing.client.asyncio.sleep", paused)
    outcome = await patient.call(GenerateCall(asks("odd")))

    assert isinstance(outcome, Failure)
    assert [s for s in pauses if s] == [0.5 * 2**i for i in (0, 1, 2, 3, 4, 5, 6, 6, 6)]


async def test_a_dead_engine_leaves_tokens_unknown() -> None:
    """Placeholder can say what the lost tries cost: None, not 0."""
    dying = client(faults={"die": "dead"})
    outcome = await dying.call(GenerateCall(asks("die")))

    assert outcome == Failure(error="replica_lost: scripted (try 3)", completion_tokens=None)


async def test_a_death_on_the_way_is_told_apart_from_known_tokens() -> None:
    """A completion after a death says that one attempt's tokens are unknown."""
    outcome = await client(faults={"die": "dead"}, fault_times=1).call(
        GenerateCall(asks("die"), session="s")
    )

    assert isinstance(outcome, Generated)
    assert (outcome.attempts, outcome.wasted_tokens, outcome.unknown_attempts) == (2, 0, 1)


async def test_a_missed_deadline_is_aborted_in_the_engine() -> None:
    """Every try ends in the engine at the deadline, which tells the tokens made so far."""
    slow = client(tokens=2_000, tokens_per_s=100.0)
    outcome = await slow.call(GenerateCall(asks()))

    engine = slow._transport.engine  # type: ignore[attr-defined]
    stats = engine.stats()
    assert isinstance(outcome, Failure)
    assert outcome.error == "deadline: not within 0.2 s (try 3)"
    assert outcome.completion_tokens == stats.aborted_tokens
    assert 30 <= stats.aborted_tokens < 3 * 200
    assert (stats.aborted, stats.running) == (3, 0)


async def test_an_engine_that_does_not_keep_its_deadline_is_given_up() -> None:
    """The client's own guard ends the wait, a grace after the deadline; tokens are unknown."""
    once = SETTINGS.model_copy(update={"attempts": 1})
    frozen = client(settings=once, faults={"ice": "freeze"})
    started = time.monotonic()
    outcome = await frozen.call(GenerateCall(asks("ice")))

    assert outcome == Failure(
        error="deadline: process did not answer in 0.2 s", completion_tokens=None
    )
    assert 0.2 + grace_s(0.2) <= time.monotonic() - started < 30


async def test_cancelling_reaches_the_engine() -> None:
    """The awaiting task is cancelled, nothing is returned, and the engine runs nothing."""
    slow = client(tokens_per_s=1.0)
    task = asyncio.create_task(slow.call(GenerateCall(asks())))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    stats = slow._transport.engine.stats()  # type: ignore[attr-defined]
    assert (stats.aborted, stats.running, stats.waiting) == (1, 0, 0)


async def test_a_request_that_kills_its_engine_costs_no_other_request_its_tries() -> None:
    """After two deaths requests go one at a time, so the innocent do not die with the guilty."""

    class Fragile(InProcess):
        """An engine in which everything dies that is there when one request kills it."""

        def __init__(self) -> None:
            super().__init__("generator", tokens=1, tokens_per_s=20.0)
            self.died = asyncio.Event()

        async def place(self, call: Call[Any], *, avoid: Any) -> ProcessCall[Any]:
            died, engine = self.died, self.engine

            async def served() -> Any:
                assert isinstance(call, GenerateCall)
                if call.request.messages[0].content == "poison":
                    await asyncio.sleep(0.01)
                    self.died = asyncio.Event()
                    died.set()
                work = asyncio.ensure_future(engine.serve(call))
                death = asyncio.ensure_future(died.wait())
                await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
                if died.is_set():
                    work.cancel()
                    raise EngineDeadError("killed by another request")
                death.cancel()
                return work.result()

            return ProcessCall(served())

    fragile = EngineClient(Fragile(), SETTINGS, "generator")
    texts = ["poison", *(f"innocent {i}" for i in range(8))]
    outcomes = await asyncio.gather(*(fragile.call(GenerateCall(asks(t))) for t in texts))

    assert [type(outcome) for outcome in outcomes] == [Failure] + 8 * [Generated]


class OneProcess(InProcess):
    """A replica whose process every ``poison`` kills with all that is in it, shared by clients.

    A call that is `alone` runs with nothing beside it.
    """

    isolates = True

    def __init__(self) -> None:
        super().__init__("generator", tokens=1, tokens_per_s=20.0)
        self.deaths = 0
        self.died = asyncio.Event()
        self.server = CallServer(self._serve)

    async def _serve(self, call: Call[Any]) -> Any:
        assert isinstance(call, GenerateCall)
        if call.request.messages[0].content == "poison":
            await asyncio.sleep(0.01)
            self.deaths += 1
            died, self.died = self.died, asyncio.Event()
            died.set()
            await asyncio.Event().wait()
        return await self.engine.serve(call)

    async def place(self, call: Call[Any], *, avoid: Any) -> ProcessCall[Any]:
        died = self.died

        async def served() -> Any:
            work = asyncio.ensure_future(self.server.answer(call))
            death = asyncio.ensure_future(died.wait())
            await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
            if died.is_set():
                work.cancel()
                await asyncio.wait({work})
                raise EngineDeadError("killed")
            death.cancel()
            return work.result()

        return ProcessCall(served())


async def test_only_a_request_that_kills_its_replica_alone_is_given_up() -> None:
    """However often others were there when it died: of two clients with a poisonous request each,
    and innocent ones that come all the time, the two alone fail, with unknown tokens."""
    shared = OneProcess()
    clients = [EngineClient(shared, SETTINGS, "generator") for _ in range(2)]

    async def late(client: EngineClient, number: int) -> Any:
        await asyncio.sleep(0.02 * number)
        return await client.call(GenerateCall(asks(f"innocent {number}")))

    poisons = [client.call(GenerateCall(asks("poison"))) for client in clients]
    innocent = [late(clients[number % 2], number) for number in range(40)]
    outcomes = await asyncio.gather(*poisons, *innocent)

    assert [type(outcome) for outcome in outcomes] == 2 * [Failure] + 40 * [Generated]
    assert all(o.kind is ErrorKind.REPLICA_LOST for o in outcomes[:2])
    assert [o.completion_tokens for o in outcomes[:2]] == [None, None]
    assert shared.deaths <= 8


async def test_waiting_for_a_turn_is_not_waiting_for_a_replica() -> None:
    """A call that waited longer for its place than it may without a replica is placed all the same
    where its replica is gone for a moment then."""

    class Away(InProcess):
        """A queue, at whose end nothing lives once."""

        places = 0

        async def place(self, call: Call[Any], *, avoid: Any) -> ProcessCall[Any]:
            self.places += 1
            if self.places == 1:
                await asyncio.sleep(2 * SETTINGS.no_replica_timeout_s)
                raise NoReplicaError
            return await super().place(call, avoid=avoid)

    away = Away("generator")
    outcome = await EngineClient(away, SETTINGS, "generator").call(GenerateCall(asks()))

    assert isinstance(outcome, Generated)
    assert (outcome.attempts, away.places) == (1, 2)


@pytest.mark.parametrize("fault", ["nan", "range", "count", "empty"])
async def test_garbage_of_a_verifier_is_a_named_failure(fault: str) -> None:
    """It is tried again and then named; it never becomes a score."""
    outcome = await client("verifier", score_faults={"odd": fault}).call(
        ScoreCall("odd", "one\n\ntwo", session="s")
    )

    assert isinstance(outcome, Failure)
    assert outcome.error.startswith(f"verifier: {fault}: ")
    assert outcome.error.endswith("(try 3)")
