"""What an author outside the project adds: a third role of a model, and a host behind HTTP.

`tests.test_extensions` registers both and drives them. The HTTP server is a thread of this process
around a scripted engine; everything that crosses it is JSON.
"""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic

from actors.engines.actor_host import engine_of
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import PoolSpec
from actors.engines.scripted import Held, ScriptedEngine
from actors.routing.calls import A, Answer, Call, GenerateCall, Generated, ScoreCall, Scored
from actors.routing.transport import PoolAddress, ReplicaLostError, RouterStats
from pipeline.config.runtime import PoolConfig, RequestConfig, RuntimeConfig
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Request

# --- a third role: a critic that says in words what is wrong with a reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique(Answer):
    """What the critic says."""

    text: str


@dataclass(frozen=True, slots=True)
class CriticCall(Call[Critique]):
    """Ask what is wrong with a reply."""

    reply: str


class ScriptedCritic(ScriptedEngine):
    """Finds the same fault with everything."""

    kind = "critic"

    async def serve(self, call: CriticCall) -> Critique | Failure:
        with self._meter.request():
            fault = self._fault(call.reply, self.script.faults)
            failure = await self._hold(call, Held(7, None), self.script.score_s, fault)
            return failure or Critique(text=f"too short: {call.reply}")


class WithCritic(RuntimeConfig):
    """The pool section of the role."""

    critic: PoolConfig = PoolConfig()


# --- a host behind HTTP

CALLS = {"generate": GenerateCall, "score": ScoreCall}
ANSWERS = {"generate": Generated, "score": Scored}


class HttpHost:
    """A server of one scripted engine."""

    def __init__(self, spec: PoolSpec) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        scripted = {**(spec.scripted or {}), "in_process": True}
        self._engine = engine_of(spec.role, {}, {}, scripted)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.address = PoolAddress(host="actors", role=spec.role, at={"url": url})

    def wait(self) -> None:
        """It serves already."""

    def grow(self) -> bool:
        return False

    def stats(self) -> list[EngineStats]:
        return [self._engine.stats("http")]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        loop, engine = self._loop, self._engine

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                served = _serve(engine, self.path.strip("/"), body)
                answer = asyncio.run_coroutine_threadsafe(served, loop).result()
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                """Nothing to say."""

        return Handler


async def _serve(engine: Any, path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path == "abort":
        return {"tokens": await engine.abort(body["request_id"])}
    if path == "generate":
        body["request"]["messages"] = tuple(Message(**each) for each in body["request"]["messages"])
        body["request"] = Request(**body["request"])
    outcome = await engine.serve(CALLS[path](**body))
    name = "failure" if isinstance(outcome, Failure) else "answer"
    return {name: asdict(outcome)}


class HttpTransport:
    """The way to it."""

    isolates = False

    def __init__(self, address: PoolAddress, settings: RequestConfig) -> None:
        del settings
        self._url = address.at["url"]

    async def place(self, call: Call[A], *, avoid: Collection[str]) -> HttpCall[A]:
        (path,) = (name for name, kind in CALLS.items() if isinstance(call, kind))
        return HttpCall(self._url, path, call)

    def router_stats(self) -> RouterStats | None:
        return None


class HttpCall(Generic[A]):
    """A call on its way."""

    def __init__(self, url: str, path: str, call: Call[A]) -> None:
        self.replica, self._path, self._id = url, path, call.request_id
        self._sent = asyncio.create_task(self._post(path, asdict(call)))

    async def result(self) -> A | Failure:
        told = await self._sent
        if "failure" in told:
            return Failure(**told["failure"])
        lists_were_tuples = {
            k: tuple(v) if k == "step_scores" else v for k, v in told["answer"].items()
        }
        answer: A = ANSWERS[self._path](**lists_were_tuples)  # type: ignore[assignment]
        return answer

    def abort(self) -> None:
        self._aborting = asyncio.create_task(self._post("abort", {"request_id": self._id}))

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()

        def sent() -> dict[str, Any]:
            with urllib.request.urlopen(f"{self.replica}/{path}", data, timeout=30) as reply:
                answer: dict[str, Any] = json.load(reply)
                return answer

        try:
            return await asyncio.to_thread(sent)
        except urllib.error.URLError as error:
            raise ReplicaLostError(str(error)) from error
