"""Going on with a run: what is durable is not generated again, and what comes out is the same."""

import argparse

import pytest

from benchmarks.journals import read_journal
from jobs.cli import add_run_options
from jobs.run_options import opened_run
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.records.journal import journaled_tokens
from pipeline.records.run_dir import RunDir, rows_of
from tests.attempts import attempt, config_of, new_run
from tests.live import Engines

CHAIN = ("round_answers", "round_scores", "round_verdicts", "round_tokens", "stop_reason")


def chains(run):
    """What came of each question, without times and bookkeeping."""
    return {row["question_id"]: tuple(map(row.get, CHAIN)) for row in rows_of(run.outcomes())}


def with_values(config, change):
    values = config.model_dump(mode="json")
    change(values)
    return RunConfig.parse(values)


async def test_a_resume_continues_in_the_middle_of_every_chain(tmp_path):
    """No durable round is generated again, and the chains are those of an undisturbed run."""
    config = config_of(tmp_path)
    undisturbed = new_run(config, "undisturbed")
    await attempt(undisturbed, Engines())
    run = new_run(config)
    first = Engines(stop_after=9)
    await attempt(run, first)
    durable = {row["seed"] for row in rows_of(read_journal(run.journal).table)}
    second = Engines()
    await attempt(run, second, run.resume(config))

    assert len(durable) == 9
    assert not durable & {request.seed for request in second.served}
    assert len(second.served) == 6 * 4 - 9
    assert chains(run) == chains(undisturbed)


@pytest.mark.parametrize("which", [0, 1])
async def test_a_corrupt_segment_costs_its_own_rounds_only(tmp_path, which):
    """It is named and set aside; its rounds are drawn again, all others are kept."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines(stop_after=9))
    await attempt(run, Engines(stop_after=5), run.resume(config))
    name = [n for n in run.journal.names() if run.journal.read_table(n).num_rows][which]
    torn = run.journal.read_table(name).num_rows
    path = tmp_path / "r" / "journal" / name
    path.write_bytes(path.read_bytes()[:-10])
    read = read_journal(run.journal)
    kept = {row["seed"] for row in rows_of(read.table)}
    third = Engines()
    await attempt(run, third, run.resume(config))

    assert [corrupt.name for corrupt in read.corrupt] == [name]
    assert "checksum must be" in read.corrupt[0].why
    assert run.journal.child("corrupt").names() == [name]
    assert not kept & {request.seed for request in third.served}
    assert len(third.served) == 24 - 14 + torn
    assert len(chains(run)) == 6


async def test_a_finished_run_whose_segment_is_torn_redoes_its_rounds(tmp_path):
    """An outcome does not stand without its rounds, even if it was written."""
    config = config_of(tmp_path)
    run = new_run(config)
    await attempt(run, Engines())
    before = chains(run)
    name = next(n for n in run.journal.names() if run.journal.read_table(n).num_rows)
    torn = run.journal.read_table(name).num_rows
    path = tmp_path / "r" / "journal" / name
    path.write_bytes(b"")
    again = Engines()
    await attempt(run, again, run.resume(config))

    assert len(again.served) == torn
    assert chains(run) == before


async def test_failed_questions_are_kept_unless_they_are_to_be_tried_again(tmp_path):
    """A plain resume leaves them as they are; with retry_failed only what failed is drawn, and the
    bill has both."""
    config = config_of(tmp_path)
    run = new_run(config)
    probe = Engines()
    await attempt(new_run(config, "probe"), probe)
    ill = next(r for r in probe.served if r.round == 2)
    await attempt(run, Engines(failures={ill.seed: "engine: no"}))
    plain, retrying = Engines(), Engines()
    await attempt(run, plain, run.resume(config))
    (failed,) = [row for row in rows_of(run.outcomes()) if row["error"]]
    await attempt(run, retrying, run.resume(config, retry_failed=True))
    (mended,) = [
        row for row in rows_of(run.outcomes()) if row["question_id"] == failed["question_id"]
    ]

    assert plain.served == []
    assert (failed["error"], failed["completions"]) == ("engine: no", 2)
    assert next((r.seed, r.round) for r in retrying.served) == (ill.seed, 2)
    assert [r.round for r in retrying.served] == [2, 3]
    assert (mended["error"], mended["completions"], mended["wasted_tokens"]) == (None, 4, 11)
    assert read_journal(run.journal).table.num_rows == 24
    assert journaled_tokens(run.journal) == 11 + sum(
        row["completion_tokens"] for row in rows_of(run.outcomes())
    )


async def test_a_retry_that_is_cut_off_goes_on_as_a_retry(tmp_path):
    """A plain resume after an interrupted retry finishes what the retry had begun."""
    config = config_of(tmp_path)
    run = new_run(config)
    probe = Engines()
    await attempt(new_run(config, "probe"), probe)
    ill = next(r for r in probe.served if r.round == 1)
    await attempt(run, Engines(failures={ill.seed: "engine: no"}))
    await attempt(run, Engines(stop_after=1), run.resume(config, retry_failed=True))
    last = Engines()
    await attempt(run, last, run.resume(config))

    assert [r.round for r in last.served] == [2, 3]
    assert [row["error"] for row in rows_of(run.outcomes())] == [None] * 6


def test_another_science_is_refused_by_its_fields(tmp_path):
    """Each field that differs is named with both values; nothing is written."""
    config = config_of(tmp_path)
    run = new_run(config)

    def change(values):
        values["science"]["strategy"]["n"] = 5
        values["science"]["decoding"]["temperature"] = 0.1

    with pytest.raises(ConfigError) as refused:
        run.resume(with_values(config, change))
    assert "science.decoding.temperature: 0.7 -> 0.1" in str(refused.value)
    assert "science.strategy.n: 4 -> 5" in str(refused.value)
    assert len(run.attempts()) == 1


def test_the_runtime_may_change_and_is_written_down(tmp_path):
    """Fewer replicas after an out-of-memory, say; each attempt keeps its own."""
    run = new_run(config_of(tmp_path))

    def change(values):
        values["runtime"]["generator"]["replicas"] = 3

    run.resume(with_values(config_of(tmp_path), change))

    assert [run.attempt(n).config.runtime.generator.replicas for n in (1, 2)] == [1, 3]
    assert run.attempt(1).token != run.attempt(2).token


def options(*arguments):
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    return parser.parse_args(arguments)


def test_questions_that_changed_are_refused(tmp_path):
    """A benchmark file that was edited since is another science, though its path is the same."""
    path = tmp_path / "set.jsonl"
    path.write_text('{"id": "1", "question": "1+1?", "answer": "2"}\n')
    config = with_values(
        config_of(tmp_path),
        lambda values: values["science"].update(benchmarks=[{"name": "mine", "path": str(path)}]),
    )
    run = new_run(config)
    opened_run(options("--resume", run.address))
    path.write_text('{"id": "1", "question": "1+1?", "answer": "3"}\n')

    with pytest.raises(ConfigError, match=r"gold of question '1' of mine differs: '2' -> '3'"):
        opened_run(options("--resume", run.address))
    path.write_text('{"id": "2", "question": "1+1?", "answer": "2"}\n')
    with pytest.raises(ConfigError, match="question '1' of mine is gone"):
        opened_run(options("--resume", run.address))
    assert len(run.attempts()) == 2


def test_a_run_that_died_before_it_began_can_be_resumed(tmp_path):
    """config.json is written last: a directory without it holds no run and is used again."""
    config = config_of(tmp_path)
    run = RunDir.create(config, "r")
    (tmp_path / "r" / "config.json").unlink()

    assert RunDir.create(config, "r").attempts()[0]["attempt"] == 1
    with pytest.raises(ConfigError, match="a new run needs a new directory"):
        RunDir.create(config, "r")
    assert run.address.endswith("r")
