"""*Usage*: tokens that engines generated and an endpoint bills, and how busy the engines were.

What a drain cut, and what a killed controller had not made durable yet, was made by the engines and
is in no journal. The difference says how much that was.

Everything is read off the counters of a run: what replicas count of themselves
(`actors.engines.engine_stats.EngineStats`) and how many chains were left, every ten seconds. The
account is of *slot time*: a generator replica that is up for a second has `max_num_seqs`
slot-seconds. Each of them was used, or was empty for one reason:

- ``start``: the engines were up and no request had come yet, or no completion,
- ``between_phases``: one phase had ended and the next had not begun,
- ``tail``: fewer chains were left than slots,
- ``kv_cache``: requests were preempted, or waited in an engine that had slots and a full KV cache,
- ``verifier``, or another role: at least half as many requests were in its replicas as slots were
  empty,
- ``admission``: the controllers held chains back while fewer were at work than there are slots,
- ``feed``: controllers had fewer chains than there are slots, though that many were left,
- ``control_plane``: chains were at work, but in no engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.compute as pc

from pipeline.core.prices import Prices
from pipeline.records.journal import journaled_tokens, read_columns
from pipeline.records.segments import segment_of
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder


def ledger(metrics: Sequence[Row], attempts: int, journal: Folder) -> dict[str, Any]:
    """What engines say, what the journal holds, and the difference where engines said the last.

    Args:
        metrics: rows of the counters over time; the last of each attempt has what its engines said.
        attempts: how many attempts the run has had.
        journal: the folder of segments.
    """
    said: dict[int, Mapping[str, Any]] = {
        row["attempt"]: row["engines_say"] for row in metrics if "engines_say" in row
    }
    journaled, discarded = journaled_tokens(journal)
    seen = [words for words in said.values() if words["lives"]]
    made = sum(words["completion_tokens"] for words in seen) if seen else None
    whole = len(seen) == attempts and all(
        words["seen_to_the_end"] and not words["deaths"] for words in seen
    )
    return {
        "engine_completion_tokens": made,
        "engine_aborted_tokens": sum(w["aborted_tokens"] for w in seen) if seen else None,
        "journaled_completion_tokens": journaled,
        "discarded_completion_tokens": discarded,
        "unjournaled_completion_tokens": made - journaled if made is not None and whole else None,
        "exact": whole,
    }


def ledger_words(entry: Mapping[str, Any]) -> str:
    """The ledger in words, for the terminal."""
    journaled, discarded = (
        entry["journaled_completion_tokens"],
        entry["discarded_completion_tokens"],
    )
    tail = f" ({discarded:,} of them discarded)" if discarded else ""
    if entry["engine_completion_tokens"] is None:
        return f"tokens: {journaled:,} journaled{tail}; the engines did not say what they made"
    made = f"tokens: engines say they made {entry['engine_completion_tokens']:,}"
    if not entry["exact"]:
        return f"{made} when last asked; {journaled:,} journaled{tail}; some engines died unasked"
    return (
        f"{made}; {journaled:,} journaled{tail}; "
        f"{entry['unjournaled_completion_tokens']:,} made and lost unjournaled"
    )


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


EMPTY = (
    "start",
    "between_phases",
    "tail",
    "kv_cache",
    "verifier",
    "admission",
    "feed",
    "control_plane",
)
"""Why a slot was empty; a run with further roles has each of them as a reason besides."""

_ALWAYS = ("generator", "verifier")

_FULL = 0.8  # of the slot time used: what bounds the run is the generator itself
_CACHE_FULL = 0.8  # of the KV cache in use: a request whose prompt is long finds no room
_OFTEN = 0.05  # preemptions a request from which on the KV cache is what bounds the run

Stats = Mapping[str, Any]


def pool_report(metrics: Sequence[Row]) -> dict[str, Any] | None:
    """What the pools of a run did, from all its attempts; None where no engine told anything.

    Args:
        metrics: rows of the counters, in their order.

    Returns:
        ``generator``, ``verifier`` (None where there is none) and every further role: replicas
        (most seen at once), seconds they were up, share of their slot time used, over all and of
        the least and most used replica, peak KV cache use, preemptions, requests, tokens;
        ``slot_time``: the shares of the generator's slot time, which add up to 1; ``bound_by``:
        ``generator`` or a reason why slots were empty; ``sticky_rate``: of the last row that tells
        one.
    """
    steps = [step for attempt in _attempts(metrics) for step in _steps(attempt)]
    available_s = sum(step.available_s for step in steps)
    if not available_s:
        return None
    roles = dict.fromkeys(role for row in metrics for role in (*_ALWAYS, *row.get("engines", ())))
    pools = {role: _pool(role, steps, metrics) for role in roles}
    empty = dict.fromkeys(EMPTY, 0.0)
    for step in steps:
        for reason, seconds in step.empty().items():
            empty[reason] = empty.get(reason, 0.0) + seconds
    slot_time = {"used": sum(step.used_s for step in steps) / available_s}
    slot_time |= {reason: seconds / available_s for reason, seconds in empty.items()}
    generator = pools["generator"]
    assert generator is not None  # its slot time is not 0
    return {
        **pools,
        "slot_time": slot_time,
        "bound_by": _bound_by(slot_time, generator),
        "sticky_rate": next(
            (r["sticky_rate"] for r in reversed(metrics) if r.get("sticky_rate") is not None), None
        ),
    }


def _bound_by(slot_time: Mapping[str, float], generator: Mapping[str, Any]) -> str:
    if generator["preemptions"] > _OFTEN * generator["requests"]:
        return "kv_cache"
    if slot_time["used"] >= _FULL:
        return "generator"
    return max((reason for reason in slot_time if reason != "used"), key=slot_time.__getitem__)


def pools_in(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The pools of a `pool_report`, by role."""
    return {
        role: part
        for role, part in report.items()
        if isinstance(part, Mapping) and "replicas" in part
    }


class _Gain(NamedTuple):
    """A replica's figures, and how far some of them went on since it told them before."""

    stats: Stats
    up_s: float
    slot_s: float
    request_s: float


@dataclass(frozen=True, slots=True)
class _Step:
    """What happened between two rows of one attempt in which engines told something new."""

    before: Row | None
    after: Row
    told: Mapping[str, Sequence[_Gain]]
    """What its replicas did, by pool."""
    preemptions: int

    @property
    def available_s(self) -> float:
        """Slot-seconds that the generators had."""
        return float(sum(g.stats["max_num_seqs"] * g.up_s for g in self.told["generator"]))

    @property
    def used_s(self) -> float:
        """Slot-seconds that they used."""
        return float(sum(g.stats["max_num_seqs"] * g.slot_s for g in self.told["generator"]))

    def empty(self) -> dict[str, float]:
        """Slot-seconds that were empty, by reason."""
        available_s = self.available_s
        empty_s = max(0.0, available_s - self.used_s)
        lost: dict[str, float] = {}
        if self._first_of_phase:
            where = "start" if self.before is None else "between_phases"
            lost[where] = min(empty_s, available_s * self._before_phase)
        rest_s = empty_s - sum(lost.values())
        if not self._has_begun:
            return {**lost, "start": lost.get("start", 0.0) + rest_s}
        # of the time in which the phase ran, the share for which chains were left for all slots
        running_s = available_s - sum(lost.values())
        tail_s = min(rest_s, running_s * (1 - self._fillable))
        other_s = rest_s - tail_s
        return {**lost, "tail": tail_s, self._reason(other_s / available_s): other_s}

    @property
    def _slots(self) -> int:
        return sum(g.stats["max_num_seqs"] for g in self.told["generator"])

    @property
    def _first_of_phase(self) -> bool:
        return self.before is None or self.before["phase"] != self.after["phase"]

    @property
    def _before_phase(self) -> float:
        """Share of the step that lay before its phase; in the first, before the first request."""
        up_s = max(g.up_s for g in self.told["generator"])
        began_s = float(self.after["phase_seconds"])
        if self.before is None:
            began_s = min(began_s, max(g.stats["span_s"] for g in self.told["generator"]))
        return max(0.0, 1 - began_s / up_s)

    @property
    def _has_begun(self) -> bool:
        """Whether any round has come in the attempt."""
        return bool(self.after["rounds"] + self.after["recorded"])

    @property
    def _fillable(self) -> float:
        """Mean of min(1, chains left / slots), were chains to end evenly within the step."""
        first = self.after["chains"] if self._first_of_phase else _left(self._earlier)
        high, low = first / self._slots, min(first, _left(self.after)) / self._slots
        if low >= 1 or high <= 1:
            return min(1.0, (high + low) / 2)
        return ((high - 1) + (1 - low) * (1 + low) / 2) / (high - low)

    @property
    def _earlier(self) -> Row:
        assert self.before is not None
        return self.before

    def _reason(self, share: float) -> str:
        """Why slots were empty although chains were left for them."""
        rows = [row for row in (self.before, self.after) if row is not None]
        if self.preemptions or any(_waits_for_cache(g.stats) for g in self.told["generator"]):
            return "kv_cache"
        elsewhere = {
            role: sum(gain.request_s / gain.up_s for gain in gains if gain.up_s)
            for role, gains in self.told.items()
            if role != "generator"
        }
        busiest = max(elsewhere, key=elsewhere.__getitem__, default=None)
        if busiest is not None and elsewhere[busiest] >= share * self._slots / 2 > 0:
            return busiest
        if any(row["waiting"] and row["in_flight"] < self._slots for row in rows):
            return "admission"
        if any(row["in_flight"] + row["waiting"] < self._slots <= _left(row) for row in rows):
            return "feed"
        return "control_plane"


def _waits_for_cache(stats: Stats) -> bool:
    """Whether requests wait although there are slots, and not just for the next step."""
    has_slots = stats["running"] < stats["max_num_seqs"]
    return bool(stats["waiting"] and has_slots and stats["kv_usage"] >= _CACHE_FULL)


def _left(row: Row) -> int:
    return max(0, int(row["chains"]) - int(row["chains_stopped"]))


def _attempts(metrics: Sequence[Row]) -> Iterator[list[Row]]:
    numbers = dict.fromkeys(row["attempt"] for row in metrics)
    for number in numbers:
        yield [row for row in metrics if row["attempt"] == number]


def _steps(rows: Iterable[Row]) -> Iterator[_Step]:
    """The steps of one attempt; rows in which no generator got on are part of the next."""
    before: Row | None = None
    known: dict[str, Stats] = {}
    for row in rows:
        engines = row.get("engines", {})
        told: dict[str, list[_Gain]] = {"generator": []}
        told |= {pool: [_since(known, s) for s in replicas] for pool, replicas in engines.items()}
        preempted = sum(_preempted(known, stats) for stats in engines.get("generator", ()))
        if not any(gain.up_s for gain in told["generator"]):
            continue
        known |= {stats["replica"]: stats for pool in engines.values() for stats in pool}
        yield _Step(before, row, told, preempted)
        before = row


_SUMMED = ("up_s", "slot_s", "request_s")


def _since(known: Mapping[str, Stats], now: Stats) -> _Gain:
    """How far a replica's figures went on; from 0 in a new life of its."""
    before = known.get(now["replica"])
    if before is None or before["up_s"] > now["up_s"]:
        before = dict.fromkeys(_SUMMED, 0.0)
    # runs recorded before replicas counted request_s have none
    return _Gain(now, *(now.get(name, 0.0) - before.get(name, 0.0) for name in _SUMMED))


def _preempted(known: Mapping[str, Stats], now: Stats) -> int:
    before = known.get(now["replica"])
    earlier = 0 if before is None or before["up_s"] > now["up_s"] else before["preemptions"]
    return int(now["preemptions"] - earlier)


_COUNTED = ("preemptions", "requests", "prompt_tokens", "completion_tokens")


def _pool(pool: str, steps: Sequence[_Step], metrics: Sequence[Row]) -> dict[str, Any] | None:
    lives = _lives(stats for row in metrics for stats in row.get("engines", {}).get(pool, ()))
    if not lives:
        return None
    up_s, slot_s = (sum(life[name] for life in lives) for name in ("up_s", "slot_s"))
    shares = [life["slot_s"] / life["up_s"] for life in lives if life["up_s"]]
    return {
        "replicas": max(len(step.told.get(pool, ())) for step in steps),
        "up_s": up_s,
        "slot_s": slot_s,
        "used": slot_s / up_s if up_s else 0.0,
        "least_used": min(shares, default=0.0),
        "most_used": max(shares, default=0.0),
        "kv_usage_peak": max(
            stats["kv_usage"] for row in metrics for stats in row.get("engines", {}).get(pool, ())
        ),
        **{name: sum(life[name] for life in lives) for name in _COUNTED},
    }


def _lives(told: Iterable[Stats]) -> list[Stats]:
    """The last figures of every life of every replica."""
    last: dict[str, list[Stats]] = {}
    for stats in told:
        seen = last.setdefault(stats["replica"], [])
        if seen and seen[-1]["up_s"] <= stats["up_s"]:
            seen.pop()
        seen.append(stats)
    return [stats for seen in last.values() for stats in seen]


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


def pool_words(report: Mapping[str, Any]) -> list[str]:
    """The report in words, for the terminal."""
    pools = [_one_pool(role, pool) for role, pool in pools_in(report).items()]
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
    return [
        "; ".join(pools),
        f"slot time of the generator: {', '.join(told)}; bound by {remedy}",
    ]


def _one_pool(name: str, pool: Mapping[str, Any]) -> str:
    several = pool["replicas"] > 1
    spread = f" ({pool['least_used']:.0%} to {pool['most_used']:.0%})" if several else ""
    return (
        f"{name}: {pool['replicas']} replica{'s' if several else ''} {pool['used']:.0%} used"
        f"{spread}, KV cache at most {pool['kv_usage_peak']:.0%}, "
        f"{pool['preemptions']:,} preemptions"
    )
