"""How steps are laid out for verifiers that read them: no engine, no tokenizer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.errors import VerifierError
from pipeline.core.prm import column_scores, pair_scores, split_steps
from pipeline.core.step_format import (
    MARK,
    StepFormat,
    Turn,
    clean,
    cut_at_tags,
    text_of,
    turns_of,
)

CHAT = StepFormat(tag="<extra_0>", system="Judge.")
TURNS = StepFormat(layout="turns", tag="+", read="before", question="{question} ", step="{step}")
TEXT = StepFormat(
    layout="text", tag="ки", question="{question} ", step="Step {number}: {step} {tag}\n"
)
HOSTILE = st.text("ки<extra_0>+\ue000{step}{tag} \n12", max_size=30)


def test_the_layouts() -> None:
    """One assistant's turn, a user's turn a step, or plain text; a mark where each tag stands."""
    assert turns_of(CHAT, "q", ["a", "b"]) == [
        Turn("system", "Judge."),
        Turn("user", "q"),
        Turn("assistant", f"a{MARK}b{MARK}"),
    ]
    assert turns_of(TURNS, "q", ["a", "b"]) == [
        Turn("user", "q a"),
        Turn("assistant", MARK),
        Turn("user", "b"),
        Turn("assistant", MARK),
    ]
    assert text_of(TEXT, "q", ["a", "Step 2: b"]) == f"q Step 1: a {MARK}\nStep 2: b {MARK}\n"
    assert text_of(TEXT, "q", ["**Step 7.** a"]) == f"q Step 1: a {MARK}\n"


def test_a_prompt_for_the_last_step_alone_has_one_tag() -> None:
    """Models that must not see earlier tags."""
    form = StepFormat(tag="<end>", step="{step}\n\n{tag}", one_by_one=True)

    assert turns_of(form, "q", ["a", "b"])[-1].content == f"a\n\nb\n\n{MARK}"


@given(question=HOSTILE, steps=st.lists(HOSTILE, min_size=1, max_size=5))
def test_no_text_forges_a_tag(question: str, steps: list[str]) -> None:
    """There are as many tags as steps, and no long tag stands anywhere else, whatever texts say."""
    for form in (CHAT, TURNS, TEXT):
        if form.layout == "text":
            text = text_of(form, question, steps)
        else:
            text = "\n".join(turn.content for turn in turns_of(form, question, steps))
        pieces = cut_at_tags(form, text, len(steps))

        assert len(pieces) == len(steps) + 1
        if len(form.tag) > 1:
            assert not any(form.tag in clean(form, piece) for piece in pieces)
            assert form.tag not in "|".join(pieces).replace("|", "\0")


@pytest.mark.parametrize(
    ("at", "steps"),
    [
        ("blank_lines", ("a\nb", "c")),
        ("lines", ("a", "b", "c")),
        ("whole", ("a\nb\n\nc",)),
    ],
)
def test_where_steps_end(at: str, steps: tuple[str, ...]) -> None:
    """Blank lines, line ends, or nowhere."""
    assert split_steps("<think>x</think>a\nb\n\nc", separator="#", at=at) == steps  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tag": ""}, "tag must not be empty"),
        ({"step": "{step}"}, r"step must hold \{tag\} once in the layout chat, got '\{step\}'"),
        ({"step": "{tag}{step}{tag}"}, r"step must hold \{tag\} once"),
        ({"layout": "turns"}, r"step must hold \{tag\} not at all in the layout turns"),
        ({"question": "{tag}"}, r"question must not hold \{tag\}"),
        ({"bos": True}, "bos must be false but in the layout text"),
        ({"temperature": 0.0}, "temperature must be > 0, got 0.0"),
        ({"column": -1}, "column must be >= 0, got -1"),
    ],
)
def test_formats_that_cannot_be_are_refused(fields: dict[str, object], message: str) -> None:
    """Each says what must hold."""
    with pytest.raises(ValueError, match=message):
        replace(CHAT, **fields)  # type: ignore[arg-type]


LOGIT = st.floats(-500, 500)


@given(rows=st.lists(st.tuples(LOGIT, LOGIT), max_size=5), temperature=st.floats(0.1, 10))
def test_logits_become_probabilities(rows: list[tuple[float, float]], temperature: float) -> None:
    """In [0, 1], in order, one a step; a pair's share is the sigmoid of the difference."""
    pairs = pair_scores(rows, len(rows), temperature=temperature)
    differences = [(right - wrong,) for wrong, right in rows]
    single = column_scores(differences, len(rows), columns=1, column=0, temperature=temperature)

    assert pairs == single
    assert all(0 <= score <= 1 for score in pairs)
    for (wrong, right), score in zip(rows, pairs, strict=True):
        assert score == pytest.approx(0.5 * (1 + math.tanh((right - wrong) / temperature / 2)))


@pytest.mark.parametrize(
    ("rows", "n_steps", "message"),
    [
        ([], 1, "empty: the verifier must score 1 steps"),
        ([[0.0, 1.0]], 2, "count: the verifier must score 2 steps, got 1"),
        ([[0.0]], 1, "shape: step 0 must have 2 logits, got 1"),
        ([[0.0, float("nan")]], 1, "nan: step 0 must have finite logits"),
    ],
)
def test_rows_that_are_no_logits_are_refused(
    rows: list[list[float]], n_steps: int, message: str
) -> None:
    """Count, shape and values."""
    with pytest.raises(VerifierError, match=message):
        pair_scores(rows, n_steps, temperature=1.0)
