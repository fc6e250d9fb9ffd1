"""*answering*: finds which of several recorded entries answers a request.

The one rule for journals, pools and replays: work may have been redone, and a failure may have been
tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from pipeline.core.protocol import Failure, Observation, Request

T = TypeVar("T")


class Facts(NamedTuple):
    """What of an entry decides."""

    digest: str
    """`Request.digest` of the request that it was recorded for."""
    failed: bool
    scored: bool


def facts_of(row: Mapping[str, Any]) -> Facts:
    """The facts of a row (`pipeline.records.trajectory`)."""
    return Facts(row["request_digest"], row["error"] is not None, row["score"] is not None)


def answering(
    entries: Iterable[T], facts: Callable[[T], Facts], request: Request, digest: str
) -> T | None:
    """The entry that answers `request`: the first completion, else the last failure.

    Args:
        entries: recorded at the request's address, older first.
        facts: of an entry.
        request: a completion without a score does not answer one that asks for a score.
        digest: `Request.digest` of `request`; entries of another digest answer something else.
    """
    failure = None
    for entry in entries:
        fact = facts(entry)
        if fact.digest != digest:
            continue
        if fact.failed:
            failure = entry
        elif fact.scored or not request.score:
            return entry
    return failure


def as_asked(observation: Observation, request: Request) -> Observation:
    """What engines would have returned to a request that `observation` answers: no score where it
    does not ask for one."""
    if isinstance(observation, Failure) or request.score or observation.score is None:
        return observation
    return replace(
        observation, score=None, step_scores=None, verifier_tokens=0, prm_truncated=False
    )
