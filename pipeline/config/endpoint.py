"""Servers with an OpenAI-compatible API, in place of engines that a run starts itself.

What a server answers with is science (``science.generator``: the model, its sampling, its chat
template's variables); where it is, and how it is asked, is runtime.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import parse_qs, urlparse, urlunparse

from pydantic import AfterValidator, Field, field_validator, model_validator

from pipeline.config.schema import Section
from pipeline.config.secrets import without_credentials, without_secrets_within
from pipeline.core.prices import Prices

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_OF_A_KEY = re.compile(r"key|token|secret|pass|pwd|auth|sig|code|access", re.IGNORECASE)
SET_ELSEWHERE = frozenset((
    "messages", "model", "max_tokens", "max_completion_tokens", "min_tokens", "temperature",
    "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "seed", "n", "stop_token_ids", "logprobs", "top_logprobs", "stream", "stream_options",
    "thinking_token_budget", "repetition_detection", "chat_template_kwargs",
    "add_generation_prompt", "continue_final_message",
))  # fmt: skip
"""Fields of a request that other settings decide."""
_OF_SCIENCE = SET_ELSEWHERE | frozenset((
    "prompt", "logit_bias", "best_of", "stop", "tools", "tool_choice", "response_format",
    "reasoning", "reasoning_effort", "thinking", "chat_template", "echo", "bad_words",
    "allowed_token_ids", "structured_outputs", "ignore_eos", "use_beam_search",
))  # fmt: skip
"""Fields that decide what is answered: none of them is runtime."""


def _base_url(url: str) -> str:
    url = url.strip()
    try:
        parts = urlparse(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # its words may hold the address, and that a key
        is_address = False
    if not is_address or parts.scheme not in ("http", "https") or re.search(r"[\s#]", url):
        raise ValueError(
            "a base URL must be http:// or https:// with a host, such as http://node1:8000/v1, "
            "and no blanks and no #, got something else"
        )
    without_credentials(url)
    if _OF_A_KEY.search(" ".join(parse_qs(parts.query, keep_blank_values=True))):
        raise ValueError("the ?query of a base URL must hold no keys: use headers_env, got one")
    path = parts.path.rstrip("/")
    if path.endswith(("/completions", "/models")):
        raise ValueError(
            "a base URL must end before /chat/completions and /models, got one of path "
            f"{parts.path!r}"
        )
    return urlunparse(parts._replace(path=path))


def _variable(name: str) -> str:
    """The value may be a key that was put in the wrong place: it is never repeated."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            "must name an environment variable (capital letters, digits, underscores), which holds "
            "the secret, got something else"
        )
    return name


class EndpointConfig(Section):
    """Servers with an OpenAI-compatible API that all serve one model (docs/endpoints.md)."""

    base_urls: Annotated[tuple[Annotated[str, AfterValidator(_base_url)], ...], Field(min_length=1)]
    """Addresses up to and with the version, such as ``http://node1:8000/v1``; a ``?query`` goes
    with every request. A chain stays at the one that holds its prefix; new chains go to the least
    loaded."""
    model: str | None = None
    """What the servers call the model; None takes ``science.generator.model``."""
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = None
    """Environment variable with the API key, sent as ``Authorization: Bearer``. It must be set
    where the controllers run."""
    headers_env: dict[str, Annotated[str, AfterValidator(_variable)]] = Field(default_factory=dict)
    """Further headers: the name of each, and the environment variable with its value."""
    extra_body: Annotated[dict[str, Any], AfterValidator(without_secrets_within)] = Field(
        default_factory=dict
    )
    """Further fields of each request that do not change what is answered, such as ``service_tier``
    or ``user``. Those that do belong to ``science.generator.extra_body``."""
    max_concurrency: int = Field(256, ge=1)
    """Requests at once at each address, over all controllers. Fewer where the server says that it
    is too many (429)."""
    connect_timeout_s: float = Field(10, gt=0)
    usd_per_million: Prices | None = None
    """For the bill at the end of a run (``usage`` in summary.json)."""

    @field_validator("extra_body")
    @classmethod
    def _is_runtime(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if decided := sorted(fields.keys() & _OF_SCIENCE):
            raise ValueError(
                "extra_body of an endpoint must not change what is answered: set it in "
                f"science.decoding or science.generator, got {', '.join(decided)}"
            )
        return fields

    @model_validator(mode="after")
    def _headers(self) -> EndpointConfig:
        for name in self.headers_env:
            if not _HEADER.fullmatch(name):
                raise ValueError("headers_env must have names of headers, got something else")
            if name.lower() == "authorization" and self.api_key_env is not None:
                raise ValueError(
                    "headers_env must not have Authorization where api_key_env is set, which is "
                    f"sent as that, got {name!r}"
                )
        return self

    @field_validator("base_urls")
    @classmethod
    def _differ(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(urls)) < len(urls):
            raise ValueError(f"base_urls must differ, got {', '.join(urls)}")
        return urls
