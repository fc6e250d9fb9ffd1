"""The Python API for notebooks: runs as tables, pools, replays, sweeps and plots.

The names below stay as they are (docs/api.md). Tables are `pyarrow.Table`; ``.to_pandas()`` makes
data frames of them.
"""

from pipeline.api.plots import (
    front,
    plot_accuracy,
    plot_front,
    plot_fronts,
    plot_metrics,
    plot_rounds,
)
from pipeline.api.pools import fronts, open_pool, replay, strategies, sweep
from pipeline.api.runs import Run, accuracy_by_round, open_run

__all__ = [
    "Run",
    "accuracy_by_round",
    "front",
    "fronts",
    "open_pool",
    "open_run",
    "plot_accuracy",
    "plot_front",
    "plot_fronts",
    "plot_metrics",
    "plot_rounds",
    "replay",
    "strategies",
    "sweep",
]
