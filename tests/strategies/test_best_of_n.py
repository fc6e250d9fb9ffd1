"""Best-of-N: what a candidate is worth, and which one is taken."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.answers.answer_rules import AnswerRule, apply
from pipeline.core.errors import ProtocolError
from pipeline.core.protocol import Completion, Failure, Stop, StopReason
from pipeline.replay.exact import drive
from pipeline.strategies.best_of_n import BestOfN, aggregate
from tests.generators import completion, question

LOST = Failure(error="EngineError: lost")

STEPS = completion("1", 0.8, step_scores=(0.5, 0.2, 0.8))


@pytest.mark.parametrize(
    ("aggregation", "value"),
    [("verifier", 0.8), ("mean", 0.5), ("min", 0.2), ("product", 0.08), ("last", 0.8)],
)
def test_aggregations_of_step_scores(aggregation: Any, value: float) -> None:
    """Each by its own formula; a reply without steps is worth 0 to all but the verifier's own."""
    assert aggregate(STEPS, aggregation, 0) == pytest.approx(value)
    empty = completion(None, 0.3, step_scores=())
    assert aggregate(empty, aggregation, 0) == (0.3 if aggregation == "verifier" else 0.0)


def chosen(strategy: BestOfN, drawn: list[Completion | Failure]) -> tuple[Any, ...]:
    """(rounds, position under prm_argmax)."""
    stop = played(strategy, drawn)
    assert stop.reason is StopReason.BUDGET
    answer = apply(AnswerRule.PRM_ARGMAX, drawn, stop)
    assert answer is not None
    return stop.rounds, answer.position


def played(strategy: BestOfN, drawn: list[Completion | Failure]) -> Stop:
    """The stop on these samples."""
    samples = iter(drawn)
    return drive(strategy, question(), lambda request: next(samples)).stop


A = completion("1", 0.6, step_scores=(0.9, 0.3))
B = completion("2", 0.7, step_scores=(0.5, 0.8))
UNANSWERED = completion(None, 0.95, step_scores=(0.95,), text="tidy")
CUT = completion("3", 0.9, step_scores=(0.9,), finish_reason="length")
BLANK = completion(None, 0.99, step_scores=(0.99,), text="")


@pytest.mark.parametrize(
    ("settings", "drawn", "expected"),
    [
        ({}, [A, B], ((0, 1), 1)),
        ({}, [B, A, B], ((0, 1, 2), 0)),  # a tie goes to the first
        ({}, [A, UNANSWERED], ((0, 1), 0)),
        ({}, [LOST, A, CUT], ((1, 2), 2)),
        ({"aggregation": "mean"}, [A, B], ((1,), 1)),
        ({"aggregation": "min"}, [B, A], ((0,), 0)),
        ({"aggregation": "product"}, [A, B], ((1,), 1)),
        ({"aggregation": "last"}, [A, B, A], ((1,), 1)),
        ({"aggregation": "mean"}, [UNANSWERED, A, LOST], ((1,), 1)),
        ({"aggregation": "mean"}, [UNANSWERED, BLANK], ((1,), 1)),
        ({"profile": "paper"}, [A, UNANSWERED], ((1,), 1)),  # every candidate competes
        ({"profile": "paper"}, [A, BLANK], ((0,), 0)),  # an empty text is worth 0
        ({"profile": "paper", "aggregation": "mean"}, [B, A], ((0,), 0)),
    ],
)
def test_candidates_are_chosen(
    settings: dict[str, Any], drawn: list[Completion | Failure], expected: tuple[Any, ...]
) -> None:
    """The stop rests on all samples where the answer rule itself chooses, else on the choice."""
    assert chosen(BestOfN(n=len(drawn), **settings), drawn) == expected


def test_all_failed_is_a_failure() -> None:
    """Nothing to choose from."""
    stop = played(BestOfN(n=2, aggregation="mean"), [LOST, LOST])

    assert (stop.reason, stop.rounds) == (StopReason.FAILED, ())


def test_missing_step_scores_are_named() -> None:
    """An aggregation of its own needs the scores of the steps, and says of which observation."""
    strategy = BestOfN(n=2, aggregation="min")

    with pytest.raises(
        ProtocolError, match=r"observation 1 must carry step scores .* min, got None"
    ):
        played(strategy, [A, completion("2", 0.5, step_scores=None)])
