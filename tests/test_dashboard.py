"""The Grafana dashboard asks for what runs export, by the names and tags that they have."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from actors.driver.metric_rows import RunMetrics
from tests.conftest import ROOT
from tests.test_run_metrics import ROW, Meters, Series

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "markovscale.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


def exported() -> dict[str, Series]:
    """Series as Ray exports them: with its prefix, counters with their suffix."""

    class Named(Meters):
        def Counter(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Series:
            return super().Counter(f"ray_{name}_total", description, tag_keys)

        def Gauge(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Series:
            return super().Gauge(f"ray_{name}", description, tag_keys)

    meters = Named()
    RunMetrics("run-1", meters).update(ROW)
    return meters.made


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_query_names_series_and_tags_that_there_are(title: str, query: str) -> None:
    """Every series is one of a run's, filtered by run; every tag is one of that series."""
    series = exported()
    asked = re.findall(r"(ray_\w+)\{([^}]*)\}", query)
    tags = {tag for name, _ in asked for tag in series[name].tag_keys}

    assert len(asked) == query.count("ray_")
    for name, selector in asked:
        assert 'run=~"$run"' in selector
        assert set(re.findall(r'(\w+)=~?"', selector)) <= set(series[name].tag_keys)
    for group in re.findall(r"by \(([^)]*)\)", query):
        assert set(group.split(", ")) <= tags
    for opening, closing in ("()", "{}", "[]"):
        assert query.count(opening) == query.count(closing)


def test_every_series_is_shown() -> None:
    """Nothing is exported in vain, and no panel lies over another or beside the page."""
    asked = {name for _, query in QUERIES for name in re.findall(r"ray_\w+", query)}
    fields = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in PANELS
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]

    assert asked == set(exported())
    assert len(fields) == len(set(fields))
    assert max(x for x, _ in fields) < 24
    assert [panel["id"] for panel in PANELS] == list(range(1, len(PANELS) + 1))
