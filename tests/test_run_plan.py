"""The plan of a run: loads, placement, admission and hours."""

import pytest

from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.run_plan import plan_of
from pipeline.strategies import STRATEGIES

BACKBONES = ("qwen-7b", "llama-8b", "qwq-32b")
OF_BACKBONES = [
    f"configs/{name}{task}{size}.yaml"
    for name in BACKBONES
    for task in ("", "-aime")
    for size in ("", "-4-nodes")
]


def load(path="configs/qwen-7b.yaml", *overrides):
    return RunConfig.load(path, overrides)


@pytest.mark.parametrize("path", OF_BACKBONES)
def test_every_config_of_the_paper_fits_what_it_names(path):
    """Each fits its GPUs, keeps ten chains of the longest context a replica, and is the paper's."""
    config = load(path)
    plan = plan_of(config)
    generator = plan.pools[0]
    aime = "-aime" in path

    assert len(plan.nodes) == config.runtime.plan.nodes == (4 if "4-nodes" in path else 1)
    assert all(node.free_gpus == 0 or "qwq" in path for node in plan.nodes)
    assert generator.fit.full_sequences >= 10
    assert config.science.decoding.temperature == 0.7
    assert config.science.decoding.top_p == 0.95
    assert config.science.decoding.max_tokens == (16_000 if aime else 10_000)
    assert {load.chain_tokens > 0 for load in plan.loads} == {True}
    names = [source.name for source in config.science.benchmarks]
    assert names == (["aime24", "aime25"] if aime else ["math500", "gsm8k", "amc23"])
    assert config.science.strategy["n"] == 64
    # admission by the engines' own KV cache is what the batch may hold without preemption
    assert config.runtime.generator.engine.max_num_seqs <= 1.1 * generator.slots


@pytest.mark.parametrize("name", BACKBONES)
def test_variants_of_a_backbone_differ_only_where_they_must(name):
    """Four nodes change no science, and AIME only benchmarks, completion length and context."""
    plain, aime = load(f"configs/{name}.yaml"), load(f"configs/{name}-aime.yaml")
    differing = {line.partition(":")[0] for line in plain.differing_science(aime)}

    for task in ("", "-aime"):
        one = load(f"configs/{name}{task}.yaml")
        assert one.science == load(f"configs/{name}{task}-4-nodes.yaml").science
    assert differing == {"science.decoding.max_tokens", "science.generator.max_model_len"}


def test_loads_are_counted_by_hand():
    """Questions x budget x tokens; a base question is one completion, a chain is in a row."""
    plan = plan_of(load())
    loads = {(load.strategy, load.benchmark): load for load in plan.loads}

    assert loads["mr_thinking", "gsm8k"] == (
        "mr_thinking",
        "gsm8k",
        1319,
        1319 * 64,
        1319 * 64 * 599,
        64 * 599,
    )
    assert loads["base", "math500"] == ("base", "math500", 500, 500, 500 * 2674, 2674)


def test_means_and_limits_lower_a_load():
    """A stated mean replaces the budget, a limit the number of questions; a chain stays as long."""
    plan = plan_of(
        load(
            "configs/qwen-7b.yaml",
            "runtime.plan.completions={markovscale_0: 6.5}",
            "science.benchmarks.1.limit=100",
        )
    )
    loads = {(load.strategy, load.benchmark): load for load in plan.loads}

    assert loads["markovscale_0", "gsm8k"].completions == 650
    assert loads["markovscale_0", "gsm8k"].chain_tokens == 64 * 599


def test_no_completion_is_longer_than_it_may_be():
    """A limit of the run, or of a benchmark, below the stated mean is what counts."""
    plan = plan_of(
        load(
            "configs/qwen-7b.yaml",
            "science.decoding.max_tokens=400",
            "science.benchmarks.1.max_tokens=300",
        )
    )
    loads = {(load.strategy, load.benchmark): load for load in plan.loads}

    assert loads["base", "math500"].tokens == 500 * 400
    assert loads["base", "gsm8k"].tokens == 1319 * 300


@pytest.mark.parametrize("kind", sorted(STRATEGIES))
def test_no_run_is_planned_shorter_than_its_full_batches(kind):
    """Nor than its longest chain: samples of one question fill batches as chains do."""
    plan = plan_of(
        load("configs/qwen-7b-aime.yaml", f"science.strategies=[{kind}]", "science.strategy.n=32")
    )

    assert plan.chains_h >= plan.generate_h * (1 - 1e-9)
    assert plan.chains_h >= plan.chain_h * (1 - 1e-9)


@pytest.mark.parametrize("kind", sorted(STRATEGIES))
def test_every_strategy_can_be_planned(kind):
    """The plan knows the budget of every registered strategy, and what it asks side by side."""
    config = load("configs/qwen-7b.yaml", f"science.strategies=[{kind}]", "science.strategy={}")
    loads = plan_of(config).loads

    assert all(load.completions >= load.questions for load in loads)
    assert all(0 < load.chain_tokens <= load.tokens for load in loads)


def test_pools_of_different_labels_share_no_node():
    """QwQ's generators take whole nodes, and its verifiers have a node of their own."""
    plan = plan_of(load("configs/qwq-32b-4-nodes.yaml"))

    assert [(dict(n.labels), dict(n.replicas)) for n in plan.nodes] == [
        ({"pool": "generator"}, {"generator": 1}),
        ({"pool": "generator"}, {"generator": 1}),
        ({"pool": "generator"}, {"generator": 1}),
        ({"pool": "verifier"}, {"verifier": 4}),
    ]


def test_a_part_of_a_gpu_lies_on_one():
    """Three replicas of 0.6 GPUs take three GPUs, as Ray places them, not two."""
    one = (
        "runtime.generator.num_gpus=0.6",
        "runtime.generator.replicas=2",
        "runtime.verifier.num_gpus=0.6",
        "runtime.plan.gpu=H100",
    )

    plan_of(load("configs/qwen-7b.yaml", *one, "runtime.plan.gpus_per_node=3"))
    with pytest.raises(ConfigError, match="which take 2 nodes"):
        plan_of(load("configs/qwen-7b.yaml", *one, "runtime.plan.gpus_per_node=2"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["runtime.plan=null"], "runtime.plan must name the GPUs"),
        (["runtime.plan.gpu=RTX"], "a GPU must be one of A10G, .* got 'RTX'"),
        (
            ["runtime.generator.replicas=4", "runtime.controllers.actors=3"],
            "4 generators of 1 GPUs and 1 verifiers .* 2 nodes",
        ),
        (["runtime.generator.num_gpus=8"], "a generator must fit one node of 4 GPUs, got 8 GPUs"),
        (["science.benchmarks.0.max_tokens=11264"], "must leave room for a prompt .* got 11,264"),
        (["science.decoding.max_tokens=11264"], "must leave room for a prompt .* got 11,264"),
        (
            ["runtime.verifier.engine.max_num_batched_tokens=2048"],
            "at least the verifier's context of 4,096, .* got 2,048",
        ),
        (["runtime.plan.benchmarks={}"], "runtime.plan.benchmarks.math500 must be given"),
        (["runtime.controllers.calls_per_actor=8"], "must hold the 783 chains .* got .* of 128"),
        (
            ["runtime.verifier.num_gpus=0.5", "runtime.verifier.engine.gpu_memory_utilization=0.9"],
            "gpu_memory_utilization of a replica with num_gpus 0.5 must be at most that, got 0.9",
        ),
        (
            ["science.verifier={model: m, kind: generative, profile: judge}"],
            "science.verifier.kind must be one that only reads to be sized: .* got generative",
        ),
        (["runtime.verifier.num_gpus=0"], "runtime.plan is for pools on GPUs, got num_gpus 0"),
    ],
)
def test_what_cannot_work_is_refused(overrides, message):
    """Each error names what must hold and what came."""
    with pytest.raises(ConfigError, match=message):
        plan_of(load("configs/qwen-7b.yaml", *overrides))


def test_a_benchmark_of_ones_own_needs_its_size():
    """The number of questions of an unknown benchmark must be stated, and then is used."""
    own = [
        "science.benchmarks=[{name: mine, path: q.jsonl}]",
        "runtime.plan.benchmarks={mine: {tokens: 100}}",
    ]

    with pytest.raises(ConfigError, match=r"runtime\.plan\.benchmarks\.mine\.questions must be"):
        plan_of(load("configs/qwen-7b.yaml", *own))
    plan = plan_of(load("configs/qwen-7b.yaml", *own, "runtime.plan.benchmarks.mine.questions=7"))
    assert {load.questions for load in plan.loads} == {7}


def test_a_run_without_a_verifier_has_one_pool():
    """Nothing is scored, and nothing is planned for scoring."""
    plan = plan_of(
        load(
            "configs/qwen-7b.yaml",
            "science.verifier=null",
            "science.strategies=[mr_thinking]",
            "science.strategy={n: 64}",
            "science.answer_rule=last",
        )
    )

    assert [pool.kind for pool in plan.pools] == ["generator"]
    assert plan.verify_h == 0
