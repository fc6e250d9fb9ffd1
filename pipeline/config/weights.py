"""Fitted weights of a strategy, given as a file: read into the configuration of a run.

The resolved configuration holds the numbers, so its digest covers them and a resume needs no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeline.statistics.agreement import AgreementWeights
from pipeline.store.local import read_text

FIELD = "weights"


def with_weights(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a strategy, with ``weights: FILE`` replaced by what the file holds.

    Raises:
        ValueError: where it is no JSON file with ``w`` and ``v``.
    """
    given = fields.get(FIELD)
    if not isinstance(given, str):
        return dict(fields)
    try:
        values = json.loads(read_text(given))
    except (OSError, ValueError) as error:
        raise ValueError(f"weights must be a readable JSON file, got {error}") from error
    if not isinstance(values, Mapping):
        raise ValueError(f"weights must be an object, got {type(values).__name__} in {given}")
    weights = AgreementWeights.parse(values)
    return {**fields, FIELD: {"w": list(weights.w), "v": list(weights.v)}}
