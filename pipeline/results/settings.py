"""*Settings in words*: fields of strategies and their values on pages, in fronts and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SYMBOLS = {"n": "N", "tau": "τ", "gamma": "γ", "sigma": "σ"}
"""How a field is written; others by their names."""


def value_words(value: Any) -> str:
    """A value; both halves' as ``0.8 | 0.9``, fitted numbers by what they were fitted on."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return f"fitted on {value['fitted_on']}" if value.get("fitted_on") else "given"
    if isinstance(value, list):
        return " | ".join(value_words(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def fields_words(settings: Mapping[str, Any], names: Iterable[str]) -> str:
    """Some fields of a setting: ``N 8, τ 0.9``."""
    return ", ".join(f"{SYMBOLS.get(n, n)} {value_words(settings.get(n))}" for n in names)


def varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields in which some settings differ, in their order."""
    names = dict.fromkeys(name for one in settings for name in one)
    return [n for n in names if len({json.dumps(one.get(n), default=str) for one in settings}) > 1]
