"""An endpoint whose record cannot be kept: its clients and its operator learn of it."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
import ray

from actors.cluster import background
from actors.controllers.chain_types import Counters
from actors.serving.deployment import EndpointReplica
from actors.serving.record import Record, begin_record
from actors.serving.served_models import served_models, template_question
from jobs import serve
from pipeline.core.errors import DataError
from pipeline.records.questions import read_questions
from pipeline.records.run_dir import RunDir, rows_of
from tests.attempts import attempt, config_of, new_run
from tests.live import Engines


@pytest.fixture
def place(tmp_path):
    """A record that is begun, and what to put into it: a question with its outcome."""
    config = config_of(tmp_path, n=2)
    begin_record(str(tmp_path / "record"), config, served_models(config.science).served)
    return config, str(tmp_path / "record")


async def told(config: Any, tmp_path: Path, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A request as the record is told of it."""
    run = new_run(config, f"other-{number}")
    (outcome, *_) = await attempt(run, Engines())
    question = {**template_question(config.science), "question_id": f"q{number}"}
    question |= {"text": "1+1", "seed": number, "max_tokens": None}
    return question, {**outcome, "question_id": f"q{number}", "benchmark": question["benchmark"]}


async def kept(record: Record, question: dict[str, Any], outcome: dict[str, Any]) -> str | None:
    """Tell a record; its failure, once it has written or failed."""
    await record.ended(question, outcome)
    await asyncio.wait_for(record.close(), 30)
    return record.failure


@pytest.mark.parametrize("what", ["storage", "anything"])
async def test_outcomes_that_cannot_be_recorded_are_told(place, tmp_path, monkeypatch, what):
    """After the patience with storage, or at once: the endpoint is unhealthy from then on, and its
    driver ends it; before, only a task that nobody awaits knew."""
    config, folder = place
    error = OSError(5, "Input/output error") if what == "storage" else ValueError("odd")

    def fails(*_, **__):
        raise error

    monkeypatch.setattr("actors.serving.record.write_outcomes", fails)
    real = background.with_retries
    monkeypatch.setattr(
        "actors.serving.record.with_retries", lambda call, what: real(call, what, give_up_s=0.0)
    )
    record = Record(folder, ["mr_thinking"], 1, flush_s=0.01)
    failure = await kept(record, *(await told(config, tmp_path, 1)))

    assert failure is not None
    assert str(error) in failure
    assert f"1 outcomes of {folder}/mr_thinking" in failure


async def test_two_endpoints_of_one_record_do_not_write_over_each_other(place, tmp_path):
    """The later one owns it; the earlier one says so, and leaves its questions alone."""
    config, folder = place
    first = Record(folder, ["mr_thinking"], 1, flush_s=0.01)
    begin_record(folder, config, served_models(config.science).served)
    second = Record(folder, ["mr_thinking"], 1, flush_s=0.01)

    assert await kept(second, *(await told(config, tmp_path, 2))) is None
    assert "another endpoint has taken the record over" in str(
        await kept(first, *(await told(config, tmp_path, 1)))
    )
    run = RunDir.open(f"{folder}/mr_thinking")
    asked = rows_of(read_questions(run.folder))
    assert [row["question_id"] for row in asked] == ["q2"]


def test_a_record_that_is_torn_is_refused_before_anything_starts(place):
    """Requests cannot be asked for again, so nobody makes its questions anew."""
    config, folder = place
    RunDir.open(f"{folder}/mr_thinking").folder.write("questions.parquet", b"PAR1")

    with pytest.raises(DataError, match=r"questions\.parquet must be a whole Parquet file"):
        begin_record(folder, config, served_models(config.science).served)


@pytest.mark.parametrize("where", ["file/x", "file", "/proc/x"])
def test_a_record_that_cannot_be_written_is_status_2(tmp_path, where, capsys):
    """One line, before Ray is started."""
    (tmp_path / "file").write_text("x")
    status = serve.main(
        ["--config", "configs/laptop.yaml", "--record", str(tmp_path / where), "--port", "8123"]
    )

    assert status == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")


async def test_one_broken_connection_to_the_run_monitor_is_tried_again(tmp_path, monkeypatch):
    """The monitor lives, so the endpoint goes on; where it is gone, the endpoint ends and its
    driver learns why."""
    calls = []

    class Monitor:
        class report:
            @staticmethod
            async def remote(*_):
                calls.append(1)
                if len(calls) == 1:
                    raise ray.exceptions.ActorUnavailableError("broken", b"0" * 16)
                if len(calls) == 4:
                    raise ray.exceptions.ActorDiedError
                return 7

    class Answers:
        counters = Counters()
        limits: ClassVar = []

        def limit(self, share):
            self.limits.append(share)

        async def drain(self, grace_s):
            self.limits.append(grace_s)

    monkeypatch.setattr("actors.serving.deployment._REPORT_EVERY_S", 0.001)
    replica = object.__new__(EndpointReplica)
    replica._watch, replica._answering, replica._record = Monitor(), Answers(), None
    replica._reports, replica._life, replica._trouble = 0, 1, None
    await asyncio.wait_for(replica._report(), 10)

    assert Answers.limits == [7, 7, 0.0]
    assert await replica.begin(None, None) == "its run monitor is gone"
