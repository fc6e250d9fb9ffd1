"""*Questions*: writes and reads the table of a run's questions with their priors."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.benchmarks import Item
from pipeline.config.science import PriorsConfig
from pipeline.core.errors import DataError
from pipeline.core.forms import Form
from pipeline.core.prompts import Message
from pipeline.core.protocol import Priors, Question
from pipeline.core.seeds import question_seed
from pipeline.records.trajectory import Row
from pipeline.store.local import is_file, read_text, shipped_path
from pipeline.store.row_files import read_rows
from pipeline.store.storage import Folder

SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("gold", pa.string()),
        pa.field("level", pa.string()),
        pa.field("subject", pa.string()),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("p0", pa.float64()),
        pa.field("p0_source", pa.string()),
        pa.field("a", pa.float64()),
        pa.field("b", pa.float64()),
        pa.field("tokens_per_round", pa.float64()),
        pa.field("max_tokens", pa.int64()),
    ]
)

QUESTIONS_FILE, QUESTIONS_FOLDER = "questions.parquet", "questions"
"""The questions of a run; further ones, in files of the folder, are of an earlier version."""
_NEEDED = ("benchmark", "question_id", "text", "gold", "seed", "p0", "a", "b")
_MOST_ROW, _MOST_FILE = 1 << 20, 1 << 30
_PRIOR_FIELDS = ("p0", "a", "b", "tokens_per_round")


def questions_table(
    items: Iterable[Item],
    run_seed: int,
    priors: PriorsConfig,
    max_tokens: Mapping[str, int | None] | None = None,
) -> pa.Table:
    """Questions with seeds and priors.

    Args:
        max_tokens: new tokens a completion, by benchmark, where it has a limit of its own.

    Raises:
        DataError: naming the priors file and what in it cannot be.
    """
    known = read_priors(priors.file) if priors.file else {}
    items = list(items)
    _check_matches(known, items, priors.file)
    limits = max_tokens or {}
    rows = [
        {**_row(item, run_seed, priors, known), "max_tokens": limits.get(item.benchmark)}
        for item in items
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _check_matches(
    known: Mapping[tuple[str | None, str | None], Any], items: Sequence[Item], path: str | None
) -> None:
    """Refuse a priors file whose questions are none of the run's."""
    keys = {(item.benchmark, item.question_id) for item in items}
    ids = {question_id for _, question_id in keys}
    rows = [key for key in known if key != (None, None)]
    if rows and items and not any(k in keys or (k[0] is None and k[1] in ids) for k in rows):
        benchmarks = ", ".join(dict.fromkeys(item.benchmark for item in items))
        raise DataError(
            f"science.priors.file must name questions of {benchmarks}, got {len(rows):,} others, "
            f"such as {rows[0]}, in {path}"
        )


def read_questions(folder: Folder) -> pa.Table:
    """The questions of a run or an exported pool; those of earlier versions may lack a column.

    Raises:
        DataError: where they are missing, torn, or something else.
    """
    if not folder.has(QUESTIONS_FILE):
        raise DataError(f"{folder.address} must hold {QUESTIONS_FILE}, it does not")
    table, where = folder.read_table(QUESTIONS_FILE), f"{folder.address}/{QUESTIONS_FILE}"
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise DataError(f"{where} must have {', '.join(_NEEDED)}, it lacks {', '.join(missing)}")
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise DataError(f"{where} must hold readable text, got: {error}") from error
    later = folder.child(QUESTIONS_FOLDER)
    tables = [later.read_table(name) for name in later.names()]
    return pa.concat_tables([table, *tables], promote_options="default") if tables else table


def question_of(row: Mapping[str, Any]) -> Question:
    """The question that strategies see: without gold."""
    priors = Priors(p0_source=row["p0_source"], **{name: row[name] for name in _PRIOR_FIELDS})
    return Question(
        benchmark=row["benchmark"],
        question_id=row["question_id"],
        text=row["text"],
        seed=row["seed"],
        priors=priors,
        max_tokens=row["max_tokens"],
        turns=tuple(Message(*turn) for turn in json.loads(row.get("turns") or "[]")),
        form=None if row.get("form") is None else Form(row["form"]),
    )


def read_priors(path: str) -> dict[tuple[str | None, str | None], dict[str, Any]]:
    """Priors by (benchmark, question_id); (None, None) holds those of every question.

    A JSON file gives ``a`` and ``b`` for every question. A table (JSONL, CSV, Parquet) has a row a
    question; without a ``benchmark`` column its ids must be unique over the run.
    """
    path = shipped_path(path)
    if not is_file(path):
        raise DataError(
            f"science.priors.file must be a file, got {path!r} (relative paths start at the folder "
            "in which the command is run)"
        )
    if path.endswith(".json"):
        return {(None, None): _checked(_object(path), path)}
    known: dict[tuple[str | None, str | None], dict[str, Any]] = {}
    for found in read_rows(path, max_row_bytes=_MOST_ROW, max_file_bytes=_MOST_FILE):
        where = found.where
        if found.row is None:
            raise DataError(f"{found.problem}, in {where}")
        row = {name: value for name, value in found.row.items() if value not in ("", None)}
        if row.get("question_id") is None:
            raise DataError(f"a priors row must have a question_id, got {sorted(row)} in {where}")
        key = (row.get("benchmark"), str(row["question_id"]))
        if key in known:
            raise DataError(
                f"a question must have one priors row, got a second of {key} in {where}"
            )
        known[key] = _checked(row, where)
    return known


def _row(
    item: Item,
    run_seed: int,
    priors: PriorsConfig,
    known: Mapping[tuple[str | None, str | None], dict[str, Any]],
) -> Row:
    believed = (
        known.get((item.benchmark, item.question_id))
        or known.get((None, item.question_id))
        or known.get((None, None))
        or {}
    )
    own = {name: believed.get(name) for name in _PRIOR_FIELDS}
    if priors.a is not None:
        own.update(a=priors.a, b=priors.b)
    return {
        "benchmark": item.benchmark,
        "question_id": item.question_id,
        "text": item.text,
        "gold": item.gold,
        "level": item.level,
        "subject": item.subject,
        "seed": question_seed(run_seed, item.benchmark, item.question_id),
        "p0_source": "priors_file" if own["p0"] is not None else None,
        **own,
    }


def _object(path: str) -> dict[str, Any]:
    try:
        value = json.loads(read_text(path))
    except ValueError as error:
        raise DataError(f"priors must be JSON, got {error} in {path}") from error
    if not isinstance(value, dict):
        raise DataError(f"priors must be an object, got {type(value).__name__} in {path}")
    return value


def _checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Only the fields of priors, each in its range. A file-wide p0 is left out: one belief for
    every question would gate all of them at once."""
    names = _PRIOR_FIELDS if "question_id" in values else ("a", "b", "tokens_per_round")
    checked: dict[str, Any] = {}
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        high = float("inf") if name == "tokens_per_round" else 1.0
        with contextlib.suppress(ValueError):
            value = float(value) if isinstance(value, str) else value
        if not isinstance(value, int | float) or not 0 <= value <= high:
            raise DataError(f"{name} must be in [0, {high:g}], got {value!r} in {where}")
        checked[name] = float(value)
    return checked
