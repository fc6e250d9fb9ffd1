"""An endpoint of the real vLLM: its server of the embedded model, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.engines.hosts import clients_of
from actors.engines.launch import Engines
from actors.routing.calls import GenerateCall, Generated
from benchmarks.journals import read_journal
from pipeline.config.runtime import RequestConfig
from pipeline.replay.run import replay_run
from tests.chat_servers import KEY, Faults, now_and_then, passed_on, serving
from tests.conftest import ROOT, TINY_GENERATOR
from tests.endpoints import asks, endpoint_run, generator_of, started
from tests.live import create, live

pytestmark = [pytest.mark.ray, pytest.mark.vllm]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "model": "models/tiny-generator", "served-model-name": "tiny", "host": "127.0.0.1",
        "port": port, "dtype": "float32", "max-model-len": 512, "max-num-seqs": 32,
        "max-num-batched-tokens": 2048, "api-key": KEY,
    }  # fmt: skip
    options = [f"--{name}={value}" for name, value in settings.items()]
    flags = ["--enforce-eager", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *options, *flags],
        cwd=ROOT,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_it_answers(process, f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key, where controllers run."""
    monkeypatch.setenv("MY_KEY", KEY)


def endpoint_of(url: str) -> dict[str, object]:
    return {"base_urls": [url], "model": "tiny", "api_key_env": "MY_KEY"}


@pytest.mark.usefixtures("key")
async def test_a_run_over_a_faulty_way_loses_nothing(server: str, tmp_path: Path) -> None:
    """With refusals, resets and slow replies in between every question has its outcome, the journal
    replays, and what the server made is what the journal holds, but for replies that were lost."""
    model = {**TINY_GENERATOR, "logprobs": True}
    before = _made(server)
    with serving(Faults(passed_on(server), now_and_then())) as way:
        config = endpoint_run(str(tmp_path), endpoint_of(way.url), size=10, generator=model)
        with started(config) as engines:
            probed = _made(server) - before
            run = create(config)
            async with generator_of(engines) as generator:
                await live(run, generator)
    table, outcomes = read_journal(run.journal).table, run.outcomes()
    lost = _made(server) - before - probed - sum(table["completion_tokens"].to_pylist())

    assert outcomes["error"].to_pylist() == [None] * 20
    assert replay_run(run).differences == ()
    assert lost > 0
    assert sum(table["unknown_tries"].to_pylist()) > 0
    assert None not in table["token_confidence"].to_pylist()
    assert None not in outcomes["verdict_inverse_entropy_vote"].to_pylist()


@pytest.mark.usefixtures("key")
async def test_a_run_that_a_server_judges_replays(server: str, tmp_path: Path) -> None:
    """What the judge said stands in the journal with its tokens. The embedded model knows no such
    prompts, so that most of what it says is no verdict; the replay asks nobody."""
    model = {**TINY_GENERATOR, "max_tokens": 64}
    config = endpoint_run(str(tmp_path), endpoint_of(server), judge=model, generator=TINY_GENERATOR)
    with started(config) as engines:
        run = create(config)
        async with generator_of(engines) as generator, generator_of(engines, "judge") as judge:
            await live(run, generator, judge=judge)
    made, table = _made(server), read_journal(run.journal).table
    judged = [tokens for tokens in table["judge_tokens"].to_pylist() if tokens]

    assert judged
    assert None not in table["verdict"].to_pylist()
    assert sum(judged) == sum(run.outcomes()["judge_tokens"].to_pylist())
    assert replay_run(run).differences == ()
    assert _made(server) == made


@pytest.mark.usefixtures("key")
async def test_a_server_and_our_engine_give_the_same(
    server: str, tiny_engines: Engines, tmp_path: Path
) -> None:
    """Greedily: text, tokens, the end of the context, what follows a prefix, and confidence."""
    model = {**TINY_GENERATOR, "logprobs": True}
    requests = [
        asks(temperature=0.0),
        asks(temperature=0.0, assistant_prefix="12*32="),
        asks(temperature=0.0, max_tokens=3),
        asks(temperature=0.0, max_tokens=10_000, min_tokens=450),
    ]
    own = clients_of(tiny_engines.address, RequestConfig())["generator"]
    config = endpoint_run(str(tmp_path), endpoint_of(server), generator=model)
    with started(config) as engines:
        async with generator_of(engines) as behind:
            told = [
                [await client.call(GenerateCall(request)) for request in requests]
                for client in (behind, own)
            ]

    for theirs, ours in zip(*told, strict=True):
        assert isinstance(theirs, Generated), theirs
        assert isinstance(ours, Generated), ours
        assert theirs.confidence is not None
        assert ours.confidence is not None
        for name in ("token_confidence", "least_token_confidence", "token_entropy"):
            confidence = getattr(ours.confidence, name)
            assert getattr(theirs.confidence, name) == pytest.approx(confidence, abs=1e-2)
        plain = {"replica": "", "confidence": None, "cached_prompt_tokens": 0}
        assert replace(theirs, **plain) == replace(ours, **plain)


@pytest.mark.usefixtures("key")
async def test_a_missed_deadline_ends_the_work_in_the_server(server: str, tmp_path: Path) -> None:
    """Closing the connection aborts there: nothing goes on running for nobody."""
    config = endpoint_run(str(tmp_path), endpoint_of(server), generator=TINY_GENERATOR)
    with started(config) as engines:
        async with generator_of(engines, deadline_s=0.3, attempts=1) as generator:
            late = await generator.call(GenerateCall(asks(max_tokens=500, min_tokens=450)))
    await asyncio.sleep(1)
    running = _metric(server, "vllm:num_requests_running")

    assert getattr(late, "error", "") == "deadline: no completion within 0.3 s"
    assert running == 0


def _made(url: str) -> int:
    return int(_metric(url, "vllm:generation_tokens_total"))


def _metric(url: str, name: str) -> float:
    asked = urllib.request.Request(url.replace("/v1", "/metrics"))
    asked.add_header("Authorization", f"Bearer {KEY}")
    text = urllib.request.urlopen(asked, timeout=10).read().decode()
    found = re.search(rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def _until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    give_up = time.monotonic() + 200
    while time.monotonic() < give_up and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2)
            return
        except OSError:
            time.sleep(0.3)
    pytest.fail("vLLM's server did not start")
