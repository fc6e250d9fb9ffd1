"""Every strategy by its registered name: one line each."""

from typing import Any

from pipeline.strategies.agree import Agree
from pipeline.strategies.asc import AdaptiveConsistency
from pipeline.strategies.atom_of_thoughts import AtomOfThoughts
from pipeline.strategies.base import Base
from pipeline.strategies.beacon import Beacon
from pipeline.strategies.best_of_n import BestOfN
from pipeline.strategies.budget_forcing import BudgetForcing
from pipeline.strategies.chain_asc import ChainASC
from pipeline.strategies.dsc import DifficultyAdaptiveSelfConsistency
from pipeline.strategies.esc import EarlyStoppingSelfConsistency
from pipeline.strategies.markovscale import MarkovScaleStar, MarkovScaleT
from pipeline.strategies.markovscale_0 import MarkovScale0
from pipeline.strategies.mr_thinking import MRThinking
from pipeline.strategies.self_consistency import SelfConsistency

STRATEGIES: dict[str, type[Any]] = {
    "base": Base,
    "mr_thinking": MRThinking,
    "markovscale_t": MarkovScaleT,
    "markovscale_star": MarkovScaleStar,
    "markovscale_0": MarkovScale0,
    "chain_asc": ChainASC,
    "agree": Agree,
    "best_of_n": BestOfN,
    "beacon": Beacon,
    "self_consistency": SelfConsistency,
    "esc": EarlyStoppingSelfConsistency,
    "asc": AdaptiveConsistency,
    "dsc": DifficultyAdaptiveSelfConsistency,
    "budget_forcing": BudgetForcing,
    "atom_of_thoughts": AtomOfThoughts,
}
