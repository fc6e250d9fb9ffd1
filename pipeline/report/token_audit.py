"""The token audit: what engines say they generated against what the journal accounts for.

What a drain cut, and what a killed controller had not made durable yet, was made by the engines and
is in no journal. The difference says how much that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.records.journal import fences_of
from pipeline.records.segments import segment_of
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder


def journaled_tokens(journal: Folder) -> tuple[int, int]:
    """Completion tokens of all rows of a journal, and those of them that do not count.

    Failed requests and failed tries are in the first figure as far as engines knew their tokens.
    Segments that cannot be read are left out.
    """
    fences = fences_of(journal)
    journaled = discarded = 0
    for name in journal.names():
        place = segment_of(name)
        if place is None:
            continue
        try:
            table = journal.read_columns(name, ["completion_tokens", "wasted_tokens"])
        except DataError:
            continue
        tokens = sum(int(pc.sum(column).as_py() or 0) for column in table.columns)
        journaled += tokens
        if not fences.counts(*place):
            discarded += tokens
    return journaled, discarded


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
