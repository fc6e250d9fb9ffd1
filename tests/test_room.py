"""Room for a run: what is refused for sure, and what is left to Ray."""

import pytest

from pipeline.config.runtime import RuntimeConfig
from pipeline.planning.capacity import (
    Ask,
    Machine,
    admits,
    asks_of,
    cluster_words,
    demand_words,
    free_words,
    shortage,
)


def machine(labels=None, **resources):
    """A node; what Ray adds by itself is no part of what it tells."""
    return Machine(
        resources={"memory": 2e9, "object_store_memory": 1e9, "node:10.0.0.1": 1, **resources},
        labels=labels or {},
    )


def ask(count, labels=None, **each):
    return Ask(
        what="thing",
        count=count,
        each=each,
        labels=labels or {},
        settings=dict.fromkeys(("count", "labels", *each), "things"),
    )


def asked(**runtime):
    return asks_of(RuntimeConfig.model_validate(runtime), ("generator", "verifier"))


def test_a_run_asks_for_pools_controllers_and_one_task():
    """Fixed pools ask for all replicas, elastic ones for their fewest; zeros are left out."""
    runtime = {
        "generator": {"replicas": 3, "engine": {"tensor_parallel_size": 4}, "num_cpus": 0},
        "verifier": {"min_replicas": 0, "max_replicas": 4, "num_gpus": 0.5, "resources": {"a": 2}},
        "controllers": {"actors": 2, "num_cpus": 0.5, "label_selector": {"pool": "head"}},
    }
    asks = asked(**runtime)

    assert [(a.what, a.count, a.each, a.labels) for a in asks] == [
        ("generator", 3, {"GPU": 4.0}, {}),
        ("verifier", 1, {"CPU": 1.0, "GPU": 0.5, "a": 2.0}, {}),
        ("controller", 2, {"CPU": 0.5}, {"pool": "head"}),
        ("task that reads or writes", 1, {"CPU": 1}, {"pool": "head"}),
    ]
    assert [a.settings for a in asks[1:]] == [
        {
            "count": "runtime.verifier.min_replicas",
            "CPU": "runtime.verifier.num_cpus",
            "GPU": "runtime.verifier.num_gpus",
            "a": "runtime.verifier.resources",
            "labels": "runtime.verifier.label_selector",
        },
        {
            "count": "runtime.controllers.actors",
            "CPU": "runtime.controllers.num_cpus",
            "labels": "runtime.controllers.label_selector",
        },
        {},
    ]
    assert asks[0].settings["GPU"] == "runtime.generator.engine.tensor_parallel_size"


def test_what_a_run_does_not_have_is_not_asked_for():
    """No verifier, no engines of their own, controllers without a share of a CPU."""
    runtime = RuntimeConfig.model_validate({"controllers": {"num_cpus": 0}})
    kinds = [[a.what for a in asks_of(runtime, roles)] for roles in (("generator",), ())]

    assert kinds == [
        ["generator", "controller", "task that reads or writes"],
        ["controller", "task that reads or writes"],
    ]
    assert asks_of(runtime, ("generator",))[1].each == {}


@pytest.mark.parametrize(
    ("asks", "machines"),
    [
        ([ask(1, CPU=1)], [machine(CPU=1)]),
        ([ask(3, CPU=0.1), ask(7, CPU=0.1)], [machine(CPU=1)]),  # ten tenths are one
        ([ask(2, GPU=4)], [machine(GPU=4), machine(GPU=4)]),
        ([ask(1_000)], [machine()]),  # what takes nothing fits anywhere
        ([ask(1, {"pool": "!x"}, CPU=1)], [machine(CPU=1)]),
        # too little for sure only by how sizes share nodes, which is Ray's business
        ([ask(3, CPU=2), ask(2, CPU=1)], [machine(CPU=4), machine(CPU=4)]),
        ([ask(2, CPU=3), ask(1, CPU=2)], [machine(CPU=4), machine(CPU=4)]),
    ],
)
def test_what_may_fit_is_not_refused(asks, machines):
    """Only what can never be placed is a shortage."""
    assert shortage(asks, machines) is None


@pytest.mark.parametrize(
    ("asks", "machines", "why"),
    [
        ([ask(1, CPU=1)], [], "got 0 nodes with nothing: it has places for 0 of 1 x thing;"),
        ([ask(1, GPU=8)], [machine(GPU=4)] * 2, "it has places for 0 of 1 x thing;"),
        ([ask(4, GPU=4)], [machine(GPU=7)] * 3, "it has places for 3 of 4 x thing;"),
        ([ask(1, tpu=1)], [machine(CPU=4)], "it has places for 0 of 1 x thing;"),
        (
            [ask(1, {"pool": "a"})],
            [machine({"pool": "b"}), machine()],
            "it has places for 0 of 1 x thing, 0 of its nodes have the labels;",
        ),
        ([ask(2, CPU=1), ask(1, CPU=0.5)], [machine(CPU=2)], "all of it takes 2.5 CPU;"),
        (
            [ask(2, {"p": "a"}, CPU=1), ask(1, {"p": "in(a, c)"}, CPU=2), ask(9, CPU=1)],
            [machine({"p": "a"}, CPU=3), machine({"p": "b"}, CPU=30)],
            "all of it takes 4 CPU on the nodes with the labels;",
        ),
    ],
)
def test_what_can_never_fit_is_refused(asks, machines, why):
    """One process on one node, all of one kind, and all that share the nodes of their labels."""
    lacking = shortage(asks, machines)

    assert lacking is not None
    assert why in lacking
    assert lacking.endswith("; lower things, or add nodes")


def test_where_nothing_can_be_lowered_nodes_are_missing():
    """Ray Data's own tasks have no setting."""
    asks = asks_of(RuntimeConfig.model_validate({"controllers": {"num_cpus": 0}}), ("generator",))

    assert (shortage(asks[1:], [machine(GPU=1)]) or "").endswith("reads or writes; add nodes")


def test_the_message_says_what_is_asked_for_what_there_is_and_what_to_lower():
    """Settings are those of what lacks room, and no others."""
    several = asks_of(RuntimeConfig(), ("generator",))[:1]  # one GPU and one CPU on different nodes
    asks = asked(
        generator={"replicas": 2, "label_selector": {"pool": "gpu"}},
        verifier={"num_gpus": 0, "num_cpus": 1},
    )

    assert shortage(asks, [machine({"pool": "gpu"}, CPU=8, GPU=1)]) == (
        "the cluster must have room for 2 x generator (1 CPU, 1 GPU on pool=gpu), 1 x verifier "
        "(1 CPU), 1 x controller (1 CPU), 1 x task that reads or writes (1 CPU), got 1 node with "
        "8 CPU and 1 GPU: it has places for 1 of 2 x generator, 1 of its nodes have the labels; "
        "lower runtime.generator.replicas, runtime.generator.engine.tensor_parallel_size, "
        "runtime.generator.label_selector, or add nodes"
    )
    assert (shortage(asks, [machine({"pool": "gpu"}, CPU=4, GPU=2)]) or "").endswith(
        "all of it takes 5 CPU; lower runtime.generator.replicas, runtime.generator.num_cpus, "
        "runtime.verifier.num_cpus, runtime.controllers.num_cpus, or add nodes"
    )

    assert (shortage(several, [machine(CPU=4), machine(GPU=4)]) or "").endswith(
        "lower runtime.generator.num_cpus, runtime.generator.engine.tensor_parallel_size, or add "
        "nodes"
    )


@pytest.mark.parametrize(
    ("rule", "admitted"),
    [
        ("a", {"a"}),
        ("!a", {"b", None}),
        ("in(a, b)", {"a", "b"}),
        ("!in(a,b)", {None}),
    ],
)
def test_selectors_are_rays(rule, admitted):
    """A node without the label has no value, which only a negated rule admits."""
    assert {value for value in ("a", "b", None) if admits(rule, value)} == admitted


def test_a_cluster_in_words():
    """Memory and Ray's own marks are left out; what is gone counts as not free."""
    nodes = [machine(CPU=4, GPU=4), machine(CPU=4)]

    assert cluster_words(nodes) == "2 nodes with 8 CPU and 4 GPU"
    assert free_words(nodes, {"CPU": 3.0}) == "3 of 8 CPU and 0 of 4 GPU are free on 2 nodes"
    assert cluster_words([machine()]) == "1 node with nothing"
    assert demand_words({(("CPU", 1.0), ("GPU", 4.0)): 2, (("CPU", 0.5),): 1}) == (
        "2 x (1 CPU, 4 GPU), 1 x (0.5 CPU)"
    )
