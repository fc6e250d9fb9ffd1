"""MarkovScale for notebooks and scripts: ``import markovscale as ms`` gives `pipeline.api`."""

from pipeline.api import *  # noqa: F403
from pipeline.api import __all__ as __all__
