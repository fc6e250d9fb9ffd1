"""The families of a sweep, and the controls that stand beside every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from pipeline.answers.answer_rules import AnswerRule, Rule, rule_named
from pipeline.config.science import ScienceConfig
from pipeline.core.protocol import Strategy
from pipeline.replay.fronts import Row, front_rows
from pipeline.replay.pools import CompletionPool
from pipeline.replay.sweep import HALVES, SweepResult, Tally, rights
from pipeline.replay.sweep_table import settings_of
from pipeline.statistics.fronts import Family
from pipeline.strategies import STRATEGIES

CONTROLS = ("chain_asc", "mr_thinking", "markovscale_star")
"""Kinds that are always there; each is read by vote."""
THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
TAUS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
GAMMAS = (1.0, 10.0)

Settings = list[tuple[str, Strategy]]


def budgets(depth: int) -> list[int]:
    """2, 3, 4, 6, 8, 12, ... and the depth of the pool itself."""
    grid = {n for k in range(depth.bit_length()) for n in (2**k, 3 * 2**k)} | {depth}
    return [n for n in sorted(grid) if 1 < n <= depth]


def control_settings(pool: CompletionPool) -> Settings:
    """Base and the grids of the controls, as far as the pool can replay them: MarkovScale^* needs
    scores, a and b."""
    if pool.rounds < 2:
        return []
    made: Settings = [("base", _make("base", pool.science))]
    for n in budgets(pool.rounds):
        made.append(("mr_thinking", _make("mr_thinking", pool.science, n=n)))
        for threshold in THRESHOLDS:
            made.append(("chain_asc", _make("chain_asc", pool.science, n=n, threshold=threshold)))
        if _believes(pool):
            for tau in TAUS:
                for gamma in GAMMAS:
                    star = _make("markovscale_star", pool.science, n=n, tau=tau, gamma=gamma)
                    made.append(("markovscale_star", star))
    return made


def _believes(pool: CompletionPool) -> bool:
    priors = [question.question.priors for question in pool.questions]
    known = all(prior.a is not None and prior.b is not None for prior in priors)
    first_scores = {prior.p0 is None for prior in priors}
    return pool.science.verifier is not None and known and len(first_scores) == 1


def _make(kind: str, science: ScienceConfig, **values: Any) -> Strategy:
    names = {field.name for field in fields(STRATEGIES[kind])}
    shared = {
        "decoding": science.decoding,
        "prompts": science.prompts,
        "score": science.verifier is not None,
    }
    made: Strategy = STRATEGIES[kind](
        **{name: value for name, value in shared.items() if name in names}, **values
    )
    return made


def sweep_fronts(result: SweepResult) -> list[Row]:
    """The rows of all benchmarks of a sweep that has `control_settings` among its settings."""
    base = next((tally for tally in result.tallies if tally.strategy.kind == "base"), None)
    if base is None:
        return []
    rows: list[Row] = []
    for b, benchmark in enumerate(result.benchmarks):
        at = result.group_Q // HALVES == b
        families = [
            family_of(name, tallies, rule, at) for (name, rule), tallies in _grouped(result).items()
        ]
        known = [f for f in families if not np.isnan(f.right_SQ).all(axis=1).any()]
        rows += front_rows(
            benchmark,
            known,
            family_of("base", [base], AnswerRule.LAST, at),
            result.group_Q[at] % HALVES,
            [named(kind, AnswerRule.VOTE) for kind in CONTROLS],
        )
    return rows


def named(label: str, rule: Rule) -> str:
    """How a family is written."""
    return f"{label} ({rule.value})"


def _grouped(result: SweepResult) -> dict[tuple[str, Rule], list[Tally]]:
    """Settings of one label by its own rule, and those of the controls by vote too."""
    groups: dict[tuple[str, Rule], list[Tally]] = {}
    for tally in result.tallies:
        kind = tally.strategy.kind
        rules = {rule_named(tally.strategy.default_rule)}
        if tally.label in CONTROLS:
            rules.add(AnswerRule.VOTE)
        for rule in sorted(rules, key=str):
            if kind != "base" and tally.applicable_R[result.rules.index(rule)]:
                groups.setdefault((named(tally.label, rule), rule), []).append(tally)
    return groups


def family_of(name: str, tallies: Sequence[Tally], rule: Rule, at: Any) -> Family:
    """Settings read by one rule, over some of the questions."""
    return Family(
        name=name,
        settings=tuple(in_words([tally.strategy for tally in tallies])),
        right_SQ=np.array([rights(tally.judged, rule)[at] for tally in tallies]),
        tokens_SQ=np.array([tally.judged.tokens_Q[at] for tally in tallies], np.float64),
    )


def in_words(strategies: Sequence[Strategy]) -> list[str]:
    """Each setting in words: the fields in which it differs from the others, N always."""
    known = [settings_of(strategy) for strategy in strategies]
    names = [
        name
        for name in known[0]
        if name == "n" or any(one.get(name) != known[0][name] for one in known)
    ]
    return [
        ", ".join(f"{_SAID.get(n, n)} {_value(one.get(n))}" for n in names) or strategy.kind
        for one, strategy in zip(known, strategies, strict=True)
    ]


_SAID = {"n": "N", "tau": "τ", "gamma": "γ", "sigma": "σ"}


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
