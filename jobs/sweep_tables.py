"""Tables of sweeps for the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from jobs.cli import terminal
from pipeline.answers.answer_rules import RULES, rule_named
from pipeline.replay.costs import Cost, needs_scores
from pipeline.replay.sweep import SweepResult, settings_of
from pipeline.report import words
from pipeline.report.fronts import controls_of, interval_of, ranked, sentence
from pipeline.results.settings import fields_words, varied

_SHOWN = ("last", "prm_argmax")
"""Shipped answer rules that are printed of every setting, besides its own; a user's always are."""

_CHOSEN = {None: "", "held_out": "other half", "test": "these questions (too good)"}

Row = dict[str, Any]


def print_sweep(table: pa.Table, choose: Sequence[str], *, synthetic: bool) -> None:
    """One table a benchmark: chosen settings, and those that had no alternative."""
    console = terminal()
    if synthetic:
        console.print("SYNTHETIC: scripted engines made this pool, no model did")
    rows = [r for r in table.to_pylist() if r["headline"] or _shown(r["answer_rule"])]
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        console.print(_table(benchmark, [r for r in rows if r["benchmark"] == benchmark], choose))
    console.print("* the rule that defines the strategy's answer; all rules are in the file")


def _shown(rule: str) -> bool:
    return rule in _SHOWN or rule not in RULES


def print_fronts(rows: Sequence[Mapping[str, Any]]) -> None:
    """One table a benchmark: mean accuracy over budgets, and against the controls."""
    console = terminal()
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        own = [row for row in rows if row["benchmark"] == benchmark]
        console.print(sentence(own, benchmark))
        shown = Table(title=f"{benchmark}: fronts, settings chosen on the other half")
        shown.title_justify = "left"
        shown.add_column("family", no_wrap=True)
        shown.add_column("mean accuracy over budgets", justify="right")
        controls = controls_of(own)
        for control in controls:
            shown.add_column(f"minus {control}, points", justify="right")
        for mean in ranked(own):
            gains = {
                row["against"]: f"{words.points(row['value'])} "
                f"{words.points_range(row['low'], row['high'])}"
                for row in own
                if row["measure"] == "mean_difference" and row["family"] == mean["family"]
            }
            shown.add_row(
                mean["family"],
                words.percent_with(interval_of(mean)),
                *(gains.get(control, "") for control in controls),
            )
        console.print(shown)


def print_costs(result: SweepResult, cost: Cost) -> None:
    """What 1,000 questions like those of the pool cost under each setting, by its own rule, and
    each of them that is answered right; cheapest first."""
    shown = Table(title="cost of 1,000 questions, US$", title_justify="left")
    for name in ("strategy", "settings"):
        shown.add_column(name)
    for name in ("N", "right", "completions", "US$", "US$ a right answer"):
        shown.add_column(name, justify="right")
    rows = []
    for setting in result.settings:
        strategy = setting.strategy
        rule = rule_named(strategy.default_rule)
        right_Q = setting.right_Q(rule)
        right, questions = float(np.nansum(right_Q)), len(right_Q)
        scored = needs_scores(strategy, rule)
        usd = float(cost.of(setting.spent_Q, scored=scored).sum()) / 1e6 / questions * 1000
        drawn = float(setting.completions_Q.mean())
        each = f"{usd * questions / right / 1000:.2g}" if right else "-"
        name, own = setting.label, settings_of(strategy)
        alike = [settings_of(s.strategy) for s in result.settings if s.label == name]
        tuned = [n for n in own if n != "n" and any(own[n] != other[n] for other in alike)]
        told = ", ".join(f"{field} {own[field]}" for field in tuned)
        numbers = (f"{right / questions:.1%}", f"{drawn:.2f}", f"{usd:.3g}", each)
        rows.append((usd, (name, told, str(strategy.n), *numbers)))
    for _, row in sorted(rows):
        shown.add_row(*row)
    terminal().print(shown)


def _table(benchmark: str, rows: list[Row], choose: Sequence[str]) -> Table:
    questions = max(row["questions"] for row in rows)
    shown = Table(title=f"{benchmark}: {questions} questions", title_justify="left")
    for name in ("strategy", "N", "settings", "chosen on", "answer rule"):
        shown.add_column(name)
    chains = max(row["chains"] for row in rows)
    together = (f"maj@{chains}", f"pass@{chains}") if chains > 1 else ()
    for name in ("accuracy [95 % interval]", *together, "tokens a question", "completions"):
        shown.add_column(name, justify="right")
    for row in _lines(rows, choose):
        shown.add_row(
            row["strategy"],
            str(row["n"]),
            _settings(row, rows),
            _CHOSEN.get(row["chosen_on"], row["chosen_on"]),
            row["answer_rule"] + (" *" if row["headline"] else ""),
            _share(row, "accuracy"),
            *(_share(row, name) for name in ("majority", "any_right") if together),
            f"{row['tokens_per_question']:,.0f}",
            f"{row['completions_per_question']:.2f}",
        )
    return shown


def _lines(rows: list[Row], choose: Sequence[str]) -> list[Row]:
    """Chosen settings, and settings that differ from no other in tuned fields alone."""
    alternatives: dict[str, set[str]] = {}
    for row in rows:
        if row["chosen_on"] is None:
            alternatives.setdefault(_fixed(row, choose), set()).add(row["settings"])
    kept = [
        row
        for row in rows
        if row["chosen_on"] is not None or len(alternatives[_fixed(row, choose)]) == 1
    ]
    order = list(dict.fromkeys(_fixed(row, choose) for row in rows))
    return sorted(kept, key=lambda row: order.index(_fixed(row, choose)))


def _fixed(row: Row, choose: Sequence[str]) -> str:
    settings = json.loads(row["settings"])
    return json.dumps(
        [row["strategy"], {k: v for k, v in settings.items() if k not in choose}], sort_keys=True
    )


def _settings(row: Row, rows: list[Row]) -> str:
    """The settings that tell this strategy's rows apart; both halves' where they chose apart."""
    mine = json.loads(row["settings"])
    others = [json.loads(r["settings"]) for r in rows if r["strategy"] == row["strategy"]]
    return fields_words(mine, [n for n in varied(others) if n != "n"])


def _share(row: Row, name: str) -> str:
    if row[name] is None:
        return "-"
    low, high = (row[end if name == "accuracy" else f"{name}_{end}"] for end in ("low", "high"))
    return f"{row[name]:.3f} [{low:.3f}, {high:.3f}]"
