"""The token audit: what engines say they generated against what the journal accounts for.

What a drain cut, and what a killed controller had not made durable yet, was made by the engines and
is in no journal. The difference says how much that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.records.journal import journaled_tokens
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
