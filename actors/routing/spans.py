"""*Spans*: exports OpenTelemetry spans of model calls where the environment names an OTLP endpoint.

A span is one call with all its tries, named and attributed by the semantic conventions for
generative AI (``gen_ai.*``). The exporter reads the usual variables, such as
``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_SERVICE_NAME``.
Without an endpoint nothing is imported, and a call costs one comparison.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors.routing.calls import Answer, Call, GenerateCall, Generated, Scored
from pipeline.core.protocol import Failure

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EVERY_MS = 1_000  # spans that still wait are lost with the process
_FLUSH_MS = 3_000


@functools.cache
def spans() -> Spans | None:
    """What makes the spans of this process; None where nothing collects them."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or not any(os.environ.get(name) for name in _ENDPOINTS):
        return None
    try:
        return Spans(_provider())
    except ImportError as error:
        logger.warning("no traces: %s; pip install -e .[otel]", error)
    except Exception as error:  # whatever its settings make a library of others raise
        logger.warning("no traces: %s", error)
    return None


def _provider() -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {"service.name": "markovscale"}
    if named or "OTEL_SERVICE_NAME" in os.environ:
        own = {}
    provider = TracerProvider(resource=Resource.create(own))
    every_ms = float(os.environ.get("OTEL_BSP_SCHEDULE_DELAY", _EVERY_MS))
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=every_ms)
    )
    return provider


class Spans:
    """Makes the spans of one process.

    Args:
        provider: of OpenTelemetry.
    """

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace import SpanKind

        self._provider, self._kind = provider, SpanKind.CLIENT
        self._tracer = provider.get_tracer("markovscale")

    def flush(self) -> None:
        """Export what waits; blocks for a few seconds at most."""
        self._provider.force_flush(_FLUSH_MS)

    @contextmanager
    def of(self, call: Call[Any], model: str) -> Iterator[CallSpan]:
        """The span of a call; where that is cancelled it ends there and says so."""
        operation = "chat" if isinstance(call, GenerateCall) else "score"
        with self._tracer.start_as_current_span(
            f"{operation} {model}",
            kind=self._kind,
            attributes=_request_attributes(call, operation, model),
        ) as span:
            try:
                yield CallSpan(span)
            except asyncio.CancelledError:
                span.set_attribute("error.type", "cancelled")
                raise


class CallSpan:
    """A span under way."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def set_outcome(self, outcome: Answer | Failure) -> None:
        """Add what a call came to."""
        from opentelemetry.trace import Status, StatusCode

        if isinstance(outcome, Failure):
            self._span.set_attribute("error.type", outcome.kind or "other")
            self._span.set_status(Status(StatusCode.ERROR, outcome.error))
            return
        self._span.set_attributes(
            {
                "markovscale.attempts": outcome.attempts,
                "markovscale.wasted_tokens": outcome.wasted_tokens,
                "server.address": outcome.replica,
            }
        )
        match outcome:
            case Generated():
                self._span.set_attributes(
                    {
                        "gen_ai.response.finish_reasons": [outcome.finish_reason],
                        "gen_ai.usage.input_tokens": outcome.prompt_tokens,
                        "gen_ai.usage.output_tokens": outcome.completion_tokens,
                        "gen_ai.usage.cache_read.input_tokens": outcome.cached_prompt_tokens,
                    }
                )
            case Scored():
                self._span.set_attribute("gen_ai.usage.input_tokens", outcome.tokens)
                self._span.set_attribute("markovscale.score", outcome.score)


def _request_attributes(call: Call[Any], operation: str, model: str) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": model,
        "gen_ai.conversation.id": call.session,
    }
    if isinstance(call, GenerateCall):
        request = call.request
        asked |= {
            "gen_ai.request.temperature": request.temperature,
            "gen_ai.request.top_p": request.top_p,
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.seed": request.seed,
            "markovscale.pool": request.pool.value,
            "markovscale.round": request.round,
            "markovscale.sample": request.sample,
        }
    return asked
