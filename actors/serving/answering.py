"""*Answering*: answers requests, each a question that the chains of a controller take to its stop.

Ray-free: engines are given. `actors.serving.app` puts it behind HTTP.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, replace
from math import ceil

from actors.controllers.chain_types import Counters, Ended, RunIdentity, Work
from actors.controllers.chains import Chains
from actors.routing.calls import EnginePool
from actors.serving.chat_reply import ChatReply, progress_line, reply_of
from actors.serving.chat_request import ApiError, ChatRequest
from actors.serving.served_models import ServedModel, served_models, template_question
from pipeline.config.run import RunConfig
from pipeline.config.strategies import rules_of
from pipeline.core.protocol import Completion
from pipeline.core.seeds import question_seed
from pipeline.records.journal import QuestionKey
from pipeline.records.questions import question_of
from pipeline.records.trajectory import Row

_MOST_RETRY_S = 60
_CHARACTERS_A_TOKEN = 2
"""At least, of text; for what a prompt may cost."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that was taken on."""

    request_id: str
    created: int
    request: ChatRequest
    model: ServedModel
    question: Row
    """As a row of questions.parquet."""
    progress: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    """A line for each completion drawn; None at the end."""
    ended: Ended | None = None
    answer: asyncio.Task[ChatReply] = field(init=False)
    """Raises `ApiError` where no answer could be had; cancelling it aborts in the engines."""


class Answering:
    """The requests of one endpoint.

    Args:
        config: whose strategies are served.
        identity: names of the run and its models.
        pools: of engines, by role.
        in_flight: questions that are worked on at once; `limit` changes it.
        queue: requests that may wait beyond those; None takes as many as are worked on.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        identity: RunIdentity,
        pools: Mapping[str, EnginePool],
        in_flight: int,
        queue: int | None = None,
    ) -> None:
        science = config.science
        self.models = served_models(science)
        self._template = template_question(science)
        self._seed, self._most_tokens = science.seed, science.decoding.max_tokens
        self._prices = config.runtime.prices()
        self._in_flight, self._queue = in_flight, queue
        self._tickets: dict[QuestionKey, Ticket] = {}
        self._chains = Chains(
            identity=identity,
            pools=pools,
            journal=_Rounds(self._append),
            grade=_no_gold,
            recording_of=lambda work: None,
            in_flight=in_flight,
            rules=rules_of(science),
            ended=self._end,
        )
        self.draining = False

    @property
    def counters(self) -> Counters:
        """What the chains counted."""
        return self._chains.counters

    @property
    def open(self) -> int:
        """Requests that are not answered yet."""
        return len(self._tickets)

    def limit(self, in_flight: int) -> None:
        """Work on so many questions at once from now on."""
        self._in_flight = in_flight
        self._chains.limit(in_flight)

    def take(self, request: ChatRequest) -> Ticket:
        """Take a request on, and begin to answer it.

        Raises:
            ApiError: 404 for a model that is not served, 503 while draining, 429 where the queue is
                full, 400 for a budget that cannot be kept.
        """
        model = self.model(request.model, request.budget.strategy)
        model, unused = model.within(request.budget, self._most_usd(request))
        request = replace(request, ignored=(*request.ignored, *unused))
        self.check_room()
        request_id = f"chatcmpl-{uuid.uuid4().hex}"
        own = question_seed(self._seed, self._template["benchmark"], request_id)
        most_tokens = request.max_tokens and min(request.max_tokens, self._most_tokens)
        question = {
            **self._template,
            "question_id": request_id,
            "text": request.question,
            "seed": own if request.seed is None else request.seed,
            "max_tokens": most_tokens,
            "turns": json.dumps([astuple(turn) for turn in request.turns])
            if request.turns
            else None,
            "form": None if request.form is None else request.form.text,
        }
        ticket = Ticket(request_id, int(time.time()), request, model, question)
        self._tickets[_key(ticket)] = ticket
        ticket.answer = asyncio.get_running_loop().create_task(self._answer(ticket))
        ticket.answer.add_done_callback(lambda task: self._close(ticket))
        return ticket

    def check_room(self) -> None:
        """Refuse a request while the endpoint drains or its queue is full.

        Raises:
            ApiError: 503 or 429, with the time after which another try may succeed.
        """
        if self.draining:
            raise ApiError(503, "the endpoint is being stopped", "stopping", retry_after_s=5)
        waiting = self.open - self._in_flight
        most = self._in_flight if self._queue is None else self._queue
        if waiting >= most:
            raise ApiError(
                429,
                f"at most {most} requests may wait, {waiting} do",
                "queue_full",
                retry_after_s=self._until_room_s(),
            )

    def _most_usd(self, request: ChatRequest) -> float | None:
        """What one completion of a request may cost at most; None without prices."""
        if self._prices is None:
            return None
        written = sum(len(turn.content) for turn in request.turns) + len(request.question)
        made = min(request.max_tokens or self._most_tokens, self._most_tokens)
        read = written // _CHARACTERS_A_TOKEN + made  # a revision is shown the answer before
        tokens = dict.fromkeys(("cached_prompt_tokens", "wasted_tokens"), 0)
        return self._prices.usd({**tokens, "prompt_tokens": read, "completion_tokens": made})

    async def _answer(self, ticket: Ticket) -> ChatReply:
        (phase,) = ticket.model.strategy.phases()
        work = Work(
            label=ticket.model.label,
            phase=phase.name,
            strategy=ticket.model.strategy,
            question=question_of(ticket.question),
            gold=None,
        )
        row = await self._chains.run(work)
        if row is None or ticket.ended is None:
            raise ApiError(503, "the endpoint was stopped", "stopping", retry_after_s=5)
        ended = ticket.ended
        return reply_of(
            ticket.request,
            ticket.model,
            row,
            ended.stop,
            ended.observations,
            ticket.created,
            self._prices,
        )

    async def drain(self, grace_s: float) -> None:
        """Take nothing more, let what is at work finish for `grace_s`, and cut the rest."""
        self.draining = True
        give_up = time.monotonic() + grace_s
        while self._tickets and time.monotonic() < give_up:
            await asyncio.sleep(0.05)
        self._chains.drain()

    def model(self, name: str, label: str | None = None) -> ServedModel:
        """The model of a name, or the one with a strategy's label.

        Raises:
            ApiError: 404 where it is not served.
        """
        served, refused = self.models.served, self.models.refused
        if label is not None:
            name = next((each for each in served if served[each].label == label), label)
        if name in served:
            return served[name]
        why = f", {refused[name]}" if name in refused else f", got {name!r}"
        raise ApiError(
            404,
            f"model must be one of {', '.join(served)}{why}",
            "model_not_found",
            param="model",
        )

    def _until_room_s(self) -> int:
        """Seconds in which the questions at work should have made room for one more."""
        counters = self.counters
        ended = sum(counters.stops.values())
        each = counters.held_s / ended if ended else 1.0
        return max(1, min(_MOST_RETRY_S, ceil(each / self._in_flight)))

    def _append(self, row: Row) -> None:
        ticket = self._tickets.get((row["strategy"], row["benchmark"], row["question_id"]))
        if ticket is not None:
            ticket.progress.put_nowait(progress_line(row))

    def _close(self, ticket: Ticket) -> None:
        del self._tickets[_key(ticket)]
        ticket.progress.put_nowait(None)
        if not ticket.answer.cancelled():
            ticket.answer.exception()  # seen, whether or not anyone still waits for it

    def _end(self, work: Work, ended: Ended) -> None:
        if work.key in self._tickets:
            self._tickets[work.key].ended = ended


class _Rounds:
    """The journal of chains whose rounds are shown and not kept."""

    reached = ("", -1)

    def __init__(self, append: Callable[[Row], None]) -> None:
        self._append = append

    def append(self, row: Row) -> None:
        """Show a round."""
        self._append(row)

    async def durable(self) -> None:
        """Nothing is kept."""


def _key(ticket: Ticket) -> QuestionKey:
    question = ticket.question
    return (ticket.model.label, question["benchmark"], question["question_id"])


async def _no_gold(gold: str, completion: Completion, grader: object) -> str:
    raise AssertionError("a request has no gold answer")
