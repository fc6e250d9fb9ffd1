"""*Evaluation*: replays every method at every N on one benchmark of one backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy
from pipeline.paper.beliefs import Believed
from pipeline.paper.orders import SampleOrders
from pipeline.paper.replays import (
    GAMMA,
    SAMPLERS,
    TAUS,
    Candidate,
    Choice,
    Maker,
    Replays,
    budgets_of,
    fixed,
)
from pipeline.replay.chain_arrays import RIGHT
from pipeline.replay.costs import TOKENS, Cost
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import HALVES, firsts_of
from pipeline.report.comparison import column_of
from pipeline.report.published import normal
from pipeline.report.run_data import Cell, RunData
from pipeline.results.column import HELD_OUT, METHODS, SYMBOLS, Column, either, method_of, numbered
from pipeline.strategies.markovscale import MarkovScale0

BEST_RULE = "mr_best"
"""MR-Thinking by the answer rule that does best on the other half."""
AT_BEST = "mr_at_best"
"""MR-Thinking by the answer rule and at the N that do best on the other half."""
TESTED = "_on_test"
"""Ending of names whose tau was chosen on the questions that they are judged on."""
CALIBRATED = "markovscale_0_calibrated"
"""MarkovScale^0 with the threshold of scores that counts as many answers right as are right."""

_SYMBOLS = SYMBOLS | {
    "p0_source": "p0 from",
    "right_from": "right from",
}
_UNSAID = {
    "n",
    "chain",
    "decoding",
    "prompts",
    "score",
    "batch",
    "weighted",
    "weights",
}
_OFF = {"gate": "no gate", "stopping": "no stopping"}

FAR = 0.1
"""Share counted right by scores that may differ so much from graded accuracy without a warning."""

Place = tuple[str, int | None]
"""(name of a row, N); None for methods without a budget."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """Everything that the tables of one benchmark and backbone are made of."""

    backbone: str
    benchmark: str
    pool: CompletionPool
    believed: Believed
    replays: Replays
    budgets: tuple[int, ...]
    main: dict[Place, Column]
    """By row of the main table; grows by what runs add."""
    names: dict[str, str] = field(default_factory=dict)
    """How a row is written."""

    @cached_property
    def firsts(self) -> list[tuple[str, str]]:
        """The key of each question, of a copy that of the first question with its text."""
        return firsts_of(self.pool)

    @property
    def title(self) -> str:
        """Benchmark and backbone."""
        return f"{self.benchmark}, {self.backbone}"

    @property
    def chain_budgets(self) -> tuple[int, ...]:
        """Budgets that the chains are deep enough for."""
        return tuple(n for n in self.budgets if n <= self.pool.rounds)

    @property
    def sample_budgets(self) -> tuple[int, ...]:
        """Budgets that there are samples for."""
        return tuple(n for n in self.budgets if n <= self.pool.samples)

    def get(self, name: str, n: int | None) -> Column | None:
        """A number of the main table; methods without a budget are the same at each."""
        return self.main.get((name, n)) or self.main.get((name, None))

    def column(self, **fields: Any) -> Column:
        """A column of this benchmark and backbone; from the pool, with nothing tuned, unless
        said otherwise."""
        note = "" if self.pool.tokens == "recorded" else f" (tokens are {self.pool.counted})"
        source = f"{self.pool.address}{note}"
        copies_Q = numbered(self.firsts)
        shared = {"source": source, "tuned": "", "chosen_on": None, "copies_Q": copies_Q} | fields
        return Column(backbone=self.backbone, benchmark=self.benchmark, **shared)

    def scored(
        self,
        name: str,
        n: int | None,
        choice: Choice,
        kind: str,
        tuned: Sequence[str] = (),
        replays: Replays | None = None,
    ) -> Column:
        """A choice, replayed, as a column of numbers with the words for its setting.

        Args:
            name: how the row is written.
            n: the budget.
            choice: what is replayed.
            kind: of the strategy.
            tuned: fields that were chosen.
            replays: with other beliefs.
        """
        replays = replays or self.replays
        strategy = choice.picked[0][0]
        return self.column(
            method=name,
            kind=kind,
            n=n,
            rule=either([rule.value for _, rule in choice.picked]),
            fixed=settings_words(strategy, without=tuned),
            tuned=tuned_words(choice, tuned),
            chosen_on=choice.chosen_on,
            right_Q=replays.right(choice),
            tokens_Q=replays.tokens(choice),
        )

    def stars(self, n: int) -> list[Candidate]:
        """MarkovScale^* over all tau."""
        make = self.replays.make
        return [_own(make("markovscale_star", n=n, tau=tau, gamma=GAMMA)) for tau in TAUS]

    def heuristics(self, n: int, **values: Any) -> list[Candidate]:
        """MarkovScale^0 over all tau."""
        return [_own(self.replays.make("markovscale_0", n=n, tau=tau, **values)) for tau in TAUS]

    def rules(self, n: int) -> list[Candidate]:
        """MR-Thinking by every answer rule that can be applied."""
        strategy = self.replays.make("mr_thinking", n=n)
        known = self.replays.judged(strategy).applicable_R
        return [(strategy, rule) for rule, can in zip(AnswerRule, known, strict=True) if can]


def evaluate(believed: Believed, backbone: str, make: Maker, cost: Cost = TOKENS) -> Evaluation:
    """Every method that the pool can replay, at every budget."""
    pool = believed.judged
    made = Evaluation(
        backbone=backbone,
        benchmark=pool.benchmarks[0],
        pool=pool,
        believed=believed,
        replays=Replays.of(believed, make, cost=cost),
        budgets=budgets_of(pool.rounds, pool.samples),
        main={},
    )
    made.main["base", None] = made.scored(METHODS["base"], 1, fixed(make("base")), "base")
    for n in made.chain_budgets:
        _chains(made, n)
    if pool.rounds:
        every = [one for n in range(1, pool.rounds + 1) for one in made.rules(n)]
        best = made.replays.on_other_half(every)
        title = "MR-Thinking, best rule and N"
        made.main[AT_BEST, None] = made.scored(title, None, best, "mr_thinking", ["rule", "n"])
    orders = SampleOrders.of(pool) if cost is TOKENS and pool.samples > 1 else None
    if orders is not None:
        right_Q, tokens_Q = orders.single()
        words = f"mean over {pool.samples} samples"
        base = made.main["base", None]
        made.main["base", None] = replace(base, right_Q=right_Q, tokens_Q=tokens_Q, fixed=words)
    for n in made.sample_budgets:
        for kind in SAMPLERS:
            strategy = make(kind, n=n)
            if _can(strategy, make):
                column = made.scored(METHODS[kind], n, fixed(strategy), kind)
                made.main[kind, n] = _over_orders(column, strategy, orders)
    made.names.update({name: entry.method for (name, _), entry in made.main.items()})
    return made


def _over_orders(column: Column, strategy: Strategy, orders: SampleOrders | None) -> Column:
    """A column of the first samples as means over orders of all, where they can be had."""
    found = None if orders is None else orders.expected(strategy)
    if orders is None or found is None:
        return column
    words = f"mean over {orders.orders} orders of {orders.form_QS.shape[1]} samples"
    fixed_words = "; ".join(filter(None, [column.fixed, words]))
    return replace(column, right_Q=found[0], tokens_Q=found[1], fixed=fixed_words)


def _chains(made: Evaluation, n: int) -> None:
    """MR-Thinking and the variants at one budget."""
    put, make, replays = made.main, made.replays.make, made.replays
    rounds = fixed(make("mr_thinking", n=n))
    put["mr_thinking", n] = made.scored("MR-Thinking", n, rounds, "mr_thinking")
    best = replays.on_other_half(made.rules(n))
    put[BEST_RULE, n] = made.scored("MR-Thinking, best rule", n, best, "mr_thinking", ["rule"])
    if not make.scored:
        return
    gate = fixed(make("markovscale_t", n=n))
    put["markovscale_t", n] = made.scored(METHODS["markovscale_t"], n, gate, "markovscale_t")
    for kind, candidates in (
        ("markovscale_star", made.stars(n)),
        ("markovscale_0", made.heuristics(n)),
    ):
        name, choice = method_of(kind, "paper"), replays.on_other_half(candidates)
        column = made.scored(name, n, choice, kind, ["tau"])
        notes = [stops_words(made, choice, gate, n), _counted_right(made, choice)]
        put[kind, n] = replace(column, fixed="; ".join(filter(None, [column.fixed, *notes])))
        tested = replays.on_test(candidates)
        put[kind + TESTED, n] = made.scored(f"{name}, τ of the test", n, tested, kind, ["tau"])
    picked = tuple(
        replays.on_other_half(made.heuristics(n, right_from=right_from_of(made, half))).picked[half]
        for half in range(HALVES)
    )
    zero = Choice(picked=picked, chosen_on=HELD_OUT)
    name = f"{method_of('markovscale_0', 'paper')}, right from calibrated"
    put[CALIBRATED, n] = made.scored(name, n, zero, "markovscale_0", ["tau", "right_from"])


def stops_words(made: Evaluation, choice: Choice, gate: Choice, n: int) -> str:
    """Whether a choice stops every chain where MarkovScale^t does; else the share of chains that it
    stops between round 1 and N - 1, where neither the gate nor the budget does."""
    drawn_Q = made.replays.drawn(choice)
    if np.array_equal(drawn_Q, made.replays.drawn(gate)):
        return f"same decisions as {METHODS['markovscale_t']}"
    within = float(((drawn_Q > 1) & (drawn_Q < n)).mean())
    return f"stops {within:.1%} of questions between round 1 and N - 1"


def right_from_of(made: Evaluation, half: int) -> float:
    """The threshold of scores that counts as many answers of the other half right as are right;
    that of the strategy where none is graded."""
    chains = made.replays.chains
    known_QT = chains.graded_QT & ~np.isnan(chains.score_QT)
    known_QT = known_QT & (made.believed.half_Q != half)[:, None]
    if not known_QT.any():
        return MarkovScale0().right_from
    wrong = float((chains.verdict_QT[known_QT] != RIGHT).mean())
    return float(np.quantile(chains.score_QT[known_QT], wrong, method="higher"))


def _counted_right(made: Evaluation, choice: Choice) -> str:
    """A warning where ^0 counts by a threshold of scores far from graded accuracy."""
    strategy = choice.picked[0][0]
    if not isinstance(strategy, MarkovScale0):
        return ""
    chains = made.replays.chains
    known_QT = chains.graded_QT & ~np.isnan(chains.score_QT)
    if not known_QT.any():
        return ""
    counted_QT = chains.score_QT >= strategy.right_from
    right_QT = chains.verdict_QT == RIGHT
    counted, graded = float(counted_QT[known_QT].mean()), float(right_QT[known_QT].mean())
    if abs(counted - graded) <= FAR:
        return ""
    wrong_QT = known_QT & ~right_QT
    of_wrong = f", {counted_QT[wrong_QT].mean():.1%} of the wrong ones" if wrong_QT.any() else ""
    return (
        f"warning: right_from {strategy.right_from:g} counts {counted:.1%} of answers as right"
        f"{of_wrong}; {graded:.1%} are"
    )


def settings_words(strategy: Strategy, without: Sequence[str] = ()) -> str:
    """The settings of a strategy in words, without its budget."""
    parts = []
    for name, value in _fields(strategy).items():
        if name in without or value is None or value == ():
            continue
        if name in _OFF:
            parts += [] if value else [_OFF[name]]
        elif value == "first_score":
            parts.append("p0 is the first answer's score")
        elif isinstance(value, bool):
            parts += [name.replace("_", " ")] if value else []
        else:
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            parts.append(f"{_SYMBOLS.get(name, name.replace('_', ' '))} {shown}")
    return ", ".join(parts)


def _own(strategy: Strategy) -> Candidate:
    return (strategy, AnswerRule(strategy.default_rule))


def _can(strategy: Strategy, make: Maker) -> bool:
    return strategy.pool_replayable and (make.scored or not strategy.needs_score)


def _fields(strategy: Strategy) -> Mapping[str, Any]:
    """The settings that count: what a part that is switched off would read is left out; DSC's
    others are its authors' and idle in the paper's profile."""
    if strategy.kind == "dsc" and getattr(strategy, "profile", "") == "paper":
        return {name: getattr(strategy, name) for name in ("threshold", "profile")}
    names = [f.name for f in fields(strategy)]
    idle = set(_UNSAID)
    if getattr(strategy, "chain", "") == "homogeneous":
        idle |= {"chain", "kept", "price"}
    if not getattr(strategy, "stopping", True):
        idle |= {"tau", "gamma"}
        if not getattr(strategy, "gate", True):
            idle.add("p0_source")
    if not getattr(strategy, "gate", True):
        idle.add("sigma")
    return {name: getattr(strategy, name) for name in names if name not in idle}


def tuned_words(choice: Choice, keys: Sequence[str]) -> str:
    """The fields that were chosen, the values of both halves where they differ, and whether the
    choice was a tie."""
    parts = []
    for key in keys:
        if key == "rule":
            parts.append(f"by {either([rule.value for _, rule in choice.picked])}")
        else:
            values = [f"{getattr(strategy, key):g}" for strategy, _ in choice.picked]
            parts.append(f"{_SYMBOLS[key]} {either(values)}")
    if parts and min(choice.tied, default=1) > 1:
        parts.append(f"a tie of {either([str(one) for one in choice.tied])} of {choice.tried}")
    return ", ".join(parts)


def add_runs(evaluations: Sequence[Evaluation], runs: Sequence[RunData]) -> None:
    """Put the methods of runs into the tables of the same backbone and benchmark.

    Only methods that the pool does not give at that budget are taken.

    Raises:
        ConfigError: where a run has nothing for any of the pools.
    """
    for run in runs:
        used = False
        for made in evaluations:
            for cell in run.cells:
                if (normal(cell.backbone), cell.benchmark) == (
                    normal(made.backbone),
                    made.benchmark,
                ):
                    used |= _add(made, cell)
        if not used:
            titles = "; ".join(made.title for made in evaluations)
            raise ConfigError(
                f"--run must have a method that no pool gives, on questions, benchmark and "
                f"backbone of one ({titles}), got none in {run.run.address}"
            )


def _add(made: Evaluation, cell: Cell) -> bool:
    budgeted = "n" in {field.name for field in fields(cell.strategy)}
    n = cell.n if budgeted else None
    if any(kind == cell.kind and budget in (None, n) for kind, budget in made.main):
        return False
    column = column_of(cell)
    place = {key: at for at, key in enumerate(column.keys or ())}
    at_Q = np.array([place.get(question.key, -1) for question in made.pool.questions])
    answered = int((at_Q >= 0).sum())
    if not answered:
        return False
    some = "" if answered == len(at_Q) else f"{answered:,} of {len(at_Q):,} questions"
    made.main[cell.kind, n] = made.column(
        method=cell.method,
        kind=cell.kind,
        n=n,
        rule=cell.rule.value,
        fixed=", ".join(part for part in (settings_words(cell.strategy), some) if part),
        source=cell.run,
        right_Q=np.where(at_Q >= 0, column.right_Q[at_Q], np.nan),
        tokens_Q=np.where(at_Q >= 0, column.tokens_Q[at_Q], np.nan),
    )
    made.names[cell.kind] = cell.method
    return True
