"""*Controls*: judges the same completions under other decisions, some of which know the answers."""

from __future__ import annotations

import numpy as np

from pipeline.answers.answer_rules import AnswerRule
from pipeline.core.arrays import FloatArray, IntArray
from pipeline.core.protocol import Completion
from pipeline.paper import p0
from pipeline.paper.evaluation import Evaluation
from pipeline.paper.replays import Choice, fixed
from pipeline.replay.chain_arrays import RIGHT, WRONG
from pipeline.replay.judging import rights
from pipeline.results.column import METHODS, Column
from pipeline.statistics.sampling import pass_at_k

OURS = ("markovscale_t", "markovscale_star", "markovscale_0")


def rule_controls(made: Evaluation, n: int) -> list[Column]:
    """MR-Thinking by each answer rule: what selection alone gives, without any stopping."""
    return [
        made.scored(f"MR-Thinking by {rule.value}", n, fixed(strategy, rule), "mr_thinking")
        for strategy, rule in made.rules(n)
    ]


def made_choice(made: Evaluation, kind: str, n: int) -> Choice:
    """A variant with tau of the other half."""
    if kind == "markovscale_t":
        return fixed(made.replays.make(kind, n=n))
    candidates = made.stars(n) if kind == "markovscale_star" else made.heuristics(n)
    return made.replays.on_other_half(candidates)


def gate_controls(made: Evaluation, n: int) -> list[Column]:
    """MarkovScale^t whose gate reads p0 of the question, the chance that it is answered, where the
    page's reads the score of the first answer: p0 counted over the question's samples (it knows the
    answers), and mapped from the first score on the other half."""
    if made.believed.p0_source != "first_score" or not made.pool.samples:
        return []
    counts_QC, predicted = p0.counts_of(made), p0.predictors_of(made)
    counted_Q = counts_QC[:, 0] / np.where(counts_QC[:, 1] > 0, counts_QC[:, 1], np.nan)
    found = []
    tried = [("its samples, knows the answers", counted_Q)]
    if p0.MAPPED in predicted:
        tried.append((p0.MAPPED, predicted[p0.MAPPED]))
    for words, p0_Q in tried:
        if not np.isnan(p0_Q).any():
            replays = made.replays.with_p0(p0_Q)
            gate = fixed(replays.make("markovscale_t", n=n))
            name = f"{METHODS['markovscale_t']}, p0 of the question ({words})"
            found.append(made.scored(name, n, gate, "markovscale_t", replays=replays))
    return found


def random_stopping(made: Evaluation, kind: str, n: int) -> Column:
    """A variant's stops dealt out at random to the questions: the exact mean over all deals. What
    the variant has above it is what its rule knew about single questions."""
    choice = made_choice(made, kind, n)
    drawn_Q = made.replays.drawn(choice)
    rule = AnswerRule(choice.picked[0][1])
    theirs = made.main[kind, n]
    depths, shares = np.unique(drawn_Q, return_counts=True)
    replays = made.replays
    at_depths = [replays.judged(replays.make("mr_thinking", n=n)) for n in depths.tolist()]
    return made.column(
        method=f"{theirs.method}, stops dealt at random",
        kind=kind,
        n=n,
        rule=rule.value,
        fixed=f"the stops of {theirs.method}: {theirs.fixed}",
        tuned=theirs.tuned,
        chosen_on=theirs.chosen_on,
        right_Q=_weighed(np.column_stack([rights(one, rule) for one in at_depths]), shares),
        tokens_Q=_weighed(
            np.column_stack([replays.cost.of(one.spent_Q, scored=True) for one in at_depths]),
            shares,
        ),
    )


def oracle(made: Evaluation, n: int) -> Column:
    """Chains that stop at their first right answer: no stopping rule is more accurate."""
    chains = made.replays.chains
    verdict_QN = chains.verdict_QT[:, :n]
    right_QN = verdict_QN == RIGHT
    found_Q = right_QN.any(axis=1)
    spent_Q = np.where(found_Q, right_QN.argmax(axis=1) + 1, np.minimum(chains.length_Q, n))
    known_Q = found_Q | (verdict_QN == WRONG).any(axis=1) | chains.failed_Q
    known_Q &= chains.gold_Q
    return made.column(
        method="Oracle stopping",
        kind="oracle",
        n=n,
        rule="last",
        fixed="stops at the first right answer (knows the answers)",
        right_Q=np.where(known_Q, found_Q.astype(float), np.nan),
        tokens_Q=made.replays.cost_QD(scored=False)[np.arange(len(spent_Q)), spent_Q],
    )


def pass_at(made: Evaluation, n: int) -> Column:
    """pass@n over all samples of the pool, exact over subsets."""
    right_Q, tokens_Q = [], []
    for question in made.pool.questions:
        verdicts = [v for v in question.sample_verdicts if v in ("right", "wrong")]
        right = verdicts.count("right")
        right_Q.append(pass_at_k(len(verdicts), right, n) if len(verdicts) >= n else np.nan)
        drawn = [e.observation for e in question.samples if isinstance(e.observation, Completion)]
        tokens_Q.append(n * np.mean([c.completion_tokens for c in drawn]) if drawn else np.nan)
    return made.column(
        method=f"pass@N of {made.pool.samples} samples",
        kind="pass_at_k",
        n=n,
        rule="any right",
        fixed="mean over all subsets of N samples (knows the answers)",
        right_Q=np.array(right_Q),
        tokens_Q=np.array(tokens_Q),
    )


def _weighed(values_QS: FloatArray, shares_S: IntArray) -> FloatArray:
    """Mean over stops, each as often as it came; unknown ones are left out."""
    known = ~np.isnan(values_QS)
    weight_Q = (known * shares_S).sum(axis=1)
    total_Q = (np.where(known, values_QS, 0.0) * shares_S).sum(axis=1)
    return np.where(weight_Q > 0, total_Q / np.maximum(weight_Q, 1), np.nan)
