"""What generative verifiers are asked and how they are read, with a scripted writer: no engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.engines.verifiers.generative import Generative, Weighed, Writer, Written
from actors.engines.verifiers.kind import Running, Scores, Solution
from pipeline.config.profiles import profile_of, profiles
from pipeline.core.errors import VerifierError
from pipeline.core.judging import (
    Judge,
    judged_parts,
    probability_of_right,
    question_turns,
    share_of_right,
)
from pipeline.core.protocol import Failure
from pipeline.core.step_format import Turn

STEPS = ("one {question}", "Step 7: two", "three")
JUDGE = Judge(ask="{question}|{solution}|{step}|{number}")


def profile(name: str) -> Judge:
    """A profile that ships."""
    made = profile_of("generative", name)
    assert isinstance(made, Judge)
    return made


def test_what_is_asked() -> None:
    """Fields are filled once; what a reply says is no field."""
    asked = question_turns(replace(JUDGE, numbered=True), "q", STEPS[:2])

    assert asked == [Turn("user", "q|Step 1: one {question}\nStep 2: two|Step 7: two|2")]
    assert judged_parts(JUDGE, STEPS) == [STEPS]
    assert judged_parts(replace(JUDGE, per="step"), STEPS) == [STEPS[:1], STEPS[:2], STEPS]


def test_one_conversation_shows_the_judgements_so_far() -> None:
    """Each step is a user's turn, answered by what was said of it."""
    judge = profile("genprm")
    turns = question_turns(judge, "q", STEPS[:2], ["fine"])

    assert [turn.role for turn in turns] == ["system", "user", "assistant", "user"]
    assert [turn.content for turn in turns[1:]] == [f"Question: q\n\n{STEPS[0]}", "fine", STEPS[1]]


@given(st.dictionaries(st.sampled_from(["Yes", "yes", "No"]), st.floats(-80, 0), min_size=1))
def test_p_yes_is_a_share(logprobs: dict[str, float]) -> None:
    """Of what yes and no have together; several spellings add up."""
    judge = replace(JUDGE, right=("Yes", "yes"))
    score = probability_of_right(judge, logprobs)
    yes = sum(math.exp(v) for word, v in logprobs.items() if word != "No")
    every = sum(math.exp(v) for v in logprobs.values())

    assert score == pytest.approx(yes / every)
    assert 0 <= score <= 1


def test_calibration_draws_p_yes_to_a_half() -> None:
    """Where its temperature is above 1."""
    sure = {"Yes": math.log(0.9), "No": math.log(0.1)}

    assert probability_of_right(JUDGE, sure) == pytest.approx(0.9)
    assert probability_of_right(replace(JUDGE, calibration_temperature=2.0), sure) == pytest.approx(
        0.75
    )
    with pytest.raises(VerifierError, match="one of 'Yes', 'No' must have a probability"):
        probability_of_right(JUDGE, {"Yes": -math.inf})


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        (["Yes", "No.", "it is **YES**", "\\boxed{no}"], 0.5),
        (["No? Well: yes", "I do not know"], 1.0),
        (["<think>Yes</think> No", "yesterday nothing, no"], 0.0),
        (["Yes, the solution is right, there is no error.", "**Yes**\n\nI see no mistake."], 1.0),
        (["No. The sum is 5, so yes, it is off by one.", "Is it right? Not at all.\nNo."], 0.0),
    ],
)
def test_the_last_verdict_of_each_reply_counts(replies: list[str], score: float) -> None:
    """As a whole word after the thinking, in any case; a reply without one does not count. One that
    stands alone, or is spelt as it was asked for, is no word of a sentence."""
    judge = replace(JUDGE, read="verdicts")

    assert share_of_right(judge, replies) == score


def test_no_verdict_at_all_is_no_score() -> None:
    """It says how the last reply ended."""
    with pytest.raises(VerifierError, match=r"one of 2 replies must say 'Yes' or 'No'.*'hm'"):
        share_of_right(JUDGE, ["<think>Yes", "hm"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"right": ("No",)}, "right and wrong must differ"),
        ({"samples": 0}, "samples and max_tokens must be >= 1"),
        ({"samples": 2}, "several samples must come of thinking"),
        ({"read": "verdicts", "think": False}, "verdicts must be written"),
        ({"ask_next": "{step}"}, "ask_next must go with per: step"),
        ({"calibration_temperature": 0}, "calibration_temperature must be > 0"),
        ({"temperature": -1.0}, "temperature must be >= 0"),
        ({"top_p": 0.0}, r"top_p in \(0, 1\]"),
        ({"samples": 10**12}, "samples must be at most 1000"),
    ],
)
def test_judges_that_cannot_be_are_refused(fields: dict[str, Any], message: str) -> None:
    """Each says what must hold."""
    with pytest.raises(ValueError, match=message):
        replace(JUDGE, **fields)


class Scripted:
    """A writer that says what it is told, and keeps what it was asked."""

    def __init__(self, p_yes: dict[str, float], texts: Sequence[str] = ("hm",)) -> None:
        self.p_yes, self.texts = p_yes, texts
        self.asked: list[tuple[tuple[str, ...], str]] = []

    async def write(
        self, turns: Sequence[Turn], begun: str, *, seed: int, request_id: str
    ) -> Written | Failure:
        return Written(self.texts[seed], read=10, wrote=2)

    async def weigh(
        self, turns: Sequence[Turn], begun: str, *, known: str | None, request_id: str
    ) -> Weighed | Failure:
        self.asked.append((tuple(turn.content for turn in turns), begun))
        chance = self.p_yes[turns[-1].content.rpartition("\n")[2]]
        if chance < 0:
            return Failure(error="engine: gone")
        words = {"Yes": chance, "No": 1 - chance, " Yes": chance, " No": 1 - chance}
        return Weighed({w: math.log(p) for w, p in words.items() if p}, read=1)


async def judged(judge: Judge, writer: Writer) -> Scores | Failure:
    """What a generative verifier makes of three steps."""
    kind = Generative.__new__(Generative)  # without a model's files
    kind.judge, kind.probe = judge, Solution("", ("",), truncated=False)
    kind.writer = lambda running: writer  # type: ignore[method-assign]
    solution = Solution("q", ("one", "two", "three"), truncated=False)
    return await kind.run(Running(None, None, 100), solution, "r")  # type: ignore[arg-type]


CHANCES = {"one": 0.9, "two": 0.25, "three": 0.5}


async def test_steps_are_judged_in_order_in_one_conversation() -> None:
    """A score a step; later steps see the verdicts before; tokens add up."""
    writer = Scripted(CHANCES)
    scores = await judged(profile("genprm"), writer)

    assert isinstance(scores, Scores)
    assert scores.of_steps == pytest.approx((0.9, 0.25, 0.5))
    assert (scores.read, scores.wrote) == (33, 6)
    last, begun = writer.asked[-1]
    assert "boxed{Yes}$" in last[2]
    assert "boxed{No}$" in last[4]
    assert begun.startswith("<analyze>\nLet's analyze the Paragraph 3 step by step: hm</analyze>")


async def test_a_solution_gets_one_score() -> None:
    """P(right), or the share of verdicts; several judgements are averaged."""
    whole = replace(profile("thinkprm"), ask="{step}", samples=2)
    votes = profile("judge_votes")
    mean = await judged(whole, Scripted(CHANCES, ["a", "b"]))
    share = await judged(votes, Scripted(CHANCES, ["Yes", "no", "No", "hm"]))

    assert isinstance(mean, Scores)
    assert isinstance(share, Scores)
    assert mean.of_steps == pytest.approx((0.5,))
    assert share.of_steps == pytest.approx((1 / 3,))


async def test_a_failure_of_one_judgement_is_that_of_all() -> None:
    """No score is made up for a step."""
    for judge in (profile("genprm"), Judge(ask="{solution}", per="step", think=False)):
        told = await judged(judge, Scripted({**CHANCES, "two": -1}))

        assert told == Failure(error="engine: gone")


def test_every_profile_can_be() -> None:
    """Those that ship are checked as a user's are."""
    for kind, of_kind in profiles().items():
        for name in of_kind:
            assert profile_of(kind, name) is not None  # type: ignore[arg-type]
