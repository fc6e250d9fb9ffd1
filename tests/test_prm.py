"""Steps, context, checks and aggregation around a process reward model."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.errors import VerifierError
from pipeline.core.prm import Fitted, aggregate, fit, split_steps, step_scores

SEPARATOR = "<extra_0>"
PIECES = st.lists(
    st.sampled_from(["<extra", "_0>", SEPARATOR, "a", " ", "\n", "\n\n", "</think>", "<think>"])
).map("".join)


def test_steps_are_what_stands_between_blank_lines() -> None:
    """Blank lines split, white space on them does not matter, and empty steps are dropped."""
    reply = "<think>\nhm\n\nhm\n</think>\n\none\nstill one\n \ntwo\n\n\n\nthree\n"

    assert split_steps(reply, separator=SEPARATOR) == ("one\nstill one", "two", "three")


def test_the_whole_reply_can_be_judged() -> None:
    """The paper's profile judges the thinking too."""
    steps = split_steps("<think>a\n\nb</think>\n\nc", separator=SEPARATOR, text="whole")

    assert steps == ("<think>a", "b</think>", "c")


def test_a_reply_cut_inside_its_thinking_has_no_steps() -> None:
    """There is nothing to judge, and by rule its score is 0 with empty step scores."""
    assert split_steps("<think>\nhm", separator=SEPARATOR) == ()
    assert aggregate((), "mean") == 0.0


@settings(max_examples=60)
@given(PIECES)
def test_a_reply_cannot_forge_steps(reply: str) -> None:
    """However the separator is nested in a reply, no step holds it, and none is empty."""
    steps = split_steps(reply, separator=SEPARATOR, text="whole")

    assert all(step and SEPARATOR not in step for step in steps)


@settings(max_examples=60)
@given(st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=8), st.integers(0, 40))
def test_the_longest_tail_of_steps_that_fits_is_kept(steps: list[str], limit: int) -> None:
    """Against brute force: whole leading steps go first, then the head of the last one."""

    def length(some: object) -> int:
        return 5 + sum(1 + len(step) for step in some)  # type: ignore[attr-defined]

    tails = [tuple(steps[i:]) for i in range(len(steps))]
    tails += [(steps[-1][i:],) for i in range(1, len(steps[-1]))]
    expected = next((t for t in tails if length(t) <= limit), None)

    found = fit(steps, length, limit)
    if expected is None:
        assert found is None
    else:
        assert found == Fitted(expected, truncated=expected != tuple(steps))


def test_scores_are_the_probability_of_right_at_each_separator() -> None:
    """Column 1 of each row, in order; what is off by a rounding passes."""
    assert step_scores([[0.25, 0.75], [0.999, 0.002]], 2) == (0.75, 0.002)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([], "empty"),
        ([[0.5, 0.5]], "count"),
        ([[0.5, 0.5]] * 3, "count"),
        ([[0.5, 0.5], [1.0]], "shape"),
        ([[0.5, 0.5], [0.1, 0.2, 0.7]], "shape"),
        ([[0.5, 0.5], [math.nan, math.nan]], "nan"),
        ([[0.5, 0.5], [math.inf, -math.inf]], "nan"),
        ([[0.5, 0.5], [-0.5, 1.5]], "range"),
        ([[0.5, 0.5], [2.5, -1.5]], "range"),
        ([[0.5, 0.5], [0.5, 0.4]], "sum"),
    ],
)
def test_what_cannot_be_scores_is_a_named_error(rows: list[list[float]], kind: str) -> None:
    """Two steps were sent; never is anything else read as scores, or as 0."""
    with pytest.raises(VerifierError, match=f"^{kind}: "):
        step_scores(rows, 2)


@pytest.mark.parametrize(
    ("how", "score"), [("mean", 0.5), ("min", 0.2), ("product", 0.08), ("last", 0.5)]
)
def test_step_scores_become_one_score(how: str, score: float) -> None:
    """The four readings in use."""
    assert aggregate((0.8, 0.2, 0.5), how) == pytest.approx(score)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1), max_size=50), st.sampled_from(["mean", "min", "product", "last"]))
def test_every_aggregate_of_probabilities_is_one(scores: list[float], how: str) -> None:
    """No rounding takes it out of [0, 1]."""
    assert 0 <= aggregate(scores, how) <= 1  # type: ignore[arg-type]
