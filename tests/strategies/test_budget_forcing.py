"""Budget forcing: what the model is made to continue, and when it may answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.core.decoding import Decoding
from pipeline.core.protocol import Completion, Failure, Request, Stop, StopReason
from pipeline.replay.exact import Replayed, drive
from pipeline.strategies.budget_forcing import BudgetForcing
from tests.generators import completion, question

DECODING = Decoding(max_tokens=100)
LOST = Failure(error="EngineError: lost")


def piece(text: str, tokens: int = 10, finish_reason: str = "stop") -> Completion:
    """What is newly generated for one request."""
    return Completion(text=text, completion_tokens=tokens, finish_reason=finish_reason)


def run(settings: dict[str, Any], pieces: Sequence[Completion | Failure]) -> Replayed:
    """The requests that led to these pieces, and the stop."""
    left = iter(pieces)
    strategy = BudgetForcing(decoding=DECODING, **settings)
    done = drive(strategy, question(), lambda request: next(left))
    assert next(left, None) is None  # all were asked for
    return done


def said(request: Request) -> tuple[str, int, int]:
    """(what is continued, new tokens allowed, least new tokens)."""
    return request.assistant_prefix, request.max_tokens, request.min_tokens


ANSWER = completion("42")


def test_thinking_is_overruled_once_and_then_answered() -> None:
    """Every request continues the reply so far, its opening tag included; "Wait" takes the place of
    the end; a quarter of the tokens is kept for the answer."""
    done = run({}, [piece("hm"), piece(", ah"), ANSWER])

    assert [said(request) for request in done.requests] == [
        ("<think>\n", 75, 0),
        ("<think>\nhmWait", 65, 1),
        ("<think>\nhmWait, ah\n</think>\n\n", 25, 1),
    ]
    assert done.stop == Stop(reason=StopReason.FINISHED, rounds=(2,))


@pytest.mark.parametrize(
    "cut", [piece("hm", 40, "length"), piece("hm", 75), piece("hm", 90, "length")]
)
def test_no_wait_follows_thinking_that_its_budget_ended(cut: Completion) -> None:
    """Cut by length or with nothing left, the answer marker is written instead."""
    done = run({"num_ignore": 3}, [cut, ANSWER])

    assert said(done.requests[1]) == ("<think>\nhm\n</think>\n\nFinal Answer:", 25, 1)


def test_budget_is_over_all_pieces_of_thinking() -> None:
    """Every continuation is given what is left."""
    done = run({"num_ignore": 5}, [piece("a", 30), piece("b", 30), piece("c", 15), ANSWER])

    assert [request.max_tokens for request in done.requests] == [75, 45, 15, 25]


def test_answer_that_follows_the_thinking_unasked_is_dropped() -> None:
    """Without stop ids a model closes its thinking and goes on; only the thinking is continued."""
    done = run({}, [piece("hm</think>\nIt is 41"), piece("no"), ANSWER])

    assert done.requests[1].assistant_prefix == "<think>\nhmWait"


def test_thinking_and_answer_are_told_apart() -> None:
    """Thinking stands in chain 0, ends at the stop ids and is not scored; the answer is chain 1."""
    done = run({"end_of_thinking_ids": (7, 8)}, [piece("a"), piece("b"), ANSWER])

    assert [
        (request.chain, request.round, request.stop_token_ids, request.score)
        for request in done.requests
    ] == [(0, 0, (7, 8), False), (0, 1, (7, 8), False), (1, 0, (), True)]


def test_profiles_differ_in_decoding() -> None:
    """Greedy upstream, as every other strategy in the paper's profile."""
    for profile, expected in (("upstream", {(0.0, 1.0)}), ("paper", {(0.7, 0.95)})):
        done = run({"profile": profile}, [piece("a"), piece("b"), ANSWER])
        assert {(request.temperature, request.top_p) for request in done.requests} == expected


def test_models_without_thinking_marks() -> None:
    """With empty marks the whole reply is thinking."""
    marks = {"thinking_start": "", "thinking_end": ""}
    done = run({**marks, "num_ignore": 0}, [piece("It is 42."), ANSWER])

    assert done.requests[1].assistant_prefix == "It is 42."


@pytest.mark.parametrize("pieces", [[LOST], [piece("a"), LOST], [piece("a"), piece("b"), LOST]])
def test_a_failed_piece_fails_the_question(pieces: list[Completion | Failure]) -> None:
    """There is nothing to continue."""
    assert run({}, pieces).stop == Stop(reason=StopReason.FAILED, rounds=())


def test_answer_tokens_are_taken_from_the_whole() -> None:
    """The rest is the thinking budget."""
    done = run({"answer_tokens": 40, "num_ignore": 0}, [piece("a"), ANSWER])

    assert [request.max_tokens for request in done.requests] == [60, 40]


def test_bounds() -> None:
    """`num_ignore` + 2 completions, which is also its n."""
    strategy = BudgetForcing(num_ignore=4)

    assert (strategy.max_requests, strategy.n) == (6, 6)
