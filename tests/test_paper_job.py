"""``jobs.paper`` and ``jobs.replay`` as commands: what they write, print and refuse."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.synthetic_pool import with_priors
from jobs import collect, paper, replay
from jobs.pool_config import pool_config
from pipeline.core.errors import ConfigError, DataError
from pipeline.paper import opponents
from pipeline.paper.replays import GAMMAS, TAUS
from pipeline.records.run_dir import RunDir
from pipeline.replay.pool_export import export_pool
from pipeline.replay.pools import CompletionPool, read_pool
from tests.scripted_pools import collected, evaluated

POOL = "tests/data/pool"
TABLES = (
    "main", "opponents", "ablation", "tau", "gamma", "controls",
)  # fmt: skip
FIGURES = ("convergence", "bounds", "p0")
LIVE = [{"kind": "budget_forcing", "num_ignore": 1}, "atom_of_thoughts", "mr_thinking", "dsc"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two pools of two benchmarks each, and a run of what no pool gives."""
    folder = tmp_path_factory.mktemp("drawn")

    async def all_of_it() -> dict[str, str]:
        return {
            "a": (await collected(folder, "backbone-a")).address,
            "b": (await collected(folder, "backbone-b")).address,
            "run": (await evaluated(folder, "backbone-a", LIVE)).address,
        }

    return asyncio.run(all_of_it())


@pytest.fixture(scope="module")
def written(drawn: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evaluation of both."""
    out = tmp_path_factory.mktemp("out")
    command = ["--pool", drawn["a"], "--pool", drawn["b"], "--run", drawn["run"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opponents, "SPLITS", 2)
        assert paper.main([*command, "--out", str(out)]) == 0
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_everything_is_there_for_every_benchmark_and_backbone(written: Path) -> None:
    """Each table and figure has all four pairs; the grids are whole."""
    pairs = {(b, q) for b in ("backbone-a", "backbone-b") for q in ("arithmetic", "pairs")}
    for name in (*TABLES, *FIGURES):
        found = rows(written / f"{name}.csv")
        assert {(row["backbone"], row["benchmark"]) for row in found} == pairs
    assert len(rows(written / "tau.csv")) == len(pairs) * len(TAUS)
    assert len(rows(written / "gamma.csv")) == len(pairs) * len(TAUS) * len(GAMMAS)


def test_no_number_stands_without_its_interval_and_its_setting(written: Path) -> None:
    """Every cell of every table says what made it and how far it can be trusted, or why it is
    empty."""
    for name in TABLES:
        for row in rows(written / f"{name}.csv"):
            if row["state"] != "run":
                assert row["state"] in ("not run", "not in this pool")
                assert row["accuracy"] == row["setting"] == ""
                continue
            assert row["setting"]
            assert row["source"]
            for measure in ("accuracy", "tokens"):
                low, value, high = (float(row[f"{measure}{end}"]) for end in ("_low", "", "_high"))
                assert low <= value <= high


def test_a_run_gives_what_the_pool_does_not(written: Path, drawn: dict[str, str]) -> None:
    """Budget forcing and Atom of Thoughts at every N, on their own backbone only; MR-Thinking stays
    the pool's, DSC its paper profile."""
    found = rows(written / "main.csv")
    for method in ("Budget Forcing", "Atom of Thoughts"):
        cells = {row["backbone"]: row for row in found if row["row"] == method}
        assert cells["backbone-a"]["source"] == "run-backbone-a"
        assert cells["backbone-b"]["state"] == "not run"
    sources = {row["source"] for row in found if row["row"] in ("MR-Thinking", "DSC")}
    assert sources == {drawn["a"], drawn["b"]}


def test_corrected_p_values_are_of_claims_and_of_the_page(written: Path) -> None:
    """Every p-value has a corrected one that is no smaller, for all pools of the page together."""
    found = rows(written / "comparisons.csv")
    pairs = [("p", "p_holm"), ("tokens_p", "tokens_p_holm")]
    both = [(row[a], row[b]) for row in found for a, b in pairs if row[a] or row[b]]
    assert all(float(after) >= float(before) for before, after in both)
    assert {row["backbone"] for row in found} == {"backbone-a", "backbone-b"}


def test_the_page_opens_from_disk_and_says_what_made_it(written: Path) -> None:
    """Synthetic pools say so; nothing can be fetched: the policy allows no address, and the only
    one is the name of the charts' schema. LaTeX is plain ASCII; every benchmark has its tables and
    figures, and one table has all benchmarks side by side."""
    page = (written / "paper.html").read_text(encoding="utf-8")
    assert "SYNTHETIC" in page
    assert "default-src &#x27;none&#x27;" in page
    before = page[: page.index("<script>")]
    addresses = set(re.findall(r"""https?://[^\s"'<>&]+""", before))
    assert {address.rpartition("/")[0] for address in addresses} == {
        "https://vega.github.io/schema/vega-lite"
    }
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", before)
    for words in (
        "no predictor: a and b counted by gold on the other half",
        "Accuracy, all benchmarks and backbones",
    ):
        assert words in page
    assert page.count("<figure") == 3 * 4
    latex = (written / "tables.tex").read_text(encoding="utf-8")
    assert latex.isascii(), {c for c in latex if not c.isascii()}
    assert latex.count("Settings: ") == latex.count(r"\begin{table*}")
    tables = 4 * len(TABLES) + 1
    assert latex.count(r"\begin{table*}") == latex.count(r"\end{table*}") == tables


@pytest.mark.slow
def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    """Marked where they lie outside our interval."""
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    head = "backbone,method,benchmark,n,accuracy_percent,tokens_per_question\n"
    text = "tiny-generator,MR-Thinking,Arithmetic,8,79.0,9999\n"
    (numbers / "variants.csv").write_text(head + text)
    command = ["--pool", POOL, "--out", str(tmp_path / "out"), "--paper", str(numbers)]
    assert paper.main(command) == 0
    (row,) = [r for r in rows(tmp_path / "out/main.csv") if r["row"] == "MR-Thinking"]
    assert (row["paper_accuracy"], row["paper_tokens"]) == ("0.79", "9999.0")
    assert (row["paper_accuracy_outside"], row["paper_tokens_outside"]) == ("False", "True")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool", POOL, "--pool", POOL], "pools must differ in backbone or benchmark"),
        (["--pool", "nowhere"], "must hold config.json, there is no folder nowhere"),
        (["--pool", POOL, "--paper", "nowhere"], "--paper must be a folder"),
    ],
)
def test_what_does_not_fit_is_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 and what must hold."""
    assert paper.main([*options, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


# exports


def test_the_small_pool_loads_as_its_card_says() -> None:
    """With pandas and datasets, row for row; digests are those of the files."""
    import datasets
    import pandas as pd

    card = Path(POOL, "README.md").read_text()
    for name in ("pool.parquet", "questions.parquet"):
        assert hashlib.sha256(Path(POOL, name).read_bytes()).hexdigest() in card
        assert f'"{name}"' in card or f"data_files: {name}" in card
    frame = pd.read_parquet(f"{POOL}/pool.parquet")
    loaded = datasets.load_dataset(
        "parquet", data_files=f"{POOL}/pool.parquet", split="train", keep_in_memory=True
    )
    assert len(frame) == loaded.num_rows == 1_600
    assert (frame["verdict"] == "right").sum() == loaded["verdict"][:].count("right")


async def test_an_export_without_texts_decides_alike(tmp_path: Path) -> None:
    """Smaller, the same pool to every replay, and it says so where texts are asked for."""
    run = await collected(tmp_path, "backbone-a", rounds=4, samples=4)
    command = ["--export", run.address, str(tmp_path / "lean"), "--no-texts", "--licence", "mit"]
    assert collect.main(command) == 0
    export_pool(run, str(tmp_path / "whole"))
    lean, whole = read_pool(str(tmp_path / "lean")), read_pool(str(tmp_path / "whole"))

    assert lean.questions == whole.questions
    sizes = [(tmp_path / name / "pool.parquet").stat().st_size for name in ("lean", "whole")]
    assert sizes[0] < sizes[1]
    assert "license: mit" in (tmp_path / "lean/README.md").read_text()
    with pytest.raises(DataError, match="was exported without texts"):
        read_pool(str(tmp_path / "lean"), text=True)


async def test_texts_that_prompts_show_cannot_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replay checks the digest of every prompt, which holds the text of the reply before."""
    import tests.scripted_pools as made

    plain = made.values_of

    def with_texts(*given: Any) -> dict[str, Any]:
        values = plain(*given)
        values["science"]["prompts"]["feedback"] = "final_text"
        return values

    monkeypatch.setattr(made, "values_of", with_texts)
    run = await collected(tmp_path, "backbone-a", rounds=2, samples=1)
    with pytest.raises(ConfigError, match="texts can be left out where prompts show boxed"):
        export_pool(run, str(tmp_path / "lean"), texts=False)


def test_an_export_takes_its_runtime_from_a_file() -> None:
    """The science is the pool's; features are cached beside it; a run brings both itself."""
    config = pool_config(POOL, "configs/laptop.yaml", ["runtime.features.cache=cache"])
    assert config.science == read_pool(POOL).science
    assert config.runtime.generator.num_gpus == 0
    assert (config.runtime.runs, config.runtime.features.cache) == ("tests/data", "cache")
    with pytest.raises(ConfigError, match="must name a field of runtime"):
        pool_config(POOL, "configs/laptop.yaml", ["science.seed=3"])
    with pytest.raises(ConfigError, match="give --config"):
        pool_config(POOL, None, [])


# replay


def test_a_run_replays_and_agrees(
    drawn: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 0, and how much it rests on."""
    assert replay.main([drawn["run"]]) == 0
    assert "all agree" in capsys.readouterr().out


async def test_a_run_that_differs_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 1 with the first difference: question, column, both values."""
    run = await collected(tmp_path, "backbone-a", rounds=2, samples=2, size=4)
    plain = RunDir.outcomes

    def changed(self: RunDir) -> Any:
        table = plain(self)
        place = table.schema.get_field_index("completions")
        told = pc.add(table["completions"], pa.scalar(1, pa.int32()))
        return table.set_column(place, table.schema.field(place), told)

    monkeypatch.setattr(RunDir, "outcomes", changed)
    assert replay.main([run.address]) == 1
    told = capsys.readouterr().out
    assert "completions: written 3, replayed 2" in told
    assert "more)" in told


async def test_failed_chains_are_wrong_and_billed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every table: a chain that broke in round 1 keeps neither its first answer nor, under the
    oracle, a chance of another; what it drew is paid for."""
    monkeypatch.setattr(opponents, "SPLITS", 2)
    run = await collected(tmp_path, "backbone-a", fails_in=1)
    out = tmp_path / "out"
    assert paper.main(["--pool", run.address, "--out", str(out)]) == 0
    found = {(row["benchmark"], row["row"]): row for row in rows(out / "main.csv")}
    controls = rows(out / "controls.csv")
    oracle = {row["benchmark"]: row for row in controls if row["row"] == "Oracle stopping"}
    for benchmark in ("arithmetic", "pairs"):
        mine = found[benchmark, "MR-Thinking"]
        assert float(mine["accuracy"]) == 0
        assert mine["graded"] == mine["questions"]
        assert float(mine["tokens"]) > 0
        first = float(found[benchmark, "Base"]["accuracy"])
        assert float(oracle[benchmark]["accuracy"]) == first > 0


def test_a_predictors_priors_are_used_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p0, a and b of every question are the predictor's; the page says whose they are."""

    def predicted(pool: CompletionPool, *_: Any) -> CompletionPool:
        questions = tuple(
            replace(q, question=with_priors(q.question, p0=0.3, a=0.1, b=0.2))
            for q in pool.questions
        )
        return replace(pool, questions=questions)

    monkeypatch.setattr(opponents, "SPLITS", 2)
    monkeypatch.setattr("jobs.pool_config.predicted_pool", predicted)
    command = ["--pool", POOL, "--out", str(tmp_path), "--predictor", "predictors/mine"]
    assert paper.main(command) == 0
    (row,) = [r for r in rows(tmp_path / "main.csv") if r["row"] == "MarkovScale*"]
    assert "p0 from predictor" in row["setting"]
    (base,) = [r for r in rows(tmp_path / "main.csv") if r["row"] == "Base"]
    assert float(row["tokens"]) > float(base["tokens"])  # p0 is below L: the gate holds nobody
    page = (tmp_path / "paper.html").read_text(encoding="utf-8")
    assert "predicted by predictors/mine" in page
    assert "no predictor" not in page
