"""The model of speed, the makespan of chains, and the split that is proposed."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.replica_model import Speed, makespan
from benchmarks.workload import jobs
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.makespan import Chains, makespan_s
from pipeline.planning.pool_plan import generator_plan, place
from pipeline.planning.proposal import applied, proposal_of
from pipeline.planning.run_plan import modelled_tokens_per_s, plan_of

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


# tensor parallelism, sequences, tokens held, milliseconds a step: benchmarks.decode_speed, 7B, H200
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


def test_a_long_chain_calls_for_tensor_parallelism():
    """One GPU a replica, 64 rounds of 10,000 tokens, 16 GPUs: fewer, wider replicas are proposed,
    and the figures of the proposal are those of a dry run of it."""
    config = RunConfig.load(
        "configs/qwen-7b-aime-4-nodes.yaml",
        [
            "runtime.generator.engine.tensor_parallel_size=1",
            "runtime.generator.max_replicas=12",
            "runtime.generator.target_ongoing_requests=12",
        ],
    )
    found = proposal_of(config)

    assert found is not None
    assert found.changes["generator.engine.tensor_parallel_size"] > 1
    assert found.plan.hours < 0.7 * plan_of(config).hours
    assert plan_of(found.config).hours == found.plan.hours
    assert found.config.science_digest() == config.science_digest()


def test_a_proposal_is_used_where_that_is_asked_for():
    """`plan.apply` alone decides; what is proposed then proposes nothing further."""
    loose = "runtime.generator.max_replicas=2"
    plain = RunConfig.load("configs/qwen-7b-4-nodes.yaml", [loose])
    asked = RunConfig.load("configs/qwen-7b-4-nodes.yaml", [loose, "runtime.plan.apply=true"])

    assert applied(plain) == plain
    assert plan_of(applied(asked)).hours < plan_of(plain).hours
    assert proposal_of(applied(asked)) is None


@pytest.mark.parametrize("name", ["qwen-7b", "llama-8b", "qwq-32b"])
@pytest.mark.parametrize("size", ["", "-4-nodes"])
def test_the_configurations_of_aime_are_the_best_of_their_gpus(name, size):
    """No other split of the GPUs that they name is clearly shorter."""
    assert proposal_of(RunConfig.load(f"configs/{name}-aime{size}.yaml")) is None


ODD = {
    "one GPU": ("qwen-7b", 1, 1, ["science.verifier=null"]),
    "three GPUs a node, two nodes": ("qwen-7b-aime", 2, 3, []),
    "two GPUs a node, wide generators": ("llama-8b-aime", 3, 2, []),
    "too large for one GPU": ("qwq-32b", 1, 3, ["runtime.generator.replicas=1"]),
    "verifiers on nodes of their own": (
        "qwen-7b-aime",
        3,
        2,
        ["runtime.verifier.label_selector={kind: reader}"],
    ),
    "a verifier wider than a node": (
        "qwen-7b-aime",
        3,
        1,
        ["runtime.verifier.engine.tensor_parallel_size=2"],
    ),
    "one completion a question": ("qwen-7b-aime", 1, 4, ["science.strategy.n=2"]),
    "more chains than slots": ("qwen-7b", 1, 4, ["runtime.generator.engine.max_num_seqs=2"]),
    "a stated speed": ("qwen-7b-aime", 1, 4, ["runtime.plan.tokens_per_s=2000"]),
}


@pytest.mark.parametrize("case", ODD)
def test_no_split_of_an_odd_cluster_is_clearly_better_than_the_proposed_one(case):
    """Against every number of replicas of every width, planned one by one; and what is proposed
    proposes itself."""
    name, nodes, gpus, more = ODD[case]
    of = [f"runtime.plan.nodes={nodes}", f"runtime.plan.gpus_per_node={gpus}", *more]
    if "science.verifier=null" in of:
        of.append("science.strategies=[base, mr_thinking]")
    config = RunConfig.load(f"configs/{name}.yaml", of)
    found = proposal_of(config)
    got = hours_of(config) if found is None else found.plan.hours

    assert got <= hours_of(config)
    assert got <= 1.031 * min(map(hours_of, every_split(config)))
    assert got < float("inf")
    assert found is None or proposal_of(found.config) is None


def test_more_gpus_than_a_pool_may_have_replicas():
    """A cluster of a million GPUs is planned as any other, with as many replicas as a pool may
    have."""
    of = ["runtime.plan.nodes=1000", "runtime.plan.gpus_per_node=1024"]
    found = proposal_of(RunConfig.load("configs/qwen-7b-aime.yaml", of))

    assert found is not None
    assert 1 <= found.config.runtime.generator.replicas <= 10_000
    assert found.plan.gpus <= 1_000 * 1_024


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


def hours_of(config):
    """Planned; inf where it does not fit."""
    try:
        return plan_of(config).hours
    except ConfigError:
        return float("inf")


def every_split(config):
    """With the slots as configured and 64."""
    plan, verifies = config.runtime.plan, config.science.verifier is not None
    gpus, slots = plan.nodes * plan.gpus_per_node, config.runtime.generator.engine.max_num_seqs
    modelled = None if plan.tokens_per_s is None else modelled_tokens_per_s(config)
    for width, most, judges, replicas in itertools.product(
        (1, 2, 4),
        {slots, min(slots, 64)},
        range(1, gpus) if verifies else (0,),
        range(1, gpus + 1),
    ):
        if replicas * width + judges > gpus:
            continue
        values = config.model_dump()
        generator, verifier = values["runtime"]["generator"], values["runtime"]["verifier"]
        generator["replicas"], verifier["replicas"] = replicas, judges or 1
        generator["engine"] |= {"tensor_parallel_size": width, "max_num_seqs": most}
        verifier["engine"]["tensor_parallel_size"] = 1
        split = RunConfig.model_validate(values)
        if modelled is not None:
            factor = modelled_tokens_per_s(split) / modelled
            values["runtime"]["plan"]["tokens_per_s"] = plan.tokens_per_s * factor
            split = RunConfig.model_validate(values)
        yield split


def test_a_stated_speed_is_that_of_a_full_replica_and_emptier_ones_are_no_slower():
    """Full, a replica writes as much as is stated; a chain alone is faster than in a full batch."""
    speed = "runtime.plan.tokens_per_s=2000"
    pool = plan_of(RunConfig.load("configs/qwen-7b-aime.yaml", [speed])).pools[0]

    assert pool.slots / pool.step_s(pool.slots) == pytest.approx(2000)
    assert pool.step_s(1) < pool.step_s(pool.slots)


@pytest.mark.parametrize(("slots", "count"), [(1, 5), (16, 100), (64, 40)])
def test_a_makespan_is_that_of_a_simulated_replica(slots, count):
    """The plan's closed loop and the event simulation of the benchmarks agree."""
    speed, work = Speed(4e-3, 2e-5), jobs(count, mean_tokens=100, most_tokens=500)
    got = makespan_s(
        [Chains(1, job.total) for job in work], replicas=1, places=slots, step_s=speed.step_s
    )

    assert got == pytest.approx(makespan(work, "longest_first", slots, speed))
