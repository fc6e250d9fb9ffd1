"""*Tracking*: sends a run's progress to an experiment tracker: ``--tracker wandb`` or ``mlflow``.

The tracker is told the configuration, the metrics of every ten seconds, the accuracies at the end
and the report. It works in a thread of its own: where it fails, hangs or is slow, the run goes on
as without it and says so once.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.core.errors import ConfigError, MarkovScaleError

if TYPE_CHECKING:
    from pipeline.config.run import RunConfig
    from pipeline.records.run_dir import RunDir

logger = logging.getLogger(__name__)

PROJECT = "markovscale"
_MOST_WAITING = 100
_END_S = 60.0
_DATABASES = ("sqlite", "mysql", "postgresql", "mssql")

Figures = Mapping[str, float]


class Tracker(Protocol):
    """What a tracker does; every method may raise, and is called in one thread."""

    def start(self, run: str, config: Mapping[str, Any]) -> None:
        """Begin, or go on with a run that was resumed."""

    def log(self, figures: Figures) -> None:
        """Take figures of now."""

    def finish(self, figures: Figures, page: Path | None, status: int) -> None:
        """Take the last figures and the report, and end.

        Args:
            figures: by name.
            page: the report as HTML; None where there is none.
            status: exit status of the run.
        """


class Wandb:
    """Weights & Biases. ``WANDB_MODE=offline`` and its other variables are its own."""

    def start(self, run: str, config: Mapping[str, Any]) -> None:
        """As `Tracker.start`."""
        import wandb

        self._run: Any = wandb.init(
            project=PROJECT, id=run, name=run, resume="allow", config=dict(config)
        )

    def log(self, figures: Figures) -> None:
        """As `Tracker.log`."""
        self._run.log(dict(figures))

    def finish(self, figures: Figures, page: Path | None, status: int) -> None:
        """As `Tracker.finish`."""
        import wandb

        self._run.summary.update(dict(figures))
        if page is not None:
            artefact = wandb.Artifact(f"{self._run.id}-report", type="report")
            artefact.add_file(str(page))
            self._run.log_artifact(artefact)
        self._run.finish(exit_code=status)


class MLflow:
    """MLflow. ``MLFLOW_TRACKING_URI`` says where: a server, a folder, or a database.

    Raises:
        ConfigError: where it is a database, which ``mlflow-skinny`` cannot write.
    """

    def __init__(self) -> None:
        has_databases = importlib.util.find_spec("sqlalchemy") is not None
        if not has_databases:  # else MLflow would take sqlite
            os.environ.setdefault("MLFLOW_TRACKING_URI", "mlruns")
        place = os.environ.get("MLFLOW_TRACKING_URI", "")
        scheme = place.partition(":")[0] if ":" in place else "file"
        if scheme == "file":
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for it
        elif scheme.partition("+")[0] in _DATABASES and not has_databases:
            raise ConfigError(
                f"MLFLOW_TRACKING_URI must be a server or a folder where mlflow-skinny is "
                f"installed, got a database ({scheme}): pip install mlflow"
            )

    def start(self, run: str, config: Mapping[str, Any]) -> None:
        """As `Tracker.start`."""
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient()
        experiment = self._client.get_experiment_by_name(PROJECT)
        place = experiment.experiment_id if experiment else self._client.create_experiment(PROJECT)
        known = self._client.search_runs([place], f"tags.markovscale_run = '{run}'")
        if known:
            self._id: str = known[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
        else:
            tags = {"markovscale_run": run}
            self._id = self._client.create_run(place, run_name=run, tags=tags).info.run_id
            for name, value in _settings(config["science"], "science."):
                self._client.log_batch(self._id, params=[Param(_mlflow_name(name), value[:500])])
        self._client.log_dict(self._id, dict(config), "config.json")

    def log(self, figures: Figures) -> None:
        """As `Tracker.log`."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        step = int(figures.get("rounds", 0))
        taken = [Metric(_mlflow_name(name), value, now, step) for name, value in figures.items()]
        for start in range(0, len(taken), 500):
            self._client.log_batch(self._id, metrics=taken[start : start + 500])

    def finish(self, figures: Figures, page: Path | None, status: int) -> None:
        """As `Tracker.finish`."""
        self.log(figures)
        if page is not None:
            self._client.log_artifact(self._id, str(page))
        ends = {0: "FINISHED", 3: "KILLED", 75: "KILLED"}  # 3: a cap ended it, 75: a signal
        self._client.set_terminated(self._id, ends.get(status, "FAILED"))


TRACKERS: dict[str, Callable[[], Tracker]] = {"wandb": Wandb, "mlflow": MLflow}
"""By name, which is also that of the package and of the extra that installs it."""


def tracker_of(name: str | None) -> Tracker | None:
    """The tracker of a name; None for none.

    Raises:
        ConfigError: where its package is not installed, or cannot write where it is to.
    """
    if name is None:
        return None
    if importlib.util.find_spec(name) is None:
        raise ConfigError(f"--tracker {name} must have its package: pip install -e .[{name}]")
    return TRACKERS[name]()


class Tracking:
    """Tells a tracker of one attempt, from a thread of its own.

    Args:
        tracker: None tells nobody.
        run: the run directory.
        config: configuration of the attempt.
        end_s: how long the end of the run waits for the tracker.
    """

    def __init__(
        self, tracker: Tracker | None, run: RunDir, config: RunConfig, end_s: float = _END_S
    ) -> None:
        self._tracker, self._run, self._end_s = tracker, run, end_s
        self._waiting: queue.Queue[Callable[[Tracker], None] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        if tracker is not None:
            values = config.model_dump(mode="json")
            self._put(lambda t: t.start(run.run_id, values))
            self._thread.start()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Pass on one row of metrics; left out where too many wait."""
        from pipeline.records.side_files import flat

        figures = {name: value for name, value in flat(row).items() if value is not None}
        self._put(lambda t: t.log(figures))

    def close(self, summary: Mapping[str, Any], status: int) -> None:
        """Pass on what came out, and wait for the tracker's end, but not for ever."""
        if self._tracker is None:
            return
        with _scratch() as folder:
            page = folder and _report(self._run, folder / "report.html")
            self._put(lambda t: t.finish(final_figures(summary), page, status), self._end_s)
            self._put(None, self._end_s)
            self._thread.join(self._end_s)
        if self._thread.is_alive():
            logger.warning("the tracker did not end within %.0f s and is left", self._end_s)

    def _put(self, told: Callable[[Tracker], None] | None, wait_s: float = 0.0) -> None:
        if self._tracker is None:
            return
        try:
            self._waiting.put(told, wait_s > 0, wait_s)
        except queue.Full:
            logger.debug("the tracker is slow, a row is left out")

    def _work(self) -> None:
        assert self._tracker is not None  # the thread is not started without one
        well = True
        while (told := self._waiting.get()) is not None:
            if not well:
                continue
            try:
                told(self._tracker)
            except Exception as error:  # whatever a library of others raises is not the run's end
                well = False
                logger.warning("the tracker fails, the run goes on without it: %s", error)


def final_figures(summary: Mapping[str, Any]) -> dict[str, float]:
    """Figures of summary.json by name: ``final/BENCHMARK/STRATEGY/RULE/accuracy`` and others."""
    figures: dict[str, float] = {}
    for entry in summary["strategies"]:
        place = f"final/{entry['benchmark']}/{entry['strategy']}"
        figures[f"{place}/tokens_per_question"] = entry["tokens_per_question"]
        for rule, counts in entry["accuracy"].items():
            for name in ("accuracy", "low", "high"):
                if counts is not None and counts[name] is not None:
                    figures[f"{place}/{rule}/{name}"] = counts[name]
        headline = (entry["accuracy"][entry["headline_rule"]] or {}).get("accuracy")
        if headline is not None:
            figures[f"{place}/accuracy"] = headline
    return figures


@contextmanager
def _scratch() -> Iterator[Path | None]:
    """A folder for as long as this lasts; None where the disk has no room for one."""
    try:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    except OSError as error:
        logger.warning("no report for the tracker: %s", error)
        yield None
        return
    with folder as path:
        yield Path(path)


def _report(run: RunDir, path: Path) -> Path | None:
    from pipeline.report.page import Report, write_report
    from pipeline.report.run_data import read_run
    from pipeline.store.storage import Folder

    try:
        write_report(Report(runs=[read_run(run.address)]), Folder(str(path.parent)), path.name)
    except (MarkovScaleError, OSError) as error:
        logger.warning("no report for the tracker: %s", error)
        return None
    return path


def _settings(values: Any, above: str) -> Iterator[tuple[str, str]]:
    """Settings by dotted name."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from _settings(value, f"{above}{name}.")
    elif isinstance(values, list) and values:
        for number, value in enumerate(values):
            yield from _settings(value, f"{above}{number}.")
    elif values not in (None, {}, []):
        yield above[:-1], str(values)


def _mlflow_name(name: str) -> str:
    """A name in the letters that MLflow takes."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name)
