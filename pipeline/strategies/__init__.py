"""Every strategy by its registered name: one line each."""

from pipeline.core.protocol import Strategy
from pipeline.strategies.atom_of_thoughts import AtomOfThoughts
from pipeline.strategies.best_of_n import Beacon, BestOfN
from pipeline.strategies.budget_forcing import BudgetForcing
from pipeline.strategies.chain_agreement import Agree, ChainASC, Settled
from pipeline.strategies.dsc import DifficultyAdaptiveSelfConsistency
from pipeline.strategies.expected_agreement import ChainExpectedAgreement, ExpectedAgreement
from pipeline.strategies.markovscale import MarkovScale0, MarkovScaleStar, MarkovScaleT
from pipeline.strategies.self_consistency import (
    AdaptiveConsistency,
    EarlyStoppingSelfConsistency,
    SelfConsistency,
)
from pipeline.strategies.sequential import Base, MRThinking

STRATEGIES: dict[str, type[Strategy]] = {
    "base": Base,
    "mr_thinking": MRThinking,
    "markovscale_t": MarkovScaleT,
    "markovscale_star": MarkovScaleStar,
    "markovscale_0": MarkovScale0,
    "chain_asc": ChainASC,
    "agree": Agree,
    "settled": Settled,
    "chain_expected_agreement": ChainExpectedAgreement,
    "expected_agreement": ExpectedAgreement,
    "best_of_n": BestOfN,
    "beacon": Beacon,
    "self_consistency": SelfConsistency,
    "esc": EarlyStoppingSelfConsistency,
    "asc": AdaptiveConsistency,
    "dsc": DifficultyAdaptiveSelfConsistency,
    "budget_forcing": BudgetForcing,
    "atom_of_thoughts": AtomOfThoughts,
}
