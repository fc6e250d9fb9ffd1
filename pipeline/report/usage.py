"""*Usage*: what engines say they generated, what the journal accounts for, what an endpoint bills.

What a drain cut, and what a killed controller had not made durable yet, was made by the engines and
is in no journal. The difference says how much that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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


def as_sentence(entry: Mapping[str, Any]) -> str:
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
