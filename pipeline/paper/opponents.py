"""*Opponents*: tunes the strategies that MarkovScale^* is compared with, over equally fine grids.

A family is one strategy, read by one answer rule, at every N of one grid and, where it has a
threshold, at every threshold. Samples stand in arrays as chains do, so that Self-Consistency,
Best-of-N, ASC and ESC (all as their authors' code has them) take the same N as the chains. What the
strategies believe is counted on the half of the questions that is not judged, anew for every split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.arrays import BoolArray, FloatArray, IntArray
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy
from pipeline.paper.beliefs import from_other_half, settling_on_other_half
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.replays import JUDGED, TUNED, Replays
from pipeline.predictors.agreement_training import fitted_on_chains
from pipeline.replay.chain_arrays import ChainArrays, chain_arrays
from pipeline.replay.costs import needs_scores
from pipeline.replay.fast import Decisions, FastReplay
from pipeline.replay.fronts import GAMMAS, TAUS, THRESHOLDS, Row, budgets, front_rows, in_words
from pipeline.replay.judging import Judged, judged_by_arrays, rights
from pipeline.replay.sweep import HALVES
from pipeline.results.column import HELD_OUT, METHODS, Column, method_of, numbered, once
from pipeline.statistics.agreement import AgreementWeights, runs
from pipeline.statistics.fronts import Family
from pipeline.strategies.chain_agreement import ChainASC
from pipeline.strategies.expected_agreement import ChainExpectedAgreement

PROBABILITIES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
"""tau of `agree`, and the scores at which a chain that waits for one stops."""
VOTE_THRESHOLDS = (0.95, 1.0)
PRICES = (0.001, 0.005, 0.01, 0.02, 0.05)
"""Of a round or sample, for MarkovScale^* on the settling chain and expected agreement."""
MOST_EXPECTED = 16
"""N of expected agreement at most; the table of its states grows fast."""
COSTS = (0.03, 0.1, 0.3)
"""Of `beacon`, at the most samples; its cost, not N, spans its front."""
ALIKE = (2, 3, 4, 5, 8)
"""Answers in a row that must be the same."""
WINDOWS = (2, 3, 4, 5, 8)
"""Of ESC."""
SPLITS = 10
"""Into halves, over which fronts are averaged."""

SETTLING = f"{METHODS['markovscale_star']}, settling chain"
UNTIL_SCORE, UNTIL_ALIKE = "Revise until a score", "Revise until answers repeat"

_READ_PRIORS = ("markovscale_t", "markovscale_star")

Weights = tuple[AgreementWeights, AgreementWeights]
"""Fitted on each half."""


def agree_weights(made: Evaluation, half_Q: IntArray) -> Weights | None:
    """Weights of `agree` by the half that they are fitted on; None where a half cannot fit any."""
    chains = made.replays.chains
    try:
        first, second = (fitted_on_chains(chains, half_Q == half) for half in range(HALVES))
    except ConfigError:
        return None
    return first, second


def fronts_of(made: Evaluation, families: Sequence[Family]) -> list[Row]:
    """The rows of all families; see `pipeline.replay.fronts`. None of a pool of one round."""
    if made.pool.rounds < 2:
        return []
    controls = (
        METHODS["markovscale_star"],
        UNTIL_SCORE,
        METHODS["chain_asc"],
        f"{METHODS['mr_thinking']}, vote",
    )
    base = _family(made.replays, METHODS["base"], [made.replays.make("base")], AnswerRule.LAST)
    splits = [_on_split(made, families, seed) for seed in range(1, SPLITS)]
    (half_Q, shown), *others = [
        _once(made, *split) for split in ((made.believed.half_Q, [base, *families]), *splits)
    ]
    rows = front_rows(made.benchmark, shown[1:], shown[0], half_Q, controls, splits=others)
    return [{"backbone": made.backbone, **row} for row in rows]


def _once(
    made: Evaluation, half_Q: IntArray, families: Sequence[Family]
) -> tuple[IntArray, list[Family]]:
    """A split and its families with copies of a question as one question."""
    copies_Q = numbered(made.firsts)
    if copies_Q is None:
        return half_Q, list(families)

    def merged(values_SQ: FloatArray) -> FloatArray:
        return np.array([once(values_Q, copies_Q) for values_Q in values_SQ])

    together = [
        replace(
            family,
            right_SQ=merged(family.right_SQ),
            tokens_SQ=merged(family.tokens_SQ),
            seen_right_SQ=merged(family.seen[0]),
            seen_tokens_SQ=merged(family.seen[1]),
        )
        for family in families
    ]
    return once(half_Q.astype(np.float64), copies_Q).astype(np.int64), together


def _on_split(
    made: Evaluation, families: Sequence[Family], seed: int
) -> tuple[IntArray, list[Family]]:
    """Another split into halves; families that read a and b are replayed with those of its halves,
    and weights of `agree` are fitted anew on them."""
    if made.believed.p0_source != "first_score":  # a predictor's priors do not hang on the split
        return made.believed.other_halves(seed), list(families)
    believed = from_other_half(made.pool, seed)
    replays = Replays.of(believed, made.replays.make, made.replays.chains, made.replays.cost)
    anew = _star_families(made, replays)
    if any(family.name == METHODS["agree"] for family in families):
        weights = agree_weights(made, believed.half_Q)
        if weights is not None:
            anew.append(_agree_family(made, weights, believed.half_Q))
    names = {METHODS["agree"], *(family.name for family in anew)}
    return believed.half_Q, [*(f for f in families if f.name not in names), *anew]


def families_of(made: Evaluation, weights: Weights | None) -> list[Family]:
    """Every family that the pool can replay."""
    replays = made.replays
    chains, ns = replays.chains, budgets(made.pool.rounds)
    found = [
        _family(replays, METHODS["chain_asc"], [
            replays.make("chain_asc", n=n, threshold=t) for n in ns for t in THRESHOLDS
        ], AnswerRule.VOTE),
        _family(replays, METHODS["settled"], [
            replays.make("settled", n=n, repeat=k) for n in ns for k in ALIKE
        ], AnswerRule.VOTE),
        _family(replays, METHODS["chain_expected_agreement"], [
            replays.make("chain_expected_agreement", n=n, price=price)
            for n in ns if n <= MOST_EXPECTED for price in PRICES
        ], AnswerRule.VOTE),
        *_depths(replays, chains, METHODS["mr_thinking"], AnswerRule),
        _until(replays, UNTIL_ALIKE, AnswerRule.LAST, ns,
               {f"{k} equal in a row": _alike(chains, k) for k in ALIKE}),
    ]  # fmt: skip
    if replays.make.scored:
        found += [
            *_star_families(made, replays),
            _until(replays, UNTIL_SCORE, AnswerRule.PRM_ARGMAX, ns,
                   {f"score ≥ {s:g}": _scored(chains, s) for s in PROBABILITIES}),
        ]  # fmt: skip
        zeros = [replays.make("markovscale_0", n=n, tau=tau) for n in ns for tau in TAUS]
        name = method_of("markovscale_0", "paper")
        found.append(_family(replays, name, zeros, AnswerRule.PRM_ARGMAX))
    if weights is not None:
        found.append(_agree_family(made, weights, made.believed.half_Q))
    return [*found, *_sampler_families(made)]


def _star_families(made: Evaluation, replays: Replays) -> list[Family]:
    """MarkovScale^t, and ^* by its own rule and by vote, as judged and as seen when chosen."""
    if not replays.make.scored:
        return []
    ns = budgets(made.pool.rounds)
    gates = [replays.make("markovscale_t", n=n) for n in ns]
    stars = [
        replays.make("markovscale_star", n=n, tau=tau, gamma=gamma)
        for n in ns
        for tau in TAUS
        for gamma in GAMMAS
    ]
    star = METHODS["markovscale_star"]
    return [
        _family(replays, METHODS["markovscale_t"], gates, AnswerRule.PRM_ARGMAX),
        _family(replays, star, stars, AnswerRule.PRM_ARGMAX),
        _family(replays, f"{star}, vote", stars, AnswerRule.VOTE),
        *_settling_families(made, replays),
    ]


def _settling_families(made: Evaluation, replays: Replays) -> list[Family]:
    """MarkovScale^* that takes changes to die out, with a, b and kept of the other half."""
    half_Q = replays.believed.half_Q
    if replays.believed.p0_source != "first_score":
        return []
    try:
        believed, kept = settling_on_other_half(made.pool, half_Q)
    except ValueError:  # nothing to fit the chain on
        return []
    settling = Replays.of(believed, replays.make, replays.chains, replays.cost)
    one, other = (
        _family(settling, SETTLING, [
            replays.make("markovscale_star", n=n, chain="settling", kept=each, price=price)
            for n in budgets(made.pool.rounds)
            for price in PRICES
        ], AnswerRule.PRM_ARGMAX)
        for each in kept
    )  # fmt: skip
    return [_by_half(half_Q, one, other)]


def _by_half(half_Q: IntArray, one: Family, other: Family) -> Family:
    """A family whose numbers were fitted on half 0 and on half 1: each half is judged with those of
    the other and seen with its own."""
    first = (half_Q == 0)[None]
    pairs = zip(one.seen, other.seen, strict=True)
    seen_right, seen_tokens = (np.where(first, mine, theirs) for mine, theirs in pairs)
    return replace(
        one,
        right_SQ=np.where(first, other.right_SQ, one.right_SQ),
        tokens_SQ=np.where(first, other.tokens_SQ, one.tokens_SQ),
        seen_right_SQ=seen_right,
        seen_tokens_SQ=seen_tokens,
    )


def _sampler_families(made: Evaluation) -> list[Family]:
    """Strategies over independent samples."""
    if made.pool.samples < 2:
        return []
    replays, pool = made.replays, made.pool
    samples = chain_arrays(
        replace(
            pool,
            rounds=pool.samples,
            questions=tuple(
                replace(q, rounds=q.samples, round_verdicts=q.sample_verdicts)
                for q in pool.questions
            ),
        )
    )
    ns = budgets(pool.samples)
    asc = [ChainASC(n=n, threshold=t) for n in ns for t in THRESHOLDS]
    fast = FastReplay(samples)
    judged = [judged_by_arrays(samples, fast.decide(one)) for one in asc]
    most = min(MOST_EXPECTED, ns[-1])
    expected = [ChainExpectedAgreement(n=most, price=price) for price in PRICES]
    agreed = [judged_by_arrays(samples, fast.decide(one)) for one in expected]
    voted = (AnswerRule.VOTE,)
    found = [
        *_depths(replays, samples, METHODS["self_consistency"], voted, at_once=True),
        _made_of(replays, METHODS["asc"], in_words(asc), judged, AnswerRule.VOTE, scored=False),
        _made_of(replays, METHODS["expected_agreement"], in_words(expected), agreed,
                 AnswerRule.VOTE, scored=False),
        _until(replays, METHODS["esc"], AnswerRule.VOTE, ns,
               {f"window {w}": _alike(samples, w, every=w) for w in WINDOWS}, samples),
    ]  # fmt: skip
    dsc = [replays.make("dsc", n=n) for n in made.sample_budgets if ("dsc", n) in made.main]
    if dsc:
        found.append(_family(replays, METHODS["dsc"], dsc, AnswerRule.VOTE))
    if replays.make.scored:
        argmax = (AnswerRule.PRM_ARGMAX,)
        found += _depths(replays, samples, METHODS["best_of_n"], argmax, at_once=True)
        if made.sample_budgets:
            n = made.sample_budgets[-1]
            beacons = [replays.make("beacon", n=n, cost=cost) for cost in COSTS]
            found.append(_family(replays, METHODS["beacon"], beacons, AnswerRule.PRM_ARGMAX))
    return found


def _depths(
    replays: Replays,
    chains: ChainArrays,
    name: str,
    rules: Sequence[AnswerRule] | type[AnswerRule],
    *,
    at_once: bool = False,
) -> Iterator[Family]:
    """All N from 1 up without any stopping, a family a rule that can be applied."""
    judged = [
        judged_by_arrays(chains, _stopped(chains, np.zeros((1, 1), np.bool_), n))
        for n in range(1, chains.n_rounds + 1)
    ]
    if at_once:
        seconds_QD = chains.spent_QD["seconds"]
        slowest_QD = np.maximum.accumulate(np.diff(seconds_QD, axis=1), axis=1)
        rows = np.arange(len(seconds_QD))
        for one in judged:
            last_Q = np.maximum(one.completions_Q - 1, 0)
            one.spent_Q["seconds"] = slowest_QD[rows, last_Q]
    several = len(list(rules)) > 1
    for rule in rules:
        if judged[0].applicable_R[judged[0].rules.index(rule)]:
            title = f"{name}, {rule.value}" if several else name
            words = [f"N {n}" for n in range(1, chains.n_rounds + 1)]
            scored = rule in (AnswerRule.PRM_ARGMAX, AnswerRule.PRM_WEIGHTED_VOTE)
            yield _made_of(replays, title, words, judged, rule, scored=scored)


def _until(
    replays: Replays,
    name: str,
    rule: AnswerRule,
    ns: Sequence[int],
    hits: dict[str, BoolArray],
    chains: ChainArrays | None = None,
) -> Family:
    """Chains that stop when a test holds first, or at N."""
    chains = chains or replays.chains
    tried = [(n, words, hit_QT) for n in ns for words, hit_QT in hits.items()]
    judged = [judged_by_arrays(chains, _stopped(chains, hit_QT, n)) for n, _, hit_QT in tried]
    words = [f"N {n}, {words}" for n, words, _ in tried]
    return _made_of(replays, name, words, judged, rule, scored=rule is AnswerRule.PRM_ARGMAX)


def _stopped(chains: ChainArrays, hit_QT: BoolArray, n: int) -> Decisions:
    """Stop after the first hit, at N, or where a chain failed."""
    hits_QN = np.broadcast_to(hit_QT, chains.score_QT.shape)[:, :n] if hit_QT.size else hit_QT
    first_Q = np.where(hits_QN.any(axis=1), hits_QN.argmax(axis=1) + 1, n)
    short_Q = chains.failed_Q & (chains.length_Q < first_Q)
    drawn_Q = np.minimum(np.minimum(first_Q, n), chains.length_Q)
    return Decisions(drawn_Q=drawn_Q, reason_Q=np.where(short_Q, 0, 3))


def _scored(chains: ChainArrays, score: float) -> BoolArray:
    """(Q, T): whether the answer of a round has at least a score."""
    return np.asarray(chains.score_QT >= score)  # nan is not


def _alike(chains: ChainArrays, k: int, every: int = 1) -> BoolArray:
    """(Q, T): whether the last k answers are the same; `every` looks at each k-th round alone."""
    looked = (np.arange(chains.form_QT.shape[1]) + 1) % every == 0
    return np.asarray((runs(chains.form_QT) >= k) & looked, dtype=np.bool_)


def _family(replays: Replays, name: str, settings: Sequence[Strategy], rule: AnswerRule) -> Family:
    """Settings as they are judged, and as they are seen when they are chosen; alike for those that
    read no prior."""
    scored = needs_scores(settings[0], rule)
    judged = [replays.judged(strategy, JUDGED) for strategy in settings]
    found = _made_of(replays, name, in_words(settings), judged, rule, scored=scored)
    if settings[0].kind not in _READ_PRIORS:
        return found
    seen = [replays.judged(strategy, TUNED) for strategy in settings]
    other = _made_of(replays, name, found.settings, seen, rule, scored=scored)
    return replace(found, seen_right_SQ=other.right_SQ, seen_tokens_SQ=other.tokens_SQ)


def _made_of(
    replays: Replays,
    name: str,
    words: Sequence[str],
    judged: Sequence[Judged],
    rule: AnswerRule,
    *,
    scored: bool,
) -> Family:
    return Family(
        name=name,
        settings=tuple(words),
        right_SQ=np.array([rights(one, rule) for one in judged]),
        tokens_SQ=np.array([replays.cost.of(one.spent_Q, scored=scored) for one in judged]),
    )


def _agree_family(made: Evaluation, weights: Weights, half_Q: IntArray) -> Family:
    fields = [
        (n, tau, vote)
        for n in budgets(made.pool.rounds)
        for tau in PROBABILITIES
        for vote in VOTE_THRESHOLDS
    ]
    one, other = (
        _family(made.replays, METHODS["agree"], [
            made.replays.make("agree", n=n, tau=tau, vote_threshold=vote, weights=own)
            for n, tau, vote in fields
        ], AnswerRule.VOTE)
        for own in weights
    )  # fmt: skip
    return _by_half(half_Q, one, other)


def cheapest(made: Evaluation, family: Family, target: Column) -> Column:
    """The cheapest setting of a family that reaches the accuracy of a column, chosen on the half
    that is not judged; the most accurate one where none reaches it."""
    half_Q = made.believed.half_Q
    right_Q, cost_Q = np.full(len(half_Q), np.nan), np.zeros(len(half_Q))
    picked = []
    seen_right, seen_cost = family.seen
    for half in range(HALVES):
        mine, other = half_Q == half, half_Q != half
        accuracy_S = _mean(seen_right[:, other])
        cost_S = seen_cost[:, other].mean(axis=1)
        reaches = accuracy_S >= float(np.nanmean(target.right_Q[other])) - 1e-12
        at = np.flatnonzero(reaches if reaches.any() else accuracy_S == np.nanmax(accuracy_S))
        place = int(at[cost_S[at].argmin()])
        right_Q[mine], cost_Q[mine] = family.right_SQ[place, mine], family.tokens_SQ[place, mine]
        picked.append(family.settings[place] + ("" if reaches.any() else ", does not reach it"))
    return made.column(
        method=family.name,
        kind=family.name,
        n=None,
        rule="",
        tuned=" | ".join(dict.fromkeys(picked)),
        chosen_on=HELD_OUT,
        right_Q=right_Q,
        tokens_Q=cost_Q,
    )


def _mean(right_SQ: FloatArray) -> FloatArray:
    """(S,) mean over graded questions."""
    known = ~np.isnan(right_SQ)
    return np.asarray(np.where(known, right_SQ, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1))
