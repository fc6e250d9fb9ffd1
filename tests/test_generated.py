"""The generated benchmarks: questions, gold answers and splits."""

import re

import pytest

from pipeline.benchmarks import BenchmarkSource, load
from pipeline.benchmarks.generated import gold, questions
from pipeline.core.errors import DataError

ARITHMETIC = ["331*99+65+78", "95*95+27+54"]
SUMS = ["172+369", "955+685"]
STEPS = ["x=6;u=x*17;i=u*18;q=14;r=q*2"]
NAMES = ["arithmetic", "sums", *(f"steps-{level}" for level in (2, 4, 6, 9, 12))]


@pytest.mark.parametrize("name", NAMES)
def test_questions_are_different_graded_and_of_their_split(name: str) -> None:
    """Ids are unique, gold is the value, no split shares a question, longer lists only grow."""
    drawn = {split: questions(name, 60, split=split, seed=3) for split in ("train", "test")}
    ids = {split: {question.question_id for question in found} for split, found in drawn.items()}

    assert all(len(found) == 60 for found in ids.values())
    assert not ids["train"] & ids["test"]
    assert all(gold(question.text) == question.gold for question in drawn["test"])
    assert drawn["test"][:20] == questions(name, 20, split="test", seed=3)
    assert drawn["test"] != questions(name, 60, split="test", seed=4)
    loaded = load(BenchmarkSource(name=name, size=20, split="test", seed=3))
    assert [item.question_id for item in loaded.items] == [q[0] for q in drawn["test"][:20]]


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("347*83+129-45?", "28885"),
        ("10*10-999-1?", "-900"),
        ("196+488?", "684"),
        ("a=17;m=4;b=a+9;n=m-8;c=b*a;?c", "2"),
        ("z=3;y=z-7;x=y*y;?x", "16"),
    ],
)
def test_golds_are_the_values(question: str, value: str) -> None:
    """Worked by hand; steps are taken modulo 20."""
    assert gold(question) == value


@pytest.mark.parametrize(
    "question",
    [
        "", "what?", "7*8+1+1?", "111+111?", "347*83+129?", "a=1;?a", "a=1;b=c+1;?b", "b=a+1;?b",
        "a=1;b=a+1;?", "a=1;b=a/1;?b",
    ],
)  # fmt: skip
def test_other_questions_are_refused(question: str) -> None:
    """The message says what a question reads like."""
    with pytest.raises(DataError, match="must read like"):
        gold(question)


@pytest.mark.parametrize("n", [-1, 10_001])
def test_impossible_sizes_are_refused(n: int) -> None:
    """As is an unknown split."""
    with pytest.raises(ValueError, match="n must be in"):
        questions("steps-4", n, split="test", seed=0)
    with pytest.raises(ValueError, match="split must be"):
        questions("steps-4", 1, split="all", seed=0)  # type: ignore[arg-type]


def test_the_questions_are_those_of_the_shipped_pools() -> None:
    """First questions of the test split at seed 0, which recorded pools name by id."""
    assert [q[0] for q in questions("arithmetic", 2, split="test", seed=0)] == ARITHMETIC
    assert [q[0] for q in questions("sums", 2, split="test", seed=0)] == SUMS
    assert [q[0] for q in questions("steps-2", 1, split="test", seed=0)] == STEPS
    assert all(re.fullmatch(r"\d+\+\d+", q[0]) for q in questions("sums", 50, split="test", seed=1))
