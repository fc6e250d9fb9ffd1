"""Collections: runs whose strategies draw two deep pools and decide nothing."""

from __future__ import annotations

from typing import Any

from pipeline.config.schema import merged_fields
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Pool

DEFAULT_DEPTH = 64

_KINDS = {Pool.SEQUENTIAL: "mr_thinking", Pool.PARALLEL: "self_consistency"}


def make_collection(
    values: dict[str, Any], rounds: int | None, samples: int | None, chains: int | None = None
) -> None:
    """Turn the values of any run's configuration into those of a collection, in place.

    The run's strategies make way for a chain of `rounds` completions (label ``sequential``) and
    `samples` independent ones (label ``parallel``); priors, which only strategies use, and answer
    rules are dropped.

    Args:
        values: as read from a file or from an earlier attempt.
        rounds: R; 0 for no chains; None keeps that of the values where they are a collection's,
            else takes 64.
        samples: K, likewise.
        chains: independent chains a question (labels ``sequential``, ``sequential-1`` ...), 1 where
            nothing else is known.

    Raises:
        ConfigError: at a negative depth, or where neither pool would be drawn.
    """
    if chains is not None and chains < 1:
        raise ConfigError(f"a collection must have 1 chain a question or more, got {chains}")
    science = values.setdefault("science", {})
    if not isinstance(science, dict):
        raise ConfigError(f"science must hold fields, got {type(science).__name__}")
    known = _depths(science)
    depths: dict[Pool, int] = {}
    for kind, asked in ((Pool.SEQUENTIAL, rounds), (Pool.PARALLEL, samples)):
        depth = known.get(kind, 0 if known else DEFAULT_DEPTH) if asked is None else asked
        if depth < 0:
            raise ConfigError(f"the depth of the {kind.value} pool must be >= 0, got {depth}")
        depths[kind] = depth
    entries = collection_strategies(
        depths[Pool.SEQUENTIAL], depths[Pool.PARALLEL], chains or _chains(science)
    )
    if not entries:
        raise ConfigError("a collection must draw rounds or samples, got 0 of both")
    science.pop("strategy", None)
    science.pop("priors", None)
    science.pop("answer_rule", None)
    science.pop("answer_rules", None)  # a pool is read by those of a sweep
    science["strategies"] = entries


def collection_strategies(rounds: int, samples: int, chains: int) -> list[dict[str, Any]]:
    """The strategies of a collection: its chains of `rounds`, then its independent `samples`."""
    entries: list[dict[str, Any]] = []
    for chain in range(chains if rounds else 0):
        label = f"{Pool.SEQUENTIAL.value}-{chain}" if chain else Pool.SEQUENTIAL.value
        fields = {"n": rounds, "chain": chain} if chain else {"n": rounds}
        entries.append({"kind": _KINDS[Pool.SEQUENTIAL], "label": label, "fields": fields})
    if samples:
        label, fields = Pool.PARALLEL.value, {"n": samples}
        entries.append({"kind": _KINDS[Pool.PARALLEL], "label": label, "fields": fields})
    return entries


def _chains(science: dict[str, Any]) -> int:
    """The chains of a configuration that is a collection's already; 1 of any other."""
    entries = science.get("strategies")
    listed = entries if isinstance(entries, list) and _depths(science) else []
    found = [entry for entry in listed if is_further_chain(entry)]
    return 1 + len(found)


def is_further_chain(entry: Any) -> bool:
    """Whether a strategy of a configuration draws another chain of questions that have one."""
    if not isinstance(entry, dict) or entry.get("kind") != _KINDS[Pool.SEQUENTIAL]:
        return False
    fields = merged_fields(entry, {})
    chain = fields.get("chain", entry.get("chain")) if isinstance(fields, dict) else None
    return isinstance(chain, int) and chain > 0


def _depths(science: dict[str, Any]) -> dict[Pool, int]:
    """The depths of a configuration that is a collection's already; {} for any other."""
    entries = science.get("strategies")
    labels = {kind.value: kind for kind in Pool}
    known: dict[Pool, int] = {}
    for entry in entries if isinstance(entries, list) else []:
        if is_further_chain(entry):
            continue
        kind = labels.get(str(entry.get("label", ""))) if isinstance(entry, dict) else None
        depth = merged_fields(entry, {}) if kind else None
        depth = depth.get("n", entry.get("n")) if isinstance(depth, dict) else None
        if kind is None or entry.get("kind") != _KINDS[kind] or not isinstance(depth, int):
            return {}
        known[kind] = depth
    return known
