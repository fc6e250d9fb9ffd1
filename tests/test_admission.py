"""Adaptive admission: bounds that hold whatever engines say, and what each signal does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.admission import Admission, AdmissionRule, Pressure, Seen, opened, shares

RULE = AdmissionRule(floor=10, ceiling=1_000)


def seen(in_flight: int, *, preemptions: int = 0, waiting: int = 0, capacity: int = 0) -> Seen:
    return Seen(
        capacity_tokens=capacity, preemptions=preemptions, waiting=waiting, in_flight=in_flight
    )


moments = st.tuples(
    st.floats(0, 20),
    st.builds(
        Seen,
        capacity_tokens=st.integers(0, 10_000_000),
        preemptions=st.integers(0, 50),
        waiting=st.integers(0, 50),
        in_flight=st.integers(0, 5_000),
    ),
    st.tuples(st.integers(0, 20_000), st.floats(0, 3_600)),
)


@settings(max_examples=100)
@given(
    st.integers(1, 500),
    st.integers(0, 5_000),
    st.integers(0, 10_000),
    st.lists(moments, max_size=40),
)
def test_the_cap_stays_within_its_bounds(
    floor: int, more: int, cap: int, history: list[tuple[float, Seen, tuple[int, float]]]
) -> None:
    """Whatever is seen, in whatever order: floor <= cap <= ceiling, and bursts of a tenth."""
    now, state = 0.0, opened(AdmissionRule(floor=floor, ceiling=floor + more), cap, 0.0)
    for pause, what, (tokens, seconds) in history:
        now += pause
        state = state.ended(tokens, seconds).looked(what, now)
        room = state.room(what.in_flight)

        assert floor <= state.cap <= floor + more
        assert 0 <= room <= max(0, state.cap - what.in_flight)
        assert room <= state.cap / 10 + 1
        assert not (state.frozen and room)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 9)), max_size=30))
def test_a_queue_holds_the_cap(history: list[tuple[float, int]]) -> None:
    """While requests wait in the engines the cap does not move."""
    now, state = 0.0, opened(RULE, 100, 0.0)
    for pause, more in history:
        now += pause
        state = state.looked(seen(100, waiting=1 + more), now)

        assert state.cap == 100
        assert state.pressure is Pressure.SOFT


def test_a_preemption_cuts_and_freezes_until_drained() -> None:
    """Three quarters of what is at work; nobody comes in until that has drained."""
    cut = opened(RULE, 400, 0.0).looked(seen(400, preemptions=1), 1.0)
    still = cut.looked(seen(350, preemptions=4), 9.0)
    waits = still.looked(seen(300, preemptions=4, waiting=2), 10.0)
    drained = waits.looked(seen(300, preemptions=4), 11.0)

    assert (cut.cap, cut.frozen, cut.room(0)) == (300, True, 0)
    assert (still.cap, still.frozen) == (300, True)  # one overload is answered once
    assert (waits.cap, waits.frozen) == (300, True)
    assert (drained.cap, drained.frozen, drained.room(200)) == (300, False, 30)


def test_preemptions_without_end_lead_to_the_floor() -> None:
    """A cap that is still too high is cut again, down to what keeps the batch full."""
    state, now = opened(RULE, 1_000, 0.0), 0.0
    for number in range(1, 40):
        now += 10
        state = state.looked(seen(state.cap, preemptions=number), now)
        state = state.looked(seen(state.cap, preemptions=number), now + 1)

    assert state.cap == 10


def test_a_binding_cap_grows_by_two_percent_a_window() -> None:
    """Only where the cap holds chains back, and only once a window."""
    state = opened(RULE, 100, 0.0)
    early = state.looked(seen(100), 4.9)
    slack = state.looked(seen(90), 5.0)
    bound = state.looked(seen(100), 5.0)

    assert (early.cap, slack.cap, bound.cap) == (100, 100, 102)


def test_clear_engines_lead_to_the_ceiling() -> None:
    """With nothing in its way the cap reaches the most that controllers carry."""
    state = opened(RULE, 100, 0.0)
    for number in range(1, 200):
        state = state.looked(seen(state.cap), 5.0 * number)

    assert state.cap == 1_000


def test_the_cap_follows_the_tokens_of_a_chain() -> None:
    """kappa C / G, in which chains count by the time that they took."""
    learnt = opened(RULE, 100, 0.0).ended(1_000, 30.0).ended(4_000, 29.4)
    state = learnt.looked(seen(50, capacity=500_000), 5.0)

    assert learnt.tokens_a_chain == pytest.approx(2_500)
    assert state.cap == 200


def test_growth_goes_on_from_a_cut() -> None:
    """After an overload the cap does not jump back to where it was."""
    state = opened(RULE, 200, 0.0).ended(2_500, 30.0)
    cut = state.looked(seen(200, preemptions=1, capacity=500_000), 5.0)
    opened_again = cut.looked(seen(150, preemptions=1, capacity=500_000), 6.0)
    grown = opened_again.looked(seen(150, preemptions=1, capacity=500_000), 11.0)

    assert (cut.cap, opened_again.cap, grown.cap) == (150, 150, 153)


def test_an_engine_that_was_replaced_is_no_overload() -> None:
    """Its count begins at 0 again; preemptions after that are answered."""
    state = replace(opened(RULE, 100, 0.0), preemptions=7)
    fewer = state.looked(seen(100, preemptions=2), 1.0)

    assert fewer.pressure is Pressure.CLEAR
    assert fewer.looked(seen(100, preemptions=3), 2.0).pressure is Pressure.HARD


def test_shares() -> None:
    """Controllers get what adds up to the cap, and one chain at least."""
    assert shares(10, 3) == (4, 3, 3)
    assert shares(2, 4) == (1, 1, 1, 1)


def test_what_cannot_be() -> None:
    """Bounds, clock and figures are checked."""
    state: Admission = opened(RULE, 100, 5.0)

    with pytest.raises(ValueError, match=r"floor must be in \[1, ceiling\], got 5 and ceiling 4"):
        AdmissionRule(floor=5, ceiling=4)
    with pytest.raises(ValueError, match="window_s must be > 0, got 0"):
        AdmissionRule(floor=1, ceiling=4, window_s=0)
    with pytest.raises(ValueError, match=r"now_s must be >= 5\.0, got 4"):
        state.looked(seen(1), 4)
    with pytest.raises(ValueError, match="tokens and seconds must be >= 0, got -1 and 2"):
        state.ended(-1, 2)
    with pytest.raises(ValueError, match="controllers must be >= 1, got 0"):
        shares(3, 0)
