"""*Tracking*: sends a run's progress to an experiment tracker: ``--tracker wandb`` or ``mlflow``.

The tracker gets the configuration, the metrics of every ten seconds and the accuracies at the end.
It works in a thread of its own: where it fails, hangs or is slow, the run continues without it and
says so once.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.config.run import RunConfig
    from pipeline.records.run_dir import RunDir

logger = logging.getLogger(__name__)

PROJECT = "markovscale"
_MOST_WAITING = 100
_END_S = 60.0

Figures = Mapping[str, float]


class Tracker(Protocol):
    """What a tracker does; every method may raise, and is called in one thread."""

    def start(self, run: str, config: Mapping[str, Any]) -> None:
        """Begin, or continue a run that was resumed."""

    def log(self, figures: Figures) -> None:
        """Take figures of now, by name."""

    def finish(self, figures: Figures, status: int) -> None:
        """Take the last figures and the exit status of the run, and end."""


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

    def finish(self, figures: Figures, status: int) -> None:
        """As `Tracker.finish`."""
        self._run.summary.update(dict(figures))
        self._run.finish(exit_code=status)


class MLflow:
    """MLflow. ``MLFLOW_TRACKING_URI`` says where: a server, or a folder (./mlruns)."""

    def start(self, run: str, config: Mapping[str, Any]) -> None:
        """As `Tracker.start`."""
        os.environ.setdefault("MLFLOW_TRACKING_URI", "mlruns")
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 needs it for a folder
        import mlflow

        self._mlflow: Any = mlflow
        mlflow.set_experiment(PROJECT)
        known = mlflow.search_runs(
            filter_string=f"tags.markovscale_run = '{run}'", output_format="list"
        )
        if known:
            mlflow.start_run(run_id=known[0].info.run_id)
        else:
            mlflow.start_run(run_name=run, tags={"markovscale_run": run})
            mlflow.log_param("model", config["science"]["generator"]["model"])
        mlflow.log_dict(dict(config), "config.json")

    def log(self, figures: Figures) -> None:
        """As `Tracker.log`."""
        allowed = {
            "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name): value
            for name, value in figures.items()
        }
        self._mlflow.log_metrics(allowed, step=int(figures.get("rounds", 0)))

    def finish(self, figures: Figures, status: int) -> None:
        """As `Tracker.finish`."""
        self.log(figures)
        ends = {0: "FINISHED", 3: "KILLED", 75: "KILLED"}  # 3: a cap ended it, 75: a signal
        self._mlflow.end_run(ends.get(status, "FAILED"))


TRACKERS: dict[str, Callable[[], Tracker]] = {"wandb": Wandb, "mlflow": MLflow}
"""By name, which is also that of the package and of the extra that installs it."""


def tracker_of(name: str | None) -> Tracker | None:
    """The tracker of a name; None for none.

    Raises:
        ConfigError: where its package is not installed.
    """
    if name is None:
        return None
    if importlib.util.find_spec(name) is None:
        raise ConfigError(f"--tracker {name} must have its package: pip install -e .[{name}]")
    return TRACKERS[name]()


class Tracking:
    """Sends one attempt to a tracker, from a thread of its own.

    Args:
        tracker: None sends nothing.
        run: its directory.
        config: configuration of the attempt.
        end_s: how long the end of the run waits for the tracker.
    """

    def __init__(
        self, tracker: Tracker | None, run: RunDir, config: RunConfig, end_s: float = _END_S
    ) -> None:
        self._tracker, self._end_s = tracker, end_s
        self._waiting: queue.Queue[Callable[[Tracker], None] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        if tracker is not None:
            values = config.model_dump(mode="json")
            self._put(lambda t: t.start(run.run_id, values))
            self._thread.start()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Send one row of metrics; it is left out where too many wait."""
        from pipeline.records.side_files import flat

        figures = {name: value for name, value in flat(row).items() if value is not None}
        self._put(lambda t: t.log(figures))

    def close(self, summary: Mapping[str, Any], status: int) -> None:
        """Send the result, and wait for the tracker's end, but not for ever."""
        if self._tracker is None:
            return
        self._put(lambda t: t.finish(final_figures(summary), status), self._end_s)
        self._put(None, self._end_s)
        self._thread.join(self._end_s)
        if self._thread.is_alive():
            logger.warning("the tracker did not end within %.0f s and is left", self._end_s)

    def _put(self, work: Callable[[Tracker], None] | None, wait_s: float = 0.0) -> None:
        if self._tracker is None:
            return
        try:
            self._waiting.put(work, wait_s > 0, wait_s)
        except queue.Full:
            logger.debug("the tracker is slow, a row is left out")

    def _work(self) -> None:
        assert self._tracker is not None  # the thread is not started without one
        well = True
        while (work := self._waiting.get()) is not None:
            if not well:
                continue
            try:
                work(self._tracker)
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
    return figures
