"""What the trackers themselves keep of a run, offline (requirements/readers.lock)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.results import write_summary
from jobs.trackers import Tracking, final_figures, tracker_of
from tests.export_runs import whole
from tests.report_runs import metric_rows

pytestmark = pytest.mark.readers


def followed(folder: Path, name: str) -> dict[str, float]:
    """Tell a tracker of a made-up run; returns the figures of its summary."""
    run = whole(folder)
    summary = write_summary(run)
    tracking = Tracking(tracker_of(name), run, run.config())
    for row in metric_rows([], []):
        tracking(row)
    tracking.close(summary, 0)
    return final_figures(summary)


@pytest.mark.parametrize("place", ["file://{}/mlflow", None])
def test_mlflow_keeps_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    """Model, counters, accuracies and configuration in one finished run; in a folder, which is
    ./mlruns where none is named. A resume continues it."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    if place is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", place.format(tmp_path))
    figures = followed(tmp_path / "runs", "mlflow")
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("markovscale")
    [kept] = client.search_runs([experiment.experiment_id])

    assert kept.info.status == "FINISHED"
    assert kept.data.params["model"] == "made-up/small"
    assert {name: kept.data.metrics[name] for name in figures} == pytest.approx(figures)
    assert len(client.get_metric_history(kept.info.run_id, "in_flight")) == 12
    assert [file.path for file in client.list_artifacts(kept.info.run_id)] == ["config.json"]
    followed(tmp_path / "again", "mlflow")
    assert len(client.search_runs([experiment.experiment_id])) == 1


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
