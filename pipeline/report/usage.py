"""*Usage*: tokens that an endpoint bills, and how busy the engines were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from pipeline.core.prices import Prices
from pipeline.records.journal import read_columns
from pipeline.records.segments import segment_of
from pipeline.records.trajectory import Row
from pipeline.report import words
from pipeline.store.storage import Folder

_KINDS = (
    "prompt_tokens", "cached_prompt_tokens", "completion_tokens", "thinking_tokens",
    "wasted_tokens", "unknown_tries",
)  # fmt: skip


def endpoint_usage(journal: Folder, prices: Prices | None) -> dict[str, Any]:
    """The sums of ``usage`` over all replies that were paid for, those that do not count included.

    Cached prompt tokens are part of prompt tokens, thinking ones of completion tokens. Replies that
    were lost on their way told nothing: they are counted as ``unknown_tries``, and their tokens are
    in no sum.

    Args:
        journal: the folder of segments; those that cannot be read are left out.
        prices: for ``usd``; None leaves that out.
    """
    used = _summed(journal, _KINDS)
    return used if prices is None else {**used, "usd": prices.usd(used)}


def judge_usage(journal: Folder, prices: Prices | None) -> dict[str, Any]:
    """What a verifier behind an endpoint read and wrote, where its replies were scores.

    Args:
        journal: see `endpoint_usage`.
        prices: for ``usd_at_most``, as if all of it had been of the dearest kind.
    """
    tokens = _summed(journal, ("verifier_tokens",))["verifier_tokens"]
    if prices is None:
        return {"tokens": tokens}
    dearest = max(prices.prompt, prices.completion)
    return {"tokens": tokens, "usd_at_most": tokens * dearest / 1e6}


def _summed(journal: Folder, kinds: Sequence[str]) -> dict[str, int]:
    """The number of rows, as ``completions``, and the sums of columns."""
    used = dict.fromkeys(("completions", *kinds), 0)
    for table in read_columns(journal, filter(segment_of, journal.names()), kinds):
        used["completions"] += table.num_rows
        for kind in kinds:
            used[kind] += int(pc.sum(table[kind]).as_py() or 0)
    return used


def usage_words(used: dict[str, Any]) -> str:
    """The usage in words, for the terminal."""
    made = used["completion_tokens"] + used["wasted_tokens"]
    lost = used["unknown_tries"]
    return (
        f"usage, as the endpoint says: {used['prompt_tokens']:,} prompt tokens "
        f"({used['cached_prompt_tokens']:,} of them cached), {made:,} completion tokens"
        + (f"; {lost:,} lost replies not counted" if lost else "")
        + (f"; ${used['usd']:,.2f}" if "usd" in used else "")
    )


def judge_words(used: dict[str, Any]) -> str:
    """The usage of a judge in words, for the terminal."""
    usd = f", at most ${used['usd_at_most']:,.2f}" if "usd_at_most" in used else ""
    return f"usage of the verifier, as its endpoint says: {used['tokens']:,} tokens{usd}"


Stats = Mapping[str, Any]
_ALWAYS = ("generator", "verifier")


def pool_report(metrics: Sequence[Row]) -> dict[str, Any] | None:
    """How busy the pools of a run were, over all its attempts; None where no engine reported.

    Args:
        metrics: rows of the counters, in their order, with what replicas count of themselves
            (`actors.engines.engine_stats.EngineStats`).

    Returns:
        ``generator``, ``verifier`` (None where there is none) and every further role: replicas
        (most seen at once), seconds they were up, share of their slot time used, over all and of
        the least and most used replica, peak KV cache use, preemptions, requests, tokens. A replica
        that is up for a second has `max_num_seqs` slot-seconds.
    """
    roles = dict.fromkeys(role for row in metrics for role in (*_ALWAYS, *row.get("engines", ())))
    pools = {role: _pool(role, metrics) for role in roles}
    generator = pools.get("generator")
    if generator is None or not generator["up_s"]:
        return None
    return pools


_COUNTED = ("preemptions", "requests", "prompt_tokens", "completion_tokens")


def _pool(role: str, metrics: Sequence[Row]) -> dict[str, Any] | None:
    reports = [found for row in metrics if (found := row.get("engines", {}).get(role))]
    lives = _lives(stats for report in reports for stats in report)
    if not lives:
        return None
    up_s, slot_s = (sum(life[name] for life in lives) for name in ("up_s", "slot_s"))
    shares = [life["slot_s"] / life["up_s"] for life in lives if life["up_s"]]
    return {
        "replicas": max(map(len, reports)),
        "up_s": up_s,
        "slot_s": slot_s,
        "used": slot_s / up_s if up_s else 0.0,
        "least_used": min(shares, default=0.0),
        "most_used": max(shares, default=0.0),
        "kv_usage_peak": max(stats["kv_usage"] for report in reports for stats in report),
        **{name: sum(life[name] for life in lives) for name in _COUNTED},
    }


def _lives(rows: Iterable[Stats]) -> list[Stats]:
    """The last figures of every life of every replica."""
    last: dict[str, list[Stats]] = {}
    for stats in rows:
        seen = last.setdefault(stats["replica"], [])
        if seen and seen[-1]["up_s"] <= stats["up_s"]:
            seen.pop()
        seen.append(stats)
    return [stats for seen in last.values() for stats in seen]


def pool_words(report: Mapping[str, Any]) -> str:
    """The report in words, for the terminal."""
    return "; ".join(_one_pool(role, pool) for role, pool in report.items() if pool is not None)


def _one_pool(name: str, pool: Mapping[str, Any]) -> str:
    return (
        f"{name}: {words.plural(pool['replicas'], 'replica')} {pool['used']:.0%} used, KV cache at "
        f"most {pool['kv_usage_peak']:.0%}, {words.plural(pool['preemptions'], 'preemption')}"
    )
