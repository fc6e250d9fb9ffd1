"""What the report says of the choice of a strategy."""

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs import evaluate
from jobs.collect import print_suitability
from pipeline.core.errors import ConfigError
from pipeline.report.page import report_page
from pipeline.report.run_data import read_run
from pipeline.report.suitability_view import suitability_of
from pipeline.statistics.intervals import Interval
from pipeline.theory.suitability import LagCorrelation, Suitability, advice, suitability
from tests.report_runs import made_up_config, question_rows, write_run


def world(*, sees: bool, questions: int = 200, rounds: int = 9) -> Suitability:
    """Chains whose questions are easy or hard, or all alike; scores of the question, or of each
    answer."""
    rng = np.random.default_rng(0)
    p = np.full(questions, 0.7) if sees else rng.beta(0.4, 0.3, questions)
    right = rng.random((questions, rounds)) < p[:, None]
    scores = right if sees else np.repeat(p[:, None], rounds, axis=1)
    found = suitability(right.tolist(), (0.2 + 0.6 * scores).tolist())
    assert found is not None
    return found


def test_a_report_says_what_its_chains_mean(tmp_path: Path) -> None:
    """The sentences of the diagnostics stand in the result; without whole chains there are none."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking"])
    write_run(config, "run", question_rows(60, ["made-up"]))
    run = read_run(f"{config.runtime.runs}/run")
    found = suitability_of(run.cells)
    page = report_page([run])

    assert found is not None
    assert found.sentences()
    assert all(escape(sentence, quote=False) in page for sentence in found.sentences())
    assert "The diagnostics of 60 chains in numbers" in page
    for lag in (1, 2, 4):
        assert f"correlation of correctness, {lag} round" in page
    assert suitability_of([c for c in run.cells if c.kind != "mr_thinking"]) is None


def test_a_collection_ends_with_what_its_chains_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each sentence of each benchmark; of few chains, what would tell."""
    config = made_up_config(tmp_path, strategies=["mr_thinking"])
    write_run(config, "run", question_rows(60, ["made-up"]))
    found = suitability_of(read_run(f"{config.runtime.runs}/run").cells)
    print_suitability(f"{config.runtime.runs}/run")
    printed = capsys.readouterr().out

    assert found is not None
    assert printed == "".join(f"made-up: {sentence}\n" for sentence in found.sentences())

    write_run(config, "few", question_rows(5, ["made-up"]))
    print_suitability(f"{config.runtime.runs}/few")
    assert "made-up: Chains of 20 questions or more" in capsys.readouterr().out


def test_the_advice_follows_what_the_pilot_shows() -> None:
    """A verifier that tells answers apart, a level that rises, one that does not, chains that stay
    and no chains at all each speak for another strategy."""
    seen = world(sees=True)
    blind = world(sees=False)
    rising = replace(blind, rise=Interval(value=0.1, low=0.05, high=0.15))
    stays = [LagCorrelation(lag=1, observed=Interval(value=0.95, low=0.9, high=1), chain=0.95)]

    assert (advice(seen).kind, advice(seen).settings) == ("settled", {"score_at_least": 0.8})
    assert (advice(rising).kind, advice(rising).settings) == ("settled", {})
    assert advice(replace(blind, rise=Interval(value=0, low=-0.1, high=0.1))).kind == (
        "chain_expected_agreement"
    )
    assert advice(replace(blind, lags=tuple(stays))).kind == "base"
    assert advice(None).kind == "expected_agreement"


def test_a_run_takes_the_strategy_that_its_pilot_speaks_for(tmp_path: Path) -> None:
    """`--strategy auto` needs a pilot, and puts what it advises in place of the strategies."""
    config = made_up_config(tmp_path, strategies=["mr_thinking"])
    write_run(config, "run", question_rows(60, ["made-up"]))
    pilot = f"{config.runtime.runs}/run"
    found = suitability_of(read_run(pilot).cells)
    arguments = evaluate.parser().parse_args(["--strategy", "auto", "--pilot", pilot])
    shape = evaluate.advised(arguments)
    values: dict[str, Any] = {"science": {"strategies": ["base"]}}

    assert shape is not None
    shape(values)
    [entry] = values["science"]["strategies"]
    assert entry == {"kind": advice(found).kind, "label": "auto", **advice(found).settings}
    assert evaluate.advised(evaluate.parser().parse_args([])) is None
    with pytest.raises(ConfigError, match="--strategy auto must come with --pilot"):
        evaluate.advised(evaluate.parser().parse_args(["--strategy", "auto"]))
