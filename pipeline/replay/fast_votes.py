"""Replay of `chain_asc` and `agree` over a whole pool at once, in numpy.

Axes: Q questions, T rounds. The votes and probabilities are those that the strategies themselves
compute (`pipeline.statistics.agreement`), which do not depend on what stands beside or after.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from pipeline.answers.answer_rules import AnswerRule, Rule
from pipeline.core.arrays import BoolArray, IntArray
from pipeline.replay.chain_arrays import (
    NOT_APPLICABLE,
    ChainArrays,
)
from pipeline.statistics.agreement import NO_FORM, VOTE, Agreement, agreement, count_votes
from pipeline.strategies.agree import Agree
from pipeline.strategies.chain_asc import ChainASC

VOTERS = (ChainASC, Agree)
_NEVER = np.iinfo(np.int64).max

Keep = Callable[[Hashable, Callable[[], Any]], Any]


class Hits(NamedTuple):
    """The first round after which each test holds; a very large number where it never does."""

    confident_Q: IntArray
    agreed_Q: IntArray


def first_hits(chains: ChainArrays, strategy: ChainASC | Agree, keep: Keep) -> Hits:
    """When each chain stops before its budget.

    Args:
        chains: of the pool.
        strategy: its thresholds and weights.
        keep: gives back what was made for a key before.
    """
    voted_QT = keep("voted", lambda: np.cumsum(chains.form_QT != NO_FORM, axis=1) > 0)
    lasts_QT = keep("lasts", lambda: count_votes(chains.form_QT).lasts_QT)
    if isinstance(strategy, ChainASC):
        never = np.full(len(lasts_QT), _NEVER)
        return Hits(never, _first(voted_QT & (lasts_QT >= strategy.threshold)))
    agreed_Q = _first(voted_QT & (lasts_QT >= strategy.vote_threshold))
    if strategy.weights is None:
        return Hits(np.full(len(lasts_QT), _NEVER), agreed_Q)
    found = agreed_on(chains, strategy, keep)
    return Hits(_first(voted_QT & (found.probability_QT >= strategy.tau)), agreed_Q)


def agreed_on(chains: ChainArrays, strategy: Agree, keep: Keep) -> Agreement:
    """What the chains agree on after each round, under the strategy's weights."""
    weights = strategy.weights or VOTE
    made: Agreement = keep(
        ("agreement", weights), lambda: agreement(chains.form_QT, chains.score_QT, weights)
    )
    return made


def positions(
    chains: ChainArrays, strategy: Agree, drawn_Q: IntArray, keep: Keep
) -> dict[Rule, IntArray]:
    """The round that each shipped rule answers from: of those that gave the leading answer."""
    rows = np.arange(len(drawn_Q))
    last_Q = np.maximum(drawn_Q - 1, 0)
    leading_Q = agreed_on(chains, strategy, keep).leading_QT[rows, last_Q]
    rounds = np.arange(chains.n_rounds)
    ours_QT = (chains.form_QT == leading_Q[:, None]) & (rounds < drawn_Q[:, None])
    scored_QT = ours_QT & ~np.isnan(chains.score_QT)
    best_QT = np.where(scored_QT, chains.score_QT, -1.0)
    unscored_Q = ~scored_QT.any(axis=1)
    found: dict[Rule, IntArray] = {
        AnswerRule.LAST: chains.n_rounds - 1 - ours_QT[:, ::-1].argmax(axis=1),
        AnswerRule.VOTE: ours_QT.argmax(axis=1),
        AnswerRule.PRM_ARGMAX: np.where(unscored_Q, NOT_APPLICABLE, best_QT.argmax(axis=1)),
        AnswerRule.PRM_WEIGHTED_VOTE: np.where(
            unscored_Q, NOT_APPLICABLE, scored_QT.argmax(axis=1)
        ),
    }
    told_QT = ours_QT & chains.logprobs_QT
    first_told_Q = np.where(told_QT.any(axis=1), told_QT.argmax(axis=1), NOT_APPLICABLE)
    found |= {rule: first_told_Q for rule in AnswerRule if rule.needs_logprobs}
    none_Q = (leading_Q == NO_FORM) | (drawn_Q == 0)  # the stop rests on all rounds there
    return {
        rule: np.where(none_Q, chains.position_QD[rule][rows, drawn_Q], position_Q)
        for rule, position_Q in found.items()
    }


def _first(holds_QT: BoolArray) -> IntArray:
    return np.where(holds_QT.any(axis=1), holds_QT.argmax(axis=1), _NEVER)
