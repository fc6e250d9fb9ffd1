"""*RunPlan*: replicas, memory, chains, tokens and hours of a run, from its configuration alone.

The hours are an estimate from stated assumptions (`pipeline.config.planning`), good for choosing a
cluster and for seeing what decides a run's length. They are no measurement.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipeline.benchmarks import BenchmarkSource
from pipeline.benchmarks.source import known_of
from pipeline.config.planning import BenchmarkPlan, PlanConfig
from pipeline.config.run import RunConfig
from pipeline.config.runtime import ControllerConfig, PoolConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Priors, Question, Strategy, decisions
from pipeline.planning.admission import rule_of, usual
from pipeline.planning.pool_plan import Node, PoolPlan, generator_plan, place, verifier_plan


class Load(NamedTuple):
    """What one strategy draws on one benchmark."""

    strategy: str
    benchmark: str
    questions: int
    completions: float
    """Of all questions; at most, unless `runtime.plan.completions` states a mean."""
    tokens: float
    """Completion tokens of all of them."""
    chain_tokens: float
    """Completion tokens of one chain with its whole budget, made one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """All of it."""

    pools: tuple[PoolPlan, ...]
    nodes: tuple[Node, ...]
    """With every pool at its largest."""
    least_nodes: int
    """With every pool at its smallest."""
    in_flight: int
    """Chains that work at once to begin with."""
    bounds: tuple[int, int] | None
    """Between which that number is adapted while the run goes on; None where it is fixed."""
    held: int
    """Chains that the controllers can hold, waiting ones included."""
    loads: tuple[Load, ...]
    generate_h: float
    """Hours that the generator pool needs for all tokens, as busy as it is at the start."""
    verify_h: float
    """Hours that the verifier pool needs for all scores; they overlap with `generate_h`."""
    chain_h: float
    """Hours of the longest chain were it alone: its completions are made one after the other."""
    chains_h: float
    """Hours until the last chain ends, longest first (`makespan_s`): at least
    `generate_h` and `chain_h`."""

    @property
    def hours(self) -> float:
        """How long the run takes: until the last chain ends, or all is scored."""
        return max(self.chains_h, self.verify_h)

    @property
    def gpus(self) -> float:
        """GPUs that the run reaches, where the cluster has them."""
        return sum(pool.gpus * pool.replicas for pool in self.pools)

    @property
    def gpu_hours(self) -> float:
        """With every GPU held to the end; an elastic run gives some back before."""
        return self.hours * self.gpus


def plan_of(config: RunConfig) -> RunPlan:
    """Work out a run.

    Raises:
        ConfigError: where a model does not fit its GPUs, pools do not fit the nodes, admission
            would keep a pool from growing, or what must be known is not stated.
    """
    runtime, science = config.runtime, config.science
    plan = runtime.plan
    if plan is None:
        raise ConfigError("runtime.plan must name the GPUs that the run is planned for")
    loads = tuple(loads_of(config, plan))
    tokens = sum(load.tokens for load in loads)
    chains = sum(load.questions for load in loads)
    generator = _generator(config, plan, loads)
    pools, verify_h = [generator], 0.0
    if science.verifier is not None:
        verifier = verifier_plan(science.verifier, runtime.verifier, plan)
        pools.append(verifier)
        scored = sum(load.completions for load in loads)
        verify_h = scored / (verifier.replicas * verifier.per_s) / 3600
    return RunPlan(
        pools=tuple(pools),
        nodes=tuple(place(pools, plan)),
        least_nodes=len(place([replace(p, replicas=p.least_replicas) for p in pools], plan)),
        in_flight=admitted(generator, runtime.controllers),
        bounds=bounds(runtime.generator, generator, runtime.controllers),
        held=held_by(runtime.controllers, runtime.generator, generator, chains),
        loads=loads,
        generate_h=tokens / (generator.replicas * generator.per_s) / 3600,
        verify_h=verify_h,
        chain_h=max(load.chain_tokens for load in loads) * generator.step_s(1) / 3600,
        chains_h=makespan_s(
            (Chains(load.tokens / load.chain_tokens, load.chain_tokens) for load in loads),
            replicas=generator.replicas,
            places=generator.slots,
            step_s=generator.step_s,
        )
        / 3600,
    )


def _generator(config: RunConfig, plan: PlanConfig, loads: Sequence[Load]) -> PoolPlan:
    completions = sum(load.completions for load in loads)
    prompt = sum(load.completions * plan.benchmarks[load.benchmark].prompt_tokens for load in loads)
    written = sum(load.tokens for load in loads) / 2  # a sequence is on average half written
    abreast = sum(max(load.questions, load.tokens / load.chain_tokens) for load in loads)
    return generator_plan(
        config.science,
        config.runtime.generator,
        plan,
        chains=math.ceil(abreast - 1e-9),
        held_tokens=(prompt + written) / completions,
    )


def loads_of(config: RunConfig, plan: PlanConfig) -> list[Load]:
    """What every strategy draws on every benchmark.

    Raises:
        ConfigError: for a benchmark of which `runtime.plan.benchmarks` says nothing.
    """
    loads = []
    for label, strategy in strategies_of(config.science).items():
        for source in config.science.benchmarks:
            assumed = plan.benchmarks.get(source.name)
            if assumed is None:
                raise ConfigError(
                    f"runtime.plan.benchmarks.{source.name} must be given: how many questions, "
                    f"and tokens a completion"
                )
            questions = _questions(source, assumed)
            budget, width = _budget(strategy)
            completions = questions * plan.completions.get(label, budget)
            in_a_row = math.ceil(budget / width)
            each = min(assumed.tokens, source.max_tokens or config.science.decoding.max_tokens)
            loads.append(
                Load(
                    strategy=label,
                    benchmark=source.name,
                    questions=questions,
                    completions=completions,
                    tokens=completions * each,
                    chain_tokens=in_a_row * each,
                )
            )
    return loads


def admitted(planned: PoolPlan, controllers: ControllerConfig) -> int:
    """Chains that work at once, with all replicas up."""
    return controllers.in_flight or usual(planned.slots * planned.replicas)


def bounds(
    pool: PoolConfig, planned: PoolPlan, controllers: ControllerConfig
) -> tuple[int, int] | None:
    """Between which numbers of chains the run adapts itself once all replicas are up; None where
    it does not."""
    if controllers.in_flight is not None:
        return None
    slots, places = planned.slots * planned.replicas, _places(pool, planned)
    rule = rule_of(controllers, slots=slots, most=usual(places))
    return rule.floor, rule.ceiling


def held_by(controllers: ControllerConfig, pool: PoolConfig, planned: PoolPlan, chains: int) -> int:
    """Chains that the controllers can hold.

    Raises:
        ConfigError: where those are fewer than could work at once.
    """
    in_flight = admitted(planned, controllers)
    held = controllers.holds(controllers.in_flight or usual(_places(pool, planned)))
    if held < min(in_flight, chains):
        raise ConfigError(
            f"runtime.controllers must hold the {min(in_flight, chains):,} chains that work at "
            f"once, got actors x calls_per_actor x rows_per_block of {held:,}"
        )
    return held


def _places(pool: PoolConfig, planned: PoolPlan) -> int:
    return pool.engine.max_num_seqs * planned.replicas


def _questions(source: BenchmarkSource, assumed: BenchmarkPlan) -> int:
    count = assumed.questions or source.size
    known = known_of(source.name)
    if count is None and known is not None:
        count = known.rows
    if count is None:
        raise ConfigError(f"runtime.plan.benchmarks.{source.name}.questions must be given")
    return min(count, source.limit or count)


def _budget(strategy: Strategy) -> tuple[int, int]:
    """Completions of a question at most, and how many of them are requested at once."""
    questions = [
        Question(benchmark="", question_id=str(i), text="", priors=Priors(a=0.5, b=0.5))
        for i in range(16)  # a data-set-level method may need several
    ]
    first = strategy.phases()[0].strategy
    requests = next(decisions(first, questions[0], strategy.prepare(questions)), ())
    width = max(1, len(requests))
    return max(strategy.n, width), width


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of one length."""

    count: float
    tokens: float
    """Of each, made one after the other."""


def makespan_s(
    chains: Iterable[Chains], *, replicas: int, places: int, step_s: Callable[[float], float]
) -> float:
    """Seconds until the last chain has ended.

    A chain is sequential. Chains of one length are a class; they are admitted longest first into
    the free places, each makes one token a step, and a fuller batch makes a step slower. Prompts,
    rounds of unequal length and uneven routing are left out.

    Args:
        chains: by class.
        replicas: that share them evenly.
        places: sequences that one replica works on at once, >= 1.
        step_s: seconds of a step of one replica by the sequences in its batch, never falling.
    """
    waiting = sorted((c for c in chains if c.count > 0 and c.tokens > 0), key=lambda c: -c.tokens)
    waiting.reverse()  # the longest is popped first
    working: list[tuple[float, float]] = []
    """(tokens made by a chain that always worked when these end, how many)."""
    busy = made = seconds = 0.0
    capacity = float(replicas * places)
    while waiting or working:
        while waiting and busy < capacity:
            longest = waiting.pop()
            started = min(longest.count, capacity - busy)
            heapq.heappush(working, (made + longest.tokens, started))
            busy += started
            if longest.count > started:
                waiting.append(Chains(longest.count - started, longest.tokens))
        end, _ = working[0]
        seconds += (end - made) * step_s(max(busy / replicas, min(busy, 1.0)))
        made = end
        while working and working[0][0] <= made:
            busy -= heapq.heappop(working)[1]
        if not working:
            busy = 0.0
    return seconds
