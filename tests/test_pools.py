"""Pools: read whole, made deeper, exported; and what is wrong with one is named by file and row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config.collection import make_collection
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Failure
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.records.trajectory import SCHEMA
from pipeline.replay.pool_export import export_pool
from pipeline.replay.pools import CompletionPool, read_pool
from tests.live import ScriptedGenerator, config_of, create, live, write_questions

ROUNDS, SAMPLES, QUESTIONS = 3, 4, 3


def collection(tmp_path: Path, rounds: int = ROUNDS, samples: int = SAMPLES) -> RunConfig:
    """What `jobs.collect` makes of a run's configuration."""
    values = config_of(str(tmp_path), ["markovscale_t", "esc"], size=QUESTIONS).model_dump(
        mode="json"
    )
    make_collection(values, rounds, samples)
    return RunConfig.parse(values)


async def collected(tmp_path: Path, rounds: int = ROUNDS, samples: int = SAMPLES) -> RunDir:
    """A finished collection."""
    run = create(collection(tmp_path, rounds, samples), "pool")
    await live(run)
    return run


def seen(pool: CompletionPool) -> list[Any]:
    """All that a pool holds, for comparison."""
    return [
        (q.question, q.gold, q.rounds, q.round_verdicts, q.samples, q.sample_verdicts)
        for q in pool.questions
    ]


async def test_a_collection_is_a_pool(tmp_path: Path) -> None:
    """Every question has its chain and its samples, scored and graded, and no priors."""
    run = await collected(tmp_path)
    pool = read_pool(run.address)

    assert (pool.rounds, pool.samples, pool.discarded, pool.synthetic) == (ROUNDS, SAMPLES, 0, True)
    assert pool.benchmarks == ("arithmetic",)
    assert len(pool.questions) == QUESTIONS
    for question in pool.questions:
        assert [entry.address for entry in question.rounds] == [
            ("sequential", 0, r, 0) for r in range(ROUNDS)
        ]
        assert [entry.address for entry in question.samples] == [
            ("parallel", 0, 0, k) for k in range(SAMPLES)
        ]
        for entry, verdict in zip(question.rounds, question.round_verdicts, strict=True):
            right = not isinstance(entry.observation, Failure) and (
                entry.observation.answer == question.gold
            )
            assert verdict == ("right" if right else "wrong")
        assert question.question.priors.a is None


async def test_an_export_is_the_same_pool(tmp_path: Path) -> None:
    """One Parquet file in the trajectory schema, with verdicts; read back it is equal."""
    run = await collected(tmp_path)
    rows = export_pool(run, str(tmp_path / "export"))
    again = read_pool(str(tmp_path / "export"), text=True)

    assert rows == QUESTIONS * (ROUNDS + SAMPLES)
    assert seen(again) == seen(read_pool(run.address, text=True))
    with pytest.raises(ConfigError, match="must be exported to a new folder"):
        export_pool(run, str(tmp_path / "export"))


async def test_an_export_that_its_digest_vouches_for_reads_as_row_by_row(tmp_path: Path) -> None:
    """Columns give the same pool as driving the strategies over rows, with a failed chain too; a
    changed prompt in pool.json is found all the same."""
    await _exported(tmp_path / "export")
    path = tmp_path / "export" / "pool.json"
    facts = json.loads(path.read_text())
    columns = read_pool(str(tmp_path / "export"))
    path.write_text(json.dumps({**facts, "sha256": {}}))
    rows = read_pool(str(tmp_path / "export"))

    assert columns == rows
    facts["science"]["decoding"]["temperature"] = 0.123
    path.write_text(json.dumps(facts))
    with pytest.raises(DataError, match="must be the completion of its request"):
        read_pool(str(tmp_path / "export"))


async def test_a_deeper_resume_draws_only_what_is_missing(tmp_path: Path) -> None:
    """3 rounds become 5 and 4 samples 6 by 2 requests a question and pool; what was drawn stays as
    it was, and the outcomes of the shallow pool no longer stand."""
    run = await collected(tmp_path)
    before = read_pool(run.address)
    attempt = run.resume(collection(tmp_path, ROUNDS + 2, SAMPLES + 2))

    assert run.outcomes().num_rows == 0
    with pytest.raises(
        DataError, match=r"round 3, sample 0 is missing in .*: the one before it is"
    ):
        read_pool(run.address)
    generator = await live(run, attempt=attempt)
    after = read_pool(run.address)
    assert len(generator.served) == QUESTIONS * 4
    assert {(r.pool, r.round, r.sample) for r in generator.served} == {
        ("sequential", 3, 0),
        ("sequential", 4, 0),
        ("parallel", 0, 4),
        ("parallel", 0, 5),
    }
    assert (after.rounds, after.samples, after.discarded) == (5, 6, 0)
    for old, new in zip(before.questions, after.questions, strict=True):
        assert new.rounds[:ROUNDS] == old.rounds
        assert new.samples[:SAMPLES] == old.samples
    assert {row["completions"] for row in rows_of(run.outcomes())} == {5, 6}


async def test_another_benchmark_is_added_to_a_collection(tmp_path: Path) -> None:
    """Its questions are drawn, those that are there are not."""
    run = await collected(tmp_path)
    values = collection(tmp_path).model_dump(mode="json")
    path = tmp_path / "extra.jsonl"
    path.write_text('{"id": "x1", "question": "2*3+4-5?", "answer": "5"}\n')
    values["science"]["benchmarks"].append({"name": "extra", "path": str(path)})
    bigger = RunConfig.parse(values)
    attempt = run.resume(bigger)
    write_questions(run, bigger)
    generator = await live(run, attempt=attempt)

    assert len(generator.served) == ROUNDS + SAMPLES
    assert read_pool(run.address).benchmarks == ("arithmetic", "extra")


async def test_a_pool_is_not_made_shallower_and_nothing_else_may_change(tmp_path: Path) -> None:
    """Depth grows only; another temperature is another pool."""
    run = await collected(tmp_path)

    with pytest.raises(ConfigError, match="deepen a pool but not cut it, n of sequential: 3 -> 2"):
        run.resume(collection(tmp_path, ROUNDS - 1))
    hotter = collection(tmp_path).model_dump(mode="json")
    hotter["science"]["decoding"]["temperature"] = 1.0
    with pytest.raises(ConfigError, match=r"science.decoding.temperature: 0.7 -> 1.0"):
        run.resume(RunConfig.parse(hotter))


async def test_a_failed_request_ends_its_chain_and_is_part_of_the_pool(tmp_path: Path) -> None:
    """A chain that failed is as long as it got; its failure is recorded, not made up for."""
    run = create(collection(tmp_path), "pool")
    (first, *_) = rows_of(run.folder.read_table("questions.parquet"))
    place = f"sequential/arithmetic/{first['question_id']}#1"
    await live(run, ScriptedGenerator(Script(), (place,)))
    pool = read_pool(run.address)
    chain = pool.questions[0].rounds

    assert len(chain) == 2
    assert chain[1].observation == Failure(error="engine: scripted", completion_tokens=3)
    assert pool.questions[0].round_verdicts[1] is None


async def test_an_unfinished_collection_says_how_to_finish_it(tmp_path: Path) -> None:
    """Rounds without an outcome have not been graded."""
    run = await collected(tmp_path)
    folder = run.folder.child("outcomes", "attempt-1-phase-0")
    folder.write_table("part-0.parquet", folder.read_table("part-0.parquet").slice(0, 2))

    with pytest.raises(DataError, match=r"must have been graded.*--resume"):
        read_pool(run.address)


async def test_a_run_that_draws_no_pool_is_none(tmp_path: Path) -> None:
    """Strategies that stop early leave holes."""
    run = create(config_of(str(tmp_path), ["esc"], size=1))
    await live(run)

    with pytest.raises(ConfigError, match="generated by at least one of mr_thinking"):
        read_pool(run.address)


Change = Callable[[pa.Table], pa.Table]


def _at(table: pa.Table, index: int, column: str, value: Any) -> pa.Table:
    rows = table.to_pylist()
    rows[index][column] = value
    return pa.Table.from_pylist(rows, schema=table.schema)


BAD: list[tuple[str, Change, str]] = [
    (
        "missing round",
        lambda t: t.filter(pa.array([i != 1 for i in range(t.num_rows)])),
        r"pool sequential, chain 0, round 1, sample 0 is missing in .*export: the one before it is "
        r"row 1 of .*export/pool.parquet",
    ),
    (
        "all rounds of a question missing",
        lambda t: t.slice(ROUNDS),
        r"round 0, sample 0 is missing in .*export, which has nothing of it; a run .* resumed",
    ),
    (
        "duplicated row",
        lambda t: pa.concat_tables([t, t.slice(2, 1)]),
        r"must hold every completion once, row 22 of .*export/pool.parquet and row 3 are both "
        r"question '.*' of 'arithmetic', pool sequential, chain 0, round 2, sample 0",
    ),
    (
        "NaN score",
        lambda t: _at(t, 4, "score", float("nan")),
        r"score must be in \[0, 1\], got nan in row 5 of .*export/pool.parquet",
    ),
    (
        "score out of range",
        lambda t: _at(t, 0, "score", 1.5),
        r"score must be in \[0, 1\], got 1.5 in row 1 of .*export/pool.parquet",
    ),
    (
        "NaN step score",
        lambda t: _at(t, 6, "step_scores", [0.5, float("nan")]),
        r"step_scores must be in \[0, 1\], got nan in row 7 of .*export/pool.parquet",
    ),
    (
        "unscored completion",
        lambda t: _at(t, 0, "score", None),
        r"row 1 of .*export/pool.parquet must be the completion of its request",
    ),
    (
        "completion of another prompt",
        lambda t: _at(t, 1, "request_digest", "0" * 64),
        r"row 2 of .*export/pool.parquet must be the completion of its request",
    ),
    (
        "another schema version",
        lambda t: t.replace_schema_metadata({b"markovscale_trajectory_version": b"0"}),
        r"trajectory schema version must be 1 to \d+, got 0 in .*export/pool.parquet",
    ),
    (
        "missing column",
        lambda t: t.drop_columns(["seed"]).replace_schema_metadata(SCHEMA.metadata),
        r"missing \['seed'\], unknown \[\] in .*export/pool.parquet",
    ),
]


@pytest.mark.parametrize(("change", "message"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
async def test_what_is_wrong_with_an_export_is_named_by_file_and_row(
    tmp_path: Path, change: Change, message: str
) -> None:
    """Rows are counted from 1, and the whole file is checked before anything is decided on it."""
    run = await collected(tmp_path)
    export_pool(run, str(tmp_path / "export"))
    path = tmp_path / "export" / "pool.parquet"
    table = pq.read_table(path)
    order = sorted(range(table.num_rows), key=lambda i: _order(table, i))
    pq.write_table(change(table.take(order)), path, row_group_size=4)  # as a large pool's
    facts = json.loads((tmp_path / "export" / "pool.json").read_text())
    del facts["sha256"]  # as of an earlier version, or of a folder made by hand
    (tmp_path / "export" / "pool.json").write_text(json.dumps(facts))

    with pytest.raises(DataError, match=message):
        read_pool(str(tmp_path / "export"))


def _order(table: pa.Table, i: int) -> tuple[Any, ...]:
    """Chains before samples, and each in its own order; questions as their ids sort."""
    row = table.slice(i, 1).to_pylist()[0]
    return (row["pool"] == "parallel", row["question_id"], row["round"], row["sample"])


async def test_a_truncated_parquet_file_is_named(tmp_path: Path) -> None:
    """An export by its footer; a journal by the checksum in the segment's name."""
    run = await collected(tmp_path)
    export_pool(run, str(tmp_path / "export"))
    path = tmp_path / "export" / "pool.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    segment = next((tmp_path / "pool" / "journal").glob("*.parquet"))
    segment.write_bytes(segment.read_bytes()[:-100])

    with pytest.raises(DataError, match=r"pool\.parquet must have the digest .* of pool\.json"):
        read_pool(str(tmp_path / "export"))
    with pytest.raises(DataError, match=f"checksum must be .* in .*{segment.name}"):
        read_pool(run.address)


async def test_a_bit_that_flips_in_an_export_is_found(tmp_path: Path) -> None:
    """Parquet itself hides many: figures would differ silently. Earlier exports have no digests."""
    export = tmp_path / "export"
    await _exported(export)
    facts = json.loads((export / "pool.json").read_text())
    for name in facts["sha256"]:
        whole = (export / name).read_bytes()
        for place in range(4, len(whole), len(whole) // 20):
            flipped = bytes([whole[place] ^ 1])
            (export / name).write_bytes(whole[:place] + flipped + whole[place + 1 :])
            with pytest.raises(DataError, match=f"{name} must have the digest"):
                read_pool(str(export))
        (export / name).write_bytes(whole)
    del facts["sha256"]
    (export / "pool.json").write_text(json.dumps(facts))

    assert read_pool(str(export)).questions


@pytest.mark.parametrize(
    "text", ["null", "[]", "5", '{"version": 1}', '{"version": 1, "science": {}, "synthetic": 0}']
)
def test_an_export_that_does_not_say_what_it_is_is_refused(tmp_path: Path, text: str) -> None:
    """One line that names the file."""
    (tmp_path / "pool.json").write_text(text)

    with pytest.raises(DataError, match=r"pool\.json$") as caught:
        read_pool(str(tmp_path))
    assert "\n" not in str(caught.value)


async def _exported(folder: Path) -> None:
    export_pool(await collected(folder.parent), str(folder))


async def test_an_export_of_another_version_is_refused(tmp_path: Path) -> None:
    """The folder's own description has a version too."""
    run = await collected(tmp_path)
    export_pool(run, str(tmp_path / "export"))
    path = tmp_path / "export" / "pool.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 7'))

    with pytest.raises(DataError, match=r"pool version must be 1, got 7 in .*export/pool.json"):
        read_pool(str(tmp_path / "export"))
