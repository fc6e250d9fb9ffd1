"""Every strategy by its registered name: one line each."""

from typing import Any

from pipeline.strategies.base import Base
from pipeline.strategies.markovscale import MarkovScaleStar, MarkovScaleT
from pipeline.strategies.markovscale_0 import MarkovScale0
from pipeline.strategies.mr_thinking import MRThinking

STRATEGIES: dict[str, type[Any]] = {
    "base": Base,
    "mr_thinking": MRThinking,
    "markovscale_t": MarkovScaleT,
    "markovscale_star": MarkovScaleStar,
    "markovscale_0": MarkovScale0,
}
