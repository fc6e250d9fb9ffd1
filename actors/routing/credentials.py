"""Keys of an endpoint: read from the environment where they are used, and written nowhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.config.endpoint import EndpointConfig
from pipeline.core.errors import ConfigError

_SHORT = 4  # a value that short would be found in any text


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers of every request; never shown."""

    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def masked(self, text: str) -> str:
        """A server's words without the keys that it may repeat."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def credentials_of(endpoint: EndpointConfig, environment: Mapping[str, str]) -> Credentials:
    """What the variables that a configuration names hold in this process.

    Raises:
        ConfigError: naming a variable that is not set, or that no header can hold.
    """
    named = dict(endpoint.headers_env)
    if endpoint.api_key_env is not None:
        named["Authorization"] = endpoint.api_key_env
    values = {}
    for header, variable in named.items():
        value = environment.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"the environment variable {variable} must be set where controllers run: "
                f"an endpoint of the run sends it as {header}"
            )
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"the environment variable {variable} must be one line of ASCII")
        values[header] = value
    forms = {form for v in values.values() if len(v) > _SHORT for form in (v, json.dumps(v)[1:-1])}
    secrets = sorted(forms, key=len, reverse=True)
    if endpoint.api_key_env is not None:
        values["Authorization"] = f"Bearer {values['Authorization']}"
    return Credentials(values, tuple(secrets))
