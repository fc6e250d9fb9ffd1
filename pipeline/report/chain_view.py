"""*Chain view*: fits the two-state chain to MR-Thinking and computes the paper's bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.core.arrays import FloatArray
from pipeline.report.run_data import Cell
from pipeline.statistics.intervals import (
    Interval,
    draws_interval,
    mean_interval,
    share_interval,
)
from pipeline.theory.estimate import (
    JEFFREYS,
    Bounds,
    ChainEstimate,
    bounds,
    estimate_clustered,
    prior_weights,
)
from pipeline.theory.markov import accuracy_after
from pipeline.theory.transitions import (
    Chain,
    QuestionKey,
    count,
    count_by_question,
    labels_of_verdicts,
)

SEED = 0
"""Of every resampling in a report: the same run gives the same report."""
DRAWS = 2_000
"""Of a Bayesian bootstrap over questions."""
_CHUNK = 200  # draws whose weights are held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCurve:
    """Chains that were not stopped early, round by round."""

    name: str
    chains: Sequence[Chain]
    observed: tuple[Interval | None, ...]
    """Accuracy of the answer of round r among chains graded there."""
    tokens: tuple[Interval, ...]
    """Mean completion tokens a question, all rounds up to r."""
    predicted: tuple[Interval, ...]
    """p_r (Eq. 4) from the observed p_0 and the counted a and b: a description. Ends weigh whole
    questions."""
    fit: ChainEstimate
    forecast: tuple[Interval, ...] = ()
    """p_r with a and b that were not counted on the question, where there are any."""
    source: str = ""
    """Where a and b of `forecast` come from, and what its intervals leave out."""
    of: Any = None
    """What the chains are of: the `Cell` of a run."""

    @property
    def p0(self) -> float:
        """Accuracy of round 0."""
        assert self.observed[0] is not None
        return self.observed[0].value

    def error_of(self, curve: Sequence[Interval]) -> float:
        """Mean over rounds of |observed - another curve|."""
        pairs = zip(self.observed, curve, strict=True)
        return float(np.mean([abs(seen.value - p.value) for seen, p in pairs if seen is not None]))


def chains_of(cell: Cell) -> list[Chain]:
    """Labels of every chain of a cell, from gold verdicts; copies of a question are chains of one
    question."""
    return [
        Chain(
            benchmark=key[0],
            question_id=cell.copies.get(key, key)[1],
            labels=labels_of_verdicts(row["round_verdicts"]),
            level=row["level"],
        )
        for key, row in cell.by_question.items()
    ]


def round_curve(cell: Cell) -> RoundCurve | None:
    """The curve of an MR-Thinking cell; None for other cells and where transitions are unknown."""
    if cell.kind != "mr_thinking" or cell.n < 2:
        return None
    tokens_QR = np.zeros((len(cell.rows), cell.n))  # failed rounds of unknown tokens add nothing
    for tokens_R, row in zip(tokens_QR, cell.rows, strict=True):
        spent = [tokens or 0 for tokens in row["round_tokens"]]
        tokens_R[: len(spent)] = spent
    found = curve_of(cell.name, chains_of(cell), np.cumsum(tokens_QR, axis=1))
    return found and replace(found, of=cell)


def curve_of(name: str, chains: Sequence[Chain], tokens_QR: FloatArray) -> RoundCurve | None:
    """The curve of chains; None where round 0 or all transitions are ungraded.

    Args:
        name: whose chains they are.
        chains: with labels by gold.
        tokens_QR: completion tokens of each chain, all rounds up to each.
    """
    rounds = tokens_QR.shape[1]
    counts = count_by_question(chains)
    observed = tuple(share_of(graded_in_round(chains, r)) for r in range(rounds))
    if observed[0] is None or not any(c.from_right + c.from_wrong for c in counts.values()):
        return None
    fit = estimate_clustered(counts, seed=SEED)
    prior = (0.0, 0.0, *(2 * (JEFFREYS.alpha, JEFFREYS.beta)))
    draws = weighed_draws(table_of(chains)) + prior_weights(prior, DRAWS, SEED)
    p0_D, a_D, b_D = (draws[:, at] / (draws[:, at] + draws[:, at + 1]) for at in (0, 2, 4))
    known = {"p0": observed[0].value, "a": fit.a.value, "b": fit.b.value}
    return RoundCurve(
        name=name,
        chains=chains,
        observed=observed,
        tokens=tuple(mean_interval(tokens_Q) for tokens_Q in tokens_QR.T),
        predicted=tuple(
            draws_interval(accuracy_after(r, **known), accuracy_after(r, p0=p0_D, a=a_D, b=b_D))
            for r in range(rounds)
        ),
        fit=fit,
    )


def table_of(chains: Sequence[Chain]) -> FloatArray:
    """A row a question: first answers that are right and wrong, then right to wrong, right to
    right, wrong to right, wrong to wrong, over all its chains."""
    rows: dict[QuestionKey, FloatArray] = {}
    for chain in chains:
        n = count(chain.labels)
        first = chain.labels[0] if chain.labels else None
        row = [first is True, first is False, n.right_wrong, n.right_right, n.wrong_right,
               n.wrong_wrong]  # fmt: skip
        rows[chain.key] = rows.get(chain.key, np.zeros(6)) + np.array(row, dtype=np.float64)
    return np.array(list(rows.values()))


def weighed_draws(table_QC: FloatArray) -> FloatArray:
    """(DRAWS, C) sums of a table whose questions weigh unit exponentials (Bayesian bootstrap)."""
    rng = np.random.default_rng(SEED)
    sizes = np.diff([*range(0, DRAWS, _CHUNK), DRAWS])
    return np.concatenate([rng.exponential(size=(n, len(table_QC))) @ table_QC for n in sizes])


def bounds_by_samples(
    chains: Sequence[Chain], samples: Iterable[tuple[QuestionKey, Sequence[bool | None]]]
) -> Bounds | None:
    """The paper's bounds, questions split by the accuracy of their samples; None where no sample of
    a question with a chain is graded."""
    seen: dict[QuestionKey, list[bool]] = {}
    for key, labels in samples:
        seen.setdefault(key, []).extend(label for label in labels if label is not None)
    p0 = {key: sum(known) / len(known) for key, known in seen.items() if known}
    split = [chain for chain in chains if chain.key in p0]
    return bounds(split, p0_parallel=p0, seed=SEED) if split else None


def graded_in_round(chains: Sequence[Chain], number: int) -> dict[QuestionKey, list[bool]]:
    """Whether each graded answer of a round is right, by question."""
    found: dict[QuestionKey, list[bool]] = {}
    for chain in chains:
        for label in chain.labels[number : number + 1]:
            if label is not None:
                found.setdefault(chain.key, []).append(label)
    return found


def share_of(graded: Mapping[QuestionKey, Sequence[bool]]) -> Interval | None:
    """Mean over questions of the share of right answers (`share_interval`); None without any."""
    return share_interval([sum(each) / len(each) for each in graded.values()]) if graded else None
