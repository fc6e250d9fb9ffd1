"""Answer rules: the same completions, read in several ways."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.answers.answer_rules import (
    NOTHING,
    AnswerRule,
    Chosen,
    OwnRule,
    apply,
    chooses_of_those,
)
from pipeline.answers.recent_vote import RecentVote
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Completion, Failure, Observation, Stop, StopReason
from tests.generators import completion, observations

LOST = Failure(error="EngineError: lost")


def stop(rounds: Sequence[int]) -> Stop:
    """A stop that rests on these rounds."""
    return Stop(reason=StopReason.BUDGET, rounds=tuple(rounds))


def answers_by_rule(
    drawn: Sequence[Observation], rounds: Sequence[int] | None = None
) -> list[tuple[str | None, int | None] | None]:
    """(answer, position) under last, prm_argmax, vote and prm_weighted_vote."""
    rested = stop(range(len(drawn)) if rounds is None else rounds)
    chosen = [apply(rule, drawn, rested) for rule in AnswerRule if not rule.needs_logprobs]
    return [None if c is None else (c.answer, c.position) for c in chosen]


CHAIN = [completion("1", 0.5), completion("2", 0.9), completion("1", 0.4), completion(None, 0.95)]


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (CHAIN, [(None, 3), ("2", 1), ("1", 0), ("1", 0)]),
        (CHAIN[:2], [("2", 1), ("2", 1), ("1", 0), ("2", 1)]),
        # ties: the first score, the cluster first seen
        (
            [completion("1", 0.7), completion("2", 0.7)],
            [("2", 1), ("1", 0), ("1", 0), ("1", 0)],
        ),
        # only completions without an answer: one is chosen for its score, nobody votes
        (
            [completion(None, 0.2), completion(None, 0.6)],
            [(None, 1), (None, 1), (None, None), (None, None)],
        ),
        # failures hold their places
        ([LOST, completion("1", 0.3), LOST], [("1", 1), ("1", 1), ("1", 1), ("1", 1)]),
        # no scores: rules that need them cannot be applied
        ([completion("1", None), completion("2", None)], [("2", 1), None, ("1", 0), None]),
        # some scores: the others take no part in these rules
        (
            [completion("1", None), completion("2", 0.1), completion("1", None)],
            [("1", 2), ("2", 1), ("1", 0), ("2", 1)],
        ),
        # nothing was drawn: every rule gives an answer that counts as wrong
        ([], [(None, None)] * 4),
        ([LOST], [(None, None)] * 4),
    ],
)
def test_rules_choose(
    drawn: list[Observation], expected: list[tuple[str | None, int | None] | None]
) -> None:
    """Each rule's answer and position on hand-made completions."""
    assert answers_by_rule(drawn) == expected


def test_only_rounds_of_the_stop_take_part() -> None:
    """A stop that rests on some completions is answered from those alone."""
    assert answers_by_rule(CHAIN, [0, 2]) == [("1", 2), ("1", 0), ("1", 0), ("1", 0)]


@given(st.lists(observations(), max_size=6))
def test_an_answer_is_chosen_wherever_one_was_drawn(drawn: list[Observation]) -> None:
    """prm_argmax and both votes give an answer where any completion has one; what is chosen is the
    answer of the completion at its position; only nothing at all gives no position."""
    any_answer = any(isinstance(o, Completion) and o.answer is not None for o in drawn)
    for rule in AnswerRule:
        chosen = apply(rule, drawn, stop(range(len(drawn))))

        if rule.needs_logprobs:
            continue  # test_votes_weigh_by_log_probabilities_where_they_are_recorded
        assert chosen is not None
        if chosen.position is None:
            assert chosen == NOTHING
        else:
            source = drawn[chosen.position]
            assert isinstance(source, Completion)
            assert chosen == Chosen(answer=source.answer, position=chosen.position)
        if rule is not AnswerRule.LAST:
            assert (chosen.answer is not None) == any_answer


def test_rules_say_what_they_need() -> None:
    """The run's configuration asks this before it goes without a verifier or log-probabilities."""
    assert {rule.value for rule in AnswerRule if rule.needs_score} == {
        "prm_argmax",
        "prm_weighted_vote",
    }
    assert {rule.value for rule in AnswerRule if rule.needs_logprobs} == {
        "confidence_weighted_vote",
        "inverse_entropy_vote",
    }


def test_votes_weigh_by_log_probabilities_where_they_are_recorded() -> None:
    """DeepConf's weight is the mean confidence, that of inverse-entropy voting 1 / max(H, 1e-10);
    completions without take no part, and where none has them the rule cannot be applied."""
    by_confidence, by_entropy = AnswerRule.CONFIDENCE_WEIGHTED_VOTE, AnswerRule.INVERSE_ENTROPY_VOTE
    drawn = [
        completion("1", token_confidence=2.0, token_entropy=0.5),
        completion("2", token_confidence=7.0, token_entropy=1.0),
        completion("1", token_confidence=4.0, token_entropy=0.9),
        completion("2"),
        LOST,
    ]
    rested = stop(range(5))

    assert [by_entropy.weight(c) for c in drawn[:3] if isinstance(c, Completion)] == [2, 1, 1 / 0.9]
    assert by_entropy.weight(completion("1", token_entropy=0.0)) == 1e10
    assert apply(by_confidence, drawn, rested) == Chosen(answer="2", position=1)
    assert apply(by_entropy, drawn, rested) == Chosen(answer="1", position=0)
    assert apply(by_confidence, drawn[3:], stop([0, 1])) is None
    assert apply(by_entropy, [], stop([])) is None


@pytest.mark.parametrize(
    ("discount", "said", "position"),
    [
        (0.8, "ABBC", 1),
        (0.0, "ABBC", 3),
        (1.0, "ABCABC", 0),
        (0.8, "ABCABC", 2),
        (0.8, "A-", 0),
        (0.8, "--", None),
    ],
)
def test_the_recent_vote_weighs_later_rounds_more(
    discount: float, said: str, position: int | None
) -> None:
    """0 is the last answer, 1 the plain vote; a round without an answer neither votes nor ages."""
    told = [completion(answer=None if letter == "-" else letter) for letter in said]

    assert RecentVote(discount)(told) == position


def test_the_recent_vote_is_a_rule_by_its_place() -> None:
    """A run reads it as any rule of one's own, with its settings checked."""
    rule = OwnRule("recent_vote", "pipeline.answers.recent_vote:RecentVote", '{"discount": 0.5}')

    chooses_of_those(rule)
    with pytest.raises(ConfigError, match="discount must be in"):
        OwnRule("r", "pipeline.answers.recent_vote:RecentVote", '{"discount": 2}').code()
