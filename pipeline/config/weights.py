"""Fitted numbers of a strategy, given as a file: read into the configuration of a run.

The resolved configuration holds the numbers, so its digest covers them and a resume needs no file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pipeline.statistics.agreement import AgreementWeights
from pipeline.store.local import read_text

_MAP_FIELDS = ("scores", "probabilities", "slope", "intercept", "fitted_on", "origin")


def with_weights(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a strategy, with ``weights: FILE`` and ``calibration: FILE`` replaced by what the
    files hold.

    Raises:
        ValueError: where it is no JSON file of that kind.
    """
    return {
        name: _PARSERS[name](_read(name, value))
        if name in _PARSERS and isinstance(value, str)
        else value
        for name, value in fields.items()
    }


def _read(name: str, given: str) -> Mapping[str, Any]:
    try:
        values = json.loads(read_text(given))
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} must be a readable JSON file, got {error}") from error
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be an object, got {type(values).__name__} in {given}")
    return values


def _weights(values: Mapping[str, Any]) -> dict[str, Any]:
    weights = AgreementWeights.parse(values)
    read: dict[str, Any] = {"w": list(weights.w), "v": list(weights.v)}
    if weights.fitted_on:
        read["fitted_on"] = weights.fitted_on
    if weights.origin is not None:
        read["origin"] = asdict(weights.origin)
    return read


def _map(values: Mapping[str, Any]) -> dict[str, Any]:
    """The strategy's own check says what is wrong with the numbers."""
    return {name: values[name] for name in _MAP_FIELDS if name in values}


_PARSERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "weights": _weights,
    "calibration": _map,
}
