"""The endpoint in process: the app over scripted engines, asked by the real openai client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from actors.controllers.chain_types import RunIdentity
from actors.serving.answering import Answering
from actors.serving.app import Endpoint, digest_of
from jobs.serve import main as serve
from pipeline.answers import extract
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.core.errors import ErrorKind
from pipeline.core.protocol import Failure
from pipeline.records.run_dir import rows_of
from tests.live import ScriptedGenerator, ScriptedVerifier, config_of, create, live

STAR, CHAIN = "markovscale/markovscale_star-8", "markovscale/chain_asc-8"
STRATEGIES: list[Any] = [
    "base",
    "markovscale_star",
    "chain_asc",
    {"kind": "self_consistency", "n": 4, "label": "four"},
    "markovscale_0",
    "dsc",
]


@dataclass
class Served:
    """An endpoint and ways to ask it."""

    answering: Answering
    client: openai.AsyncOpenAI
    http: httpx2.AsyncClient

    async def post(self, **fields: Any) -> httpx2.Response:
        body = {"model": STAR, "messages": [{"role": "user", "content": "1+1?"}], **fields}
        headers = {"content-type": "application/json"}
        return await self.http.post("/chat/completions", content=json.dumps(body), headers=headers)


class Slow(ScriptedGenerator):
    """Answers once it is let."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.go, self.cancelled = asyncio.Event(), 0

    async def call(self, call: Any) -> Any:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().call(call)


@asynccontextmanager
async def endpoint(
    config: RunConfig,
    generator: Any = None,
    key: str | None = None,
    cors: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncIterator[Served]:
    """An endpoint over scripted engines, until it is drained."""
    answering = Answering(
        config,
        identity=RunIdentity(run="serving", attempt=1),
        pools={
            "generator": generator or ScriptedGenerator(Script(p0=0.5, a=0.1, b=0.3)),
            "verifier": ScriptedVerifier(),
        },
        **{"in_flight": 64, **settings},
    )
    front = Endpoint(None if key is None else digest_of(key), cors=cors)
    front.begin(answering)
    transport = httpx2.ASGITransport(app=front.app())
    base = "http://localhost/v1"
    async with httpx2.AsyncClient(transport=transport, base_url=base) as http:
        client = openai.AsyncOpenAI(
            base_url=base, api_key=key or "none", http_client=http, max_retries=0
        )
        yield Served(answering, client, http)
        await answering.drain(5.0)


def config(folder: Path, strategies: list[Any] = STRATEGIES, **science: Any) -> RunConfig:
    return config_of(str(folder), strategies, **science)


async def test_models_are_the_strategies_that_need_no_data_set(tmp_path: Path) -> None:
    """/v1/models lists kind and budget, or the label; the rest is not found, and is told why."""
    async with endpoint(config(tmp_path)) as served:
        listed = [model.id for model in (await served.client.models.list()).data]
        assert listed == ["markovscale/base", STAR, CHAIN, "markovscale/four"]
        assert (await served.client.models.retrieve(STAR)).id == STAR
        assert len((await served.http.get("/models/")).json()["data"]) == 4
        for name, why in (("markovscale/dsc-8", "in phases"), ("gpt-9", "gpt-9")):
            with pytest.raises(openai.NotFoundError, match=why) as found:
                await served.client.chat.completions.create(
                    model=name, messages=[{"role": "user", "content": "?"}]
                )
            assert (found.value.code, found.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("arguments", "key", "why"),
    [
        (["--set", "runtime.limits.completion_tokens=9"], "k", "runtime.limits must have no caps"),
        (["--queue", "-1"], "k", "--queue must be >= 0"),
        (["--port", "0"], "k", "--port must be in"),
        (["--port", "99999"], "k", "--port must be in"),
        ([], " ", "must hold a key or not be set"),
        ([], "schlüssel", "must be one line of ASCII"),
        (
            [
                "--set",
                "runtime.generator.endpoint={base_urls: ['http://a/v1'], "
                "api_key_env: MARKOVSCALE_API_KEY}",
            ],
            "k",
            "runtime.generator.endpoint must have its key in another variable",
        ),
        (["--set", "science.strategies=[dsc]"], "k", "one that can be served"),
        (["--set", "science.priors.file=priors.csv"], "k", "must be JSON with a and b"),
    ],
)
def test_what_cannot_be_served_is_told_before_anything_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    key: str,
    why: str,
) -> None:
    """Status 2 and one line; no Ray."""
    path = tmp_path / "serve.yaml"
    path.write_text(json.dumps(config(tmp_path).model_dump(mode="json")))
    monkeypatch.setenv("MARKOVSCALE_API_KEY", key)
    assert serve(["--config", str(path), *arguments]) == 2
    assert why in capsys.readouterr().err


async def test_an_answer_is_the_chosen_completion_with_its_bill(tmp_path: Path) -> None:
    """Text, usage and extension agree with what was drawn, whole and streamed alike."""
    async with endpoint(config(tmp_path)) as served:
        ask: dict[str, Any] = {
            "model": CHAIN,
            "messages": [{"role": "user", "content": "12+30?"}],
            "seed": 5,
            "temperature": 0.0,
        }
        whole = await served.client.chat.completions.create(**ask)
        chunks = [
            chunk
            async for chunk in await served.client.chat.completions.create(
                **ask, stream=True, stream_options={"include_usage": True}
            )
        ]
    told = whole.model_extra["markovscale"]
    message = whole.choices[0].message
    assert extract(message.content or "") == told["answer"] == told["answer_vote"]
    assert told["answer"] == told["round_answers"][told["position"]]
    assert whole.usage is not None
    assert whole.usage.completion_tokens == sum(told["round_tokens"]) > 0
    assert told["completions"] == len(told["round_tokens"]) > 1
    assert told["ignored"] == ["temperature"]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    reasoning = "".join(d.model_extra.get("reasoning_content", "") for d in deltas)
    assert reasoning == message.model_extra["reasoning_content"] == message.model_extra["reasoning"]
    assert all(
        d.model_extra.get("reasoning") == d.model_extra.get("reasoning_content") for d in deltas
    )
    assert reasoning.count("\n") == told["completions"]
    assert "".join(delta.content or "" for delta in deltas) == message.content
    assert chunks[-1].usage == whole.usage
    again = chunks[-2].model_extra["markovscale"]
    assert {**again, "seconds": 0} == {**told, "seconds": 0}
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "stop"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "n must be 1"),
    ({"tools": [{"type": "function"}]}, "tools must be"),
    ({"response_format": {"type": "xml"}}, "response_format.type must be"),
    ({"logprobs": True}, "logprobs must be"),
    ({"reasoning_effort": "huge"}, "reasoning_effort must be"),
    ({"markovscale": {"target": 1.5}}, "markovscale.target must be"),
    ({"markovscale": {"usd": 1}}, "markovscale.usd must come with prices"),
    ({"model": None}, "model must name"),
    ({"messages": []}, "messages must be"),
    ({"messages": [{"role": "assistant", "content": "2"}]}, "must end with a message of the user"),
    ({"messages": [{"role": "robot", "content": "2"}]}, r"messages\[0\].role must be"),
    ({"messages": [{"role": "user", "content": " "}]}, "not empty"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "type text only"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "half of a character"),
    ({"messages": [{"role": "user", "content": "?", "tool_calls": [1]}]}, "of the assistant"),
    ({"seed": "x"}, "seed must be a whole number"),
    ({"max_tokens": 0}, "max_tokens must be a whole number from 1"),
    ({"stop": 3}, "stop must be"),
    ({"stop": 0}, "stop must be"),
    ({"stream": "yes"}, "stream must be true or false"),
]


@pytest.mark.parametrize(("fields", "why"), BAD)
async def test_a_bad_request_names_what_must_hold(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    """400 in OpenAI's format; nothing is drawn."""
    async with endpoint(config(tmp_path)) as served:
        answer = await served.post(**fields)
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert error["type"] == "invalid_request_error"
        with pytest.raises(AssertionError, match=why):
            raise AssertionError(error["message"])
        assert served.answering.counters.rounds == 0


async def test_what_changes_nothing_is_taken(tmp_path: Path) -> None:
    """Clients write out defaults and fields of other servers; what is not used is noted."""
    neutral = {
        "temperature": 0.3,
        "verbosity": "low",
        "\ud800": 1,
        "n": 1,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "function_call": "none",
        "ignore_eos": False,
        "min_tokens": 0,
        "response_format": {"type": "text"},
        "tools": None,
    }
    async with endpoint(config(tmp_path)) as served:
        answer = await served.post(**neutral)
    noted = ["temperature", "verbosity", "?", "repetition_penalty", "presence_penalty"]
    assert answer.json()["markovscale"]["ignored"] == noted


@pytest.mark.parametrize(
    ("kind", "why", "status", "code"),
    [
        (ErrorKind.BAD_REQUEST, "the context holds 512", 400, "context_length_exceeded"),
        (ErrorKind.BAD_REQUEST, "must not hold NUL", 400, "bad_request"),
        (ErrorKind.DEADLINE, "no completion within 9 s", 504, "deadline"),
        (ErrorKind.NOT_TAKEN, "status 429: slow down", 503, "no_engine"),
        (ErrorKind.NO_REPLICA, "no generator lived", 503, "no_engine"),
        (ErrorKind.VERIFIER, "nan", 500, "verifier"),
    ],
)
async def test_a_failure_is_told_by_whose_fault_it_is(
    tmp_path: Path, kind: ErrorKind, why: str, status: int, code: str
) -> None:
    """By the codes that clients know: of OpenAI's for a question that is too long they drop turns,
    and after Retry-After they try again."""

    class Fails(ScriptedGenerator):
        async def call(self, call: Any) -> Any:
            return Failure.of(kind, why, completion_tokens=0)

    async with endpoint(config(tmp_path), Fails(Script())) as served:
        answer = await served.post(model="markovscale/base")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert why in error["message"]
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_other_refusals_have_the_same_format(tmp_path: Path) -> None:
    """Paths, methods, content types and bodies that cannot be are errors in OpenAI's format."""
    async with endpoint(config(tmp_path)) as served:
        http, path = served.http, "/chat/completions"
        json_type = {"content-type": "application/json"}
        answers = {
            404: await http.get("/embeddings"),
            405: await http.get(path),
            415: await http.post(path, content=b"{}", headers={"content-type": "text/plain"}),
            400: await http.post(path, content=b"{", headers=json_type),
            413: await http.post(path, content=b" " * (5 << 20), headers=json_type),
        }
        for status, answer in answers.items():
            assert answer.status_code == status
            assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        assert answers[405].headers["allow"] == "POST"
        loose = {"content-type": "Application/JSON ; charset=utf-8"}
        empty = await http.post(path, content=b"{}", headers=loose)
        assert empty.json()["error"]["param"] == "model"


async def test_a_client_that_goes_before_its_request_is_whole_is_no_error(tmp_path: Path) -> None:
    """It is counted as one that went, and not raised for the log as a fault of the endpoint."""
    body = b'{"model": "markovscale/base", "messages": '
    messages = iter(
        [
            {"type": "http.request", "body": body, "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"[::1]:8000")],
    }

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        """Nobody reads it."""

    async with endpoint(config(tmp_path)) as served:
        app = Endpoint()
        app.begin(served.answering)
        await app.app()(scope, receive, send)
        assert 'status="499"} 1.0' in app._meters.text().decode()


async def test_systems_and_earlier_turns_stand_before_the_question(tmp_path: Path) -> None:
    """The generator's chat template sees them as turns, one of each speaker in a row."""
    generator = ScriptedGenerator(Script())
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "2"},
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "user", "content": [{"type": "text", "text": "2+"}, "2?"]},
    ]
    async with endpoint(config(tmp_path), generator) as served:
        await served.post(messages=messages, model="markovscale/base")
    (asked,) = generator.served
    *before, last = ((turn.role, turn.content) for turn in asked.messages)
    assert before == [("system", "Be brief."), ("user", "1+1?"), ("assistant", "2\n\n")]
    assert last[0] == "user"
    assert last[1].startswith("2+2?")


async def test_limits_of_a_request_hold(tmp_path: Path) -> None:
    """max_tokens limits each completion, never above the configuration's; stop cuts the text."""
    generator = ScriptedGenerator(Script())
    async with endpoint(config(tmp_path), generator) as served:
        await served.post(max_tokens=7, model="markovscale/base")
        await served.post(max_completion_tokens=10_000, model="markovscale/base")
        cut = (await served.post(stop=["\\boxed"], model="markovscale/base")).json()
    assert [request.max_tokens for request in generator.served] == [7, 256, 256]
    assert "\\boxed" not in cut["choices"][0]["message"]["content"]
    assert cut["markovscale"]["answer"] is not None


async def test_the_key_is_asked_for(tmp_path: Path) -> None:
    """401 in OpenAI's format without it or with another; health and metrics need none."""
    async with endpoint(config(tmp_path), key="secret") as served:
        assert (await served.client.models.list()).data
        for header in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic secret"}):
            answer = await served.http.get("/models", headers=header)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert (await served.http.get("http://localhost/health")).json() == {"status": "ok"}
        assert (await served.http.get("http://localhost/metrics")).status_code == 200


async def test_a_full_queue_is_429_and_a_drain_503(tmp_path: Path) -> None:
    """Who comes too many is told when to come again; those that were taken on are answered."""
    slow = Slow()
    async with endpoint(config(tmp_path), slow, in_flight=1, queue=1) as served:
        taken = [asyncio.create_task(served.post()) for _ in range(2)]
        while served.answering.open < 2:
            await asyncio.sleep(0.01)
        full = await served.post()
        assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
        assert int(full.headers["retry-after"]) >= 1
        draining = asyncio.create_task(served.answering.drain(60.0))
        await asyncio.sleep(0)
        assert (await served.post()).status_code == 503
        assert (await served.http.get("http://localhost/health")).status_code == 503
        slow.go.set()
        assert [answer.status_code for answer in await asyncio.gather(*taken)] == [200, 200]
        await draining
        metrics = (await served.http.get("http://localhost/metrics")).text
    for status, number, model in ((200, 2, STAR), (429, 1, ""), (503, 1, "")):
        line = f'markovscale_requests_total{{model="{model}",status="{status}"}} {number}.0'
        assert line in metrics


async def test_a_client_that_goes_is_aborted_in_the_engine(tmp_path: Path) -> None:
    """Cancelling an answer cancels its calls and frees its place; a drain cuts what takes longer
    than it may."""
    slow = Slow()
    async with endpoint(config(tmp_path), slow) as served:
        gone, cut = (asyncio.create_task(served.post(model="markovscale/four")) for _ in range(2))
        while served.answering.counters.samples < 8:
            await asyncio.sleep(0.01)
        gone.cancel()
        while served.answering.open > 1:
            await asyncio.sleep(0.01)
        assert slow.cancelled == 4
        await served.answering.drain(0.0)
        assert (await cut).status_code == 503
        assert slow.cancelled == 8


async def test_a_client_that_goes_while_it_waits_leaves_its_place(tmp_path: Path) -> None:
    """Nothing is drawn for it, and who comes next finds room."""
    slow = Slow()
    async with endpoint(config(tmp_path), slow, in_flight=1, queue=1) as served:
        at_work, waits = (asyncio.create_task(served.post(stream=True)) for _ in range(2))
        while served.answering.open < 2:
            await asyncio.sleep(0.01)
        waits.cancel()
        while served.answering.open > 1:
            await asyncio.sleep(0.01)
        after = asyncio.create_task(served.post())
        while served.answering.open < 2:
            await asyncio.sleep(0.01)
        slow.go.set()
        assert (await at_work).status_code == (await after).status_code == 200
        assert sum(served.answering.counters.stops.values()) == 2


async def test_a_failed_strategy_is_an_error(tmp_path: Path) -> None:
    """An engine that fails is a server's error, whole or in the middle of a stream."""

    class Broken(ScriptedGenerator):
        async def call(self, call: Any) -> Any:
            self._fail = (f"{call.session}#0",)
            return await super().call(call)

    async with endpoint(config(tmp_path), Broken(Script())) as served:
        with pytest.raises(openai.InternalServerError, match="engine: scripted"):
            await served.client.chat.completions.create(
                model=STAR, messages=[{"role": "user", "content": "1+1?"}]
            )
        answer = await served.post(stream=True)
        with pytest.raises(openai.APIError, match="engine: scripted"):
            async for _ in await served.client.chat.completions.create(
                model=STAR, messages=[{"role": "user", "content": "1+1?"}], stream=True
            ):
                pass
    assert json.loads(answer.text.split("data: ")[-1])["error"]["type"] == "server_error"


async def test_requests_are_decided_as_a_batch_run_decides(tmp_path: Path) -> None:
    """120 questions with the seeds of a batch run: the same completions, stops and answers."""
    kind = "markovscale_star"
    batch_config = config(tmp_path, [kind], size=120)
    run = create(batch_config)
    await live(run)
    outcomes = {row["question_id"]: row for row in rows_of(run.outcomes())}
    questions = rows_of(run.folder.read_table("questions.parquet"))
    async with endpoint(batch_config, queue=120) as served:
        answers = await asyncio.gather(
            *(
                served.client.chat.completions.create(
                    model=STAR,
                    messages=[{"role": "user", "content": row["text"]}],
                    seed=row["seed"],
                )
                for row in questions
            )
        )
    assert len(answers) == 120
    for row, answer in zip(questions, answers, strict=True):
        told = answer.model_extra["markovscale"]
        decided = outcomes[row["question_id"]]
        names = ("stop_reason", "stop_rounds", "round_answers", "round_scores", "posterior_path")
        assert {n: told[n] for n in names} == {n: decided[n] for n in names}
        rule = told["answer_rule"]
        assert told["answer"] == decided[f"answer_{rule}"]
        assert answer.usage is not None
        assert answer.usage.completion_tokens == decided["completion_tokens"]


def own_first(completions: Any) -> int:
    """An answer rule of one's own: the first completion, whatever came later."""
    return 0


async def test_a_rule_of_ones_own_chooses_what_is_answered(tmp_path: Path) -> None:
    """The reply is the completion that the rule chose, and the extension has its answer."""
    asked = config(tmp_path, ["chain_asc"], answer_rule=f"{__name__}:own_first")
    async with endpoint(asked) as served:
        told = (await served.post(model=CHAIN)).json()["markovscale"]

    assert (told["answer_rule"], told["position"]) == ("own_first", 0)
    assert told["answer"] == told["answer_own_first"] == told["round_answers"][0]
