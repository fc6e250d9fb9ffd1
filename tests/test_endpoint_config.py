"""The configuration of an endpoint: what it must hold, and what it must never hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from tests.chat_servers import KEY
from tests.endpoints import endpoint_run

URL = "http://node1:8000/v1"


def refused(endpoint: dict[str, Any] | None = None, **science: Any) -> str:
    """What is said of a configuration that cannot be."""
    with pytest.raises(ConfigError) as error:
        endpoint_run("runs", {"base_urls": [URL], **(endpoint or {})}, **science)
    return str(error.value)


def test_a_minimal_endpoint() -> None:
    """Addresses are enough; the pool then has no GPUs of its own."""
    config = endpoint_run("runs", {"base_urls": [f"{URL}/"]})
    assert config.runtime.generator.endpoint is not None
    assert config.runtime.generator.endpoint.base_urls == (URL,)
    assert config.runtime.generator.gpus == 0


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ({"base_urls": []}, "at least 1"),
        ({"base_urls": ["node1:8000"]}, "a base URL must be http:// or https:// with a host"),
        ({"base_urls": [f"{URL}/chat/completions"]}, "must end before /chat/completions"),
        ({"base_urls": [f"{URL}/models"]}, "must end before /chat/completions and /models"),
        ({"base_urls": [f"{URL}#a"]}, "and no blanks and no #"),
        ({"base_urls": ["http://node1:99999/v1"]}, "a base URL must be http"),
        ({"base_urls": ["http://node 1/v1"]}, "a base URL must be http"),
        ({"base_urls": [URL, f"{URL}/"]}, "base_urls must differ"),
        ({"extra_body": {"top_k": 20}}, "must not change what is answered.* got top_k"),
        ({"extra_body": {"reasoning_effort": "low"}}, "science.generator, got reasoning_effort"),
        ({"extra_body": {"api_key": "x"}}, "must hold no secrets"),
        ({"extra_body": {"route": [{"api-key": "x"}]}}, "must hold no secrets.* got api_key"),
        ({"headers_env": {"X Team": "TEAM"}}, "must have names of headers"),
        ({"headers_env": {"authorization": "A"}, "api_key_env": "B"}, "must not have Authoriz"),
        ({"keys": "x"}, "keys is not a field"),
    ],
)
def test_what_cannot_be_is_said(endpoint: dict[str, Any], said: str) -> None:
    """Which field, and what must hold."""
    assert re.search(said, refused(endpoint))


@pytest.mark.parametrize(
    "endpoint",
    [
        {"api_key_env": KEY},
        {"headers_env": {"X-Team": KEY}},
        {"base_urls": [f"https://us:{KEY}@node1/v1"]},
        {"base_urls": [f"https://node1/v1?api_key={KEY}"]},
        {"base_urls": [f"https://node1/v1?code={KEY}"]},
        {"base_urls": [f"https://us:{KEY}@[node1/v1"]},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(endpoint: dict[str, Any]) -> None:
    """Where the name of a variable belongs, and in an address."""
    assert KEY not in refused(endpoint)


def test_an_endpoint_is_no_science() -> None:
    """The same model elsewhere may go on with a run; fields that change answers may not differ."""
    here = endpoint_run("runs", {"base_urls": [URL]})
    there = endpoint_run("runs", {"base_urls": ["https://api/v1"], "api_key_env": "API_KEY"})
    values = here.model_dump(mode="json")
    values["runtime"]["generator"]["endpoint"] = None
    effort = endpoint_run(
        "runs",
        {"base_urls": [URL]},
        generator={"model": "scripted", "extra_body": {"reasoning_effort": "low"}},
    )
    own = RunConfig.parse(values)

    assert here.science_digest() == there.science_digest() == own.science_digest()
    assert effort.science_digest() != here.science_digest()
