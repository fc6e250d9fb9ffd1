"""*Samples*: reads the questions of a run with their completions, one after the other.

The journal holds completions in the order in which they were finished. They are sorted by
question in a scratch folder, so that a run of any size is read with one part of it in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from pipeline.core.errors import MarkovScaleError
from pipeline.core.prompts import Message
from pipeline.core.protocol import Strategy, decisions
from pipeline.export.source import Cell, Source
from pipeline.records.journal import QUESTION_KEY, as_requested, counting, sound
from pipeline.records.outcome import final_outcomes
from pipeline.records.question_blocks import Blocks, write_blocks
from pipeline.records.questions import question_of
from pipeline.records.run_dir import rows_of
from pipeline.records.trajectory import SCHEMA, Row, address_of, observation_of
from pipeline.store.storage import Folder
from pipeline.store.streams import scratch

_QUESTION = QUESTION_KEY[1:]
_ROWS = 256  # outcomes that are Python objects at a time


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


def prompts_of(cell: Cell, sample: Sample) -> list[tuple[Message, ...]]:
    """The messages of each round as the strategy asked them, driven over what is recorded.

    Fewer than there are rounds where what is recorded is not what would be asked, and none of
    strategies that run in phases.
    """
    strategy, prompts = cell.strategy, list[tuple[Message, ...]]()
    if len(strategy.phases()) > 1 or type(strategy).prepare is not Strategy.prepare:
        return prompts
    steps = decisions(strategy, question_of(sample.question))
    try:
        requests = next(steps)
        while True:
            rows = sample.rounds[len(prompts) : len(prompts) + len(requests)]
            if [row["request_digest"] for row in rows] != [one.digest() for one in requests]:
                return prompts
            prompts += [request.messages for request in requests]
            pairs = zip(rows, requests, strict=True)
            requests = steps.send([as_requested(observation_of(row), one) for row, one in pairs])
    except (StopIteration, MarkovScaleError):
        return prompts


def samples(source: Source, *, texts: bool = True) -> Iterator[tuple[Cell, Iterator[Sample]]]:
    """Each cell with its samples, in the order of the questions; to be read in this order.

    Args:
        source: the run.
        texts: whether the journal is read; without it samples have no rounds.
    """
    cells = {(cell.label, cell.benchmark): cell for cell in source.cells}
    for key, found in groupby(
        _samples(source, texts), lambda s: (s.outcome["strategy"], s.outcome["benchmark"])
    ):
        yield cells[key], found


def _samples(source: Source, texts: bool) -> Iterator[Sample]:
    place = {
        key: number
        for number, key in enumerate(
            zip(*(source.question_table[name].to_pylist() for name in _QUESTION), strict=True)
        )
    }
    outcomes = _ordered(source, place)
    with scratch() as folder:
        drawn = _drawn(source, outcomes, folder) if texts else None
        for key, rows in groupby(_rows(outcomes), lambda row: tuple(row[k] for k in QUESTION_KEY)):
            for outcome in final_outcomes(list(rows), source.strategies):
                rounds = _rounds(outcome, drawn.rows(key)) if drawn else ()
                [question] = source.question_table.slice(place[key[1:]], 1).to_pylist()
                yield Sample(question=question, outcome=outcome, rounds=rounds)


def _ordered(source: Source, place: dict[tuple[str, str], int]) -> pa.Table:
    """All outcomes in the order of cells and questions."""
    outcomes = source.run.outcomes()
    cell = {(c.label, c.benchmark): number for number, c in enumerate(source.cells)}
    keys = list(zip(*(outcomes[name].to_pylist() for name in QUESTION_KEY), strict=True))
    at = np.array([cell.get(key[:2], -1) for key in keys], dtype=np.int64)
    question = np.array([place.get(key[1:], -1) for key in keys], dtype=np.int64)
    order = np.lexsort((question, at))
    return outcomes.take(order[(at[order] >= 0) & (question[order] >= 0)])


def _rows(outcomes: pa.Table) -> Iterator[Row]:
    """Outcomes as Python objects, a few at a time."""
    for start in range(0, len(outcomes), _ROWS):
        yield from rows_of(outcomes.slice(start, _ROWS))


def _drawn(source: Source, outcomes: pa.Table, folder: Folder) -> Blocks:
    """The journal's rows of these outcomes, in their order."""
    journal = source.run.journal
    keys = zip(*(outcomes[name].to_pylist() for name in QUESTION_KEY), strict=True)
    tables = (table for _, table in sound(journal, counting(journal), corrupt=[]))
    write_blocks(folder, tables, list(dict.fromkeys(keys)))
    return Blocks(folder)


def _rounds(outcome: Row, recorded: list[Row]) -> tuple[Row, ...]:
    """The recorded rows that an outcome tells of, in its order; redone work is left out.

    What the journal does not hold (any more) is exported as far as the outcome has it.
    """
    left = sorted(recorded, key=address_of)
    rounds = []
    for answer, score, tokens, verdict in zip(
        *(outcome[f"round_{what}"] for what in ("answers", "scores", "tokens", "verdicts")),
        strict=True,
    ):
        fields = {"answer": answer, "completion_tokens": tokens}
        if score is not None:
            fields["score"] = score
        found = next((row for row in left if all(row[k] == v for k, v in fields.items())), None)
        if found is None:
            found = {**dict.fromkeys(SCHEMA.names), **fields}
        else:
            left.remove(found)
        rounds.append({**found, "score": score, "verdict": verdict})
    return tuple(rounds)
