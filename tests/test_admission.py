"""Adaptive admission: bounds that hold whatever engines say, and what each signal does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.protocol import Completion, Failure
from pipeline.planning.admission import (
    Admission,
    AdmissionRule,
    EngineCounts,
    Pressure,
    held_tokens,
    opened,
)

RULE = AdmissionRule(floor=10, ceiling=1_000)


def seen(in_flight: int, *, preemptions: int = 0, capacity: int = 0, **more: int) -> EngineCounts:
    """Chains wait to be admitted, unless `more` says otherwise."""
    return EngineCounts(
        capacity_tokens=capacity,
        preemptions=preemptions,
        waiting=more.get("waiting", 0),
        unscored=more.get("unscored", 0),
        in_flight=in_flight,
        held_back=more.get("held_back", 1),
    )


bounds = st.tuples(st.integers(1, 500), st.integers(0, 5_000)).map(
    lambda pair: AdmissionRule(floor=pair[0], ceiling=sum(pair))
)
moments = st.tuples(
    st.floats(0, 20),
    st.builds(
        EngineCounts,
        capacity_tokens=st.integers(0, 10_000_000),
        preemptions=st.integers(0, 50),
        waiting=st.integers(0, 50),
        unscored=st.integers(0, 5),
        in_flight=st.integers(0, 5_000),
        held_back=st.integers(0, 5),
    ),
    st.tuples(st.integers(0, 20), st.floats(0, 1e9), st.floats(0, 1e5)),
    st.none() | bounds,
)


@settings(max_examples=100)
@given(bounds, st.integers(0, 10_000), st.lists(moments, max_size=40))
def test_the_cap_stays_within_its_bounds(
    rule: AdmissionRule,
    cap: int,
    history: list[tuple[float, EngineCounts, tuple[int, float, float], None]],
) -> None:
    """Whatever is seen, in whatever order: floor <= limit <= cap <= ceiling, a rise is a tenth at
    most, and an overload that drains holds chains back at the floor."""
    now, state = 0.0, opened(rule, cap, 0.0)
    for pause, what, (chains, token_s, held_s), other in history:
        now += pause
        before = state.ended(chains, token_s, held_s).under(other or state.rule)
        state = before.looked(what, now)

        assert state.rule.floor <= state.limit <= state.cap <= state.rule.ceiling
        assert state.cap <= before.cap * 1.1 + 1
        assert state.cap >= before.cap or what.preemptions > before.preemptions
        assert not state.frozen or state.limit <= max(before.limit, state.rule.floor)
        assert state.limit <= max(before.limit, what.in_flight + 1 + state.cap / 10)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 9), st.integers(0, 9)), max_size=30),
    st.booleans(),
)
def test_a_queue_holds_the_cap(history: list[tuple[float, int, int]], scores: bool) -> None:
    """While requests wait in the engines of either kind the cap does not move."""
    now, state = 0.0, opened(RULE, 100, 0.0)
    for pause, more, others in history:
        now += pause
        queues = {"waiting": others, "unscored": 3 + more} if scores else {"waiting": 3 + more}
        state = state.looked(seen(100, **queues), now)

        assert (state.cap, state.limit) == (100, 100)
        assert state.pressure is Pressure.SOFT


def test_a_request_or_two_that_wait_are_no_queue() -> None:
    """More than a fiftieth of the chains at work are: one of ten chains, three of a hundred."""
    few, many = opened(RULE, 10, 0.0), opened(RULE, 100, 0.0)

    assert few.looked(seen(10, waiting=1), 1.0).pressure is Pressure.SOFT
    assert many.looked(seen(100, waiting=2, unscored=2), 1.0).pressure is Pressure.CLEAR
    assert many.looked(seen(100, waiting=3), 1.0).pressure is Pressure.SOFT
    assert many.looked(seen(100, unscored=3), 1.0).pressure is Pressure.SOFT


def test_a_preemption_cuts_and_holds_back_until_drained() -> None:
    """Three quarters of what is at work; nobody comes in above the floor until that has drained.
    What waits for its score holds no KV cache, and does not count."""
    cut = opened(RULE, 400, 0.0).looked(seen(400, preemptions=1), 1.0)
    still = cut.looked(seen(350, preemptions=4), 9.0)
    waits = still.looked(seen(300, preemptions=4, waiting=7), 10.0)
    drained = waits.looked(seen(280, preemptions=4, waiting=5, unscored=7), 11.0)
    refilled = drained.looked(seen(295, preemptions=4), 12.0)

    assert (cut.cap, cut.frozen, cut.limit) == (300, True, 10)
    assert (still.cap, still.frozen, still.limit) == (300, True, 10)  # answered once
    assert (waits.cap, waits.frozen, waits.limit) == (300, True, 10)
    assert (drained.cap, drained.frozen, drained.limit) == (300, False, 300)
    assert (refilled.cap, refilled.limit) == (300, 300)


def test_what_was_drained_is_refilled_in_bursts() -> None:
    """A tenth of the cap above what is at work, each time it is looked at."""
    cut = opened(RULE, 400, 0.0).looked(seen(400, preemptions=1), 1.0)
    first = cut.looked(seen(200, preemptions=1), 4.0)
    second = first.looked(seen(230, preemptions=1), 7.0)
    fewer = second.looked(seen(210, preemptions=1), 8.0)
    last = fewer.looked(seen(280, preemptions=1), 9.0)

    assert [state.limit for state in (first, second, fewer, last)] == [230, 260, 260, 300]
    assert last.cap == 300


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
    slack = state.looked(seen(100, held_back=0), 5.0)
    bound = state.looked(seen(100), 5.0)

    assert (early.cap, slack.cap, bound.cap, bound.limit) == (100, 100, 102, 102)


def test_room_in_the_kv_cache_makes_the_cap_grow_faster() -> None:
    """A tenth a window up to kappa C / G, in which chains count by the time that they took."""
    learnt = opened(RULE, 100, 0.0).ended(1, 1_000 * 30.0, 30.0).ended(1, 4_000 * 29.4, 29.4)
    caps, state = [], learnt
    for number in range(1, 6):
        state = state.looked(seen(state.cap, capacity=325_000), 5.0 * number)
        caps.append(state.cap)

    assert learnt.tokens_a_chain == pytest.approx(2_500)
    assert caps == [110, 121, 134, 140, 143]  # C / G is 130; kappa grows by 2 % each time


def test_an_engine_that_was_replaced_is_no_overload() -> None:
    """Its count begins at 0 again; preemptions after that are answered."""
    state = replace(opened(RULE, 100, 0.0), preemptions=7)
    fewer = state.looked(seen(100, preemptions=2), 1.0)

    assert fewer.pressure is Pressure.CLEAR
    assert fewer.looked(seen(100, preemptions=3), 2.0).pressure is Pressure.HARD


def test_other_bounds_move_the_cap_only_as_far_as_they_must() -> None:
    """Replicas come and go while the run is on."""
    state = opened(RULE, 100, 0.0)
    frozen = state.looked(seen(100, preemptions=1), 1.0)
    higher = AdmissionRule(floor=120, ceiling=200)

    assert state.under(RULE) == state
    assert (state.under(higher).cap, state.under(higher).limit) == (120, 120)
    assert state.under(AdmissionRule(floor=1, ceiling=60)).limit == 60
    assert (frozen.cap, frozen.limit, frozen.under(higher).limit) == (75, 10, 120)


def test_a_chain_holds_its_prompt_once_and_all_that_is_made_of_it() -> None:
    """Samples share their prompt; a failure that cannot tell its tokens has none."""
    samples = [
        Completion(text="", prompt_tokens=100, completion_tokens=30),
        Completion(text="", prompt_tokens=100, completion_tokens=50),
        Failure(error="x", completion_tokens=7),
        Failure(error="x"),
    ]

    assert held_tokens(samples) == 187
    assert held_tokens([]) == 0


def test_what_cannot_be() -> None:
    """Bounds, clock and figures are checked."""
    state: Admission = opened(RULE, 100, 5.0)

    with pytest.raises(ValueError, match=r"floor must be in \[1, ceiling\], got 5 and ceiling 4"):
        AdmissionRule(floor=5, ceiling=4)
    with pytest.raises(ValueError, match="window_s must be > 0, got 0"):
        AdmissionRule(floor=1, ceiling=4, window_s=0)
    with pytest.raises(ValueError, match=r"now_s must be >= 5\.0, got 4"):
        state.looked(seen(1), 4)
    with pytest.raises(ValueError, match=r"must be >= 0, got -1, 2\.0 and 2\.0"):
        state.ended(-1, 2.0, 2.0)
    with pytest.raises(ValueError, match=r"must be >= 0, got 1, 2\.0 and nan"):
        state.ended(1, 2.0, float("nan"))
