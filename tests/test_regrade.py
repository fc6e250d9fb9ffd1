"""Grading stored completions again."""

import pytest

from jobs import regrade
from pipeline.records.run_dir import rows_of
from tests import live


@pytest.fixture
async def run(tmp_path):
    run = live.create(live.config_of(str(tmp_path), [{"kind": "mr_thinking", "n": 3}], size=4))
    await live.live(run)
    return run


async def test_every_completion_is_graded_again_beside_its_first_verdict(run, capsys):
    """The same grader agrees with itself on all; the file has one row a completion."""
    status = regrade.main([run.address, "--grader", "markovscale"])
    rows = rows_of(run.folder.read_table("verdicts-markovscale.parquet"))

    assert status == 0
    assert len(rows) == 4 * 3
    assert all(row["verdict"] == row["verdict_before"] for row in rows)
    assert "0 disagreements" in capsys.readouterr().out


async def test_disagreements_are_shown(run, capsys):
    """What two graders see differently is listed with gold and answer."""
    questions = rows_of(run.folder.read_table("questions.parquet"))
    wrong = [{**question, "gold": "\\frac{1}{2} \\text{ or so}"} for question in questions]
    import pyarrow as pa

    from pipeline.records.questions import SCHEMA

    run.folder.write_table("questions.parquet", pa.Table.from_pylist(wrong, schema=SCHEMA))
    assert regrade.main([run.address, "--grader", "paper", "--workers", "1"]) == 0
    rows = rows_of(run.folder.read_table("verdicts-paper.parquet"))

    assert {row["verdict"] for row in rows} == {"wrong"}
    assert "12 completions" in capsys.readouterr().out


async def test_a_run_without_completions_has_nothing_to_regrade(tmp_path, capsys):
    """It says so, and writes no file."""
    empty = live.create(live.config_of(str(tmp_path), ["base"], size=1))

    assert regrade.main([empty.address, "--grader", "paper"]) == 2
    assert "must hold completions with gold answers" in capsys.readouterr().err
    assert not empty.folder.has("verdicts-paper.parquet")
