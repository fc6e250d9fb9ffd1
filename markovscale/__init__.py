"""MarkovScale for notebooks and scripts: ``import markovscale as ms`` gives `pipeline.api`, and
`jobs.notebook.evaluate` for live runs."""

from jobs.notebook import evaluate
from pipeline.api import *  # noqa: F403
from pipeline.api import __all__ as _names

__all__ = [*_names, "evaluate"]  # names of the API
