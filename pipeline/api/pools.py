"""*Pools*: replays and sweeps strategies over recorded pools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from pipeline.answers.answer_rules import RULES, Choose, OwnRule, Rule, chooses_of_those, rule_named
from pipeline.config.answer_rules import AnswerRuleEntry, check_labels
from pipeline.config.errors import described
from pipeline.config.science import PriorsConfig
from pipeline.config.strategies import rules_of
from pipeline.config.sweep import SweepConfig, grid, science_of
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Completion, Observation, Question, Request, Strategy
from pipeline.export.tables import outcome_rows_schema
from pipeline.predictors.priors import with_priors
from pipeline.records.outcome import TOKEN_KINDS, can_apply, counted_verdict, has_failed
from pipeline.records.trajectory import Row
from pipeline.replay.exact import Replayed, check_replayable, replay_phases
from pipeline.replay.fronts import SCHEMA as FRONTS
from pipeline.replay.fronts import control_settings, sweep_fronts
from pipeline.replay.judging import Answers, answers_of, reads_chains
from pipeline.replay.pools import CompletionPool, PoolQuestion, read_pool
from pipeline.replay.sweep import fitting, sweep_table
from pipeline.replay.sweep import sweep as swept
from pipeline.report.pool_cells import pool_outcome
from pipeline.results.column import METHODS
from pipeline.store.storage import Address
from pipeline.strategies import STRATEGIES

Rules = str | Mapping[str, Any] | Choose | Sequence[str | Mapping[str, Any] | Choose]
"""Answer rules of one's own, one or several: as in a configuration
(``"mypackage.rules:my_rule"``), or the function itself."""

Setting = str | Mapping[str, Any]
"""A strategy as in a configuration: ``"base"``, ``{"kind": "esc", "n": 16, "window": 5}``."""

_UNKNOWN = ("run", "attempt", "wasted_tokens", "tokens_unknown", "seconds")
"""Columns of outcomes that a replay over a pool says nothing on."""
_SHARED = ("decoding", "prompts", "score")
"""Fields that a run gives to every strategy."""


def open_pool(path: Address, *, priors: Mapping[str, Any] | None = None) -> CompletionPool:
    """Open a pool: a run of ``jobs.collect``, or its export, such as ``data/pools/arithmetic``.

    Args:
        path: of the folder.
        priors: ``science.priors`` of a configuration, such as ``{"a": 0.06, "b": 0.19}``; None
            keeps those of the pool. A predictor's are made by ``jobs.sweep``.

    Raises:
        ConfigError, DataError: where it is no pool, or the priors cannot be.
    """
    pool = read_pool(str(path))
    if priors is None:
        return pool
    try:
        return with_priors(pool, PriorsConfig.model_validate(priors))
    except ValidationError as error:
        raise ConfigError(described(error, "priors")) from error


def replay(
    strategy: Setting | Strategy, pool: CompletionPool, *, answer_rules: Rules | None = None
) -> pa.Table:
    """What a strategy would have decided over a pool, exactly: a row a question, or one a chain of
    it where the pool has several and the strategy reads them.

    Args:
        strategy: as in a configuration, or an object of any class that a pool can replay.
        pool: from `open_pool`.
        answer_rules: of one's own, in addition to the shipped ones; None: those of the pool's run.

    Returns:
        The columns of `Run.outcomes` that a replay knows, and ``chain``, from 0; tokens are those
        that it would have cost.

    Raises:
        ConfigError: at a strategy that a pool cannot replay, or a rule that cannot be had.
        ReplayMissError: where the pool is not deep enough.
    """
    if isinstance(strategy, str | Mapping):
        config = _config([strategy], answer_rules)
        built, rules = grid(config, pool.science), _rules(config, pool, answer_rules)
        if len(built) != 1:
            raise ConfigError(f"a replay must have one setting, got {len(built)}: use sweep")
        label, strategy = built[0]
    elif isinstance(strategy, type) or not hasattr(strategy, "decide"):
        raise ConfigError(
            f"strategy must be as in a configuration, or an object of its class, got {strategy!r}"
        )
    else:
        strategy = _as_drawn(strategy, pool)
        label, default = strategy.kind, rule_named(strategy.default_rule)
        rules = _rules(_config(["base"], answer_rules), pool, answer_rules)
        rules = rules if default in rules else (*rules, default)
    check_replayable(strategy)
    several = pool.chains > 1 and reads_chains(pool, strategy)
    rows: list[Row] = []
    for chain in range(pool.chains if several else 1):
        of_chain = pool.with_chain(chain)
        answers = answers_of(of_chain)
        for benchmark in pool.benchmarks:
            mine = [q for q in of_chain.questions if q.question.benchmark == benchmark]
            questions = [q.question for q in mine]
            ends = replay_phases(strategy, questions, partial(_answer, answers))
            made = [_row(label, q, ends[q.question.question_id], rules) for q in mine]
            rows += [{**row, "chain": chain} for row in _counted(made, rules)]
    known = [field for field in outcome_rows_schema(rules) if field.name not in _UNKNOWN]
    return pa.Table.from_pylist(rows, schema=pa.schema([*known, pa.field("chain", pa.int32())]))


def sweep(
    pool: CompletionPool,
    strategies: Setting | Sequence[Setting],
    *,
    choose: str | Sequence[str] = ("tau", "gamma"),
    seed: int = 0,
    answer_rules: Rules | None = None,
) -> pa.Table:
    """Every setting over a pool, and the chosen ones: the table of ``jobs.sweep``.

    Args:
        pool: from `open_pool`.
        strategies: as in a configuration; a field that is a list is a list of values to try.
        choose: fields that are tuned. Rows whose ``chosen_on`` is ``held_out`` were chosen on the
            other half of the questions, those with ``test`` on the very questions; null is a
            setting as it stands.
        seed: of the split into halves.
        answer_rules: of one's own, in addition to the shipped ones; None: those of the pool's run.

    Returns:
        A row a setting, benchmark and answer rule (`pipeline.replay.sweep.SCHEMA`): accuracy
        in [0, 1] with its 95 % interval, completion tokens a question.

    Raises:
        ConfigError: where a setting needs what the pool cannot give.
    """
    config, pool = _config(strategies, answer_rules), pool.comparable()
    rules = _rules(config, pool, answer_rules)
    settings, _ = fitting(pool, grid(config, pool.science))
    return sweep_table(swept(pool, settings, seed=seed, rules=rules), _several(choose))


def fronts(
    pool: CompletionPool, strategies: Setting | Sequence[Setting] = (), *, seed: int = 0
) -> pa.Table:
    """What strategies give at every budget when their settings are tuned on one half of the
    questions and judged on the other, with the controls.

    Args:
        pool: from `open_pool`, with chains, and with 20 graded questions or more in each half.
        strategies: as in `sweep`; the settings of one label are a family. Chain ASC, MR-Thinking
            and, where the pool has priors, MarkovScale^* are always there.
        seed: of the split into halves.

    Returns:
        A row a benchmark, family and budget, difference or setting (`pipeline.replay.fronts`):
        ``measure`` says which; ``tokens`` are completion tokens a question, ``value``, ``low`` and
        ``high`` shares with their 95 % interval.

    Raises:
        ConfigError: where a setting needs what the pool cannot give.
    """
    pool = pool.comparable()
    own, rules = list[tuple[str, Strategy]](), RULES
    if strategies:
        config = _config(strategies)
        own, _ = fitting(pool, grid(config, pool.science))
        rules = _rules(config, pool, None)
    own += [one for one in control_settings(pool) if one not in own]
    result = swept(pool, own, seed=seed, rules=rules)
    return pa.Table.from_pylist(sweep_fronts(result), schema=FRONTS)


def strategies() -> pa.Table:
    """The strategies that a configuration, `replay` and `sweep` know by name.

    Returns:
        A row a strategy: ``kind``, ``method`` as papers write it, ``about``, ``needs_score`` (a
        verifier), ``fields`` with their defaults as JSON.
    """
    rows = []
    for kind, made in STRATEGIES.items():
        settings = {
            field.name: None if field.default is MISSING else field.default
            for field in fields(made)
            if field.name not in _SHARED
        }
        rows.append(
            {
                "kind": kind,
                "method": METHODS.get(kind, kind),
                "about": (made.__doc__ or "").partition("\n\n")[0].replace("\n    ", " "),
                "needs_score": bool(made.needs_score),
                "fields": json.dumps(settings, default=str),
            }
        )
    return pa.Table.from_pylist(rows)


def _as_drawn(strategy: Strategy, pool: CompletionPool) -> Strategy:
    """A strategy with decoding, prompts and score of the pool where it has its class's defaults:
    other prompts ask for completions that the pool does not have."""
    science, changed = pool.science, dict[str, Any]()
    drawn = (
        ("decoding", science.decoding),
        ("prompts", science.prompts),
        ("score", science.verifier is not None),
    )
    known = {field.name: field.default for field in fields(strategy)}
    for name, value in drawn:
        if name in known and getattr(strategy, name) == known[name]:
            changed[name] = value
    return replace(strategy, **changed)


def _several(given: Any) -> list[Any]:
    """A list of what was given alone or in a list."""
    return [given] if isinstance(given, str | Mapping) or callable(given) else [*given]


def _config(strategies: Setting | Sequence[Setting], own: Rules | None = None) -> SweepConfig:
    rules = None if own is None else _several(own)
    named = rules and [rule for rule in rules if isinstance(rule, str | Mapping)]
    values = {"strategies": _several(strategies), "answer_rules": named}
    try:
        return SweepConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(described(error)) from error


def _rules(config: SweepConfig, pool: CompletionPool, own: Rules | None) -> tuple[Rule, ...]:
    """Those that settings are read by, of the configuration and as functions."""
    known = list(rules_of(science_of(config, pool.science)))
    try:
        for given in () if own is None else _several(own):
            if not isinstance(given, str | Mapping):
                name = getattr(given, "__name__", type(given).__name__)
                entry = AnswerRuleEntry(kind=f"{given.__module__}:{name}")
                rule = replace(entry.rule, given=given)
                chooses_of_those(rule)
                known.append(rule)
        check_labels([rule for rule in known if isinstance(rule, OwnRule)])
    except ValidationError as error:
        raise ConfigError(described(error, "answer_rules")) from error
    except ValueError as error:
        raise ConfigError(f"answer_rules: {error}") from error
    return tuple(known)


def _answer(answers: Answers, question: Question, request: Request) -> Observation:
    return answers[question.benchmark, question.question_id](request)


def _row(label: str, question: PoolQuestion, end: Replayed, rules: Sequence[Rule]) -> Row:
    row = pool_outcome("", label, question, end, rules)
    earlier = [seen for seen in end.earlier if isinstance(seen, Completion)]
    row["completions"] += len(earlier)
    for kind in TOKEN_KINDS:
        row[kind] += sum(getattr(seen, kind) for seen in earlier)
    fields = {"text": question.question.text, "gold": question.gold, "subject": None}
    return {**row, **fields, "failed": has_failed(row)}


def _counted(rows: Sequence[Row], rules: Sequence[Rule]) -> Sequence[Row]:
    """Rows of one benchmark with what they count as, as in summary.json: nothing without a gold
    answer, or under a rule that could not be applied."""
    graded = [row for row in rows if row["gold"] is not None]
    for rule in rules:
        applied, name = can_apply(graded, rule), f"verdict_{rule.value}"
        for row in rows:
            known = applied and row["gold"] is not None
            row[name] = counted_verdict(row, rule) if known else None
    return rows
