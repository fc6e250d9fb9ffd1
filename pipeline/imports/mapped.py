"""*read_mapped*: reads any other log by a YAML file that says which field holds what.

A row is a completion, or a question whose fields are lists with one value a completion. A name may
be nested (``doc.problem``, ``messages.1.content``); ``turns[].text`` is the list of all ``text``
within ``turns``, and ``answers[]`` the list that a cell of a CSV file holds as JSON.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field, ValidationError

from pipeline.benchmarks.fields import value_at
from pipeline.config.errors import described
from pipeline.config.schema import Section
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Pool
from pipeline.imports.entries import (
    Context,
    Entry,
    Log,
    count_of,
    label_of,
    number_of,
    text_of,
)
from pipeline.store.local import read_fields
from pipeline.store.log_files import LogFile

_LISTED = ("text", "answer", "right", "score", "tokens", "stop", "error")


class LogMap(Section):
    """Which field of a row holds what; None where there is none."""

    question_id: str
    """Rows with the same value are completions of one question."""
    question: str | None = None
    gold: str | None = None
    """The reference answer."""
    level: str | None = None
    text: str | None = None
    """The reply: answers are extracted from it."""
    answer: str | None = None
    """The extracted answer, where there is no text."""
    right: str | None = None
    """The log's own label: true or false, 1 or 0, C or I."""
    score: str | None = None
    tokens: str | None = None
    """Completion tokens."""
    prompt_tokens: str | None = None
    stop: str | None = None
    """The model's own flag that no further revision is needed: true or false, 1 or 0."""
    error: str | None = None
    """Where it holds anything, the request failed."""
    errors: tuple[str, ...] = ()
    """Texts or beginnings of texts that are errors and no replies, such as ``API_ERROR``."""
    model: str | None = None
    benchmark: str | None = None
    round: str | None = None
    """The place in a chain: rows are rounds."""
    sample: str | None = None
    """The number of a sample: rows are samples."""
    chain: str | None = None
    """What tells several chains of one question apart (an agent, a seed)."""
    rows: Literal["rounds", "samples"] | None = None
    """What the completions are where neither `round` nor `sample` is named."""
    only: dict[str, Any] = Field(default_factory=dict)
    """Rows count where these fields have these values."""
    context: Context = "unknown"
    """What a later round was shown."""
    score_map: Literal["identity", "sigmoid", "percent", "exp"] | None = None
    scores: str = ""
    """What gave the scores; the name of their field where it is not said."""
    split: str | None = None
    """A field of which each value is a pool of its own."""

    @property
    def pool(self) -> Pool:
        """What completions are.

        Raises:
            ConfigError: where the map does not say.
        """
        if self.round is not None or self.rows == "rounds":
            return Pool.SEQUENTIAL
        if self.sample is not None or self.rows == "samples":
            return Pool.PARALLEL
        raise ConfigError(
            "a map must say what completions are: name round or sample, or set rows to rounds or "
            "samples"
        )


def read_map(path: str) -> LogMap:
    """The map in a YAML file.

    Raises:
        ConfigError: naming the field, what must hold and what came.
    """
    try:
        made = LogMap.model_validate(read_fields(path, "a map"))
    except ValidationError as error:
        raise ConfigError(described(error)) from error
    if made.text is None and made.answer is None:
        raise ConfigError(
            "a map must name text or answer: votes are counted by answers, got neither"
        )
    return made


def read_mapped(files: Sequence[LogFile], fields: LogMap) -> dict[str, Log]:
    """Read rows by a map.

    Returns:
        A log by value of `LogMap.split`; of "" alone where the map does not split.
    """
    scores = fields.scores or fields.score or ""
    new = partial(Log, context=fields.context, scores=scores, score_map=fields.score_map)
    logs, unread = defaultdict[str, Log](new), Log()
    for file in files:
        for where, row in unread.rows_of(file):
            if any(_different(row, name, value) for name, value in fields.only.items()):
                continue
            part = "" if fields.split is None else text_of(value_at(row, fields.split)) or "none"
            log = logs[part]
            try:
                log.entries += _entries(row, where, fields, len(log.entries))
            except DataError as error:
                log.refused.append(f"{error} in {where}")
    first = next(iter(logs.values())) if logs else logs[""]
    first.refused[:0], first.bad_files = unread.refused, unread.bad_files
    return {part: log for part, log in logs.items() if log.entries or len(logs) == 1}


def _different(row: Mapping[str, Any], name: str, wanted: Any) -> bool:
    found = value_at(row, name)
    return found != wanted and text_of(found) != text_of(wanted)


def _entries(row: Mapping[str, Any], where: str, fields: LogMap, position: int) -> Iterator[Entry]:
    name = text_of(_value(row, fields.question_id, needed=True))
    if not name:
        raise DataError(f"a row must have {fields.question_id}, got null")
    values = {what: _value(row, getattr(fields, what), needed=True) for what in _LISTED}
    lists = {what: value for what, value in values.items() if isinstance(value, list)}
    if lists and not (isinstance(values["text"], list) or isinstance(values["answer"], list)):
        lists = {}
    counts = {what: len(value) for what, value in lists.items()}
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{what} {count}" for what, count in counts.items())
        raise DataError(f"lists of one row must be of one length, got {counted}")
    gold = _value(row, fields.gold)
    golds = gold if isinstance(gold, list) else [gold]
    for number in range(next(iter(counts.values()), 1)):
        one = {what: lists[what][number] if what in lists else values[what] for what in _LISTED}
        text = text_of(one["text"])
        yield Entry(
            where=where,
            question_id=name,
            pool=fields.pool,
            place=number if lists else _place(row, fields.round or fields.sample, position),
            chain=text_of(_value(row, fields.chain)) or "",
            benchmark=text_of(_value(row, fields.benchmark)),
            model=text_of(_value(row, fields.model)),
            question=text_of(_value(row, fields.question)),
            gold=tuple(known for each in golds if (known := text_of(each)) is not None),
            level=text_of(_value(row, fields.level)),
            text=text,
            answer=text_of(one["answer"]),
            right=label_of(one["right"]),
            score=number_of(one["score"]),
            tokens=count_of(one["tokens"]),
            prompt_tokens=count_of(_value(row, fields.prompt_tokens)),
            says_stop=label_of(one["stop"]),
            error=_error(one["error"], text, fields.errors),
        )


def _error(error: Any, text: str | None, errors: Sequence[str]) -> str | None:
    if error not in (None, "", False):
        return str(error)
    return next((text for one in errors if text is not None and text.startswith(one)), None)


def _place(row: Mapping[str, Any], name: str | None, absent: int) -> int:
    if name is None:
        return absent
    found = number_of(_value(row, name, needed=True))
    if found is None:
        raise DataError(f"{name} must be a number, got {_value(row, name)!r}")
    return int(found)


def _list_in(cell: str) -> list[Any]:
    """The list that a cell of a CSV file holds as JSON."""
    try:
        found = json.loads(cell)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise DataError(f"a cell named with [] must hold a JSON list, got {cell[:80]!r}")
    return found


def _value(row: Mapping[str, Any], name: str | None, *, needed: bool = False) -> Any:
    """What a name gives; with ``[]`` the list of what it gives within a list."""
    if name is None:
        return None
    before, listed, after = name.partition("[]")
    found = value_at(row, before)
    if found is None and needed and before.partition(".")[0] not in row and before not in row:
        raise DataError(f"a row must have {before}, got {', '.join(sorted(map(str, row))[:12])}")
    if not listed:
        return found
    parts = _list_in(found) if isinstance(found, str) else found if isinstance(found, list) else []
    rest = after.removeprefix(".")
    return [value_at(part, rest) if rest and isinstance(part, Mapping) else part for part in parts]
