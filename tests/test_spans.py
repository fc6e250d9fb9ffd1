"""Spans of model calls, as an OTLP collector receives them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from actors.routing.calls import GenerateCall, Generated, ScoreCall, Scored
from actors.routing.client import EngineClient
from actors.routing.spans import Spans, spans
from pipeline.core.protocol import Failure
from tests.test_client import SETTINGS, ProcessTransport, asks, client, in_process

Collected = list[Any]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    """A collector on this machine that the environment names; gives the spans it was sent."""
    received: Collected = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            sent = ExportTraceServiceRequest.FromString(body)
            received.extend(
                span
                for resource in sent.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    spans.cache_clear()
    yield received
    spans.cache_clear()
    server.shutdown()
    server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    """Attributes by name."""
    values = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        if kind == "array_value":
            value = [item.string_value for item in value.values]
        values[each.key] = value
    return values


def named(role: str, **script: Any) -> EngineClient:
    """A client that knows its model's name."""
    return EngineClient(ProcessTransport(in_process(role, **script)), SETTINGS, role, "us/model")


async def test_a_call_is_one_span_with_its_tokens(collector: Collected) -> None:
    """A reply, a score and a failure, each with the names of the semantic conventions."""
    reply = await named("generator").call(GenerateCall(asks(), session="ours/bench/q1"))
    score = await named("verifier").call(ScoreCall("what?", "a\n\nb", session="ours/bench/q1"))
    failed = await named("generator", faults={"bad": "bad_request"}).call(
        GenerateCall(asks("bad"), session="s")
    )
    assert isinstance(reply, Generated)
    assert isinstance(score, Scored)
    assert isinstance(failed, Failure)
    made = spans()
    assert isinstance(made, Spans)
    made.flush()

    assert [span.name for span in collector] == ["chat us/model", "score us/model", "chat us/model"]
    chat, scored, bad = map(attributes, collector)
    assert chat["gen_ai.request.model"] == scored["gen_ai.request.model"] == "us/model"
    assert chat["gen_ai.conversation.id"] == "ours/bench/q1"
    assert chat["gen_ai.usage.input_tokens"] == reply.prompt_tokens
    assert chat["gen_ai.usage.output_tokens"] == reply.completion_tokens
    assert chat["gen_ai.response.finish_reasons"] == [reply.finish_reason]
    assert (chat["gen_ai.request.max_tokens"], chat["gen_ai.request.temperature"]) == (200, 0.7)
    assert scored["gen_ai.usage.input_tokens"] == score.tokens
    assert bad["error.type"] == "bad_request"
    assert collector[2].status.message == failed.error
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for span in collector)


async def test_without_an_endpoint_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where the SDK is switched off; a call answers as it does with a span."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    spans.cache_clear()
    assert spans() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    spans.cache_clear()
    assert spans() is None
    assert isinstance(await client().call(GenerateCall(asks())), Generated)
    spans.cache_clear()


async def test_a_collector_that_is_away_costs_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are answered while nothing can be exported."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    spans.cache_clear()

    assert isinstance(await client().call(GenerateCall(asks())), Generated)
    spans.cache_clear()


def test_settings_that_cannot_be_cost_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that did not start for them would be started again, and then the run fail."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "soon")

    spans.cache_clear()

    assert spans() is None
    spans.cache_clear()
