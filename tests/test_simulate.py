"""The simulator: against arithmetic, against a measured prototype, and against itself."""

from __future__ import annotations

import pytest

from benchmarks.cluster_model import Cluster, Servers, simulate
from benchmarks.replica_model import MEASURED_S, SLOTS, Replica, Speed, calibrated, makespan
from benchmarks.simulate import (
    Costs,
    Settings,
    needed,
    orders,
    split,
    tails,
    utilisations,
    validation,
)
from benchmarks.workload import Job, jobs

SPEED = Speed(base_s=0.01, sequence_s=0.001)


def job(rounds: int, tokens: int) -> Job:
    return Job(question_id="1", text="?", rounds=rounds, tokens=tokens)


def test_sequences_share_steps() -> None:
    """Two of 10 and 20 tokens: ten steps for both, then ten for one alone."""
    work = [job(1, 10), job(1, 20)]

    assert makespan(work, "raw", 2, SPEED) == pytest.approx(10 * 0.012 + 10 * 0.011)
    assert makespan(work, "raw", 1, SPEED) == pytest.approx(30 * 0.011)


def test_a_barrier_waits_for_the_longest() -> None:
    """Chains that go on at once beat a batch a round."""
    work = [job(2, 10), job(1, 30), job(2, 10)]

    barrier = 10 * 0.013 + 20 * 0.011 + 10 * 0.012
    chains = 10 * 0.013 + 10 * 0.013 + 10 * 0.011
    assert makespan(work, "barrier", 3, SPEED) == pytest.approx(barrier)
    assert makespan(work, "arrival", 3, SPEED) == pytest.approx(chains)


def test_the_urgent_are_served_first() -> None:
    """Of those that wait for a place the one with the lowest priority value gets it."""
    replica = Replica(SPEED, slots=1)
    for name, priority in ((0, 0.0), (1, 5.0), (2, -5.0)):
        replica.enter(0.0, name, 10, priority)
    left = [replica.leave(replica.next_s()) for _ in range(3)]

    assert left == [[0], [2], [1]]
    assert replica.slot_s == pytest.approx(30 * 0.011)


def test_calibration_hits_its_figure() -> None:
    """The speed is the one with which the calibration's chains take as long as measured."""
    work = jobs(1_000, mean_tokens=160, most_tokens=400)

    assert sum(each.total for each in work) == 346_098
    assert makespan(work, "longest_first", SLOTS, calibrated()) == pytest.approx(
        MEASURED_S, rel=1e-3
    )
    with pytest.raises(ValueError, match="base_s must allow 1 s"):
        calibrated(measured_s=1.0)


def test_the_prototype_is_met_within_eleven_percent() -> None:
    """Barrier, arrival and longest first come out 5 to 9 % slow, independent requests 10 % fast.

    The tolerance is what the model is good for: prefill is not in it, and the prototype's lengths
    are a guess.
    """
    off = validation(calibrated())

    assert set(off) == {"barrier", "arrival", "longest_first", "raw"}
    assert all(abs(ratio - 1) < 0.11 for ratio in off.values())
    assert off["barrier"] / off["longest_first"] == pytest.approx(1, abs=0.05)
    assert off["arrival"] / off["longest_first"] == pytest.approx(1, abs=0.05)


def test_better_forecasts_make_shorter_runs() -> None:
    """True lengths first, then a forecast with errors, then the mean, then arrival."""
    seconds = orders(calibrated())

    assert list(seconds) == ["oracle", "predicted", "running_mean", "arrival"]
    assert seconds["oracle"] <= seconds["predicted"] + 1e-6
    assert seconds["predicted"] < seconds["running_mean"] < seconds["arrival"]


def test_a_cluster_of_one_is_a_replica() -> None:
    """Without verifier and with a free control plane both simulations are the same."""
    work = sorted(jobs(300, mean_tokens=80, most_tokens=400), key=lambda each: -each.total)
    cluster = Cluster(generators=1, slots=64, speed=SPEED, admitted=1.0)
    ran = simulate(work, cluster)

    assert ran.seconds == pytest.approx(makespan(work, "arrival", 64, SPEED))
    assert (ran.tokens, ran.chains) == (sum(each.total for each in work), 300)
    assert ran.rounds == sum(each.rounds for each in work)


def test_benchmarks_in_one_run_fill_each_others_tails() -> None:
    """Never slower than one after another, and clearly faster where small ones have long chains."""
    seconds = tails(calibrated())

    assert seconds["in_one_run"] < 0.7 * seconds["one_after_another"]


def test_what_is_too_slow_decides() -> None:
    """Controllers, Ray Data's feed or the verifier: a run is as long as the slowest of them."""
    work = jobs(300, mean_tokens=80, most_tokens=400)
    rounds, tokens = sum(j.rounds for j in work), sum(j.total for j in work)
    cluster = {"generators": 4, "slots": 64, "speed": SPEED}

    slow = simulate(work, Cluster(round_s=0.5, **cluster))
    fed = simulate(work, Cluster(feed_s=2.0, **cluster))
    judged = simulate(work, Cluster(verifiers=2, verifier_tokens_per_s=100.0, **cluster))
    assert slow.seconds == pytest.approx(0.5 * rounds, rel=0.05)
    assert fed.seconds == pytest.approx(2.0 * 300, rel=0.05)
    assert judged.seconds == pytest.approx(tokens / 200, rel=0.05)
    assert min(slow.controllers_used, fed.feed_used, judged.verifiers_used) > 0.95


def test_servers_take_turns() -> None:
    """What comes is served by the one that is free first."""
    two = Servers(2)

    assert [two.serve(0.0, 3.0), two.serve(1.0, 1.0), two.serve(1.0, 1.0)] == [3.0, 2.0, 3.0]
    assert two.busy_s == 5.0


def test_settings_keep_resources_below_their_limit() -> None:
    """Enough controllers for 60 %, and blocks as large as the feed needs, up to 16 rows."""
    costs = Costs(
        own_s=0.001,
        call_s=0.002,
        latency_s=0.003,
        tasks_per_s=400,
        flush_s=5.0,
        verifier_tokens_per_s=20_000,
    )

    assert needed(10, 4, costs) == Settings(controllers=1, rows_per_block=8)
    assert needed(1_200, 2_400, costs) == Settings(controllers=10, rows_per_block=10)
    assert needed(1_200, 9_000, costs).rows_per_block == 16
    assert utilisations(1_200, 2_400, costs, Settings()) == pytest.approx(
        {"controllers": 6.0, "ray_data_feed": 0.75, "journal_puts": 1 / 17_500}
    )


def test_split_balances_pools() -> None:
    """Verifiers twice as fast as generators get a third of the GPUs."""
    speed = Speed(base_s=0.0, sequence_s=1e-4)  # 10,000 tokens/s

    assert split(12, speed, 20_000) == (8, 4)
    assert split(2, speed, 20_000) == (1, 1)
