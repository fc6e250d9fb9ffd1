"""*Trajectory*: the schema of recorded completions, shared by journals, pools and exports.

One row is one completion (or one failed request). Its key is (strategy, benchmark, question_id,
pool, chain, round, sample, attempt); `strategy` is the label of the strategy in its run, or the
pool's name in a collection. question_id is unique within its benchmark only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa

from pipeline.core.errors import DataError
from pipeline.core.protocol import Completion, Failure, Observation, Question, Request

SCHEMA_VERSION = 3
"""Rises with every new column; tables of lower versions stay readable."""
LATER = (
    *("token_confidence", "least_token_confidence", "token_entropy", "says_stop"),
    *("judge_tokens", "feedback"),
)
"""Columns that tables of earlier runs may lack; a new one goes here and to the end of `SCHEMA`."""

_VERSION_KEY = b"markovscale_trajectory_version"

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("pool", pa.string(), nullable=False),
        pa.field("chain", pa.int32(), nullable=False),
        pa.field("round", pa.int32(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("request_digest", pa.string(), nullable=False),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("cached_prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),  # null where the engine could not say
        pa.field("thinking_tokens", pa.int64()),
        pa.field("verifier_tokens", pa.int64()),
        pa.field("wasted_tokens", pa.int64()),  # of tries that were cut, lost or cancelled
        pa.field("unknown_tries", pa.int32()),  # tries whose tokens no engine can tell
        pa.field("text", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("answer", pa.string()),
        pa.field("step_scores", pa.list_(pa.float64())),
        pa.field("score", pa.float64()),
        pa.field("prm_truncated", pa.bool_()),
        pa.field("verdict", pa.string()),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("generator", pa.string()),
        pa.field("verifier", pa.string()),
        pa.field("seconds", pa.float64()),
        pa.field("error", pa.string()),
        pa.field("token_confidence", pa.float64()),  # pipeline.core.confidence
        pa.field("least_token_confidence", pa.float64()),
        pa.field("token_entropy", pa.float64()),
        pa.field("says_stop", pa.bool_()),  # null where no stop flag is looked for
        pa.field("judge_tokens", pa.int64()),
        pa.field("feedback", pa.string()),
    ],
    metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode()},
)

Row = dict[str, Any]
Seen = Mapping[str, Any]
"""A row that is only looked at."""


def row_of(
    *,
    run: str,
    attempt: int,
    strategy: str,
    question: Question,
    request: Request,
    observation: Observation,
    wasted_tokens: int = 0,
    unknown_tries: int = 0,
    generator: str | None = None,
    verifier: str | None = None,
    seconds: float | None = None,
    digest: str | None = None,
    verdict: str | None = None,
) -> Row:
    """What is recorded of one observation.

    Args:
        verdict: of a judge; those of other graders are found when the chain has stopped.
    """
    pool, chain, round_, sample = request.address
    row: Row = dict.fromkeys(SCHEMA.names)
    row.update(
        run=run,
        attempt=attempt,
        strategy=strategy,
        benchmark=question.benchmark,
        question_id=question.question_id,
        pool=pool,
        chain=chain,
        round=round_,
        sample=sample,
        request_digest=digest or request.digest(),
        wasted_tokens=wasted_tokens,
        unknown_tries=unknown_tries,
        seed=request.seed,
        generator=generator,
        verifier=verifier,
        seconds=seconds,
        verdict=verdict,
    )
    match observation:
        case Failure():
            row.update(error=observation.error, completion_tokens=observation.completion_tokens)
        case Completion():
            row.update({name: getattr(observation, name) for name in _COMPLETION_FIELDS})
            if observation.step_scores is not None:
                row["step_scores"] = list(observation.step_scores)
    return row


_COMPLETION_FIELDS = tuple(field.name for field in fields(Completion))

_COUNTED = ("completion_tokens", "judge_tokens")
"""Null where a pool does not say, or is of a time without them; 0 in a `Completion`."""


def observation_of(row: Mapping[str, Any]) -> Observation:
    """The observation that a row records; the inverse of `row_of`."""
    if row["error"] is not None:
        return Failure(error=row["error"], completion_tokens=row["completion_tokens"])
    values: dict[str, Any] = {n: row.get(n) if n in LATER else row[n] for n in _COMPLETION_FIELDS}
    if values["step_scores"] is not None:
        values["step_scores"] = tuple(values["step_scores"])
    for name in _COUNTED:
        values[name] = values[name] or 0
    return Completion(**values)


def observations_of(table: pa.Table) -> list[Observation]:
    """The observations of all rows of a table of this schema: `observation_of` of each, faster."""
    columns = {name: table[name].to_pylist() for name in _COMPLETION_FIELDS}
    columns["step_scores"] = [s if s is None else tuple(s) for s in columns["step_scores"]]
    paid = columns["completion_tokens"]
    for name in _COUNTED:
        columns[name] = [tokens or 0 for tokens in columns[name]]
    return [
        Completion(**dict(zip(_COMPLETION_FIELDS, values, strict=True)))
        if error is None
        else Failure(error=error, completion_tokens=tokens)
        for error, tokens, *values in zip(
            table["error"].to_pylist(), paid, *columns.values(), strict=True
        )
    ]


def address_of(row: Mapping[str, Any]) -> tuple[str, int, int, int]:
    """(pool, chain, round, sample) of a row, as `Request.address` gives it."""
    return (row["pool"], row["chain"], row["round"], row["sample"])


_ROWS_AT_ONCE = 128  # converting holds the interpreter lock; event loops must come in between


def table_of(rows: Iterable[Row]) -> pa.Table:
    """Rows as a table of the schema."""
    held = list(rows)
    pieces = [
        pa.Table.from_pylist(held[start : start + _ROWS_AT_ONCE], schema=SCHEMA)
        for start in range(0, len(held), _ROWS_AT_ONCE)
    ]
    return pa.concat_tables(pieces) if pieces else SCHEMA.empty_table()


class NewerFormatError(DataError):
    """A file of a newer version, which this version must neither use nor set aside."""


def as_current(table: pa.Table, where: str) -> pa.Table:
    """A table of this schema version, with nulls for columns that it lacks by its age.

    Raises:
        NewerFormatError: naming the versions, where a newer one wrote the file.
        DataError: naming the file and what is wrong with it.
    """
    found = (table.schema.metadata or {}).get(_VERSION_KEY, b"none").decode()
    version = int(found) if found.isdecimal() else 0
    if version > SCHEMA_VERSION:
        raise NewerFormatError(
            f"a newer version of MarkovScale wrote {where}: its trajectory schema is version "
            f"{version}, this version reads up to {SCHEMA_VERSION}; use the newer version"
        )
    if version < 1:
        raise DataError(
            f"trajectory schema version must be 1 to {SCHEMA_VERSION}, got {found} in {where}"
        )
    missing = sorted(set(SCHEMA.names) - set(table.schema.names) - set(LATER))
    extra = sorted(set(table.schema.names) - set(SCHEMA.names))
    if missing or extra:
        raise DataError(
            f"trajectory columns must be those of version {version}, missing {missing}, "
            f"unknown {extra} in {where}"
        )
    for name in set(LATER) - set(table.schema.names):
        field = SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(len(table), field.type))
    table = table.select(SCHEMA.names)
    if not table.schema.equals(SCHEMA, check_metadata=False):
        wrong = [f for f in table.schema if not f.equals(SCHEMA.field(f.name))]
        raise DataError(f"trajectory columns must be of their types, got {wrong} in {where}")
    return table
