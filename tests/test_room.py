"""Room for a run: what is refused for sure, and what is left to Ray."""

import pytest

from pipeline.config.runtime import RuntimeConfig
from pipeline.planning.capacity import (
    Ask,
    Machine,
    admits,
    asks_of,
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
