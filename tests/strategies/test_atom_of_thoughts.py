"""Atom of Thoughts: the six calls, their retries, and how replies are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.core.protocol import Completion, Failure, Stop, StopReason
from pipeline.replay.exact import Replayed, drive
from pipeline.strategies.atom_of_thoughts import (
    AtomOfThoughts,
    Solution,
    SubQuestion,
    choose,
    parse_contracted,
    parse_labels,
)
from tests.generators import completion, question

LOST = Failure(error="EngineError: lost")
LABELS = (
    '{"sub-questions": [{"description": "one?", "answer": 1, "depend": []},'
    ' {"description": "two?", "answer": "2", "depend": [0]}]}'
)


def text(content: str) -> Completion:
    """A reply that is read for its text."""
    return Completion(text=content, completion_tokens=5)


def run(replies: Sequence[Completion | Failure], **settings: Any) -> Replayed:
    """The requests that led to these replies, and the stop."""
    left = iter(replies)
    done = drive(AtomOfThoughts(**settings), question(), lambda request: next(left))
    assert next(left, None) is None  # all were asked for
    return done


def six(
    direct: str | None, decompose: str | None, contract: str | None, ensemble: str | None
) -> Any:
    """Six usable replies with these answers."""
    contracted = text("<question>0 + 2?</question>")
    return [
        completion(direct),
        completion(decompose),
        text(LABELS),
        contracted,
        completion(contract),
        completion(ensemble),
    ]


@pytest.mark.parametrize(
    ("answers", "position"),
    [
        (("1", "2", "3", "1"), 0),
        (("1", "2", "3", "2"), 1),
        (("1", "2", "3", "3"), 4),
        (("1", "2", "2", "2"), 1),  # the first that matches
        (("1", "2", "3", "4"), 0),  # none matches: direct
    ],
)
def test_answer_is_that_of_the_first_candidate_equal_to_the_ensembles(
    answers: tuple[str, str, str, str], position: int
) -> None:
    """Direct, decompose, contract in this order; six calls in all."""
    done = run(six(*answers))

    assert len(done.requests) == 6
    assert done.stop == Stop(reason=StopReason.FINISHED, rounds=(position,))


def test_calls_stand_in_order_and_only_candidates_are_scored() -> None:
    """A stage is a round; what comes before is in its prompt."""
    done = run(six("1", "2", "3", "3"))
    prompts = [request.messages[-1].content for request in done.requests]

    assert [(request.round, request.sample, request.score) for request in done.requests] == [
        (0, 0, True),
        (1, 0, True),
        (2, 0, False),
        (3, 0, False),
        (4, 0, True),
        (5, 0, False),
    ]
    assert prompts[0] == prompts[1]
    assert done.requests[0].seed != done.requests[1].seed
    assert "So \\boxed{2}" in prompts[2]
    assert "- one? 1" in prompts[3]
    assert "- two?\n" in prompts[3]
    assert prompts[4].startswith("0 + 2?")
    assert all(f"So \\boxed{{{answer}}}" in prompts[5] for answer in (1, 2, 3))


def test_unusable_replies_are_tried_again_and_counted() -> None:
    """Each stage that does not give what it should is asked again under another seed."""
    replies = [
        completion(None),
        LOST,
        completion("1"),  # direct
        completion("2"),  # decompose
        text("no json"),
        text(LABELS),  # label
        text("no question"),
        text("<question>0 + 2?</question>"),  # contract
        completion("3"),
        completion(None),
        completion("3"),  # ensemble
    ]
    done = run(replies)

    assert [(request.round, request.sample) for request in done.requests] == [
        *[(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (4, 0), (5, 0), (5, 1)]
    ]
    assert len({request.seed for request in done.requests}) == 11
    assert done.stop == Stop(reason=StopReason.FINISHED, rounds=(8,))


def test_stages_whose_tries_are_spent_go_on_with_what_there_is() -> None:
    """An answerless solution, no sub-questions, the original question as the contracted one."""
    replies = [
        *[completion(None, text="first"), completion(None, text="second")],
        *[completion("2"), text("?"), LOST, text("?"), LOST, completion("3")],
        *[completion(None), completion(None)],
    ]
    done = run(replies, retries=1)
    prompts = [request.messages[-1].content for request in done.requests]

    assert "given conditions" not in prompts[5]
    assert prompts[7] == prompts[0]
    assert "second" in prompts[8]
    assert done.stop == Stop(reason=StopReason.FINISHED, rounds=(1,))  # no ensemble answer: direct


@pytest.mark.parametrize(
    ("replies", "rounds"),
    [
        ([LOST], ()),
        ([completion("1"), LOST], (0,)),
        ([*six("1", "2", "3", "3")[:4], LOST], (0, 1)),
        ([*six("1", "2", "3", "3")[:5], LOST], (0, 1, 4)),
    ],
)
def test_a_solution_that_cannot_be_had_fails_the_question(
    replies: list[Completion | Failure], rounds: tuple[int, ...]
) -> None:
    """The stop rests on the solutions that there are."""
    assert run(replies, retries=0).stop == Stop(reason=StopReason.FAILED, rounds=rounds)


def test_choice_skips_candidates_without_an_answer() -> None:
    """They equal nothing; without any match the direct solution is taken as it is."""
    candidates = [Solution(position=p, answer=a, text="") for p, a in enumerate([None, "2", None])]

    assert choose(candidates, "2") is candidates[1]
    assert choose(candidates, None) is candidates[0]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no json",
        "{",
        "}{",
        "{'sub-questions': []}",
        "__import__('os').getcwd()",
        '{"sub-questions": []}',
        '{"sub-questions": 3}',
        '{"other": [1]}',
        '{"sub-questions": ["text"]}',
        '{"sub-questions": [{"description": 1, "answer": 1, "depend": []}]}',
        '{"sub-questions": [{"description": "a", "depend": []}]}',
        '{"sub-questions": [{"description": "a", "answer": 1, "depend": 0}]}',
        '{"sub-questions": [{"description": "a", "answer": 1, "depend": [0]}]}',  # itself
        '{"sub-questions": [{"description": "a", "answer": 1, "depend": ["0"]}]}',
        '{"sub-questions": [{"description": "a", "answer": 1, "depend": [-1]}]}',
        '{"a": ' * 15_000 + "}" * 100,
        '{"a": "' + "x" * 20_000 + '"}',
        '{"sub-questions": ['
        + ",".join(['{"description": "a", "answer": 1, "depend": []}'] * 51)
        + "]}",
    ],
)
def test_labels_that_are_none_are_not_read(content: str) -> None:
    """Bounded JSON of the right form or nothing; model output is never evaluated."""
    assert parse_labels(content) is None


def test_deeply_nested_json_is_not_read() -> None:
    """Nesting that the parser gives up on is no answer either, within the length that is read."""
    assert parse_labels('{"a":' * 3_000 + "1" + "}" * 3_000) is None


def test_labels_are_read_from_the_reply_after_thinking() -> None:
    """Text around the object does not matter."""
    assert parse_labels(f"<think>{{}}</think>Here:\n```json\n{LABELS}\n```") == (
        SubQuestion(description="one?", answer="1", depends=()),
        SubQuestion(description="two?", answer="2", depends=(0,)),
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("<question> 1 + 1? </question>", "1 + 1?"),
        ("<question>a</question> or <question>b</question>", "b"),
        ("<think><question>a</question></think>", None),
        ("<question> </question>", None),
        ("<question>a", None),
    ],
)
def test_contracted_question_is_read_from_its_tags(content: str, found: str | None) -> None:
    """The last one after the thinking."""
    assert parse_contracted(content) == found


def test_bounds() -> None:
    """Six stages, each with its retries; that is also its n."""
    assert (AtomOfThoughts(retries=2).max_requests, AtomOfThoughts(retries=2).n) == (18, 18)
