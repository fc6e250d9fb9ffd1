"""The utilisation report as text for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.report.utilisation import pools_in

_WORDS = {
    "used": "used",
    "start": "empty before the first round",
    "between_phases": "empty between phases",
    "tail": "empty in the tail",
    "kv_cache": "empty for want of KV cache",
    "verifier": "empty while chains were scored",
    "admission": "empty for want of admission",
    "feed": "empty for want of chains handed over",
    "control_plane": "empty while controllers worked",
}

_REMEDIES = {
    "generator": "the generator's slots: more replicas make the run shorter",
    "start": "the start, with engines up and nothing for them yet: run more questions",
    "between_phases": "the time between phases",
    "tail": "the tail, with fewer chains left than slots: fewer replicas, or more questions",
    "kv_cache": "the KV cache: fewer slots, longer memory or more replicas",
    "verifier": "the verifier: more replicas of it, or more chains in flight",
    "admission": "admission: raise runtime.controllers.in_flight, or leave it open",
    "feed": "Ray Data's feed: raise runtime.controllers.calls_per_actor or rows_per_block",
    "control_plane": "the control plane: more controllers",
}


def as_lines(report: Mapping[str, Any]) -> list[str]:
    """The report in words, for the terminal."""
    pools = [_pool_words(role, pool) for role, pool in pools_in(report).items()]
    shares = sorted(report["slot_time"].items(), key=lambda share: (share[0] != "used", -share[1]))
    told = [
        f"{share:.0%} {_WORDS.get(name, f'empty while the {name} worked')}"
        for name, share in shares
        if share >= 0.005
    ]
    if report["sticky_rate"] is not None:
        pools.append(f"{report['sticky_rate']:.0%} of later rounds stayed on their replica")
    bound_by = report["bound_by"]
    remedy = _REMEDIES.get(bound_by, f"the {bound_by}: more replicas of it")
    lines = [
        "; ".join(pools),
        f"slot time of the generator: {', '.join(told)}; bound by {remedy}",
    ]
    split = report["better_split"]
    if split is not None:
        lines.append(
            f"a better split of the same GPUs: {split['generator']} generator and "
            f"{split['verifier']} verifier replicas, about {split['time']:.0%} of the time"
        )
    return lines


def _pool_words(name: str, pool: Mapping[str, Any]) -> str:
    several = pool["replicas"] > 1
    spread = f" ({pool['least_used']:.0%} to {pool['most_used']:.0%})" if several else ""
    return (
        f"{name}: {pool['replicas']} replica{'s' if several else ''} {pool['used']:.0%} used"
        f"{spread}, KV cache at most {pool['kv_usage_peak']:.0%}, "
        f"{pool['preemptions']:,} preemptions"
    )
