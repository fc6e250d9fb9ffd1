"""What an endpoint counts, for Prometheus to read at ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from actors.serving.answering import Answering

_TOTALS = {
    "rounds": "Completions that came from engines",
    "completion_tokens": "Tokens generated in completions",
    "verifier_tokens": "Tokens read by the verifier",
    "wasted_tokens": "Tokens of tries that gave no completion",
}
_NOW = {"in_flight": "Questions that are worked on", "waiting": "Questions that wait to be"}
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_000)


class Meters:
    """The series of one endpoint.

    Args:
        answering: whose counters are read whenever Prometheus asks.
    """

    def __init__(self, answering: Answering) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "markovscale_requests",
            "Requests that were answered, by status of HTTP (499: the client was gone) and model, "
            "which is empty where none that is served was asked for",
            ("model", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "markovscale_request_seconds",
            "From request to answer",
            ("model",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Counted(lambda: answering.counters.as_dict()))

    def answered(self, model: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(model, str(status)).inc()
        self._seconds.labels(model).observe(seconds)

    def text(self) -> bytes:
        """All series, in Prometheus' format."""
        return generate_latest(self._registry)


class _Counted:
    """The chains' own counters, as they stand when they are asked for."""

    def __init__(self, counters: Callable[[], dict[str, Any]]) -> None:
        self._counters = counters

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """See `prometheus_client.registry.Collector`."""
        counters = self._counters()
        for name, text in _TOTALS.items():
            yield CounterMetricFamily(f"markovscale_{name}", text, value=counters[name])
        for name, text in _NOW.items():
            yield GaugeMetricFamily(f"markovscale_{name}", text, value=counters[name])
        stops = CounterMetricFamily(
            "markovscale_stops", "Questions that stopped, by reason", labels=["reason"]
        )
        for reason, number in counters["stops"].items():
            stops.add_metric([reason], number)
        yield stops
