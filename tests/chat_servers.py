"""Servers with an OpenAI-compatible API on real sockets: a scripted model, and faults before any.

`serving` runs one in a thread. What it answers is a function of the request: `ScriptedModel`
answers as scripted engines do, `Faults` stands in front of another function, `passed_on` in front
of a server that is elsewhere.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

from actors.engines.scripted import reply
from pipeline.config.runtime import Script

JsonObject = dict[str, Any]
KEY = "sk-Very-Secret-0123456789"


@dataclass
class Asked:
    """One request that came."""

    method: str
    path: str
    body: JsonObject
    headers: Mapping[str, str]
    hung_up: bool = False
    """Whether the client closed the connection before it had its answer."""


@dataclass(frozen=True)
class Said:
    """What is answered."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    reset: bool = False
    """Break the connection in place of an answer."""


Answers = Callable[[Asked], Said]


class Serving:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []

    @property
    def completions(self) -> list[Asked]:
        """The requests for completions."""
        return [each for each in self.asked if each.path.endswith("/chat/completions")]


@contextmanager
def serving(answers: Answers, port: int = 0) -> Iterator[Serving]:
    """A server of its own thread; each request has a thread too."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            asked = Asked(self.command, self.path, body, dict(self.headers))
            told.asked.append(asked)
            said = answers(asked)
            if said.wait_s and self._hung_up(said.wait_s):
                asked.hung_up = True
                self.close_connection = True
                return
            if said.reset:
                # closing with unsent data dropped is a reset, not an end
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
                self.close_connection = True
                return
            data = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _serve

        def _hung_up(self, seconds: float) -> bool:
            give_up = time.monotonic() + seconds
            self.connection.settimeout(0.02)
            try:
                while time.monotonic() < give_up:
                    try:
                        if not self.connection.recv(1, socket.MSG_PEEK):
                            return True
                    except TimeoutError:
                        continue
                    except OSError:
                        return True
                return False
            finally:
                self.connection.settimeout(None)

        def log_message(self, *arguments: Any) -> None:
            """Nothing to say."""

        def handle(self) -> None:
            try:
                super().handle()
            except (OSError, ValueError):
                """The connection was broken, on purpose."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 512

    server = Server(("127.0.0.1", port), Handler)
    told = Serving(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


VLLM = frozenset((
    "seed", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "min_tokens", "thinking_token_budget", "repetition_detection", "stop_token_ids",
    "chat_template_kwargs", "continue_final_message", "add_generation_prompt", "logprobs",
    "top_logprobs",
))  # fmt: skip
OPENAI = frozenset({"seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"})
_ALWAYS = {"model", "messages", "temperature", "top_p"}


@dataclass
class ScriptedModel:
    """A model that answers by `actors.engines.scripted`, and how its server takes fields."""

    script: Script = field(default_factory=lambda: Script(p0=0.5, tokens=20))
    name: str = "tiny"
    known: frozenset[str] = VLLM
    """Fields that it reads; of the wrong type they are refused."""
    refuses: bool = False
    """Whether it refuses fields that it does not know; else it reads past them."""
    limit: str = "max_tokens"
    types: bool = True
    """Whether it looks at types."""
    context: int = 100_000
    key: str | None = None
    message: Callable[[str], JsonObject] = lambda text: {"content": text, "reasoning": None}
    wait_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Of all completions that were asked for."""

    def __call__(self, asked: Asked) -> Said:
        if self.key is not None and asked.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, f"Incorrect API key: {asked.headers.get('Authorization')}")
        if asked.path.endswith("/models"):
            entry = {"id": self.name, "max_model_len": self.context}
            return Said(body={"object": "list", "data": [entry]})
        if not asked.path.endswith("/chat/completions"):
            return _error(404, "Not Found")
        return self._complete(asked.body)

    def _complete(self, body: JsonObject) -> Said:
        fields = body.keys() - _ALWAYS - {self.limit}
        if self.refuses and fields - self.known:
            return _error(400, f"Unrecognized request arguments: {sorted(fields - self.known)}")
        read = {*self.known, "temperature", "top_p"}
        if self.types and any(body[n] == "no such value" for n in body.keys() & read):
            return _error(400, "validation error: Input should be a valid number")
        prompt = "\n".join(turn["content"] for turn in body["messages"])
        room = self.context - len(prompt)
        if body.get(self.limit, 1) > room:
            return _error(400, f"maximum context length is {self.context} tokens, requested more")
        text, wanted = reply(prompt, body.get("seed", 0), self.script)
        made = min(wanted, body.get(self.limit, room))
        self.prompt_tokens += len(prompt)
        self.completion_tokens += made
        choice = {
            "index": 0,
            "message": {"role": "assistant", **self.message(text)},
            "finish_reason": "stop" if made == wanted else "length",
        }
        usage = {"prompt_tokens": len(prompt), "completion_tokens": made}
        return Said(body={"choices": [choice], "usage": usage}, wait_s=self.wait_s)


@dataclass
class Faults:
    """Faults before an answer, one after the other; None passes a request on. Of completions only,
    and once the list is used up there are none."""

    answers: Answers
    faults: Iterator[Said | None]
    made: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Said:
        with self._lock:
            fault = next(self.faults, None) if asked.path.endswith("completions") else None
            self.made += fault is not None
        if fault is None:
            return self.answers(asked)
        if fault.reset:  # after the work: what it cost nobody is told
            self.answers(asked)
        elif fault.body is None and fault.status == 200:
            said = self.answers(asked)
            return Said(said.status, said.body, said.headers, fault.wait_s)
        return fault


def now_and_then(start: int = 0) -> Iterator[Said | None]:
    """Refusals, resets and slow replies, each again and again."""
    for number in range(start, 10**9):
        if number % 7 == 3:
            yield Said(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})
        elif number % 23 == 11:
            yield Said(reset=True)
        elif number % 17 == 5:
            yield Said(wait_s=0.2)
        else:
            yield None


def passed_on(url: str) -> Answers:
    """The answers of a server that is elsewhere."""
    parts = urlparse(url)

    def answers(asked: Asked) -> Said:
        link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        headers = {k: v for k, v in asked.headers.items() if k in ("Authorization", "Content-Type")}
        data = json.dumps(asked.body).encode() if asked.method == "POST" else None
        link.request(asked.method, asked.path, data, headers)
        got = link.getresponse()
        said = Said(got.status, got.read())
        link.close()
        return said

    return answers


def _error(status: int, message: str) -> Said:
    return Said(status, {"error": {"message": message, "type": "BadRequestError", "code": status}})
