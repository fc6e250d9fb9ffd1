"""The built-in `sums` benchmark."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.benchmarks import builtin
from pipeline.benchmarks.generated import answer_of
from pipeline.benchmarks.sums import (
    CARRIES,
    Sum,
    check_steps,
    draw,
    parse,
    questions,
    solution,
    split_of,
)
from pipeline.core.errors import DataError

COLUMNS = st.tuples(st.integers(1, 9), st.integers(1, 9)).filter(lambda digits: sum(digits) >= 10)
SUMS = st.builds(
    lambda top, tens, ones: Sum(
        left=100 * top[0] + 10 * tens[0] + ones[0], right=100 * top[1] + 10 * tens[1] + ones[1]
    ),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    COLUMNS,
    COLUMNS,
)
FORGOTTEN = st.sampled_from([(), (1,), (2,), CARRIES])


def test_a_worked_solution_reads_as_documented() -> None:
    """One column a step from the ones on, blank lines between them, the answer in a box."""
    assert "\n\n".join(solution(parse("347+285?"))) == (
        "7+5=12\n\n4+8+1=13\n\n3+2+1=6\n\n\\boxed{632}"
    )


@given(SUMS)
def test_worked_solutions_are_right_and_reparse(asked: Sum) -> None:
    """Every step of a worked solution is right, its box holds the sum, the question parses."""
    reply = "\n\n".join(solution(asked))

    assert parse(asked.question) == asked
    assert check_steps(asked.question, reply) == (True,) * 4
    assert answer_of(reply) == str(asked.left + asked.right)


@given(SUMS, FORGOTTEN)
def test_a_slip_is_seen_in_its_step_and_in_the_answer(
    asked: Sum, forgotten: tuple[int, ...]
) -> None:
    """Exactly the columns with a forgotten carry are wrong, the box with them, no other column."""
    reply = solution(asked, forgotten)
    verdicts = check_steps(asked.question, "\n\n".join(reply))

    assert [c for c in range(3) if not verdicts[c]] == list(forgotten)
    assert verdicts[3] == (not forgotten)
    assert answer_of(reply[-1]) == str(asked.value - sum(10**c for c in forgotten))


@pytest.mark.parametrize(
    ("reply", "verdicts"),
    [
        ("", ()),
        ("7+5=12\n\n4+8=12\n\n3+2+1=6\n\n\\boxed{622}", (True, False, True, False)),
        ("7+5=12\n\n4+8+1=13\n\n3+2+1=6\n\n\\boxed{632}\n\n\\boxed{632}", (True,) * 4 + (False,)),
        ("5+7=12", (False,)),
        ("\\boxed{632}", (False,)),
        ("9" * 5000, (False,)),
    ],
)
def test_steps_are_judged_at_their_place(reply: str, verdicts: tuple[bool, ...]) -> None:
    """A step must state the column due at its place."""
    assert check_steps("347+285?", reply) == verdicts


@pytest.mark.parametrize(
    "question", ["", "347+285", "347+281?", "347+215?", "047+285?", "47+85?", "347+285+1?", "1*1?"]
)
def test_other_questions_are_refused_by_name(question: str) -> None:
    """What is no question of this benchmark is refused, and the message shows it."""
    with pytest.raises(DataError, match=re.escape(f"got {question!r}")):
        parse(question)


def test_questions_are_unique_graded_and_of_their_split() -> None:
    """Ids are unique, gold is the sum, every question belongs to its split, a+b with b+a."""
    for split in ("train", "test", "validation"):
        made = questions(200, split=split, seed=3)
        asked = [parse(question.text) for question in made]

        assert len({question.question_id for question in made}) == 200
        assert [question.gold for question in made] == [str(each.value) for each in asked]
        assert {split_of(each) for each in asked} == {split}
        assert {split_of(Sum(left=each.right, right=each.left)) for each in asked} == {split}
        assert questions(50, split=split, seed=3) == made[:50]
        assert questions(50, split=split, seed=4) != made[:50]


def test_drawn_sums_have_evenly_many_of_each_top_digit() -> None:
    """The top digits are uniform in 1..9 (4 standard errors each)."""
    rng = np.random.default_rng(1)
    tops = [draw(rng, "train").left // 100 for _ in range(1800)]

    shares = np.bincount(tops, minlength=10)[1:] / 1800
    assert shares == pytest.approx(np.full(9, 1 / 9), abs=4 * (8 / 81 / 1800) ** 0.5)


def test_all_questions_of_the_test_split_can_be_asked_for() -> None:
    """The most that may be asked for is there, and no more than it may be asked for."""
    assert len(questions(10_000, split="test", seed=0)) == 10_000
    with pytest.raises(ValueError, match=r"n must be in 0..10,000, got 10001"):
        questions(10_001, split="test", seed=0)


def test_both_benchmarks_are_known_by_name_and_by_question() -> None:
    """Questions come by name; gold and verdicts by the question's own shape."""
    for name in builtin.NAMES:
        for question in builtin.questions(name, 20, split="validation", seed=0):
            assert builtin.gold(question.text) == question.gold
            assert builtin.check_steps(question.text, f"\\boxed{{{question.gold}}}") == (False,)
    with pytest.raises(DataError):
        builtin.gold("1+1?")
