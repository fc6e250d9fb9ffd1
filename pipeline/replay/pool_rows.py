"""The rows of a pool: read from its files, each with its place, and chosen to answer requests.

A pool is either a run directory, whose journal is the pool, or an exported folder with
``pool.json``, ``questions.parquet`` and ``pool.parquet``. Every error names the file and the row,
counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import DataError
from pipeline.core.protocol import Completion, Observation, Question, Request
from pipeline.records.journal import answering, facts_of, fences_of
from pipeline.records.segments import read_segment, segment_of
from pipeline.records.trajectory import (
    SCHEMA,
    Row,
    address_of,
    as_current,
    observation_of,
    observations_of,
)
from pipeline.replay.exact import Recorded
from pipeline.store.parquet import parquet_groups
from pipeline.store.storage import Folder

POOL_TABLE = "pool.parquet"
LEFT_OUT = "(text not read)"
"""What stands for a text that is not empty where texts are left out."""

_NOT_READ = ("run", "wasted_tokens", "unknown_tries", "seed", "generator", "verifier")
_COLUMNS = [name for name in SCHEMA.names if name not in _NOT_READ]


@dataclass(frozen=True, slots=True)
class Located:
    """A row and where it stands."""

    row: Row
    file: str
    number: int
    """Of the row in its file, from 1."""

    @property
    def where(self) -> str:
        """For messages."""
        return f"row {self.number} of {self.file}"


def journal_rows(journal: Folder, *, text: bool) -> Iterator[Located]:
    """The rows of a journal that count, oldest first; redone work is in it more than once.

    Args:
        journal: the folder of segments.
        text: whether to keep the texts; else a text is only kept as being empty or not.

    Raises:
        DataError: naming the segment that is torn, of another schema version, or holds scores that
            cannot be scores or the same row twice.
    """
    seen: dict[tuple[Any, ...], Located] = {}
    fences = fences_of(journal)
    for name in journal.names():
        place = segment_of(name)
        if place is not None and not fences.counts(*place):
            continue  # of a writer whose work was taken over
        table = read_segment(journal, name)
        for located in _rows(table, f"{journal.address}/{name}", text=text):
            row = located.row
            same = (_key(row), row["attempt"], row["request_digest"], row["seconds"], row["answer"])
            if row["seconds"] is not None and same in seen:
                raise DataError(
                    f"a journal must hold a row once, {located.where} is the same as "
                    f"{seen[same].where}"
                )
            seen[same] = located
            yield located


def exported_rows(folder: Folder, *, text: bool) -> Iterator[Located]:
    """The rows of an exported pool, in which every completion stands once.

    Raises:
        DataError: as `journal_rows`, and where an address of a question comes twice.
    """
    where = f"{folder.address}/{POOL_TABLE}"
    seen: dict[tuple[Any, ...], Located] = {}
    for group in parquet_groups(folder.read(POOL_TABLE), where):
        for located in _rows(as_current(group, where), where, text=text, before=len(seen)):
            key = _key(located.row)
            if key in seen:
                raise DataError(
                    f"a pool must hold every completion once, {located.where} and row "
                    f"{seen[key].number} are both {describe(located.row)}"
                )
            seen[key] = located
            yield located


@dataclass(frozen=True, slots=True)
class Vouched:
    """The rows of an export whose digest vouches for them."""

    rows: Mapping[tuple[str, str, str], Sequence[tuple[Recorded, str | None]]]
    """Entries with verdicts by (strategy, benchmark, question_id), in request order."""
    counted: Sequence[bool]
    """Of each row group, whether the completion tokens of every completion are known."""

    def of(self, label: str, question: Question) -> tuple[list[Recorded], tuple[str | None, ...]]:
        """What a strategy has of a question, and the verdicts."""
        found = self.rows.get((label, question.benchmark, question.question_id), ())
        return [entry for entry, _ in found], tuple(verdict for _, verdict in found)


def vouched_rows(folder: Folder, *, text: bool) -> Vouched:
    """The rows of an export whose digest vouches for them, read column by column.

    Raises:
        DataError: at another schema version, and at scores that cannot be scores.
    """
    where = f"{folder.address}/{POOL_TABLE}"
    found: dict[tuple[str, str, str], list[tuple[Recorded, str | None]]] = {}
    before, counted = 0, list[bool]()
    for group in parquet_groups(folder.read(POOL_TABLE), where):
        table = _checked(as_current(group, where), where, text=text, before=before)
        before += len(table)
        tokenless = pc.and_(pc.is_null(table["completion_tokens"]), pc.is_null(table["error"]))
        counted.append(not pc.any(tokenless).as_py())
        names = ("strategy", "benchmark", "question_id", "pool", "chain", "round", "sample")
        facts = ("request_digest", "seconds", "verdict")
        columns = [table[name].to_pylist() for name in (*names, *facts)]
        for facts_of_row, seen in zip(
            zip(*columns, strict=True), observations_of(table), strict=True
        ):
            label, benchmark, question_id, *address, digest, seconds, verdict = facts_of_row
            pool, chain, round_, sample = address
            entry = Recorded(
                address=(pool, chain, round_, sample),
                digest=digest,
                observation=seen,
                seconds=seconds,
            )
            found.setdefault((label, benchmark, question_id), []).append((entry, verdict))
    for entries in found.values():
        entries.sort(key=lambda one: one[0].address)
    return Vouched(found, counted)


def describe(row: Row) -> str:
    """Which completion a row is, for messages."""
    pool, chain, round_, sample = address_of(row)
    return (
        f"question {row['question_id']!r} of {row['benchmark']!r}, pool {pool}, chain {chain}, "
        f"round {round_}, sample {sample}"
    )


def _key(row: Row) -> tuple[Any, ...]:
    return (row["strategy"], row["benchmark"], row["question_id"], *address_of(row))


def _rows(table: pa.Table, where: str, *, text: bool, before: int = 0) -> Iterator[Located]:
    """Rows of a file, of which so many came before."""
    table = _checked(table, where, text=text, before=before)
    for number, row in enumerate(table.to_pylist(), before + 1):
        yield Located(row, where, number)


def _checked(table: pa.Table, where: str, *, text: bool, before: int) -> pa.Table:
    """The columns of a pool, with scores that can be scores."""
    _check_scores(table, where, before)
    table = table.select(_COLUMNS)
    return table if text else without_texts(table)


def without_texts(table: pa.Table) -> pa.Table:
    """Rows whose texts are only empty or `LEFT_OUT`."""
    marks = pc.if_else(pc.equal(table["text"], ""), "", LEFT_OUT)
    return table.set_column(table.schema.get_field_index("text"), table.schema.field("text"), marks)


def _check_scores(table: pa.Table, where: str, before: int) -> None:
    """Refuse nan and values outside [0, 1] before any row is used."""
    scores = table["score"].combine_chunks()
    bad = _first_bad(scores)
    if bad is not None:
        raise DataError(
            f"score must be in [0, 1], got {scores[bad].as_py()!r} in row "
            f"{before + bad + 1} of {where}"
        )
    steps = table["step_scores"].combine_chunks()
    values, parents = steps.flatten(), pc.list_parent_indices(steps)
    bad = _first_bad(values)
    if bad is not None:
        raise DataError(
            f"step_scores must be in [0, 1], got {values[bad].as_py()!r} in row "
            f"{before + parents[bad].as_py() + 1} of {where}"
        )


def _first_bad(values: pa.Array) -> int | None:
    inside = pc.and_(pc.greater_equal(values, 0.0), pc.less_equal(values, 1.0))  # nan is not
    place = pc.index(inside, False).as_py()
    return None if place < 0 else int(place)


class Digests:
    """`Request.digest`, worked out once for requests that differ in seed and address alone."""

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}

    def of(self, request: Request) -> str:
        """The digest of a request."""
        same = (
            request.messages,
            request.assistant_prefix,
            request.max_tokens,
            request.min_tokens,
            request.temperature,
            request.top_p,
            request.sampling,
            request.stop_token_ids,
        )
        if same not in self._known:
            self._known[same] = request.digest()
        return self._known[same]


class Taken:
    """Answers the requests of one question from its rows, and keeps which rows they were."""

    def __init__(
        self, question: Question, rows: Sequence[Located], address: str, digests: Digests
    ) -> None:
        self._question, self._address = question, address
        self._rows: dict[tuple[str, int, int, int], list[Located]] = {}
        for located in rows:
            self._rows.setdefault(address_of(located.row), []).append(located)
        self._digests = digests
        self.entries: list[Recorded] = []
        self._located: list[Located] = []

    def answer(self, request: Request) -> Observation:
        """What the row says that answers the request (`pipeline.records.journal`)."""
        found = self._rows.get(request.address, ())
        digest = self._digests.of(request)
        located = answering(found, lambda one: facts_of(one.row), request, digest)
        if located is None:
            raise DataError(self._miss(request, found))
        observation = observation_of(located.row)
        self._located.append(located)
        self.entries.append(
            Recorded(
                address=request.address,
                digest=digest,
                observation=observation,
                seconds=located.row.get("seconds"),
            )
        )
        return observation

    @property
    def places(self) -> list[tuple[str, int]]:
        """(file, row) of each row taken, in request order."""
        return [(located.file, located.number) for located in self._located]

    def verdicts(
        self, outcomes: Mapping[tuple[str, str, str], Row] | None, key: tuple[str, str, str]
    ) -> tuple[str | None, ...]:
        """Of an exported pool those of the rows, of a run those of its outcome."""
        if outcomes is None:
            return tuple(located.row["verdict"] for located in self._located)
        outcome = outcomes.get(key)
        have = [] if outcome is None else outcome["round_answers"]
        answers = [_answer(entry.observation) for entry in self.entries]
        if outcome is None or len(have) < len(answers):
            raise DataError(
                f"every question of a pool must have been graded, {key[2]!r} of {key[1]!r} was "
                f"not for {key[0]}: finish the run with --resume {self._address}"
            )
        if have[: len(answers)] != answers:
            raise DataError(
                f"outcome and journal must agree on the answers, they do not for {key[2]!r} of "
                f"{key[1]!r}, {key[0]}, in {self._address}"
            )
        return tuple(outcome["round_verdicts"][: len(answers)])

    def _miss(self, request: Request, found: Sequence[Located]) -> str:
        pool, chain, round_, sample = request.address
        what = (
            f"question {self._question.question_id!r} of {self._question.benchmark!r}, "
            f"pool {pool}, chain {chain}, round {round_}, sample {sample}"
        )
        if found:
            return (
                f"{found[0].where} must be the completion of its request, prompt, sampling "
                f"parameters or score differ: {what}"
            )
        missing = f"{what} is missing in {self._address}"
        rest = "; a run that was stopped or capped must be resumed to its end first"
        if not self._located:
            return f"{missing}, which has nothing of it{rest}"
        return f"{missing}: the one before it is {self._located[-1].where}{rest}"


def _answer(observation: Observation) -> str | None:
    return observation.answer if isinstance(observation, Completion) else None
