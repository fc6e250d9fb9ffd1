"""Which chains go on when a cap nears: those that add most right answers for the tokens they take.

A chain that does not come to its stop has no answer that counts. So what is gained by going on is
the chance that its answer is right when it stops: by the strategy's own a, b and present belief p_t
it is L + lambda^k (p_t - L) after the k rounds that are expected still to come (Eq. 4; for a chain
that has not begun p_t is p0 and round 0 is one of the completions to come). Where a strategy
believes nothing it is 1/2, and the longest still to go are spared. No gold answer is known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.core.errors import MarkovScaleError
from pipeline.core.protocol import Completion, Observation, Question, Statistics, Strategy
from pipeline.planning.schedule import Forecast
from pipeline.strategies.sequential import ChainBelief, ChainStrategy
from pipeline.theory.markov import accuracy_after

_UNKNOWN = 0.5


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a chain is expected to bring and to take from now on."""

    gain: float
    """P(its answer is right when it stops), in [0, 1]."""
    rounds: int
    """Completions still to come, >= 1."""
    each: float
    """Tokens of one, > 0."""

    @property
    def tokens(self) -> float:
        """Completion tokens still to come, > 0."""
        return self.rounds * self.each

    @property
    def worth(self) -> float:
        """Gain a token."""
        return self.gain / self.tokens


def prospect(
    strategy: Strategy,
    question: Question,
    statistics: Statistics | None,
    forecast: Forecast,
    drawn: Sequence[Observation] = (),
    later: int = 0,
) -> Prospect:
    """What is expected of a chain that has drawn so much.

    Args:
        strategy: of the chain.
        question: its question; there is no gold answer in it.
        statistics: what the strategy was started with.
        forecast: what the whole chain is expected to take.
        drawn: observations so far, in request order.
        later: completions of later phases, where only their stop is an answer.
    """
    made = sum(isinstance(observation, Completion) for observation in drawn)
    rounds = max(1, forecast.completions - made)
    try:
        gain = _gain(strategy, question, statistics, drawn, rounds + later)
    except MarkovScaleError:  # it cannot begin, and will say so itself
        gain = _UNKNOWN
    return Prospect(gain, rounds + later, forecast.remaining(drawn) / rounds)


def going_on(chains: Mapping[str, Prospect], left: float) -> frozenset[str]:
    """The chains that may ask for their next completion, by name; one at least where there is any.

    In the order of their worth, equal ones as they stand, each is taken whose tokens still to come
    fit what is left beside those of the chains taken before.

    Args:
        chains: all that are at work.
        left: completion tokens that may still be spent, >= 0.
    """
    order = sorted(chains, key=lambda name: -chains[name].worth)
    taken: set[str] = set()
    for name in order:
        if chains[name].tokens <= left:
            left -= chains[name].tokens
            taken.add(name)
    return frozenset(taken or order[:1])


def _gain(
    strategy: Strategy,
    question: Question,
    statistics: Statistics | None,
    drawn: Sequence[Observation],
    rounds: int,
) -> float:
    if not isinstance(strategy, ChainStrategy):
        return _UNKNOWN
    belief = ChainBelief(strategy.settings(question, statistics))
    for round, seen in enumerate(drawn):
        if isinstance(seen, Completion):
            belief.update(round, seen)
    a, b = belief.settings.a, belief.settings.b
    if belief.p0 is None or a is None or b is None:
        return _UNKNOWN
    if belief.path:
        return accuracy_after(rounds, p0=belief.path[-1], a=a, b=b)
    return accuracy_after(len(drawn) + rounds - 1, p0=belief.p0, a=a, b=b)
