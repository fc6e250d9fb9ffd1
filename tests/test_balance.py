"""What bound a run, from made-up rows of metrics.jsonl in which it is known."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.report.usage import EMPTY, pool_report

SLOTS = 10


def stats(replica: str = "g0", *, up: float, slot: float, **fields: Any) -> dict[str, Any]:
    """A replica's figures; `up` and `slot` in seconds."""
    return {
        "replica": replica,
        "max_num_seqs": SLOTS,
        "running": SLOTS,
        "waiting": 0,
        "kv_usage": 0.5,
        "preemptions": 0,
        "requests": 100,
        "prompt_tokens": 1_000,
        "completion_tokens": 2_000,
        "up_s": up,
        "span_s": up,
        "slot_s": slot,
        "request_s": SLOTS * slot,
        **fields,
    }


def row(
    at: float, left: int, generators: list[dict[str, Any]], verifiers: Any = (), **fields: Any
) -> dict[str, Any]:
    """A row `at` seconds into a phase of 100 chains."""
    return {
        "attempt": 1,
        "phase": 0,
        "chains": 100,
        "chains_stopped": 100 - left,
        "phase_seconds": at,
        "rounds": 1 if at else 0,
        "recorded": 0,
        "in_flight": 25,
        "waiting": 0,
        "engines": {"generator": generators, "verifier": list(verifiers)},
        **fields,
    }


def slot_time(**shares: float) -> dict[str, Any]:
    return pytest.approx({"used": 0.0, **dict.fromkeys(EMPTY, 0.0), **shares})


def test_a_full_run_is_bound_by_the_generator() -> None:
    """Replica figures add up; an even run with full slots needs more of them."""
    report = pool_report(
        [
            row(10, 60, [stats(up=10, slot=9), stats("g1", up=10, slot=10)]),
            row(20, 20, [stats(up=20, slot=18), stats("g1", up=20, slot=20, kv_usage=0.7)]),
        ]
    )

    assert report == {
        "generator": {
            "replicas": 2,
            "up_s": 40,
            "slot_s": 38,
            "used": 0.95,
            "least_used": 0.9,
            "most_used": 1.0,
            "kv_usage_peak": 0.7,
            "preemptions": 0,
            "requests": 200,
            "prompt_tokens": 2_000,
            "completion_tokens": 4_000,
        },
        "verifier": None,
        "slot_time": slot_time(used=0.95, control_plane=0.05),
        "bound_by": "generator",
        "sticky_rate": None,
    }


def test_the_tail_is_where_fewer_chains_are_left_than_slots() -> None:
    """From 10 chains for 10 slots evenly down to none, half of the slot time has no chain."""
    report = pool_report(
        [row(10, 10, [stats(up=10, slot=10)]), row(30, 0, [stats(up=30, slot=20)])]
    )
    assert report is not None

    assert report["slot_time"] == slot_time(used=2 / 3, tail=1 / 3)
    assert report["bound_by"] == "tail"


def test_start_and_the_time_between_phases_are_apart() -> None:
    """Engines that are up before a phase begins wait for it."""
    first = row(10, 0, [stats(up=20, slot=10)], chains=100, chains_stopped=0)
    second = row(10, 50, [stats(up=40, slot=20)], phase=1)
    report = pool_report([first, second])
    assert report is not None

    assert report["slot_time"] == slot_time(used=0.5, start=0.25, between_phases=0.25)


def test_nothing_before_the_first_round_is_anyones_fault() -> None:
    """Until a round has come, empty slots are the start's."""
    rows = [
        row(10, 100, [stats(up=10, slot=1)], rounds=0),
        row(20, 60, [stats(up=20, slot=11)]),
    ]
    report = pool_report(rows)
    assert report is not None

    assert report["slot_time"] == slot_time(used=0.55, start=0.45)
    assert report["bound_by"] == "start"


@pytest.mark.parametrize(
    ("generator", "scored_s", "fields", "reason"),
    [
        ({"preemptions": 3}, 0.0, {}, "kv_cache"),
        ({"waiting": 4, "running": 6, "kv_usage": 0.9}, 0.0, {}, "kv_cache"),
        ({"waiting": 4, "running": 6}, 0.0, {}, "control_plane"),  # they came since the last step
        ({"waiting": 4}, 0.0, {}, "control_plane"),
        ({}, 25.0, {}, "verifier"),  # a quarter of as many requests as slots, most of them waiting
        ({}, 24.0, {}, "control_plane"),
        ({}, 0.0, {"in_flight": 5, "waiting": 20}, "admission"),
        ({}, 0.0, {"in_flight": 15, "waiting": 20}, "control_plane"),
        ({}, 0.0, {"in_flight": 4, "waiting": 0}, "feed"),
        ({"span_s": 5.0}, 0.0, {}, "start"),  # the first request came halfway
    ],
)
def test_why_slots_were_empty(
    generator: dict[str, Any], scored_s: float, fields: dict[str, Any], reason: str
) -> None:
    """Half of the slots are empty although chains are left: where the chains were says why."""
    judges = [stats("v0", up=10, slot=1.0, request_s=scored_s)]
    report = pool_report([row(10, 50, [stats(up=10, slot=5, **generator)], judges, **fields)])
    assert report is not None

    assert report["slot_time"] == slot_time(used=0.5, **{reason: 0.5})
    assert report["bound_by"] == reason


def test_many_preemptions_are_the_kv_cache_even_of_a_full_run() -> None:
    """What is generated twice keeps slots full too."""
    report = pool_report([row(10, 50, [stats(up=10, slot=10, preemptions=6)])])
    assert report is not None

    assert report["bound_by"] == "kv_cache"


def test_lives_of_replicas_and_attempts_add_up() -> None:
    """A replica whose figures begin anew has died; the next attempt's are others."""
    rows = [
        row(10, 80, [stats(up=10, slot=10, preemptions=2)]),
        row(20, 60, [stats(up=5, slot=5, preemptions=1)]),
        row(10, 50, [stats("h0", up=10, slot=10)], attempt=2),
    ]
    report = pool_report(rows)
    assert report is not None

    generator = report["generator"]
    assert (generator["replicas"], generator["up_s"], generator["slot_s"]) == (1, 25, 25)
    assert (generator["preemptions"], generator["requests"]) == (3, 300)


def used(replicas: int, seconds: float) -> dict[str, Any]:
    return {"replicas": replicas, "slot_s": seconds}
