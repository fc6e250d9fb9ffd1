"""The completions of chosen questions, read from a journal that may not fit into memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.records.journal import QuestionKey, fences_of
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import read_segment, segment_of
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder

_WANTED = ("strategy", "benchmark", "question_id", "pool", "chain", "round", "sample", "text",
           "finish_reason", "prm_truncated", "error", "seconds")  # fmt: skip

Address = tuple[int, int, int, str]
"""(chain, round, sample, pool)."""


def completions_of(
    run: RunDir, questions: Collection[tuple[str, str]], *, most_chars: int
) -> dict[QuestionKey, list[Row]]:
    """Recorded completions of (benchmark, question_id) pairs, in order of chain, round and sample.

    Segments are read one by one; those that do not count or are torn are left out. Of several
    records of one address the first counts, a failure only where nothing else was recorded. Each
    text is cut in its middle to `most_chars`.
    """
    ids = pa.array(sorted({question for _, question in questions}), type=pa.string())
    wanted = set(questions)
    found: dict[QuestionKey, dict[Address, Row]] = {}
    for table in _counting(run.journal):
        chosen = table.filter(pc.is_in(table["question_id"], value_set=ids)).select(list(_WANTED))
        for row in chosen.to_pylist():
            if (row["benchmark"], row["question_id"]) not in wanted:
                continue
            rows = found.setdefault((row["strategy"], row["benchmark"], row["question_id"]), {})
            address = (row["chain"], row["round"], row["sample"], row["pool"])
            if address not in rows or rows[address]["error"] is not None:
                rows[address] = {**row, "text": cut(row["text"] or "", most_chars)}
    return {key: [rows[address] for address in sorted(rows)] for key, rows in found.items()}


def cut(content: str, most_chars: int) -> str:
    """A text with its middle left out where it is longer than `most_chars`; the end tells more."""
    if len(content) <= most_chars:
        return content
    head = most_chars // 3
    left_out = len(content) - most_chars
    return (
        f"{content[:head]}\n\n[… {left_out:,} characters left out; the journal has them …]\n\n"
        f"{content[len(content) - (most_chars - head) :]}"
    )


def _counting(journal: Folder) -> Iterator[pa.Table]:
    fences = fences_of(journal)
    for name in journal.names():
        place = segment_of(name)
        if place is None or not fences.counts(*place):
            continue
        try:
            yield read_segment(journal, name)
        except DataError:
            continue  # a torn segment: a resume sets it aside and says so
