"""*Outcomes*: write and read one row a question and strategy: its stop, cost and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.answers.answer_rules import RULES, Chosen, Rule, apply
from pipeline.answers.verdict import Verdict
from pipeline.core.errors import DataError
from pipeline.core.protocol import (
    Belief,
    Completion,
    Failure,
    Observation,
    Phase,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.records.journal import Corrupt
from pipeline.records.segments import Fences
from pipeline.records.trajectory import Row, Seen
from pipeline.store.parquet import parquet_bytes, parquet_table
from pipeline.store.storage import Folder, checksum

TOKEN_KINDS = (
    "completion_tokens",
    "thinking_tokens",
    "prompt_tokens",
    "cached_prompt_tokens",
    "verifier_tokens",
    "judge_tokens",
)
_LATER_KINDS = ("judge_tokens",)
"""Of them, those that outcomes of earlier versions lack: 0 there."""

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("level", pa.string()),
        pa.field("stop_reason", pa.string(), nullable=False),
        pa.field("stop_rounds", pa.list_(pa.int32()), nullable=False),
        pa.field("completions", pa.int32(), nullable=False),
        *(pa.field(f"answer_{rule}", pa.string()) for rule in RULES),
        *(pa.field(f"verdict_{rule}", pa.string()) for rule in RULES),
        pa.field("round_answers", pa.list_(pa.string()), nullable=False),
        pa.field("round_scores", pa.list_(pa.float64()), nullable=False),
        pa.field("round_verdicts", pa.list_(pa.string()), nullable=False),
        pa.field("round_tokens", pa.list_(pa.int64()), nullable=False),
        *(pa.field(kind, pa.int64(), nullable=False) for kind in TOKEN_KINDS),
        pa.field("wasted_tokens", pa.int64(), nullable=False),
        pa.field("tokens_unknown", pa.int32(), nullable=False),
        pa.field("p0", pa.float64()),
        pa.field("p0_source", pa.string()),
        pa.field("a", pa.float64()),
        pa.field("b", pa.float64()),
        pa.field("posterior_path", pa.list_(pa.float64()), nullable=False),
        pa.field("seconds", pa.float64()),
        pa.field("error", pa.string()),
        # what the outcome rests on: its writer, and the writer's last durable segment
        pa.field("epoch", pa.string()),
        pa.field("sequence", pa.int32()),
    ]
)


def columns_of(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The columns of some answer rules: all answers, then all verdicts."""
    known = tuple(rules)
    return tuple(f"{what}_{rule}" for what in ("answer", "verdict") for rule in known)


def schema_of(rules: Sequence[Rule]) -> pa.Schema:
    """`SCHEMA`, and behind it the columns of users' own rules among `rules`."""
    own = columns_of(rule for rule in rules if rule not in RULES)
    return pa.schema([*SCHEMA, *(field_of(name) for name in own)])


def field_of(column: str) -> pa.Field:
    """The field of a column of outcomes, one of a user's own rule among them.

    Raises:
        KeyError: at a column that no outcome has.
    """
    if column not in SCHEMA.names and column.startswith(("answer_", "verdict_")):
        return pa.field(column, pa.string())
    return SCHEMA.field(column)


def outcome_of(
    *,
    run: str,
    attempt: int,
    strategy: str,
    phase: str,
    benchmark: str,
    question_id: str,
    level: str | None,
    stop: Stop,
    observations: Sequence[Observation],
    verdicts: Sequence[str | None],
    wasted_tokens: int,
    seconds: float,
    error: str | None = None,
    unknown_tries: int = 0,
    epoch: str | None = None,
    sequence: int | None = None,
    rules: Sequence[Rule] = RULES,
) -> Row:
    """The outcome row of a question that stopped.

    Args:
        observations: everything drawn, in request order; failures take a position too.
        verdicts: of each observation, in the same order; None for failures.
        wasted_tokens: tokens of attempts that gave no completion.
        seconds: wall time from admission to stop.
        error: what broke the chain itself, where it was no failed request.
        unknown_tries: tries that gave no completion and whose tokens nobody knows.
        epoch, sequence: writer of the journal, and its last durable segment
            (`pipeline.records.segments`).
        rules: that are read.
    """
    belief = stop.belief or Belief()
    failures = [o for o in observations if isinstance(o, Failure)]
    completions = [o for o in observations if isinstance(o, Completion)]
    if error is None and failures and stop.reason is StopReason.FAILED:
        error = failures[-1].error
    row: Row = {
        "run": run,
        "attempt": attempt,
        "strategy": strategy,
        "phase": phase,
        "benchmark": benchmark,
        "question_id": question_id,
        "level": level,
        "stop_reason": stop.reason.value,
        "stop_rounds": list(stop.rounds),
        "completions": len(completions),
        "round_answers": [_answer(o) for o in observations],
        "round_scores": [o.score if isinstance(o, Completion) else None for o in observations],
        "round_verdicts": list(verdicts),
        "round_tokens": [o.completion_tokens for o in observations],
        "wasted_tokens": wasted_tokens + sum(f.completion_tokens or 0 for f in failures),
        "tokens_unknown": unknown_tries + sum(f.completion_tokens is None for f in failures),
        "p0": belief.p0,
        "p0_source": belief.p0_source,
        "a": belief.a,
        "b": belief.b,
        "posterior_path": list(belief.path),
        "seconds": seconds,
        "error": error,
        "epoch": epoch,
        "sequence": sequence,
    }
    for kind in TOKEN_KINDS:
        row[kind] = sum(getattr(completion, kind) for completion in completions)
    for rule in rules:
        chosen = apply(rule, observations, stop)
        row[f"answer_{rule.value}"] = None if chosen is None else chosen.answer
        row[f"verdict_{rule.value}"] = _verdict_of(chosen, verdicts)
    return row


def _answer(observation: Observation) -> str | None:
    return observation.answer if isinstance(observation, Completion) else None


def _verdict_of(chosen: Chosen | None, verdicts: Sequence[str | None]) -> str | None:
    """None where the rule could not be applied; no answer at all is wrong."""
    if chosen is None:
        return None
    return "wrong" if chosen.position is None else verdicts[chosen.position]


def has_failed(row: Seen) -> bool:
    """Whether a question could not be answered to its end."""
    return row["error"] is not None or row["stop_reason"] == StopReason.FAILED.value


def can_apply(rows: Sequence[Seen], rule: Rule) -> bool:
    """Whether a rule gave an answer to any question that did not fail (to any, if all failed)."""
    answered = [row for row in rows if not has_failed(row)] or rows
    return any(row[f"verdict_{rule.value}"] is not None for row in answered)


def counted_verdict(row: Seen, rule: Rule) -> str | None:
    """What a question counts as under a rule: the recorded verdict, or ``wrong`` where the question
    failed, whatever it had answered before. None where the rule could not be applied."""
    if has_failed(row):
        return Verdict.WRONG.value
    verdict: str | None = row[f"verdict_{rule.value}"]
    return verdict


def last_outcomes(outcomes: Sequence[Row], strategies: Mapping[str, Strategy]) -> list[Row]:
    """One outcome a question and strategy, as written: that of the last phase that selected it."""
    return [rows[-1][1] for rows in _by_question(outcomes, strategies).values()]


def final_outcomes(outcomes: Sequence[Row], strategies: Mapping[str, Strategy]) -> list[Row]:
    """One outcome a question and strategy, with what all its phases cost.

    The outcome is that of the last phase that selected the question; questions whose last phase is
    still to come are left out. Completions, tokens and seconds are those of all phases, each
    completion counted once (`pipeline.core.protocol.Phase.stream`).
    """
    return [
        _billed(rows) for rows in _by_question(outcomes, strategies).values() if rows[-1][0].answers
    ]


BILL = ("completions", *TOKEN_KINDS, "wasted_tokens", "tokens_unknown")
"""What all phases of a question cost together."""


def _by_question(
    outcomes: Sequence[Row], strategies: Mapping[str, Strategy]
) -> dict[tuple[str, str, str], list[tuple[Phase, Row]]]:
    """Outcomes of each question under each strategy, in the order of its phases."""
    phases = {
        (label, phase.name): (number, phase)
        for label, strategy in strategies.items()
        for number, phase in enumerate(strategy.phases())
    }
    found: dict[tuple[str, str, str], list[tuple[int, Phase, Row]]] = {}
    for row in outcomes:
        known = phases.get((row["strategy"], row["phase"]))
        if known is not None:
            key = (row["strategy"], row["benchmark"], row["question_id"])
            found.setdefault(key, []).append((*known, row))
    return {
        key: [(phase, row) for _, phase, row in sorted(rows, key=lambda entry: entry[0])]
        for key, rows in found.items()
    }


def _billed(rows: Sequence[tuple[Phase, Row]]) -> Row:
    """The last row with the bill of all."""
    last = rows[-1][1]
    if len(rows) == 1:
        return last
    deepest: dict[str, Row] = {}
    for phase, row in rows:
        stream = phase.stream
        if stream is None:
            continue
        before = deepest.get(stream)
        if before is None or row["completions"] >= before["completions"]:
            deepest[stream] = row
    seconds = [row["seconds"] for _, row in rows if row["seconds"] is not None]
    return {
        **last,
        **{name: sum(row[name] for row in deepest.values()) for name in BILL},
        "seconds": sum(seconds) if seconds else None,
    }


_CHECKED = re.compile(r"outcomes-.+-(?P<sum>[0-9a-f]{16})\.parquet")
_KEY = ("strategy", "phase", "benchmark", "question_id")
_QUESTION = ("strategy", "benchmark", "question_id")
FINAL = (*_KEY, *BILL, "seconds")
"""Columns that final outcomes need, in addition to those that are read."""
_ROWS_AT_ONCE = 4_096
_JUDGED = ("epoch", "sequence", "attempt", "stop_reason")
_DRAWN = "drawn"


def write_outcomes(folder: Folder, writer: str, table: pa.Table) -> str:
    """Write a file of outcomes; returns its name.

    Args:
        folder: of the phase.
        writer: tells its files from those of others.
    """
    data = parquet_bytes(table)
    name = f"outcomes-{writer}-{checksum(data)}.parquet"
    folder.write(name, data)
    return name


def read_outcomes(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a file of outcomes; those that an older file lacks are null.

    Raises:
        DataError: naming the file, where it is torn or changed.
    """
    data = folder.read(name)
    where = f"{folder.address}/{name}"
    match = _CHECKED.fullmatch(name)
    if match is not None and checksum(data) != match["sum"]:
        raise DataError(f"checksum must be {match['sum']}, got {checksum(data)} in {where}")
    table = parquet_table(data, where, list(columns))
    schema = pa.schema([field_of(column) for column in columns])
    arrays = []
    try:
        if match is None:
            table.validate(full=True)
        for column in schema:
            if column.name in table.column_names:
                arrays.append(table[column.name].cast(column.type))
            elif column.name in _LATER_KINDS:
                arrays.append(pa.array(np.zeros(table.num_rows, np.int64)))
            else:
                arrays.append(pa.nulls(table.num_rows, column.type))
            if not column.nullable and arrays[-1].null_count:
                raise DataError(f"{column.name} must have no nulls in {where}")
    except pa.ArrowException as error:
        raise DataError(f"outcomes must have the columns of an outcome in {where}: {error}") from (
            error
        )
    return pa.Table.from_arrays(arrays, schema=schema)


def files_of(root: Folder, phase: str | None = None) -> Iterator[tuple[Folder, str]]:
    """Every file of outcomes with its folder; of one phase folder alone where it is named."""
    for name in root.folders():
        if phase is None or name == phase:
            folder = root.child(name)
            yield from ((folder, file) for file in folder.names() if file.endswith(".parquet"))


def set_aside_torn(root: Folder) -> list[Corrupt]:
    """Move files that are torn or changed to ``corrupt/`` below their folders."""
    torn = []
    for folder, name in files_of(root):
        try:
            read_outcomes(folder, name, _KEY if _CHECKED.fullmatch(name) else SCHEMA.names)
        except DataError as error:
            torn.append(Corrupt(name, str(error)))
            folder.move(name, f"corrupt/{name}")
    return torn


def standing(
    root: Folder,
    columns: Sequence[str],
    fences: Fences,
    depths: Mapping[str, int],
    phase: str | None = None,
) -> pa.Table:
    """The columns of the outcomes that stand (`pipeline.records.run_dir.RunDir.outcomes`).

    One file is unpacked at a time; those that are torn are left out.
    """
    needed = list(dict.fromkeys([*columns, *_KEY, *_JUDGED]))
    schema = pa.schema([field_of(name) for name in needed]).append(pa.field(_DRAWN, pa.int32()))
    tables = [schema.empty_table()]
    for folder, name in files_of(root, phase):
        try:
            table = read_outcomes(folder, name, list(dict.fromkeys([*needed, "round_answers"])))
        except DataError:
            continue
        drawn = pc.list_value_length(table["round_answers"])
        tables.append(table.select(needed).append_column(schema.field(_DRAWN), drawn))
    table = pa.concat_tables(tables)
    counting = _count(table, fences)
    if not pc.all(counting).as_py():
        table = table.filter(counting)
    best = _best(table, depths)
    # taking them all would only copy them
    return (table if len(best) == table.num_rows else table.take(best)).select(columns)


def final_rows(table: pa.Table, strategies: Mapping[str, Strategy]) -> Iterator[Row]:
    """As `pipeline.records.outcome.final_outcomes`, in that order, a few thousand rows in memory.

    Args:
        table: at least `FINAL` of the outcomes that stand.
        strategies: by label.
    """
    keys = _numbered(table, _QUESTION)
    _, first, at = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first[at], kind="stable")  # rows of one question side by side
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    ends = [*starts[_ROWS_AT_ONCE::_ROWS_AT_ONCE].tolist(), len(order)]
    begin = 0
    for end in ends:
        yield from final_outcomes(_rows_at(table, order[begin:end]), strategies)
        begin = end


def _rows_at(table: pa.Table, places: np.ndarray) -> list[Row]:
    """Some rows; those that lie side by side are not copied, for which Arrow copies the table."""
    first, last = (int(places.min()), int(places.max())) if len(places) else (0, -1)
    near = table.slice(first, last - first + 1)
    if not np.array_equal(places, np.arange(first, first + len(places))):
        near = near.take(pa.array(places - first))
    rows: list[Row] = near.to_pylist()
    return rows


def _numbered(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """A number a row, the same for rows with the same values."""
    keys = np.zeros(table.num_rows, dtype=np.int64)
    for column in columns:
        codes, values = _codes(table[column])
        _, keys = np.unique(keys * max(1, len(values)) + codes, return_inverse=True)
    return keys


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str | None]]:
    """Numbers of the values of a column, and the values."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()


def _count(table: pa.Table, fences: Fences) -> pa.Array:
    """Which outcomes have rounds that the journal holds and accepts; those of none all count."""
    codes, epochs = _codes(table["epoch"])
    last = np.array([-1 if e is None else fences.whole_until(e) for e in epochs], dtype=np.int64)
    free = np.array([epoch is None for epoch in epochs], dtype=bool)
    sequence = pc.fill_null(table["sequence"], -1).to_numpy()
    return pa.array(free[codes] | (sequence <= last[codes]) if len(epochs) else codes.astype(bool))


def _best(table: pa.Table, depths: Mapping[str, int]) -> pa.Array:
    """Rows of the newest outcome of each key, then the deepest, then the first; those of pools
    that are to become deeper are left out."""
    keys = _numbered(table, _KEY)
    labels, names = _codes(table["strategy"])
    drawn, attempt = (table[name].to_numpy() for name in (_DRAWN, "attempt"))
    wanted = np.array([depths.get(str(name), 0) for name in names], dtype=np.int64)
    ended = pc.equal(table["stop_reason"], StopReason.BUDGET.value).to_numpy()
    shallow = ended & (drawn < wanted[labels] if len(names) else ended)
    rows = np.flatnonzero(~shallow)
    order = rows[np.lexsort((-rows, drawn[rows], attempt[rows], keys[rows]))]
    last_of_key = np.append(keys[order][1:] != keys[order][:-1], True)[: len(order)]
    return pa.array(np.sort(order[last_of_key]))
