"""Checks that keep secrets out of a configuration, since others read config.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import parse_qs, urlparse

_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|KEY|APIKEY|AUTHORIZATION)"
    r"(?:$|_(?!PARALLELISM))",
    re.IGNORECASE,
)

Fields = TypeVar("Fields", bound="dict[str, object] | dict[str, str]")


def without_secrets(fields: Fields) -> Fields:
    """Refuse fields whose names say that they hold secrets; the values are never repeated.

    Raises:
        ValueError: naming the fields.
    """
    return _without(fields, fields)


def without_secrets_within(fields: Fields) -> Fields:
    """The same of fields of requests, however deep they lie; ids of tokens are none."""
    names = (name for name in _names_in(fields) if not name.endswith(("token_id", "token_ids")))
    return _without(fields, names)


def _without(fields: Fields, names: Iterable[str]) -> Fields:
    names = sorted(name for name in names if _SECRET.search(name))
    if names:
        raise ValueError(
            "must hold no secrets, which are written to config.json: set them in the environment "
            f"of the cluster or job, got {', '.join(names)}"
        )
    return fields


def _names_in(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name).replace("-", "_")
            if "schema" not in str(name):  # what an answer shall hold
                yield from _names_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names_in(inner)


def settable(variables: dict[str, str]) -> dict[str, str]:
    """Refuse what no environment of a process can hold.

    Raises:
        ValueError: naming the variable.
    """
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(
                f"must be environment variables: names without '=', and no NUL, got {name!r}"
            )
    return variables


def without_credentials(address: str) -> str:
    """Refuse an address with keys in it; they are never repeated.

    Raises:
        ValueError: saying where keys belong.
    """
    parts = urlparse(address)
    in_query = any(_SECRET.search(name.replace("-", "_")) for name in parse_qs(parts.query))
    if parts.scheme and (parts.username or parts.password or in_query):
        raise ValueError(
            "an address must hold no keys, which are written to config.json: give them to the "
            f"storage in the environment of the cluster or job, got some in a {parts.scheme}:// "
            "address"
        )
    return address
