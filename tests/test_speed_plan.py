"""The model of speed, the makespan of chains and the placement of replicas."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workload import jobs
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.pool_plan import generator_plan, place
from pipeline.planning.run_plan import Chains, makespan_s, plan_of

CLASSES = st.lists(
    st.builds(Chains, count=st.integers(1, 50), tokens=st.integers(1, 5_000)),
    min_size=1,
    max_size=5,
)


def step(sequences: float) -> float:
    """A step that a fuller batch makes slower."""
    return 1.0 + 0.1 * sequences


@given(CLASSES, st.integers(1, 4), st.integers(1, 30))
def test_no_run_is_shorter_than_its_longest_chain_or_its_tokens(chains, replicas, places):
    """The two bounds that a plan must respect, and no more than one after the other."""
    got = makespan_s(chains, replicas=replicas, places=places, step_s=step)
    tokens = sum(c.count * c.tokens for c in chains)
    longest = max(c.tokens for c in chains)

    assert got >= longest * step(1) * (1 - 1e-9)
    assert got >= tokens / (replicas * places / step(places)) * (1 - 1e-9)
    assert got <= tokens * step(1) * (1 + 1e-9)


@given(CLASSES, st.integers(1, 4), st.integers(1, 30))
def test_more_replicas_take_no_longer_with_equal_chains(chains, replicas, places):
    """Chains of one length: a replica more never harms."""
    same = [Chains(c.count, 100) for c in chains]
    few, more = (
        makespan_s(same, replicas=r, places=places, step_s=step) for r in (replicas, replicas + 1)
    )

    assert more <= few * (1 + 1e-9)


def test_a_makespan_by_hand():
    """Chains of 10, 10 and 30 tokens in two places: 20 steps with two in the batch, 10 with one."""
    chains = [Chains(2, 10), Chains(1, 30)]

    got = makespan_s(chains, replicas=1, places=2, step_s=step)

    assert got == pytest.approx(20 * step(2) + 10 * step(1))


# tensor parallelism, sequences, tokens held, milliseconds a step: 7B, H200 (benchmarks/RESULTS.md)
MEASURED = [
    (1, 1, 336, 4.808),
    (1, 32, 336, 5.274),
    (1, 128, 336, 6.473),
    (1, 256, 336, 9.742),
    (1, 1, 16464, 5.062),
    (1, 8, 16464, 6.862),
    (1, 64, 4176, 9.145),
    (2, 1, 336, 3.554),
    (2, 8, 336, 3.903),
    (2, 32, 336, 4.134),
    (2, 128, 336, 5.321),
    (2, 256, 336, 8.165),
    (2, 1, 16464, 3.786),
    (2, 8, 16464, 4.705),
]


@pytest.mark.parametrize(("parallel", "sequences", "held", "measured"), MEASURED)
def test_the_model_of_speed_meets_what_was_measured(parallel, sequences, held, measured):
    """Within 4 % on the cards that it was fitted to."""
    config = RunConfig.load(
        "configs/qwen-7b.yaml",
        [
            "runtime.plan.gpu=H200",
            f"runtime.generator.engine.tensor_parallel_size={parallel}",
            f"runtime.generator.engine.max_num_seqs={max(sequences, 2)}",
        ],
    )
    pool = generator_plan(
        config.science,
        config.runtime.generator,
        config.runtime.plan,
        chains=sequences,
        held_tokens=held,
    )

    assert 1_000 * pool.step_s(sequences) == pytest.approx(measured, rel=0.037)


WIDTHS = st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.7, 1, 2, 3, 4, 8])
POOLS = st.builds(
    SimpleNamespace,
    kind=st.sampled_from(["generator", "verifier"]),
    replicas=st.integers(0, 20),
    gpus=WIDTHS,
    labels=st.sampled_from([(), (("zone", "a"),)]),
)


@given(st.lists(POOLS, min_size=1, max_size=2), st.integers(1, 8), st.integers(8, 9))
def test_replicas_are_placed_as_if_one_by_one(pools, nodes, gpus):
    """Each goes to the first node with its labels and room: whole GPUs, or the fullest part."""
    wanted: list[tuple[tuple, list[float]]] = []
    for pool in sorted(pools, key=lambda pool: -pool.gpus):
        each, width = min(pool.gpus, 1.0), max(1, int(pool.gpus))
        for _ in range(pool.replicas):
            while True:
                for labels, free in wanted:
                    room = sorted((part, i) for i, part in enumerate(free) if part >= each - 1e-9)
                    if labels == pool.labels and len(room) >= width:
                        break
                else:
                    wanted.append((pool.labels, [1.0] * gpus))
                    continue
                for _, i in room[:width]:
                    free[i] = max(0.0, free[i] - each)
                break
    if len(wanted) > nodes:
        with pytest.raises(ConfigError, match=f"take {len(wanted)} nodes"):
            place(pools, SimpleNamespace(nodes=nodes, gpus_per_node=gpus))
        return
    placed = place(pools, SimpleNamespace(nodes=nodes, gpus_per_node=gpus))

    assert [(node.labels, list(node.free)) for node in placed] == wanted
    assert sum(node.replicas.total() for node in placed) == sum(pool.replicas for pool in pools)


def test_a_stated_speed_is_that_of_a_full_replica_and_emptier_ones_are_no_slower():
    """Full, a replica writes as much as is stated; a chain alone is faster than in a full batch."""
    speed = "runtime.plan.tokens_per_s=2000"
    pool = plan_of(RunConfig.load("configs/qwen-7b-aime.yaml", [speed])).pools[0]

    assert pool.slots / pool.step_s(pool.slots) == pytest.approx(2000)
    assert pool.step_s(1) < pool.step_s(pool.slots)


@pytest.mark.parametrize(("slots", "count"), [(1, 5), (16, 100), (64, 40)])
def test_a_makespan_is_that_of_a_simulated_replica(slots, count):
    """The plan's closed loop agrees with a simulation from one end of a chain to the next."""
    work = jobs(count, mean_tokens=100, most_tokens=500)
    got = makespan_s([Chains(1, job.total) for job in work], replicas=1, places=slots, step_s=step)
    waiting, batch, seconds = sorted(job.total for job in work), [], 0.0
    while waiting or batch:
        while waiting and len(batch) < slots:
            batch.append(waiting.pop())
        steps = min(batch)
        seconds += steps * step(len(batch))
        batch = [left - steps for left in batch if left > steps]

    assert got == pytest.approx(seconds)
