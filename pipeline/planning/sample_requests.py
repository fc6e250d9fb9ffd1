"""One request of each kind that a run will make, with made-up replies in place of a model's."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pipeline.core.errors import MarkovScaleError
from pipeline.core.protocol import Completion, Priors, Question, Request, Strategy, decisions

QUESTION = Question(
    benchmark="sample",
    question_id="sample",
    text="What is 1 + 1?",
    priors=Priors(p0=0.5, a=0.1, b=0.3),
)
REPLY = "One and one are two.\n\nThe answer is \\boxed{2}."
_ROUNDS = 4


def sample_requests(strategies: Iterable[Strategy]) -> list[Request]:
    """The first request of each kind: kinds differ in roles of turns and in having a prefix.

    Strategies go a few rounds without agreement. Phases that need what earlier ones learnt of
    benchmarks are left out.
    """
    found: dict[object, Request] = {}
    for strategy in strategies:
        for phase in strategy.phases():
            for request in _asked(phase.strategy):
                roles = tuple(turn.role for turn in request.messages)
                found.setdefault((roles, bool(request.assistant_prefix)), request)
    return list(found.values())


def _asked(strategy: Strategy) -> list[Request]:
    asked: list[Request] = []
    with suppress(StopIteration, MarkovScaleError, ValueError, LookupError):
        game = decisions(strategy, QUESTION)
        requests = next(game)
        for number in range(_ROUNDS):
            asked += requests
            replies = [
                Completion(
                    text=REPLY.replace("2", str(number)),
                    answer=str(number),
                    completion_tokens=1,
                    step_scores=(0.5, 0.5),
                    score=0.5,
                )
                for _ in requests
            ]
            requests = game.send(replies)
    return asked
