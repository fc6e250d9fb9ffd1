"""Fronts of the strategies on one benchmark, and the untuned policies beside MarkovScale^*.

Weights of `agree` are fitted, by gold, on the half of the questions that is not judged, as a and b
are counted there; to choose its settings the other half is looked at with its own weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.replays import JUDGED, TUNED, Choice, fixed
from pipeline.paper.settings import SAMPLERS
from pipeline.predictors.agreement_training import fitted_on_chains
from pipeline.replay.fronts import GAMMAS, TAUS, THRESHOLDS, Row, budgets, front_rows, in_words
from pipeline.replay.sweep import HALVES, rights
from pipeline.results.column import METHODS, Column
from pipeline.statistics.agreement import AgreementWeights
from pipeline.statistics.fronts import Family

PROBABILITIES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
"""tau of `agree`."""
VOTE_THRESHOLDS = (0.95, 1.0)
COSTS = (0.03, 0.1, 0.3)
"""Of `beacon`, at the most samples; its cost, not N, spans its front."""

_READ_PRIORS = ("markovscale_t", "markovscale_star")

Weights = tuple[AgreementWeights, AgreementWeights]
"""Fitted on each half."""


def agree_weights(made: Evaluation) -> Weights | None:
    """Weights of `agree` by the half that they are fitted on; None where a half cannot fit any."""
    chains, half_Q = made.replays.chains, made.believed.half_Q
    try:
        first, second = (fitted_on_chains(chains, half_Q == half) for half in range(HALVES))
    except ConfigError:
        return None
    return first, second


def fronts_of(made: Evaluation, weights: Weights | None) -> list[Row]:
    """The rows of all families; see `pipeline.replay.fronts`. None of a pool of one round."""
    if made.pool.rounds < 2:
        return []
    families = _families(made, weights)
    base = _family(made, METHODS["base"], [made.replays.make("base")], AnswerRule.LAST)
    controls = (
        METHODS["chain_asc"],
        f"{METHODS['mr_thinking']}, vote",
        f"{METHODS['markovscale_star']}, vote",
        METHODS["markovscale_star"],
    )
    rows = front_rows(made.benchmark, families, base, made.believed.half_Q, controls)
    return [{"backbone": made.backbone, **row} for row in rows]


def _families(made: Evaluation, weights: Weights | None) -> list[Family]:
    make, ns = made.replays.make, budgets(made.pool.rounds)
    chains: dict[str, list[Strategy]] = {
        "chain_asc": [make("chain_asc", n=n, threshold=t) for n in ns for t in THRESHOLDS],
        "mr_thinking": [make("mr_thinking", n=n) for n in ns],
    }
    if make.scored:
        chains["markovscale_t"] = [make("markovscale_t", n=n) for n in ns]
        chains["markovscale_star"] = [
            make("markovscale_star", n=n, tau=tau, gamma=gamma)
            for n in ns
            for tau in TAUS
            for gamma in GAMMAS
        ]
        chains["markovscale_0"] = [make("markovscale_0", n=n, tau=tau) for n in ns for tau in TAUS]
    found = []
    for kind, settings in chains.items():
        rule = AnswerRule(settings[0].default_rule)
        found.append(_family(made, METHODS[kind], settings, rule))
        if kind in ("mr_thinking", "markovscale_star"):
            found.append(_family(made, f"{METHODS[kind]}, vote", settings, AnswerRule.VOTE))
    if weights is not None:
        found.append(_agree_family(made, weights, ns))
    for kind in SAMPLERS:
        drawn = [n for n in made.sample_budgets if (kind, n) in made.main]
        if drawn:
            settings = [make(kind, n=n) for n in drawn]
            rule = AnswerRule(settings[0].default_rule)
            found.append(_family(made, METHODS[kind], settings, rule))
    if make.scored and made.sample_budgets:
        n = made.sample_budgets[-1]
        beacons = [make("beacon", n=n, cost=cost) for cost in COSTS]
        rule = AnswerRule.PRM_ARGMAX
        found.append(_family(made, METHODS["beacon"], beacons, rule))
    return found


def _family(
    made: Evaluation,
    name: str,
    settings: Sequence[Strategy],
    rule: AnswerRule,
) -> Family:
    """Settings as they are judged, and as they are seen when they are chosen; alike for those that
    read no prior."""
    judged = [made.replays.judged(strategy, JUDGED) for strategy in settings]
    seen = judged
    if settings[0].kind in _READ_PRIORS:
        seen = [made.replays.judged(strategy, TUNED) for strategy in settings]
    return Family(
        name=name,
        settings=tuple(in_words(settings)),
        right_SQ=np.array([rights(one, rule) for one in judged]),
        tokens_SQ=np.array([one.tokens_Q for one in judged], np.float64),
        seen_right_SQ=np.array([rights(one, rule) for one in seen]),
        seen_tokens_SQ=np.array([one.tokens_Q for one in seen], np.float64),
    )


def _agree_family(made: Evaluation, weights: Weights, ns: Sequence[int]) -> Family:
    fields = [(n, tau, vote) for n in ns for tau in PROBABILITIES for vote in VOTE_THRESHOLDS]
    by_half = []
    for own in weights:
        settings = [
            made.replays.make("agree", n=n, tau=tau, vote_threshold=vote, weights=own)
            for n, tau, vote in fields
        ]
        by_half.append(_family(made, METHODS["agree"], settings, AnswerRule.VOTE))
    first = (made.believed.half_Q == 0)[None]
    one, other = by_half  # fitted on half 0, on half 1
    return Family(
        name=METHODS["agree"],
        settings=one.settings,
        right_SQ=np.where(first, other.right_SQ, one.right_SQ),
        tokens_SQ=np.where(first, other.tokens_SQ, one.tokens_SQ),
        seen_right_SQ=np.where(first, one.right_SQ, other.right_SQ),
        seen_tokens_SQ=np.where(first, one.tokens_SQ, other.tokens_SQ),
    )


def policies(made: Evaluation, weights: Weights | None) -> list[Column]:
    """Settings as they come, with nothing tuned; the first, where the pool has scores, is
    MarkovScale^*."""
    make, n = made.replays.make, min(8, made.pool.rounds)
    half = max(1, n // 2)
    tried: list[tuple[str, Choice]] = []
    if make.scored:
        star = make("markovscale_star", n=n)
        name = f"{METHODS['markovscale_star']}, N = {n}"
        tried += [(name, fixed(star)), (f"{name}, vote", fixed(star, AnswerRule.VOTE))]
    name = METHODS["chain_asc"]
    tried += [
        (f"{name}, N = {half}, 0.9", fixed(make("chain_asc", n=half, threshold=0.9))),
        (f"{name}, N = {n}, 0.95", fixed(make("chain_asc", n=n, threshold=0.95))),
    ]
    if weights is not None:
        picked = [make("agree", n=n, tau=0.9, weights=own) for own in weights[::-1]]
        choice = Choice(picked=tuple((s, AnswerRule.VOTE) for s in picked), chosen_on=None)
        tried.append((f"{METHODS['agree']}, N = {n}, weights of the other half", choice))
    rounds = fixed(make("mr_thinking", n=n), AnswerRule.VOTE)
    tried.append((f"{METHODS['mr_thinking']}, N = {n}, vote", rounds))
    return [_drawn(made, name, choice) for name, choice in tried]


def _drawn(made: Evaluation, name: str, choice: Choice) -> Column:
    """The numbers of a policy, with the completions that it draws among its settings."""
    strategy = choice.picked[0][0]
    column = made.scored(name, strategy.n, choice, strategy.kind)
    drawn = f"{made.replays.drawn(choice).mean():.2f} completions a question"
    return replace(column, fixed="; ".join(filter(None, [column.fixed, drawn])))
