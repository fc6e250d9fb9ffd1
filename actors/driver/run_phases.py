"""*RunPhases*: finds the work left in each phase of a run, and computes statistics after one.

Calls of storage are made with_retries (`actors.cluster.background`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from actors.cluster.background import with_retries
from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.protocol import PhaseStats
from pipeline.planning.phase_work import (
    PREPARED,
    ByBenchmark,
    folded_statistics,
    phase_count,
    phase_work,
    prepared_statistics,
    taking_part,
)
from pipeline.planning.schedule import MEANS_OF, running_means
from pipeline.records.journal import QuestionKey, counting, read_columns
from pipeline.records.question_blocks import drawn_blocks, write_recorded
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import AttemptEntry, RunDir
from pipeline.records.table_rows import TableRows
from pipeline.records.trajectory import Row

logger = logging.getLogger(__name__)


class RunPhases:
    """The phases of a run, for one attempt.

    Args:
        run: its directory, with questions.parquet written.
        config: configuration of the attempt.
        entry: the attempt.
    """

    def __init__(self, run: RunDir, config: RunConfig, entry: AttemptEntry) -> None:
        self._run, self._entry = run, entry
        self._strategies = strategies_of(config.science)
        self._table = with_retries(lambda: read_questions(run.folder), "read the questions")
        self._questions = TableRows(self._table)

    @property
    def count(self) -> int:
        """How many phases there are."""
        return phase_count(self._strategies)

    def prepare(self) -> None:
        """Set torn segments aside, and learn what no phase has to be run for."""
        for gone in with_retries(self._run.set_aside, "read journal and outcomes"):
            logger.warning("%s set aside: %s", gone.name, gone.why)
        known = self._statistics()
        for label, strategy in self._strategies.items():
            had = known.get((label, PREPARED), {})
            learnt = prepared_statistics(strategy, self._questions_without(had))
            if learnt:
                self._write_statistics(label, PREPARED, {**had, **learnt})

    def pending(self) -> bool:
        """Whether anything is left. Phase by phase: who takes part in one is known once those
        before it are done and folded."""
        done = self._done()
        for phase in range(self.count):
            known = self._statistics()
            if phase_work(self._strategies, phase, self._questions, known, done):
                return True
            if self._unfolded(phase, known):
                return True
        return False

    def work(self, phase: int, tokens_left: float = math.inf) -> list[Row]:
        """The chains of a phase that are left, in the order in which they should start; what is
        recorded of them is written for the controllers.

        Args:
            phase: its number.
            tokens_left: completion tokens that the run may still spend.
        """
        names, means = with_retries(self._recorded, "read the journal")
        work = phase_work(
            self._strategies,
            phase,
            self._questions,
            self._statistics(),
            self._done(),
            means,
            tokens_left,
        )
        if work:
            wanted = [(r["strategy"], r["benchmark"], r["question_id"]) for r in work]
            with_retries(
                lambda: write_recorded(self._run, self._entry.number, phase, names, wanted),
                "write what is recorded",
            )
        return work

    def fold(self, phase: int) -> None:
        """Learn from a finished phase, once."""
        known = self._statistics()
        for label in self._unfolded(phase, known):
            phases = self._strategies[label].phases()
            before = known.get((label, phases[phase - 1].name if phase else PREPARED), {})
            had = known.get((label, phases[phase].name), {})  # a benchmark may be new
            learnt = self._learnt(label, phase, before, self._questions_without(had))
            self._write_statistics(label, phases[phase].name, {**had, **learnt})

    def _learnt(
        self, label: str, phase: int, before: ByBenchmark, questions: Sequence[Row]
    ) -> dict[str, PhaseStats | None]:
        strategy = self._strategies[label]
        selected = taking_part(label, strategy.phases()[phase], questions, before)
        place = (self._run, self._entry.number, phase, label)
        drawn = with_retries(lambda: drawn_blocks(*place, selected), "read the journal")

        def rows(key: QuestionKey) -> Sequence[Row]:
            return with_retries(lambda: drawn.rows(key), "read what was drawn")

        learnt = folded_statistics(label, strategy, phase, questions, rows, before)
        with_retries(drawn.delete, "delete what was read")
        return learnt

    def _recorded(self) -> tuple[list[str], Mapping[str, float]]:
        """The segments that count, and the mean tokens of a completion by benchmark."""
        names = counting(self._run.journal)
        return names, running_means(read_columns(self._run.journal, names, MEANS_OF))

    def _unfolded(self, phase: int, known: Mapping[tuple[str, str], ByBenchmark]) -> list[str]:
        """Labels of strategies whose finished phase has not been folded yet, for any benchmark."""
        labels = []
        for label, strategy in self._strategies.items():
            phases = strategy.phases()
            if phase + 1 < len(phases):
                had = known.get((label, phases[phase].name), {})
                if len(self._questions_without(had)):
                    labels.append(label)
        return labels

    def _questions_without(self, known: ByBenchmark) -> TableRows:
        """The questions of all benchmarks but some."""
        names = pa.array(list(known), pa.string())
        return TableRows(self._table.filter(pc.invert(pc.is_in(self._table["benchmark"], names))))

    def _write_statistics(self, label: str, phase: str, learnt: ByBenchmark) -> None:
        with_retries(
            lambda: self._run.write_statistics(label, phase, learnt, attempt=self._entry.number),
            "write statistics",
        )

    def _statistics(self) -> dict[tuple[str, str], dict[str, PhaseStats | None]]:
        names = [
            (label, name)
            for label, strategy in self._strategies.items()
            for name in (PREPARED, *(phase.name for phase in strategy.phases()))
        ]
        read = with_retries(
            lambda: {key: self._run.statistics(*key) for key in names}, "read statistics"
        )
        return {key: value for key, value in read.items() if value is not None}

    def _done(self) -> set[tuple[str, str, str, str]]:
        key = ("strategy", "phase", "benchmark", "question_id")
        table = with_retries(
            lambda: self._run.outcomes(columns=(*key, "error", "attempt")), "read outcomes"
        )
        before = pc.less(table["attempt"], self._entry.retry_before or 0)
        table = table.filter(pc.invert(pc.and_(pc.is_valid(table["error"]), before)))
        return set(zip(*(_values(table[name]) for name in key), strict=True))


def _values(column: pa.ChunkedArray) -> list[str]:
    """The values of a column; equal ones are one object."""
    coded = column.combine_chunks().dictionary_encode()
    values = coded.dictionary.to_pylist()
    return [values[code] for code in coded.indices.to_pylist()]
