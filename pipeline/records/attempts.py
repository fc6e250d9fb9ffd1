"""The attempts of a run, each in a file that one process alone can create."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline.config.run import RunConfig
from pipeline.core.errors import DataError
from pipeline.store.storage import Folder, fresh_token, json_bytes

_FILE = re.compile(r"\d{4,}\.json")
_FIELDS = frozenset({"attempt", "token", "retry_failed", "config"})
_MOST_TRIES = 1_000

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AttemptEntry:
    """What is written down of an attempt before it begins."""

    number: int
    token: str
    """Tells apart two attempts that took the same number at once."""
    retry_before: int | None
    """Questions that failed in attempts before this one are taken up again."""
    config: RunConfig


def read_attempts(run: Folder) -> list[Entry]:
    """One entry an attempt, oldest first; [] where there is none.

    Runs of earlier versions list them in attempts.json.

    Raises:
        DataError: naming what is no entry.
    """
    old = run.read_json("attempts.json") if run.has("attempts.json") else []
    if not isinstance(old, list):
        raise DataError(f"{run.address}/attempts.json must be a list of attempts")
    folder = run.child("attempts")
    names = sorted((n for n in folder.names() if _FILE.fullmatch(n)), key=lambda n: (len(n), n))
    entries = [*old, *(folder.read_json(name) for name in names)]
    for entry in entries:
        if not isinstance(entry, dict) or not entry.keys() >= _FIELDS:
            raise DataError(
                f"attempts must have {', '.join(sorted(_FIELDS))}, one of {run.address} has not"
            )
    return [entry for entry in entries if not entry.get("refused")]


def begin_attempt(
    run: Folder, config: RunConfig, *, retry_failed: bool, taken: Iterable[int]
) -> AttemptEntry:
    """Write a new attempt down, numbered after all others; no other process gets its number.

    Args:
        taken: numbers that attempts of this run had, besides those that are written down.
    """
    entries = read_attempts(run)
    number = max([0, *taken, *(int(entry["attempt"]) for entry in entries)]) + 1
    for _ in range(_MOST_TRIES):
        entry = {
            "attempt": number,
            "token": fresh_token(),
            "retry_failed": retry_failed,
            "science_digest": config.science_digest(),
            "config": config.model_dump(mode="json"),
        }
        if run.child("attempts").create(f"{number:04d}.json", json_bytes(entry)):
            return attempt_entry([*entries, entry], number, run.address)
        number += 1
    raise DataError(f"{run.address}/attempts must take a new file, {_MOST_TRIES} names are taken")


def refuse_attempt(run: Folder, number: int) -> None:
    """Take back an attempt that this very process wrote down and did not begin."""
    folder, name = run.child("attempts"), f"{number:04d}.json"
    folder.write_json(name, {**folder.read_json(name), "refused": True})


def attempt_entry(entries: Iterable[Entry], number: int, where: str) -> AttemptEntry:
    """What was written down of one attempt.

    Raises:
        DataError: where it was not.
    """
    until = [entry for entry in entries if entry["attempt"] <= number]
    own = [entry for entry in until if entry["attempt"] == number]
    if not own:
        raise DataError(f"{where} must hold attempt {number}, it does not")
    retries = [entry["attempt"] for entry in until if entry["retry_failed"]]
    return AttemptEntry(
        number=number,
        token=own[-1]["token"],
        retry_before=max(retries, default=None),
        config=RunConfig.parse(own[-1]["config"], where, recorded=True),
    )
