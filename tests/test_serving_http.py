"""``jobs.serve`` as a user starts it: a process, Serve's HTTP proxy, the real openai client."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import openai
import psutil
import pytest
import yaml

from tests.conftest import ROOT
from tests.live import config_of

pytestmark = pytest.mark.ray

CHAIN = "markovscale/chain_asc-8"
HANGS = "5+5?"


def config_file(folder: Path) -> Path:
    """Scripted engines in Ray actors; one question never gets its second completion."""
    values = config_of(str(folder), ["chain_asc", "dsc"]).model_dump(mode="json")
    pool = {"num_gpus": 0, "num_cpus": 0.3}
    values["runtime"] = {
        "generator": pool,
        "verifier": pool,
        "controllers": {"num_cpus": 0.3},
        "scripted": {
            "faults": {f"{HANGS} was": "hang"},
            "tokens_per_s": 200,
            "witness": str(folder / "witness"),
        },
    }
    (folder / "witness").mkdir()
    path = folder / "serve.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The job and its address, once it serves."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    job = subprocess.Popen(
        [
            *(sys.executable, "-m", "jobs.serve", "--config", str(config_file(folder))),
            *("--port", str(port)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MARKOVSCALE_API_KEY": "secret"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert job.stdout is not None
        assert CHAIN in job.stdout.readline()
        yield job, job.stdout.readline().removeprefix("at ").strip()
    finally:
        if job.poll() is None:
            job.send_signal(signal.SIGINT)
            job.wait(60)
        job.stdout.close()


def ask(client: openai.OpenAI, question: str, **more: object) -> openai.types.chat.ChatCompletion:
    messages = [{"role": "user", "content": question}]
    return client.chat.completions.create(model=CHAIN, messages=messages, **more)


def test_a_job_serves_aborts_drains_and_leaves_nothing(tmp_path: Path) -> None:
    """Whole and streamed answers come through Serve's proxy, each round as it ends; a client that
    goes away is aborted in the engine; SIGTERM answers what was taken on, then all processes are
    gone. Takes 20 s: Ray and Serve start and end."""
    with (
        serving(tmp_path) as (job, address),
        openai.OpenAI(base_url=address, api_key="secret", max_retries=0) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        assert [model.id for model in client.models.list()] == [CHAIN]
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=address, api_key="other", max_retries=0).models.list()
        whole = threads.submit(ask, client, "12+30?")
        text = "".join(c.choices[0].delta.content or "" for c in ask(client, "12+31?", stream=True))
        assert "boxed" in text
        assert "boxed" in (whole.result().choices[0].message.content or "")

        hanging = ask(client, HANGS, stream=True)
        # its first round is told while the second one never ends
        assert any("round 0" in told(chunk) for chunk in itertools.islice(hanging, 2))
        # who leaves takes nobody else's calls along
        with pytest.raises(openai.APITimeoutError):
            ask(client, HANGS, timeout=3)
        hanging.close()
        metrics = address.removesuffix("/v1") + "/metrics"
        gone = f'markovscale_requests_total{{model="{CHAIN}",status="499"}} 2.0'
        until(lambda: gone in httpx2.get(metrics).text)
        witness = tmp_path / "witness"
        # the two that hung have ended in the engine
        until(lambda: lines(witness) == rounds(metrics) + 2)

        late = threads.submit(ask, client, "12+33?")
        until(lambda: "markovscale_in_flight 1.0" in httpx2.get(metrics).text)
        processes = psutil.Process(job.pid).children(recursive=True)
        job.send_signal(signal.SIGTERM)
        assert "boxed" in (late.result().choices[0].message.content or "")
        assert job.wait(60) == 0
        _, alive = psutil.wait_procs(processes, timeout=10)
        assert alive == []


def told(chunk: openai.types.chat.ChatCompletionChunk) -> str:
    """The progress that a chunk tells."""
    return (chunk.choices[0].delta.model_extra or {}).get("reasoning_content", "")


def until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    """Wait for something to become true."""
    give_up = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def rounds(metrics: str) -> int:
    """Completions that the endpoint was given by engines."""
    found = [x for x in httpx2.get(metrics).text.splitlines() if x.startswith("markovscale_rounds")]
    return int(float(found[0].split()[-1]))


def lines(witness: Path) -> int:
    """Completions that generators say they ended, whole or cut."""
    return sum(len(path.read_text().splitlines()) for path in witness.iterdir())
