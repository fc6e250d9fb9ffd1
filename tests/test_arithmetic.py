"""The built-in `arithmetic` benchmark."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.benchmarks.arithmetic import (
    Expression,
    check_steps,
    draw,
    parse,
    questions,
    slipped_solution,
    solution,
    split_of,
)
from pipeline.benchmarks.generated import TINY_PROMPTS, answer_of, steps_of
from pipeline.core.errors import DataError

TERMS = st.integers(1, 999) | st.integers(-999, -1)
EXPRESSIONS = st.builds(
    Expression,
    left=st.integers(10, 999),
    right=st.integers(10, 99),
    terms=st.tuples(TERMS, TERMS),
)


def test_a_worked_solution_reads_as_documented() -> None:
    """One equation a step, blank lines between them, the answer in a box."""
    expression = parse("347*83+129-45?")

    assert "\n\n".join(solution(expression)) == (
        "347*83=28801\n\n28801+129=28930\n\n28930-45=28885\n\n\\boxed{28885}"
    )
    assert expression.value == 28885


def test_the_result_may_be_negative() -> None:
    """Terms may outweigh the product, and the sign survives from step to step."""
    expression = parse("10*10-999-5?")

    assert solution(expression) == ("10*10=100", "100-999=-899", "-899-5=-904", "\\boxed{-904}")
    assert check_steps("10*10-999-5?", "\n\n".join(solution(expression))) == (True,) * 4


@given(EXPRESSIONS)
def test_worked_solutions_are_right_and_reparse(expression: Expression) -> None:
    """Every step of a worked solution is right, its box holds the value, the question parses."""
    reply = "\n\n".join(solution(expression))

    assert parse(expression.question) == expression
    assert check_steps(expression.question, reply) == (True, True, True, True)
    assert answer_of(reply) == str(expression.value)


@given(EXPRESSIONS, st.integers(0, 2**32 - 1))
def test_a_slip_changes_one_digit_and_the_answer(expression: Expression, seed: int) -> None:
    """Up to the slip all steps are right, from it on wrong; one digit of one result differs."""
    right = solution(expression)
    slipped = slipped_solution(expression, np.random.default_rng(seed))
    verdicts = check_steps(expression.question, "\n\n".join(slipped))
    first = verdicts.index(False)
    changed = [
        pair for pair in zip(right[first], slipped[first], strict=True) if pair[0] != pair[1]
    ]

    assert verdicts == (True,) * first + (False,) * (4 - first)
    assert slipped[:first] == right[:first]
    assert len(changed) == 1
    assert answer_of(slipped[-1]) != str(expression.value)


@pytest.mark.parametrize(
    ("reply", "verdicts"),
    [
        ("", ()),
        ("12*34=408\n\n408+5=413\n\n413-6=407\n\n\\boxed{407}", (True,) * 4),
        ("12*34=418\n\n418+5=423\n\n423-6=417\n\n\\boxed{417}", (False,) * 4),
        ("12*34=418\n\n408+5=413\n\n413-6=407\n\n\\boxed{407}", (False, True, True, True)),
        ("34*12=408", (False,)),
        ("408+5=413", (False,)),
        ("\\boxed{407}", (False,)),
        ("12*34=408\n\n408+5=413\n\n413-6=407\n\n407", (True, True, True, False)),
        (
            "12*34=408\n\n408+5=413\n\n413-6=407\n\n\\boxed{407}\n\n\\boxed{407}",
            (True, True, True, True, False),
        ),
        ("12*34=408 \n \n\n 408+5=413", (True, True)),
        ("12*34=" + "9" * 5000, (False,)),
        ("__import__('os')", (False,)),
    ],
)
def test_steps_are_judged_at_their_place(reply: str, verdicts: tuple[bool, ...]) -> None:
    """A step must state the operation due at its place with its true result."""
    assert check_steps("12*34+5-6?", reply) == verdicts


@pytest.mark.parametrize(
    "question",
    ["", "12*34+5-6", "12*34+5?", "1*34+5-6?", "12*345+5-6?", "12*34+05-6?", "12*34+0-6?", "1+1?"],
)
def test_other_questions_are_refused_by_name(question: str) -> None:
    """What is no question of this benchmark is refused, and the message shows it."""
    with pytest.raises(DataError, match=re.escape(f"got {question!r}")):
        parse(question)


def test_questions_are_unique_graded_and_of_their_split() -> None:
    """Ids and texts are unique, gold is the value, and every question belongs to its split."""
    for split in ("train", "test", "validation"):
        made = questions(200, split=split, seed=3)
        expressions = [parse(question.text) for question in made]

        assert len({question.question_id for question in made}) == 200
        assert [question.gold for question in made] == [str(each.value) for each in expressions]
        assert [question.question_id + "?" for question in made] == [q.text for q in made]
        assert {split_of(expression) for expression in expressions} == {split}


def test_questions_are_the_same_for_the_same_seed_and_grow_at_the_end() -> None:
    """A seed gives one list, a longer list starts with the shorter one, another seed another."""
    made = questions(50, split="test", seed=1)

    assert questions(80, split="test", seed=1)[:50] == made
    assert questions(50, split="test", seed=2) != made
    assert questions(0, split="test", seed=1) == []


def test_a_tenth_of_expressions_is_test_and_a_tenth_validation() -> None:
    """The hash spreads expressions over the splits as documented (4 standard errors)."""
    rng = np.random.default_rng(0)
    splits = [
        split_of(
            Expression(
                left=int(rng.integers(10, 1000)),
                right=int(rng.integers(10, 100)),
                terms=(int(rng.integers(1, 1000)), int(rng.integers(1, 1000))),
            )
        )
        for _ in range(5000)
    ]

    # 26 of the 256 values of the first byte are 0 modulo 10, and 26 are 1
    tolerance = 4 * (0.1 * 0.9 / 5000) ** 0.5
    assert splits.count("test") / 5000 == pytest.approx(26 / 256, abs=tolerance)
    assert splits.count("validation") / 5000 == pytest.approx(26 / 256, abs=tolerance)


def test_drawn_numbers_have_two_or_three_and_one_to_three_digits_evenly() -> None:
    """The number of digits is uniform, not the number (4 standard errors)."""
    rng = np.random.default_rng(1)
    drawn = [draw(rng, "train") for _ in range(600)]
    left_of_two = sum(expression.left < 100 for expression in drawn) / 600
    single = sum(abs(term) < 10 for expression in drawn for term in expression.terms) / 1200
    minus = sum(term < 0 for expression in drawn for term in expression.terms) / 1200

    assert left_of_two == pytest.approx(1 / 2, abs=4 * (1 / 4 / 600) ** 0.5)
    assert single == pytest.approx(1 / 3, abs=4 * (2 / 9 / 1200) ** 0.5)
    assert minus == pytest.approx(1 / 2, abs=4 * (1 / 4 / 1200) ** 0.5)


@pytest.mark.parametrize(("n", "split"), [(-1, "test"), (1_000_001, "test"), (1, "dev")])
def test_impossible_sizes_and_splits_are_refused(n: int, split: str) -> None:
    """A size out of range or an unknown split raises ValueError saying what came."""
    came = n if split == "test" else split
    with pytest.raises(ValueError, match=f"got {came!r}"):
        questions(n, split=split, seed=0)  # type: ignore[arg-type]  # the wrong split is the point


def test_answers_and_steps_are_read_from_any_text() -> None:
    """The last box counts; steps are what stands between blank lines."""
    assert answer_of("\\boxed{1} then \\boxed{-22}") == "-22"
    assert answer_of("\\boxed{007}") == "7"
    assert answer_of("\\boxed{x}") is None
    assert steps_of("a\n\n\n\nb\nc\n \nd\n") == ["a", "b\nc", "d"]


def test_the_tiny_prompts_are_the_question_and_its_previous_answer() -> None:
    """The first prompt is the bare question; a revision adds what was answered."""
    assert TINY_PROMPTS.ask("12*34+5-6?")[0].content == "12*34+5-6?"
    assert TINY_PROMPTS.ask_again("12*34+5-6?", "417")[0].content == "12*34+5-6? was 417"
    assert TINY_PROMPTS.ask_again("12*34+5-6?", None) == TINY_PROMPTS.ask("12*34+5-6?")
