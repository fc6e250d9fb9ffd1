"""What the trackers themselves keep of a run, offline (requirements/readers.lock)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jobs.results import write_summary
from jobs.trackers import Tracking, final_figures, tracker_of
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from tests.export_runs import whole
from tests.report_runs import metric_rows

pytestmark = pytest.mark.readers


def followed(folder: Path, name: str) -> dict[str, float]:
    """Tell a tracker of a made-up run; returns the figures of its summary."""
    run = whole(folder)
    summary = write_summary(run)
    values = run.config().model_dump(mode="json")
    values["science"]["generator"]["chat_template_kwargs"] = {"a key!": 1}
    tracking = Tracking(tracker_of(name), run, RunConfig.parse(values))
    for row in metric_rows([], []):
        tracking(row)
    tracking.close(summary, 0)
    return final_figures(summary)


@pytest.mark.parametrize("place", ["file://{}/mlflow", "{}/mlflow", None, "sqlite:///{}/m.db"])
def test_mlflow_keeps_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    """Parameters, counters, accuracies, configuration and report, in one finished run; in a folder,
    which is ./mlruns where none is named. A database needs more than mlflow-skinny has."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    if place is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", place.format(tmp_path))
    if place and place.startswith("sqlite") and find_spec("sqlalchemy") is None:
        with pytest.raises(ConfigError, match=r"a database \(sqlite\): pip install mlflow"):
            tracker_of("mlflow")
        return
    figures = followed(tmp_path, "mlflow")
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("markovscale")
    [kept] = client.search_runs([experiment.experiment_id])

    assert kept.info.status == "FINISHED"
    assert kept.data.params["science.generator.model"] == "made-up/small"
    assert kept.data.params["science.generator.chat_template_kwargs.a key_"] == "1"
    assert {name: kept.data.metrics[name] for name in figures} == pytest.approx(figures)
    assert len(client.get_metric_history(kept.info.run_id, "in_flight")) == 12
    names = {file.path for file in client.list_artifacts(kept.info.run_id)}
    assert names == {"config.json", "report.html"}


def test_wandb_keeps_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in an offline run, as `wandb sync` would upload it."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    figures = followed(tmp_path, "wandb")
    [path] = tmp_path.glob("wandb/offline-run-*/*.wandb")
    records = list(_records(path))
    history = [r.history for r in records if r.WhichOneof("record_type") == "history"]
    summary: dict[str, Any] = {}
    for record in records:
        for item in record.summary.update:
            summary[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)

    assert len(history) >= 12
    assert {name: summary[name] for name in figures} == pytest.approx(figures)
    config = [item.key for record in records for item in record.run.config.update]
    assert {"science", "runtime"} <= set(config)
    assert any(record.artifact.name == "whole-report" for record in records)


def _records(path: Path) -> Iterator[Any]:
    """Records of a .wandb file: a log of LevelDB's form, of blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, held = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 2**15 - at % 2**15 < 7:  # no room for another head in this block
            at += 2**15 - at % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(held)
            yield record
            held = b""
