"""What generative verifiers are asked, and how their verdicts are read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.profiles import profile_of, profiles
from pipeline.core.errors import ConfigError, VerifierError
from pipeline.core.judging import (
    Judge,
    probability_of_right,
    question_turns,
    require_one_request,
    share_of_right,
)
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


def test_judges_of_earlier_versions_are_read_and_not_asked() -> None:
    """A run that had one can be read; what asks for more than one request is named."""
    fields = {"ask": "{step}", "per": "step", "begin": "Let me see.", "think": True}
    judge = profile_of("generative", fields)

    assert isinstance(judge, Judge)
    with pytest.raises(ConfigError, match=r"one request a solution.* got per, begin, think"):
        require_one_request(judge)
    for name in ("judge", "judge_votes"):
        require_one_request(profile(name))


def test_every_profile_can_be() -> None:
    """Those that ship are checked as a user's are."""
    for kind, of_kind in profiles().items():
        for name in of_kind:
            assert profile_of(kind, name) is not None  # type: ignore[arg-type]
