"""First-answer and revision prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.prompts import EmptyAnswer, Feedback, Prompts, first_box_compat
from pipeline.core.protocol import Completion
from tests.generators import ALPHABET


def test_a_later_round_states_the_previous_answer_in_a_box():
    """The default revision is the paper's: question, instruction, previous answer in a box."""
    (turn,) = Prompts().ask_again("1+1?", "3")

    assert turn.content.startswith("1+1?\nPlease reason step by step")
    assert turn.content.endswith("$\\boxed{3}$, and please re-answer.")


@given(question=st.text(ALPHABET, min_size=1), answer=st.text(ALPHABET))
def test_braces_in_questions_and_answers_are_literal(question, answer):
    """Placeholders inside a question or an answer are never filled in."""
    prompts = Prompts(first="Q {question}", revise="Q {question} A {answer} end")

    assert prompts.ask(question)[0].content == f"Q {question}"
    assert prompts.ask_again(question, answer)[0].content == f"Q {question} A {answer} end"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(EmptyAnswer.ASK_PLAINLY, "1+1?"), (EmptyAnswer.EMPTY_BOX, "1+1? was []")],
)
def test_a_round_without_answer_is_followed_as_configured(policy, expected):
    """No answer asks plainly again, or feeds back an empty one as the paper's code did."""
    prompts = Prompts(first="{question}", revise="{question} was [{answer}]", empty_answer=policy)

    assert prompts.ask_again("1+1?", None)[0].content == expected


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        (Feedback.FINAL_BOX, "5"),
        (Feedback.FIRST_BOX_COMPAT, "3"),
        (Feedback.FINAL_TEXT, "So \\boxed{5}."),
    ],
)
def test_feedback_is_what_the_setting_names(feedback, expected):
    """The final answer, the first box of the whole reply, or the text after thinking."""
    reply = Completion(text="<think>maybe \\boxed{3}\n</think>So \\boxed{5}.", answer="5")

    assert Prompts(feedback=feedback).fed_back(reply.text, reply.answer) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no box", None),
        ("\\boxed{5}", "5"),
        ("\\boxed{5}, since \\frac{1}{2} of it", "5}, since \\frac{1}{2"),
        ("\\boxed{3} and \\boxed{5}", "3"),
        ("\\boxed{3\nrest}", "3"),
    ],
)
def test_first_box_compat_breaks_where_the_original_breaks(text, expected):
    """The last brace before a line break or the next box ends it, however wrong that is."""
    assert first_box_compat(text) == expected


@pytest.mark.parametrize(("field", "value"), [("first", "no place"), ("revise", "{question} only")])
def test_a_template_without_its_place_is_refused(field, value):
    """A template must say where question and answer go."""
    with pytest.raises(ValueError, match=rf"prompts\.{field} must contain"):
        Prompts(**{field: value})
