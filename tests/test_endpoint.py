"""The client of an endpoint against servers on real sockets: faults, limits, routing, keys."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

import pytest

from actors.routing.calls import GenerateCall, Generated
from actors.routing.client import EngineClient
from benchmarks.journals import read_journal
from jobs.results import write_summary
from pipeline.config.runtime import Script
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Failure
from pipeline.records.run_dir import RunDir
from pipeline.replay.run import replay_run
from tests.chat_servers import KEY, Asked, Faults, Said, ScriptedModel, now_and_then, serving
from tests.endpoints import asks, client_of, endpoint_run, generator_of, started
from tests.live import create, live

BROKEN: list[Said] = [
    Said(500, {"error": {"message": "boom"}}),
    Said(502, b"<html>Bad Gateway</html>"),
    Said(reset=True),
    Said(200, b'{"choices": ['),
    Said(200, {"object": "chat.completion"}),
    Said(200, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}),
    Said(200, {"error": {"message": "upstream failed", "code": 502}}),
    Said(200, {"error": "upstream failed"}),
    *(Said(status, {"error": {"message": "again"}}) for status in (408, 409, 424, 425, 499)),
    Said(204, b""),
    Said(202, {"status": "queued"}),
]
BUSY: list[Said] = [
    Said(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.1"}),
    Said(429, {"error": {"message": "slow down"}}, {"retry-after-ms": "50"}),
    Said(503, {"error": {"message": "overloaded"}}, {"Retry-After": "0"}),
    Said(529, b"", {"Retry-After": "0"}),
    *(
        Said(200, {"error": {"message": "rate limit", "code": code}}, {"Retry-After": "0"})
        for code in (429, "429", "rate_limit_exceeded", "overloaded_error")
    ),
    Said(429, b"", {"Retry-After": "Sat, 28 Nov 2020 10:00:00 GMT"}),
]


async def outcome(client: EngineClient, session: str = "s", **fields: Any) -> Any:
    return await client.call(GenerateCall(asks(**fields), session=session))


@pytest.mark.parametrize("fault", BROKEN)
async def test_what_breaks_is_tried_again(fault: Said) -> None:
    """Once, with the same seed; what the broken try cost is unknown and said to be."""
    model = ScriptedModel()
    with serving(Faults(model, iter([fault]))) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    assert (made.attempts, made.unknown_attempts, made.replica) == (2, 1, "")
    assert len({each.body["seed"] for each in server.completions}) == 1
    assert len(server.completions) == 2


@pytest.mark.parametrize("fault", BUSY)
async def test_a_server_that_is_busy_costs_no_try(fault: Said) -> None:
    """It may say so more often than there are tries; nothing was spent."""
    with serving(Faults(ScriptedModel(), iter([fault] * 5))) as server:
        async with client_of([server.url], attempts=1) as (client, transport):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    assert (made.attempts, made.unknown_attempts, made.wasted_tokens) == (1, 0, 0)
    assert len(server.completions) == 6
    assert transport.limits[server.url].limit < 32


async def test_want_of_credit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pays, or renews the key, in time loses nothing; a Retry-After of such a refusal says
    nothing."""
    monkeypatch.setattr("actors.routing.chat_server._UNPAID_WAIT_S", 0.1)
    quota = {"error": {"message": "exceeded", "code": "insufficient_quota"}}
    unpaid = [Said(status, {"error": {"message": "no"}}) for status in (401, 402)]
    unpaid += [
        Said(429, quota),
        Said(200, quota),
        Said(200, {"error": {"code": "invalid_api_key"}}),
    ]
    with serving(Faults(ScriptedModel(), iter(unpaid * 2))) as server:
        async with client_of([server.url], attempts=1) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Generated), made
    assert made.attempts == 1


async def test_retry_after_is_kept() -> None:
    """Nothing at all is sent to the server before that time."""
    busy = Said(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.5"})
    faulty, came = Faults(ScriptedModel(), iter([busy])), []

    def noted(asked: Asked) -> Said:
        came.append(time.monotonic())
        return faulty(asked)

    with serving(noted) as server:
        async with client_of([server.url]) as (client, transport):
            first = asyncio.create_task(outcome(client))
            while not transport.limits[server.url].refused:
                await asyncio.sleep(0)
            await asyncio.gather(first, *(outcome(client, str(n)) for n in range(5)))

    assert len(came) == 1 + 6
    assert min(came[1:]) - came[0] >= 0.5


async def test_a_server_that_stays_busy_is_given_up() -> None:
    """After the time for which a client waits for replicas, as an error of the row."""
    busy = Said(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})
    with serving(Faults(ScriptedModel(), repeat(busy))) as server:
        async with client_of([server.url], no_replica_timeout_s=0.3, attempts=2) as (client, _):
            made = await outcome(client)

    assert made == Failure(error="not_taken: status 429: slow down (try 2)", completion_tokens=0)


async def test_whoever_waits_for_its_turn_is_not_given_up() -> None:
    """With a server that takes so many a second, and others served meanwhile: 0 lost."""
    model, served = ScriptedModel(), [0.0]

    def ten_a_second(asked: Asked) -> Said:
        if time.monotonic() - served[0] < 0.1:
            return Said(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})
        served[0] = time.monotonic()
        return model(asked)

    with serving(ten_a_second) as server:
        async with client_of([server.url], no_replica_timeout_s=2.0) as (client, _):
            made = await asyncio.gather(*(outcome(client, str(n)) for n in range(40)))

    assert {type(each) for each in made} == {Generated}


async def test_nobody_waits_long_where_another_server_is_there() -> None:
    """Those that wait already, for a place or for the end of the pause, go to it as well."""
    busy = Said(429, b"", {"Retry-After": "60"}, wait_s=0.1)
    refuses, takes = Faults(ScriptedModel(), repeat(busy)), ScriptedModel(wait_s=0.02)
    with serving(refuses) as one, serving(takes) as other:
        async with client_of([one.url, other.url]) as (client, _):
            tasks = (outcome(client, str(n), text=f"{n}?") for n in range(100))
            made = await asyncio.wait_for(asyncio.gather(*tasks), 50)

    assert {type(each) for each in made} == {Generated}
    assert len(other.completions) == 100


async def test_a_request_above_the_rate_itself_is_an_error_of_its_row() -> None:
    """OpenAI says 429 to more tokens than a minute has; no waiting would help."""
    said = "Request too large for m on tokens per min (TPM): Limit 9, Requested 10"
    with serving(lambda asked: Said(429, {"error": {"message": said}})) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert made == Failure(error=f"bad_request: status 429: {said}", completion_tokens=0)


@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:9", "127.0.0.1:9:9"])
async def test_a_proxy_that_cannot_be_used_is_told(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the run, by the names of the variables."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    config = endpoint_run(str(tmp_path), {"base_urls": ["http://node1:8000/v1"]})
    with (
        pytest.raises(ConfigError, match="ALL_PROXY of the environment must name proxies"),
        started(config),
    ):
        """Not reached."""


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
async def test_a_request_that_is_at_fault_is_an_error_of_its_row(status: int) -> None:
    """Said in the server's words, and not tried again."""
    fault = Said(status, {"error": {"message": "the prompt has 9,000 tokens"}})
    with serving(Faults(ScriptedModel(), iter([fault]))) as server:
        async with client_of([server.url]) as (client, _):
            made, other = await outcome(client), await outcome(client)

    assert made == Failure(
        error=f"bad_request: status {status}: the prompt has 9,000 tokens", completion_tokens=0
    )
    assert isinstance(other, Generated)
    assert len(server.completions) == 2


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (422, 422),
        ("model_not_found", 404),
        ("context_length_exceeded", 400),
        ("content_policy_violation", 400),
        ("permission_denied", 403),
    ],
)
async def test_an_error_that_passes_as_a_success_is_what_it_says(code: Any, status: int) -> None:
    """Gateways answer 200 with an error in it: a request at fault is not sent again."""
    with serving(lambda asked: Said(200, {"error": {"message": "no", "code": code}})) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client)

    assert made == Failure(error=f"bad_request: status {status}: no", completion_tokens=0)
    assert len(server.completions) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_key_is_sent_on(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is not followed, and its error says where it leads."""
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(ScriptedModel()) as other:
        there = Said(status, b"", {"Location": f"{other.url}/chat/completions?key={KEY}"})
        with serving(lambda asked: there) as server:
            async with client_of([server.url], endpoint={"api_key_env": "MY_KEY"}) as (client, _):
                made = await outcome(client)
        assert other.asked == []

    assert f"it sends requests to {other.url}/chat/completions, set base_urls" in made.error
    assert KEY not in made.error


async def test_the_end_of_the_context_is_the_end_of_a_completion() -> None:
    """Where prompt and limit together pass it, as with our engines; a prompt that passes it alone
    is an error of its row."""
    model = ScriptedModel(script=Script(tokens=500), context=100)
    with serving(model) as server:
        async with client_of([server.url]) as (client, _):
            made, long = await outcome(client), await outcome(client, text="1+" * 60 + "1?")

    assert isinstance(made, Generated), made
    assert (made.finish_reason, made.completion_tokens) == ("length", 100 - len("12+7*3?"))
    assert isinstance(long, Failure)
    assert long.error.startswith("bad_request: status 400: maximum context length is 100 tokens")


async def test_a_limit_is_kept_whatever_a_server_says_of_it() -> None:
    """A refusal that only sounds like one for the context does not let a completion grow."""
    odd = Said(400, {"error": {"message": "max_tokens must be odd"}})
    model = ScriptedModel(script=Script(tokens=500))
    with serving(Faults(model, iter([odd]))) as server:
        async with client_of([server.url]) as (client, _):
            made = await outcome(client, max_tokens=10)

    assert isinstance(made, Failure), made
    assert made.error == "bad_request: status 400: max_tokens must be odd"
    assert made.completion_tokens == model.completion_tokens > 10


async def test_an_odd_reply_without_a_limit_is_an_error_of_its_row() -> None:
    """Whatever it has in place of usage."""
    too_long = Said(400, {"error": {"message": "maximum context length is 9"}})
    odd = Said(200, {"choices": [{"message": {"content": "5"}}], "usage": [1]})
    with serving(Faults(ScriptedModel(), iter([too_long, odd]))) as server:
        async with client_of([server.url], attempts=1) as (client, _):
            made = await outcome(client)

    assert isinstance(made, Failure), made
    assert made.error.startswith("engine: the reply is not one: ValueError: usage must report")


async def test_a_deadline_and_a_cancellation_close_the_connection() -> None:
    """That is what makes a server stop; what it had made by then it does not say."""
    with serving(ScriptedModel(wait_s=300)) as server:

        async def until(hung_up: list[bool]) -> None:
            async with asyncio.timeout(60):
                while [each.hung_up for each in server.completions] != hung_up:
                    await asyncio.sleep(0.01)

        async with client_of([server.url], deadline_s=2.0, attempts=1) as (client, _):
            late = await outcome(client)
        await until([True])
        async with client_of([server.url]) as (client, _):
            task = asyncio.create_task(outcome(client))
            await until([True, False])
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until([True, True])

    assert late == Failure(error="deadline: no completion within 2 s", completion_tokens=None)


async def test_chains_stay_where_their_prefix_is_and_servers_share_the_load() -> None:
    """A session goes to the same server again; new ones go to the least loaded."""
    with serving(ScriptedModel(wait_s=0.05)) as one, serving(ScriptedModel(wait_s=0.05)) as other:
        async with client_of([one.url, other.url]) as (client, _):
            for _ in range(3):
                await asyncio.gather(*(outcome(client, str(n), text=f"{n}?") for n in range(8)))

    asked = [[each.body["messages"][0]["content"] for each in s.completions] for s in (one, other)]
    assert [len(texts) for texts in asked] == [12, 12]
    assert not set(asked[0]) & set(asked[1])


async def test_a_server_that_goes_away_costs_nothing_but_time() -> None:
    """Its chains go to another; where there is none they wait until it answers again."""
    with serving(ScriptedModel()) as gone:
        pass
    port = int(gone.url.split(":")[2].removesuffix("/v1"))
    with serving(ScriptedModel()) as other:
        async with client_of([gone.url, other.url], attempts=1) as (client, _):
            moved = [await outcome(client, str(n)) for n in range(8)]
    async with client_of([gone.url], attempts=1) as (client, _):
        waits = asyncio.create_task(outcome(client))
        await asyncio.sleep(0.5)
        with serving(ScriptedModel(), port):
            back = await waits

    assert {type(each) for each in (*moved, back)} == {Generated}
    assert {each.unknown_attempts for each in (*moved, back)} == {0}


async def test_a_run_loses_nothing_by_faults(tmp_path: Path) -> None:
    """Refusals, resets and slow replies: every question has the outcome that it has without them,
    the journal replays, and usage is what the ledger says."""
    outcomes, tokens = [], []
    for name, faults in (("calm", iter(())), ("rough", now_and_then())):
        model = ScriptedModel()
        with serving(Faults(model, faults)) as server:
            config = endpoint_run(
                str(tmp_path), {"base_urls": [server.url], "model": "tiny"}, size=30
            )
            with started(config) as engines:
                probed = model.completion_tokens
                run = create(config, name)
                async with generator_of(engines) as generator:
                    await live(run, generator)
        rows = run.outcomes().to_pylist()
        outcomes.append({(r["strategy"], r["question_id"]): r["answer_last"] for r in rows})
        table = read_journal(run.journal).table
        tokens.append((table["completion_tokens"].to_pylist(), table["unknown_tries"].to_pylist()))
        assert replay_run(run).differences == ()
        assert {row["error"] for row in rows} == {None}
        if name == "calm":
            assert sum(tokens[0][0]) == model.completion_tokens - probed

    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 60
    assert sorted(tokens[0][0]) == sorted(tokens[1][0])
    assert sum(tokens[1][1]) > 0  # the resets, which the calm run did not have
    assert sum(tokens[0][1]) == 0


NONSENSE: list[Said] = [
    Said(400, b'{"error": {"message": "half a character \\ud800 and \\u0000"}}'),
    Said(200, b'{"choices": [{"message": {"content": "5\\ud800"}}], "usage": {}}'),
    Said(200, {"choices": [None], "usage": None}),
    Said(200, {"choices": {"0": {}}, "usage": [1]}),
    Said(200, b"[" * 100_000),
    Said(200, b"not compressed", {"Content-Encoding": "gzip"}),
    Said(308, b"", {"Location": "//"}),
    Said(422, [{"loc": ["body"], "msg": "no"}]),
    Said(599, b"\xff\xfe"),
]


async def test_a_run_survives_whatever_a_gateway_says(tmp_path: Path) -> None:
    """Each question has an answer or an error of its own; journal, outcomes and summary are
    written, and replay agrees."""
    model = ScriptedModel()
    way = Faults(model, iter(()))
    with serving(way) as server:
        config = endpoint_run(str(tmp_path), {"base_urls": [server.url], "model": "tiny"}, size=30)
        with started(config) as engines:
            faults = cycle([*NONSENSE, *BROKEN, None])
            way.faults = chain.from_iterable((fault, None) for fault in faults)
            run = create(config)
            async with generator_of(engines) as generator:
                await live(run, generator)
    rows = run.outcomes().to_pylist()
    errors = [row["error"] for row in rows if row["error"] is not None]

    assert len(rows) == 60
    assert 0 < len(errors) < 60
    assert any("half a character ?" in error for error in errors)
    assert write_summary(run)["usage"]["completions"] > 60
    assert replay_run(run).differences == ()


async def test_keys_are_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Sent with every request; in no file of the run, no log line and no error, also where a server
    repeats them."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("MY_TEAM", "team-Very-Secret")
    echo = Said(400, {"error": {"message": f"not with {KEY} of team-Very-Secret"}})
    model = ScriptedModel(key=KEY)
    probes = repeat(None, 10)
    with serving(Faults(model, chain(probes, repeat(echo, 4)))) as server:
        endpoint = {
            "base_urls": [server.url],
            "model": "tiny",
            "api_key_env": "MY_KEY",
            "headers_env": {"X-Team": "MY_TEAM"},
        }
        config = endpoint_run(str(tmp_path), endpoint)
        with started(config) as engines:
            run = create(config)
            async with generator_of(engines) as generator:
                await live(run, generator)
    errors = [row["error"] for row in run.outcomes().to_pylist() if row["error"]]

    assert {each.headers["Authorization"] for each in server.asked} == {f"Bearer {KEY}"}
    assert {each.headers["X-Team"] for each in server.asked} == {"team-Very-Secret"}
    assert any("not with *** of ***" in error for error in errors)
    assert _holders(run, tmp_path) == []
    assert "Very-Secret" not in caplog.text + json.dumps(engines.address.pools["generator"].at)


def test_a_key_that_is_not_there_is_named_by_its_variable(tmp_path: Path) -> None:
    """Before anything is sent."""
    endpoint = {"base_urls": ["http://127.0.0.1:9/v1"], "api_key_env": "NOT_SET_ANYWHERE"}
    config, what = endpoint_run(str(tmp_path), endpoint), "variable NOT_SET_ANYWHERE must be set"
    with pytest.raises(ConfigError, match=what), started(config):
        pass


def _holders(run: RunDir, folder: Path) -> list[str]:
    """Files with a key in them, text of the journal included."""
    text = json.dumps([table.to_pylist() for table in (run.outcomes(), _journal(run))], default=str)
    found = ["tables"] if "Very-Secret" in text else []
    files = (path for path in folder.rglob("*") if path.is_file())
    return found + [str(path) for path in files if b"Very-Secret" in path.read_bytes()]


def _journal(run: RunDir) -> Any:
    return read_journal(run.journal).table
