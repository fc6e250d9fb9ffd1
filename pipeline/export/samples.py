"""Questions of a run with all that was drawn for them, one after the other.

The journal holds completions in the order in which they were finished. They are laid out anew by
question in a scratch folder, so that a run of any size is read with one part of it in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.export.source import Cell, Source
from pipeline.records.journal import ByQuestion, survey, without_retried
from pipeline.records.outcome import final_outcomes
from pipeline.records.resume_index import parts
from pipeline.records.run_dir import rows_of
from pipeline.records.trajectory import SCHEMA, Row, address_of
from pipeline.store.storage import Folder
from pipeline.store.streams import scratch

_CHUNK_BYTES = 64 << 20  # of texts that are Python objects at a time
_TOKEN_BYTES, _ROW_BYTES = 4, 600  # roughly


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question under one strategy."""

    question: Row
    """`pipeline.records.questions.SCHEMA`."""
    outcome: Row
    """`pipeline.records.outcome.SCHEMA`, billed with all phases."""
    rounds: tuple[Row, ...]
    """What the outcome rests on, in request order, each with its verdict
    (`pipeline.records.trajectory.SCHEMA`)."""


def samples(source: Source, *, texts: bool = True) -> Iterator[tuple[Cell, Iterator[Sample]]]:
    """Each cell with its samples, in the order of the questions; to be read in this order.

    Args:
        source: the run.
        texts: whether the journal is read; without it samples have no rounds.
    """
    cells = {(cell.label, cell.benchmark.name): cell for cell in source.cells}
    for key, found in groupby(
        _samples(source, texts), lambda s: (s.outcome["strategy"], s.outcome["benchmark"])
    ):
        yield cells[key], found


def _samples(source: Source, texts: bool) -> Iterator[Sample]:
    place = {
        key: number
        for number, key in enumerate(
            zip(*(source.questions[name].to_pylist() for name in _QUESTION), strict=True)
        )
    }
    outcomes, chunk = _ordered(source, place)
    with scratch() as folder:
        names = _lay_out(source, outcomes, chunk, folder) if texts else []
        for number in range(int(chunk[-1]) + 1 if len(chunk) else 0):
            rows = rows_of(outcomes.take(np.flatnonzero(chunk == number)))
            mine = [folder.read_table(name) for name in names if name.startswith(f"{number:06d}-")]
            recorded = ByQuestion(
                without_retried(pa.concat_tables([SCHEMA.empty_table(), *mine]))[0]
            )
            for outcome in final_outcomes(rows, source.strategies):
                key = (outcome["benchmark"], outcome["question_id"])
                drawn = recorded.get((outcome["strategy"], *key), [])
                told = _rounds(outcome, drawn) if texts else ()
                [question] = source.questions.slice(place[key], 1).to_pylist()
                yield Sample(question=question, outcome=outcome, rounds=told)


_QUESTION = ("benchmark", "question_id")


def _ordered(source: Source, place: dict[tuple[str, str], int]) -> tuple[pa.Table, np.ndarray]:
    """All outcomes in the order of cells and questions, and the number of each one's chunk."""
    outcomes = source.run.outcomes()
    cell = {(c.label, c.benchmark.name): number for number, c in enumerate(source.cells)}
    keys = list(
        zip(*(outcomes[name].to_pylist() for name in ("strategy", *_QUESTION)), strict=True)
    )
    at = np.array([cell.get(key[:2], -1) for key in keys], dtype=np.int64)
    question = np.array([place.get(key[1:], -1) for key in keys], dtype=np.int64)
    order = np.lexsort((question, at))
    order = order[(at[order] >= 0) & (question[order] >= 0)]
    outcomes = outcomes.take(order)
    weight = (
        outcomes["completion_tokens"].to_numpy() * _TOKEN_BYTES
        + outcomes["completions"].to_numpy() * _ROW_BYTES
    )
    at, question = at[order], question[order]
    first = np.append(True, (at[1:] != at[:-1]) | (question[1:] != question[:-1]))[: len(order)]
    number = np.cumsum(weight) // _CHUNK_BYTES
    number = number[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    return outcomes, np.unique(number, return_inverse=True)[1]


def _lay_out(source: Source, outcomes: pa.Table, chunk: np.ndarray, folder: Folder) -> list[str]:
    """Write the journal's rows by chunk; returns the names of the files."""
    keys = zip(*(outcomes[name].to_pylist() for name in ("strategy", *_QUESTION)), strict=True)
    wanted = dict(zip(keys, chunk.tolist(), strict=True))
    journal = source.run.journal
    names = []
    for part, table in enumerate(parts(journal, survey(journal, ["strategy"]).names, wanted)):
        for number in pc.unique(table["bucket"]).to_pylist():
            rows = table.filter(pc.equal(table["bucket"], number)).drop_columns("bucket")
            names.append(f"{number:06d}-{part:06d}.parquet")
            folder.write_table(names[-1], rows)
    return names


def _rounds(outcome: Row, recorded: list[Row]) -> tuple[Row, ...]:
    """The recorded rows that an outcome tells of, in its order; redone work is left out.

    What the journal does not hold (any more) is told as far as the outcome does.
    """
    left = sorted(recorded, key=address_of)
    rounds = []
    for answer, score, tokens, verdict in zip(
        *(outcome[f"round_{what}"] for what in ("answers", "scores", "tokens", "verdicts")),
        strict=True,
    ):
        told = {"answer": answer, "completion_tokens": tokens}
        if score is not None:
            told["score"] = score
        found = next((row for row in left if all(row[k] == v for k, v in told.items())), None)
        if found is None:
            found = {**dict.fromkeys(SCHEMA.names), **told}
        else:
            left.remove(found)
        rounds.append({**found, "score": score, "verdict": verdict})
    return tuple(rounds)
