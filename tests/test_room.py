"""Room for a run: what is refused for sure, and what is left to Ray."""

import pytest

from pipeline.config.runtime import RuntimeConfig
from pipeline.planning.capacity import Ask, asks_of, shortage


def machine(**resources):
    """A node; what Ray adds by itself is no part of what it tells."""
    return {"memory": 2e9, "object_store_memory": 1e9, "node:10.0.0.1": 1, **resources}


def ask(count, **each):
    return Ask(what="thing", setting="things", count=count, each=each)


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

    assert [(a.what, a.count, a.each) for a in asks] == [
        ("generator", 3, {"GPU": 4.0}),
        ("verifier", 1, {"CPU": 1.0, "GPU": 0.5, "a": 2.0}),
        ("controller", 2, {"CPU": 0.5}),
        ("task that reads or writes", 1, {"CPU": 1}),
    ]


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
        ([ask(2, CPU=1), ask(1, CPU=0.5)], [machine(CPU=2)], "all of it takes 2.5 CPU;"),
    ],
)
def test_what_can_never_fit_is_refused(asks, machines, why):
    """One process on one node, all of one kind, and all together."""
    lacking = shortage(asks, machines)

    assert lacking is not None
    assert why in lacking
    assert lacking.endswith("; lower what things ask for, or add nodes")
