"""What a journal holds, read question by question with a part of it in memory.

Its rows lie in the order in which they were drawn. They are laid out anew by question
(`pipeline.records.row_blocks`) in a scratch folder, which needs as much room as the journal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline.records.journal import (
    QUESTION_KEY,
    QuestionKey,
    checked,
    counting,
    keys_of,
    read_columns,
    sound,
)
from pipeline.records.row_blocks import Blocks, write_blocks
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder
from pipeline.store.streams import scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The rows that count of a journal."""

    keys: Collection[QuestionKey]
    """The questions that have any, in the order of their first rows."""
    _blocks: Blocks

    def rows(self, key: QuestionKey) -> list[Row]:
        """Those of a question, older first, without failures that were tried again; best asked for
        in the order given to `laid_out`."""
        return self._blocks.rows(key)


@contextmanager
def laid_out(journal: Folder, order: Iterable[QuestionKey]) -> Iterator[Drawn]:
    """A journal by question; segments that are torn or changed are left out.

    Args:
        journal: the folder of segments.
        order: in which most questions will be read. Others of the journal come after them.
    """
    names = counting(journal, checked(journal)[0])
    columns = read_columns(journal, names, QUESTION_KEY)
    keys = dict.fromkeys(key for table in columns for key in keys_of(table))
    wanted = dict.fromkeys(key for key in order if key in keys) | keys
    with scratch() as folder:
        tables = (table for _, table in sound(journal, names, corrupt=[]))
        write_blocks(folder, tables, list(wanted))
        yield Drawn(keys=keys.keys(), _blocks=Blocks(folder))
