"""Which rows of a pool answer the requests of the strategy that drew it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.errors import DataError
from pipeline.core.protocol import Completion, Observation, Question, Request
from pipeline.records.answering import answering, facts_of
from pipeline.records.trajectory import Row, address_of, observation_of
from pipeline.replay.exact import Recorded
from pipeline.replay.pool_rows import Located


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
        """What the row says that answers the request (`pipeline.records.answering`)."""
        found = self._rows.get(request.address, ())
        digest = self._digests.of(request)
        located = answering(found, lambda one: facts_of(one.row), request, digest)
        if located is None:
            raise DataError(self._miss(request, found))
        observation = observation_of(located.row)
        self._located.append(located)
        self.entries.append(
            Recorded(address=request.address, digest=digest, observation=observation)
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
