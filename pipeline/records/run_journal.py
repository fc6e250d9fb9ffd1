"""The journal as a folder of one run: segments of other runs that lie in it are not seen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from pipeline.core.errors import DataError
from pipeline.records.attempts import read_attempts
from pipeline.records.epochs import Epoch
from pipeline.records.segments import RUN, read_segment, segment_of
from pipeline.store.storage import Folder


@dataclass(frozen=True, slots=True)
class RunJournal(Folder):
    """A folder of segments that lists those of its run alone.

    A segment is the run's if its attempt is written down, by number and token. Of earlier versions
    one is also the run's if its rows name it, since two attempts could write over each other's
    entry. Any other is foreign: it could end everything before it (`pipeline.records.epochs`).
    """

    run: Folder = field(default_factory=lambda: Folder(""))
    """The run directory."""
    run_id: str = ""

    def names(self) -> list[str]:
        """Names of the run's own segments and of what is no segment, sorted."""
        every = Folder.names(self)
        gone = self._foreign(every)
        return [name for name in every if name not in gone]

    def foreign(self) -> list[str]:
        """Names of segments of other runs."""
        return sorted(self._foreign(Folder.names(self)))

    def attempts(self) -> set[int]:
        """The attempts that wrote segments."""
        places = filter(None, map(segment_of, self.names()))
        return {Epoch.parse(epoch).attempt for epoch, _ in places}

    def _foreign(self, names: Collection[str]) -> set[str]:
        if not names:
            return set()
        known = {(entry["attempt"], entry["token"]) for entry in read_attempts(self.run)}
        foreign = set()
        for name in names:
            place = segment_of(name)
            if place is None:
                continue
            epoch = Epoch.parse(place[0])
            if (epoch.attempt, epoch.token) in known:
                continue
            if not self._names_run(name):
                foreign.add(name)
        return foreign

    def _names_run(self, name: str) -> bool:
        try:
            segment = read_segment(self, name)
        except DataError:
            return True  # torn: it is set aside for that
        named = segment["run"].unique().to_pylist()
        return RUN not in segment.schema.metadata and named == [self.run_id]
