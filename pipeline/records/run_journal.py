"""*RunJournal*: the journal of one run, without segments of other runs that lie in its folder."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from pipeline.core.errors import DataError
from pipeline.records.attempts import read_attempts
from pipeline.records.epochs import Epoch
from pipeline.records.segments import RUN, segment_of
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
        epochs: dict[tuple[int, str], list[str]] = {}
        for name in names:
            place = segment_of(name)
            if place is not None:
                epoch = Epoch.parse(place[0])
                epochs.setdefault((epoch.attempt, epoch.token), []).append(name)
        if not epochs:
            return set()
        known = {(entry["attempt"], entry["token"]) for entry in read_attempts(self.run)}
        unknown = [epochs[epoch] for epoch in epochs.keys() - known]
        return {name for held in unknown if not self._names_run(held) for name in held}

    def _names_run(self, names: Collection[str]) -> bool:
        """Whether segments of one attempt say that they are the run's: the first that says it."""
        whole = 0
        for name in names:
            try:
                table = self.read_columns(name, ["run"])
            except DataError:
                continue  # torn: it is set aside for that
            whole += 1
            if RUN in (table.schema.metadata or {}):
                return False
            if table.num_rows:
                return bool(table["run"].unique().to_pylist() == [self.run_id])
        return not whole
