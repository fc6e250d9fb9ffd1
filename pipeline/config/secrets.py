"""What has no place in a configuration: secrets, since config.json is read by others, and what no
process can be given."""

from __future__ import annotations

import re
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
    names = sorted(name for name in fields if _SECRET.search(name))
    if names:
        raise ValueError(
            "must hold no secrets, which are written to config.json: set them in the environment "
            f"of the cluster or job, got {', '.join(names)}"
        )
    return fields


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
