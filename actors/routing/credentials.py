"""*Credentials*: the keys of an endpoint, read from the environment and written nowhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from urllib.parse import quote

from pipeline.config.endpoint import EndpointConfig
from pipeline.core.errors import ConfigError

_SHORT = 4  # a value that short would be found in any text
_PART = 8  # characters of a key in a row that are taken for a part of it


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers of every request; never shown."""

    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    """The keys in every form in which a server may repeat them."""

    def masked(self, text: str) -> str:
        """Text without the keys, or any part of them of more than a few characters.

        Upper or lower case, blanks and line breaks within a key make no difference.
        """
        places = [place for place, character in enumerate(text) if not character.isspace()]
        packed = "".join(text[place] for place in places).lower()
        if len(packed) != len(places):  # a character whose lower case is longer
            packed = "".join(text[place] for place in places)
        hidden = [False] * len(packed)
        for secret in self.secrets:
            size = max(_SHORT + 1, min(len(secret) - 1, max(_PART, len(secret) // 3)))
            for start in range(len(secret) - size + 1):
                for at in _occurrences(packed, secret[start : start + size]):
                    hidden[at : at + size] = [True] * size
        if not any(hidden):
            return text
        pieces, end = [], 0
        for is_hidden, run in groupby(range(len(hidden)), hidden.__getitem__):
            if is_hidden:
                found = list(run)
                pieces += [text[end : places[found[0]]], "***"]
                end = places[found[-1]] + 1
        return "".join(pieces) + text[end:]


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
    secrets = {form for value in values.values() if len(value) > _SHORT for form in _forms(value)}
    if endpoint.api_key_env is not None:
        values["Authorization"] = f"Bearer {values['Authorization']}"
    return Credentials(values, tuple(sorted(secrets, key=len, reverse=True)))


def _forms(value: str) -> Iterator[str]:
    """A key as it is, and as encodings write it, in lower case and without blanks."""
    data = value.encode()
    forms = [value, json.dumps(value)[1:-1], quote(value, safe=""), data.hex()]
    for before in range(3):  # in base64 it looks otherwise at each place within three bytes
        kept = slice(-(-8 * before // 6), 4 * (before + len(data)) // 3)
        forms.append(base64.b64encode(bytes(before) + data).decode()[kept])
    forms += [form.translate(str.maketrans("+/", "-_")) for form in forms[-3:]]
    yield from ("".join(form.split()).lower() for form in forms)


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)
