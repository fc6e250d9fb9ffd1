"""Forecast what a whole run will reach and cost from a pilot of it.

    python -m jobs.forecast --run PILOT
    python -m jobs.forecast --run PILOT --questions 1319 --rounds 64 --price-gpu-hour 2.5

A pilot is a finished run, a collection or an exported pool with at least 10 questions a benchmark;
50 questions and 8 rounds are a good one. Prints accuracy, tokens, GPU hours and money of the whole
run, by benchmark and strategy, each with its 90 % interval, and the questions that a difference
between two strategies needs to be seen. The questions that are forecast must be
of the same kind as the pilot's, and be asked in the same way. Reads the pilot alone, writes
nothing. Exits with 0, or with 2 for input that does not fit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from jobs.cli import VerbParser, add_shared, at_least, log_to_stderr, number, terminal
from jobs.endings import in_one_line
from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.report.forecast import Forecast, Power, Speed
    from pipeline.report.run_data import Cell
    from pipeline.statistics.intervals import Interval


@dataclass(frozen=True, slots=True)
class Pilot:
    """What was read of a pilot."""

    cells: Sequence[Cell]
    speed: Speed | None
    """None where it has no counters, or ran on no GPU."""
    warnings: Sequence[str] = ()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("forecast", __doc__)
    options.add_argument("--run", required=True, metavar="PILOT", help="run or exported pool")
    options.add_argument(
        "--questions",
        type=at_least(1, 10**9),
        metavar="M",
        help="other questions of each benchmark (its published number, else as many as the pilot)",
    )
    options.add_argument(
        "--rounds",
        type=at_least(1, 10_000),
        metavar="N",
        help="completions of MR-Thinking (as the pilot)",
    )
    options.add_argument(
        "--tokens-per-gpu-second",
        type=number(0, above=True),
        metavar="S",
        help="completion tokens that one GPU makes a second (the pilot's speed)",
    )
    options.add_argument(
        "--price-gpu-hour",
        type=number(0, above=True),
        metavar="X",
        help="price of one GPU for an hour",
    )
    options.add_argument(
        "--price-million-tokens",
        type=number(0, above=True),
        metavar="Y",
        help="price of a million completion tokens",
    )
    options.add_argument(
        "--difference",
        type=number(0.5, 100),
        default=5.0,
        metavar="POINTS",
        help="difference of accuracies in percentage points that a comparison is to call (5)",
    )
    options.add_argument(
        "--strategy",
        action="append",
        default=[],
        metavar="LABEL",
        help="strategy of that comparison, twice (the pilot's best one and MR-Thinking)",
    )
    add_shared(options, "--json")
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    from pipeline.report.forecast import forecasts_of, powers_of, total_tokens

    log_to_stderr(arguments.level)
    pilot = read_pilot(arguments.run)
    questions = {cell.benchmark: arguments.questions or _published(cell) for cell in pilot.cells}
    speed, source = _speed(arguments.tokens_per_gpu_second, pilot.speed)
    if speed is None and arguments.price_gpu_hour is not None:
        raise ConfigError(f"--price-gpu-hour must have a speed: {source}")
    forecasts = forecasts_of(pilot.cells, questions, arguments.rounds)
    powers = powers_of(pilot.cells, arguments.difference / 100, arguments.strategy)
    prices = _Prices(speed, arguments.price_gpu_hour, arguments.price_million_tokens)
    notes = _notes(pilot.cells, forecasts, source)
    tokens = total_tokens(forecasts)
    if arguments.json:
        found = {
            "pilot": arguments.run,
            "cautions": list(pilot.warnings),
            "forecasts": [asdict(f) | prices.as_json(f.tokens) for f in forecasts],
            "power": [asdict(power) for power in powers],
            "whole_run": {"tokens": asdict(tokens)} | prices.as_json(tokens),
            "tokens_per_gpu_second": speed,
            "notes": notes,
        }
        print(json.dumps(found))
        return 0
    console = terminal()
    for warning in pilot.warnings:
        console.print(f"warning: {warning}", soft_wrap=True)
    _print_forecasts(console, arguments.run, pilot, forecasts, prices)
    for line in (_whole_run(tokens, prices), *map(_power_words, powers), *notes):
        console.print(line, soft_wrap=True)
    return 0


def read_pilot(address: str) -> Pilot:
    """The cells of a run or an exported pool, and how fast it was.

    Raises:
        ConfigError, DataError: where it is neither.
    """
    from pipeline.records.outcome import has_failed
    from pipeline.replay.pools import is_export, read_pool
    from pipeline.report.forecast import speed_of
    from pipeline.report.pool_cells import pool_cells
    from pipeline.report.run_data import read_run

    if is_export(address):
        pool = read_pool(address)
        synthetic = ("scripted engines made this pool, no model did",) if pool.synthetic else ()
        return Pilot(pool_cells(pool), None, synthetic)
    run = read_run(address)
    warnings = list(run.warnings)
    if run.synthetic:
        warnings.insert(0, "scripted engines made this run, no model did")
    if run.chains_done < run.chains:
        warnings.append(
            f"{run.chains_done:,} of {run.chains:,} chains are done; short ones are done first, "
            f"so they are no random sample: resume the pilot for a forecast that holds"
        )
    gpus = {role: float(pool.gpus) for role, pool in run.config.runtime.pools.items()}
    if failed := sum(has_failed(row) for cell in run.cells for row in cell.rows):
        warnings.append(
            f"{failed:,} of {run.chains_done:,} chains failed: they count as wrong, and drew less "
            f"than they would have"
        )
    return Pilot(run.cells, speed_of(run.metrics, gpus), warnings)


@dataclass(frozen=True, slots=True)
class _Prices:
    speed: float | None
    gpu_hour: float | None
    million: float | None

    def of(self, tokens: Interval) -> dict[str, Interval]:
        """GPU hours and money of completion tokens, as far as they are known."""
        from pipeline.report.forecast import scaled

        found = {}
        if self.speed is not None:
            found["gpu_hours"] = scaled(tokens, 1 / self.speed / 3600)
            if self.gpu_hour is not None:
                found["price_by_gpu_hours"] = scaled(found["gpu_hours"], self.gpu_hour)
        if self.million is not None:
            found["price_by_tokens"] = scaled(tokens, self.million / 1e6)
        return found

    def as_json(self, tokens: Interval) -> dict[str, Any]:
        """`of` for a script."""
        return {name: asdict(value) for name, value in self.of(tokens).items()}


def _published(cell: Cell) -> int:
    from pipeline.benchmarks.source import known_of

    known = known_of(cell.benchmark)
    return len(cell.rows) if known is None else known.rows


def _speed(given: float | None, seen: Speed | None) -> tuple[float | None, str]:
    """Completion tokens a GPU second, and in words where the figure is from."""
    if given is not None:
        return given, f"{given:,g} tokens a GPU second, as given"
    if seen is None:
        return None, (
            "the pilot has no counters of GPUs, so --tokens-per-gpu-second must be given for GPU "
            "hours"
        )
    return seen.tokens_per_gpu_s, (
        f"{seen.tokens_per_gpu_s:,.1f} tokens a GPU second: the pilot's own {seen.tokens:,.0f} "
        f"tokens in {seen.gpu_s:,.0f} GPU seconds of all its pools while chains were at work, its "
        f"end, when few were left, among them; a larger run keeps its GPUs fuller"
    )


def _notes(cells: Sequence[Cell], forecasts: Sequence[Forecast], source: str) -> list[str]:
    """What a forecast rests on, and what it leaves out; `source` is that of the speed."""
    from pipeline.planning.pilot import LEAST_QUESTIONS
    from pipeline.report import words
    from pipeline.report.forecast import CHAIN, too_few

    fixed = dict.fromkeys(cell.label for cell in cells if cell.kind != CHAIN)
    notes = [
        "the questions must be of the same kind as the pilot's, drawn at random, and asked with "
        "the same models, prompts and decoding; the interval holds nothing else",
        f"GPU hours: {source}" + ("" if "must be given" in source else "; intervals of GPU hours "
        "hold what tokens vary, not what the speed does"),
    ]  # fmt: skip
    if few := [words_of for cell in cells if (words_of := too_few(cell)) is not None]:
        notes.append(
            f"not forecast, at least {LEAST_QUESTIONS} graded questions are needed: "
            f"{words.listed(few)}"
        )
    drawn = min((cell.n for cell in cells if cell.kind == CHAIN), default=0)
    if any(f.completions > 2 * drawn for f in forecasts if f.seen is None):
        notes.append(
            f"more than twice the pilot's {drawn} rounds: where accuracy still moves in its last "
            f"ones, the interval is wide and rests on the chain's curve; a deeper pilot narrows it"
        )
    if fixed:
        notes.append(
            f"{words.listed(list(fixed))}: at the pilot's settings only; another N or threshold "
            f"cannot be forecast, since where such a chain would have stopped is not known "
            f"(replay a collection with jobs.sweep for that)"
        )
    return notes


def _print_forecasts(
    console: Console, address: str, pilot: Pilot, forecasts: Sequence[Forecast], prices: _Prices
) -> None:
    from pipeline.report import words

    models = words.listed(list(dict.fromkeys(cell.backbone for cell in pilot.cells)))
    for benchmark in dict.fromkeys(f.benchmark for f in forecasts):
        here = [f for f in forecasts if f.benchmark == benchmark]
        total = max(f.pilot + f.left_out for f in here)
        console.print(
            f"{benchmark}: {here[0].questions:,} other questions, from a pilot of "
            f"{words.plural(total, 'question')} ({address}, {models})",
            soft_wrap=True,
        )
        console.print(_table(here, prices))
        for f in {f.label: f for f in here if f.left_out}.values():
            console.print(f"{f.label}: {f.left_out:,} questions of the pilot were not graded")


def _whole_run(tokens: Interval, prices: _Prices) -> str:
    from pipeline.report.forecast import scaled

    costs = "".join(
        f", {name.replace('_', ' ')} {_amount(value, 1)}"
        for name, value in prices.of(tokens).items()
    )
    return (
        f"whole run, every strategy with all its completions: {_amount(scaled(tokens, 1e-6), 3)} "
        f"million completion tokens{costs} (ends of the rows added up, so wider than 90 %)"
    )


def _power_words(power: Power) -> str:
    from pipeline.report import words
    from pipeline.report.forecast import REPEATED

    needed = power.questions
    return (
        f"{power.benchmark}: to call a difference of {100 * power.difference:g} points between "
        f"{power.first} and {power.second} with power 0.8 (exact McNemar test, level 0.05) takes "
        f"{needed.value:,} questions, from {needed.low:,} to {needed.high:,}: one of the two alone "
        f"was right on {words.percent_with(power.discordant)} of the pilot's {power.pilot:,}; or "
        f"{words.plural(power.repeats, 'run')} of the same {REPEATED} questions, which say nothing "
        f"of other questions"
    )


def _table(forecasts: Sequence[Forecast], prices: _Prices) -> Table:
    from jobs.tables import text_table
    from pipeline.report import words
    from pipeline.report.forecast import scaled

    priced = [name.replace("_", " ") for name in prices.of(forecasts[0].tokens)]
    rows = [
        (
            f"{f.label}, {f.rule}",
            f"{f.completions}",
            words.percent(f.seen),
            words.percent_with(f.accuracy),
            _amount(scaled(f.tokens, 1e-6), 3),
            *(_amount(value, 2) for value in prices.of(f.tokens).values()),
        )
        for f in forecasts
    ]
    header = ("strategy", "N", "pilot", "accuracy", "million tokens", *priced)
    return text_table("value [90 % interval]", header, rows)


def _amount(interval: Interval, digits: int) -> str:
    """With so many decimals, more where the value would have less than two figures."""
    if 0 < interval.value < 1:
        digits = max(digits, 1 - floor(log10(interval.value)))
    low, value, high = (
        f"{x:,.{digits if x < 100 else 0}f}" for x in (interval.low, interval.value, interval.high)
    )
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    sys.exit(main())
