"""Live runs that go on from an imported pool, and the pools that none can go on from."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from jobs.import_logs import main
from pipeline.config.collection import make_collection
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.imports.optscale import PROMPTS
from pipeline.imports.own_pools import ask_alike, carry_over, pool_to_go_on_from
from pipeline.records.run_dir import RunDir
from pipeline.replay.pools import read_pool
from pipeline.replay.run import replay_run
from tests.conftest import ROOT
from tests.live import create, live
from tests.scripted_pools import made_up

ROUNDS = SAMPLES = 3


@pytest.fixture
def benchmark(tmp_path) -> str:
    """Four questions as a file."""
    path = made_up(tmp_path)
    rows = (tmp_path / "pairs.jsonl").read_text().splitlines()[:4]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def pool(tmp_path, benchmark) -> str:
    """Scored pools in OptScale's schema, three rounds and three samples of each question."""
    for kind in ("seq", "par"):
        items = []
        for number, line in enumerate((tmp_path / "pairs.jsonl").read_text().splitlines(), 1):
            row = json.loads(line)
            texts = [f"{kind} {at}: \\boxed{{{number + at}}}" for at in range(ROUNDS)]
            score = {
                "problem": [row["question"]],
                "completions": [texts],
                "scores": [[0.5] * ROUNDS],
                "completion_tokens": [[7] * ROUNDS],
            }
            items.append({"id": number, "n": ROUNDS, "score": score})
        (tmp_path / f"scored_{kind}_pairs.json").write_text(json.dumps(items))
    files = [str(tmp_path / f"scored_{kind}_pairs.json") for kind in ("seq", "par")]
    out = str(tmp_path / "pool")
    arguments = [*files, "--format", "optscale", "--model", "r1", "--benchmark", "pairs"]
    assert main([*arguments, "--gold", benchmark, "--scores", "prm", "--out", out, "-q"]) == 0
    return out


def configured(tmp_path, benchmark: str, address: str, model: str = "r1") -> RunConfig:
    """A collection of five rounds and four samples, asked as the pool was."""
    values = {
        "science": {
            "benchmarks": [{"name": "pairs", "path": benchmark}],
            "generator": {"model": model},
            "verifier": {"model": "prm"},
        },
        "runtime": {"runs": str(tmp_path), "scripted": {"p0": 0.5, "a": 0.1, "b": 0.3}},
    }
    make_collection(values, 5, 4)
    ask_alike(values, pool_to_go_on_from(address))
    return RunConfig.parse(values)


async def test_a_run_goes_on_from_an_imported_pool(tmp_path, benchmark, pool):
    """Only the rounds and samples that the pool lacks are asked; the others are the pool's."""
    config = configured(tmp_path, benchmark, pool)
    run = create(config, "further")
    imported = pool_to_go_on_from(pool)
    assert carry_over(imported, run, config) == 4 * (ROUNDS + SAMPLES)
    run.resume(config)
    generator = await live(run, attempt=2)
    assert len(generator.served) == 4 * (5 - ROUNDS + 4 - SAMPLES)
    whole = read_pool(run.address, text=True)
    assert (whole.rounds, whole.samples) == (5, 4)
    for question, before in zip(whole.questions, imported.questions, strict=True):
        texts = [entry.observation.text for entry in question.rounds]
        assert texts[:ROUNDS] == [entry.observation.text for entry in before.rounds]
        assert "previous answer is: $\\boxed{" in generator.served[0].messages[0].content


async def test_another_model_does_not_go_on(tmp_path, benchmark, pool):
    """Completions of one model are not continued by another."""
    config = configured(tmp_path, benchmark, pool, model="other")
    with pytest.raises(ConfigError, match=r"science\.generator\.model must be that of the pool"):
        carry_over(pool_to_go_on_from(pool), create(config, "other"), config)


async def test_a_pool_of_unknown_prompts_is_refused(tmp_path):
    """Digests of prompts that nobody recorded answer nothing."""
    (tmp_path / "log.jsonl").write_text('{"q": 1, "gold": "1", "a": ["1", "2"]}\n')
    (tmp_path / "map.yaml").write_text("question_id: q\ngold: gold\nanswer: a\nrows: samples\n")
    out = str(tmp_path / "unknown")
    arguments = [str(tmp_path / "log.jsonl"), "--map", str(tmp_path / "map.yaml"), "-q"]
    assert main([*arguments, "--out", out]) == 0
    with pytest.raises(ConfigError, match="prompts are known"):
        pool_to_go_on_from(out)


def job(verb: str, *arguments: object) -> str:
    """Run a job on the embedded models; returns what it printed."""
    command = [sys.executable, "-m", f"jobs.{verb}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.timeout(1_800)
def test_a_collection_on_real_engines_goes_on_from_an_import(tmp_path):
    """What a model answered to OptScale's prompts, as OptScale's files have it: two rounds and two
    samples of four questions become three and three; the third round is shown the second's answer,
    and what the import has is not asked again."""
    settings = ("--config", "configs/laptop.yaml", "--set", f"runtime.runs={tmp_path}")
    first = (*settings, "--set", "science.benchmarks.0.size=4")
    asked = ("--set", f"science.prompts={json.dumps(asdict(PROMPTS))}")
    decoding = "{temperature: 0.7, top_p: 0.95, max_tokens: 10000}"
    job("collect", *first, *asked, "--set", f"science.decoding={decoding}", "--name", "first",
        "--rounds", 2, "--samples", 2)  # fmt: skip
    before = read_pool(str(tmp_path / "first"), text=True)
    golds = [{"problem": q.question.text, "answer": q.gold} for q in before.questions]
    (tmp_path / "golds_test.json").write_text(json.dumps(golds))
    for kind, part in (("seq", "rounds"), ("par", "samples")):
        items = []
        for number, question in enumerate(before.questions, 1):
            seen = [entry.observation for entry in getattr(question, part)]
            score = {
                "problem": [question.question.text],
                "completions": [[each.text for each in seen]],
                "scores": [[each.score for each in seen]],
                "completion_tokens": [[each.completion_tokens for each in seen]],
            }
            items.append({"id": number, "n": 2, "score": score})
        (tmp_path / f"scored_{kind}_2.json").write_text(json.dumps(items))
    job("import_logs", *(tmp_path / name for name in
        ("golds_test.json", "scored_seq_2.json", "scored_par_2.json")),
        "--format", "optscale", "--model", "models/tiny-generator", "--benchmark", "arithmetic",
        "--scores", "models/tiny-verifier", "--out", tmp_path / "pool")  # fmt: skip
    said = job("collect", *first, "--name", "second", "--from", tmp_path / "pool",
               "--rounds", 3, "--samples", 3)  # fmt: skip
    after = read_pool(str(tmp_path / "second"), text=True)

    assert "16 completions taken over from" in said
    assert (after.rounds, after.samples, len(after.questions)) == (3, 3, 4)
    for new, old in zip(after.questions, before.questions, strict=True):
        for mine, theirs in ((new.rounds, old.rounds), (new.samples, old.samples)):
            drawn = [(entry.digest, entry.observation.text) for entry in mine]
            assert drawn[:2] == [(entry.digest, entry.observation.text) for entry in theirs]
            assert len(drawn) == 3
    assert replay_run(RunDir.open(str(tmp_path / "second"))).differences == ()
