"""Replay of what the embedded models really drew, through Ray and vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.journals import read_journal
from pipeline.benchmarks.generated import gold
from pipeline.predictors.priors import with_priors
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.replay.pools import read_pool
from pipeline.replay.run import replay_run
from pipeline.replay.sweep import sweep
from pipeline.strategies import STRATEGIES

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow]

STRATEGIES_LIVE = [
    *(kind for kind in STRATEGIES if kind != "budget_forcing"),
    "{kind: budget_forcing, num_ignore: 1}",
    "{kind: dsc, label: dsc-paper, profile: paper}",
]


def job(verb: str, *arguments: Any) -> str:
    """Run a job on the embedded models; returns what it printed."""
    command = [sys.executable, "-m", f"jobs.{verb}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


@pytest.mark.timeout(1_800)
def test_a_run_of_every_strategy_replays_record_for_record(tmp_path: Path) -> None:
    """Guarantee (a) on real completions: every outcome, through every record and no other."""
    job(
        "evaluate",
        *("--config", "configs/laptop.yaml", "--name", "run"),
        *("--set", f"runtime.runs={tmp_path}", "--set", "science.benchmarks.0.size=6"),
        *("--set", f"science.strategies=[{', '.join(STRATEGIES_LIVE)}]"),
    )
    found = replay_run(RunDir.open(str(tmp_path / "run")))

    assert found.differences == ()
    assert found.outcomes == 6 * len(STRATEGIES_LIVE)
    assert found.unused == 0


CHECK = """
import sys
answer, question = (open(path).read() for path in sys.argv[1:])
same = int(answer) % 9 == eval(question.rstrip("?")) % 9
print("nines hold" if same else "nines fail")
"""
"""A test that needs no gold answer: casting out nines."""


@pytest.mark.timeout(1_800)
def test_a_failing_test_is_fed_back_and_replays(tmp_path: Path) -> None:
    """A program of the user's tests each answer; the next round is shown what it prints, which
    stands in the journal, and the replay asks for the same prompts."""
    script = tmp_path / "check.py"
    script.write_text(CHECK, encoding="utf-8")
    check = f'[{sys.executable}, {script}, "{{answer}}", "{{question}}"]'
    source = f"{{name: arithmetic, size: 6, grader: {{check: {check}}}}}"
    job(
        "evaluate",
        *("--config", "configs/laptop.yaml", "--name", "checked"),
        *("--set", f"runtime.runs={tmp_path}", "--set", "science.strategies=[mr_thinking]"),
        *("--set", f"science.benchmarks=[{source}]", "--set", "science.strategy={n: 3}"),
        *("--set", "science.prompts.revise='{question} was {answer} {feedback}'"),
    )
    run = RunDir.open(str(tmp_path / "checked"))
    rows = rows_of(read_journal(run.journal).table)
    said = {row["feedback"] for row in rows if row["answer"] is not None}

    assert "nines hold" in said
    for row in rows:
        if row["feedback"] in ("nines hold", "nines fail"):
            off = int(gold(f"{row['question_id']}?")) - int(row["answer"])
            assert row["feedback"] == ("nines fail" if off % 9 else "nines hold")
    assert replay_run(run).differences == ()


@pytest.mark.timeout(1_800)
def test_a_pool_is_collected_deepened_and_swept(tmp_path: Path) -> None:
    """3 rounds and 4 samples become 5 and 4; what was drawn stays; every strategy that a pool can
    replay is swept over it."""
    where = ("--set", f"runtime.runs={tmp_path}", "--set", "science.benchmarks.0.size=6")
    config = ("--config", "configs/laptop.yaml", "--name", "pool")
    job("collect", *config, *where, "--rounds", 3, "--samples", 4)
    run = str(tmp_path / "pool")
    before = read_pool(run)
    job("collect", "--resume", run, "--rounds", 5)
    after = read_pool(run)

    assert (after.rounds, after.samples, after.discarded) == (5, 4, 0)
    for old, new in zip(before.questions, after.questions, strict=True):
        assert new.rounds[:3] == old.rounds
        assert new.samples == old.samples
    strategies = [
        (kind, cls(**({"n": 4} if kind != "base" else {}), **_as_drawn(after.science)))
        for kind, cls in STRATEGIES.items()
        if cls().pool_replayable
    ]
    pool = with_priors(after, after.science.priors.model_copy(update={"a": 0.06, "b": 0.19}))
    result = sweep(pool, strategies)
    assert [len(one.judged.tokens_Q) for one in result.settings] == [6] * len(strategies)


def _as_drawn(science: Any) -> dict[str, Any]:
    return {"prompts": science.prompts, "decoding": science.decoding}
