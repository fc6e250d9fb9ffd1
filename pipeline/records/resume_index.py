"""Recorded completions by question, from which a resume goes on.

At the start of every phase of every attempt the driver lays the journal's rows out in blocks, in
``work/`` (`pipeline.records.row_blocks`). A controller reads a block when a question of it begins.
A later life of a controller lays out, once, what its earlier lives have written since. Its base is
what was laid out for it (`pipeline.records.epochs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.records.epochs import Base, Epoch
from pipeline.records.journal import (
    QUESTION_KEY,
    ByQuestion,
    QuestionKey,
    Recording,
    counting,
    keys_of,
    read_columns,
    sound,
)
from pipeline.records.row_blocks import Blocks, write_blocks
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import listed, segment_of
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder


def work_folder(run: RunDir, attempt: int, phase: int) -> Folder:
    """Where the rows of a phase of an attempt lie."""
    return run.folder.child("work", f"attempt-{attempt}-phase-{phase}")


def write_recorded(
    run: RunDir, attempt: int, phase: int, names: Sequence[str], wanted: Sequence[QuestionKey]
) -> None:
    """Lay out recorded rows for the questions of a phase, and note which segments they are from.

    Args:
        run: the run directory.
        attempt: that goes on from them.
        phase: of it.
        names: of the segments that count, in their order; those that are corrupt are left out.
        wanted: the questions, in the order in which they will begin.
    """
    _lay_out(run.journal, work_folder(run, attempt, phase).child("recorded"), names, wanted)


def drawn_blocks(
    run: RunDir, attempt: int, phase: int, label: str, wanted: Sequence[QuestionKey]
) -> Blocks:
    """What counts of the questions of a finished phase, laid out by `attempt`, in their order."""
    folder = work_folder(run, attempt, phase).child(f"drawn-{label}")
    _lay_out(run.journal, folder, counting(run.journal), wanted)
    return Blocks(folder)


def _lay_out(
    journal: Folder, folder: Folder, names: Iterable[str], wanted: Sequence[QuestionKey]
) -> Base:
    """Write blocks and the segments that they are from, which are returned."""
    read: list[str] = []

    def tables() -> Iterator[pa.Table]:
        for name, table in sound(journal, names, corrupt=[]):
            read.append(name)
            yield table

    write_blocks(folder, tables(), wanted)
    folder.write_json("segments.json", listed(read))
    return listed(read)


class RecordedWork:
    """Recordings by question, read as they are asked for.

    Args:
        run: the run directory.
        epoch: of the writer that will go on from them.
        retry_before: an attempt; failures of earlier ones are to be tried again.
    """

    def __init__(self, run: RunDir, epoch: Epoch, *, retry_before: int | None = None) -> None:
        self._run, self._epoch = run, epoch
        self._retry_before = retry_before
        work = work_folder(run, epoch.attempt, epoch.phase)
        laid_out = work.child("recorded")
        self._blocks = [Blocks(laid_out)]
        self.base: Base = laid_out.read_json("segments.json")
        """What the recordings are from."""
        if own := counting(run.journal, self._segments(of_this_life=False)):
            later = work.child(f"recorded-{epoch.slot}-{epoch.life:04d}")
            drawn = read_columns(run.journal, own, QUESTION_KEY)
            keys = dict.fromkeys(key for table in drawn for key in keys_of(table))
            self.base |= _lay_out(run.journal, later, own, list(keys))
            self._blocks.append(Blocks(later))

    def of(self, key: QuestionKey) -> Recording | None:
        """The recording of (strategy, benchmark, question_id); None where there is none."""
        return self._recording([row for blocks in self._blocks for row in blocks.rows(key)])

    def again(self, key: QuestionKey) -> Recording | None:
        """As `of`, with what this very life of the writer made durable meanwhile."""
        rows = [row for blocks in self._blocks for row in blocks.rows(key)]
        for _, table in sound(self._run.journal, self._segments(of_this_life=True), corrupt=[]):
            own = table.filter(pc.equal(table["question_id"], key[2]))
            rows += ByQuestion(own).get(key, ())
        return self._recording(rows)

    def _recording(self, rows: Sequence[Row]) -> Recording | None:
        return Recording(rows, retry_before=self._retry_before) if rows else None

    def _segments(self, *, of_this_life: bool) -> list[str]:
        """Of this writer in this phase of this attempt: of this life, or of those before."""
        mine, names = self._epoch, []
        for name in self._run.journal.names():
            place = segment_of(name)
            if place is None:
                continue
            epoch = Epoch.parse(place[0])
            if epoch.is_life_of(mine) and (epoch == mine) == of_this_life:
                names.append(name)
        return names
