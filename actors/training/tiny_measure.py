"""Measures the embedded tiny models on fresh questions, with the counts behind every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.training.tiny_sampling import sample_chains, step_scores
from pipeline.benchmarks import arithmetic
from pipeline.benchmarks.builtin import check_steps, questions
from pipeline.benchmarks.generated import Split, answer_of

Array = npt.NDArray[np.float64]

AGGREGATIONS: Mapping[str, Any] = {
    "mean": np.mean,
    "min": np.min,
    "product": np.prod,
    "last": lambda scores: scores[-1],
}
"""Ways to make one score of the step scores; a reply without steps scores 0."""
BUDGET = 8
"""N of the accuracies that are measured: rounds 0 to 7."""
LAGS = (1, 2, 4, 8)


def transitions(right_RQ: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """a and b over all pairs of neighbouring rounds, with their counts and questions.

    Args:
        right_RQ: whether the answer of each round and question is right.

    Returns:
        ``a`` and ``b`` (None where nothing was seen), ``stationary_accuracy`` b / (a + b), and for
        each direction ``[events, chances, questions with a chance]``.
    """
    before, after = right_RQ[:-1], right_RQ[1:]
    counts = {}
    for name, chance, event in (
        ("right_to_wrong", before, before & ~after),
        ("wrong_to_right", ~before, ~before & after),
    ):
        counts[name] = [int(event.sum()), int(chance.sum()), int(chance.any(axis=0).sum())]
    a, b = (seen[0] / seen[1] if seen[1] else None for seen in counts.values())
    stationary = None if a is None or b is None or a + b == 0 else b / (a + b)
    return {"a": a, "b": b, "stationary_accuracy": stationary, **counts}


def example(
    texts: Sequence[str], chains: Sequence[Sequence[str]], right_RQ: npt.NDArray[np.bool_]
) -> dict[str, str] | None:
    """The first question with right answers in every round, its first reply and the answer."""
    always = np.flatnonzero(right_RQ.all(axis=0))
    if not len(always):
        return None
    reply = chains[0][always[0]]
    return {"question": texts[always[0]], "reply": reply, "answer": str(answer_of(reply))}


def auc(scores: Array, right: npt.NDArray[np.bool_]) -> float | None:
    """P(a right reply scores above a wrong one), ties counting half; None without both kinds."""
    from scipy.stats import rankdata

    n_right = int(right.sum())
    n_wrong = len(right) - n_right
    if n_right == 0 or n_wrong == 0:
        return None
    above = rankdata(scores)[right].sum() - n_right * (n_right + 1) / 2
    return float(above / (n_right * n_wrong))


def auc_within_questions(scores_RQ: Array, right_RQ: npt.NDArray[np.bool_]) -> float | None:
    """P(a right reply scores above a wrong one of the same question), over all such pairs.

    Args:
        scores_RQ: score by round and question, and
        right_RQ: whether that reply is right.

    Returns:
        Ties count half; None where no question has both kinds.
    """
    above, pairs = 0.0, 0
    for scores, right in zip(scores_RQ.T, right_RQ.T, strict=True):
        of_question = int(right.sum()) * int((~right).sum())
        if of_question:
            pairs += of_question
            above += of_question * (auc(scores, right) or 0.0)
    return above / pairs if pairs else None


def correlations(right_RQ: npt.NDArray[np.bool_]) -> dict[str, float | None]:
    """Correlation of the rightness of round 0 with that of later rounds, by lag."""
    return {
        str(lag): _correlation(right_RQ[0], right_RQ[lag]) for lag in LAGS if lag < len(right_RQ)
    }


def _correlation(x: npt.NDArray[np.bool_], y: npt.NDArray[np.bool_]) -> float | None:
    constant = x.all() or y.all() or not x.any() or not y.any()
    return None if constant else float(np.corrcoef(x, y)[0, 1])


def reply_scores(steps: Sequence[Array], aggregation: str) -> Array:
    """One score a reply (N,) from its step scores."""
    aggregate = AGGREGATIONS[aggregation]
    return np.array([float(aggregate(scores)) if len(scores) else 0.0 for scores in steps])


def measure_chains(
    generator: Any, benchmark: str, *, n: int, split: Split, rounds: int, seed: int
) -> tuple[dict[str, Any], list[str], list[list[str]], npt.NDArray[np.bool_]]:
    """MR-Thinking chains on `n` questions of a split at temperature 0.7 and top_p 0.95.

    Returns:
        The figures, the question texts, the replies by round, and whether they are right (R, Q).
    """
    asked = questions(benchmark, n, split=split, seed=seed)
    texts = [question.text for question in asked]
    chains = sample_chains(generator, texts, rounds=rounds, seed=seed)
    right_RQ = np.array(
        [
            [
                answer_of(reply) == question.gold
                for reply, question in zip(replies, asked, strict=True)
            ]
            for replies in chains
        ]
    )
    figures = {
        "split": split,
        "questions": n,
        "questions_seed": seed,
        "rounds": rounds,
        "p0": float(right_RQ[0].mean()),
        "accuracy_by_round": [round(float(accuracy), 4) for accuracy in right_RQ.mean(axis=1)],
        "accuracy_at_budget": float(right_RQ[:BUDGET][-1].mean()),
        "correlation_with_round_0": correlations(right_RQ),
        "characters_per_round": float(
            np.mean([len(reply) for replies in chains for reply in replies])
        ),
        "without_answer": int(
            sum(answer_of(reply) is None for replies in chains for reply in replies)
        ),
        **transitions(right_RQ),
    }
    return figures, texts, chains, right_RQ


def measure(
    generator: Any, verifier: Any, benchmark: str, *, n: int, rounds: int, seed: int
) -> dict[str, Any]:
    """All figures of both models on `n` test questions of a benchmark."""
    chains, texts, replies, right_RQ = measure_chains(
        generator, benchmark, n=n, split="test", rounds=rounds, seed=seed
    )
    scores = measure_verifier(verifier, texts, replies, right_RQ)
    return {
        "chains": chains,
        "verifier": scores,
        "targets": targets(benchmark, chains, scores),
        "example": example(texts, replies, right_RQ),
    }


def measure_verifier(
    verifier: Any,
    texts: Sequence[str],
    chains: Sequence[Sequence[str]],
    right_RQ: npt.NDArray[np.bool_],
) -> dict[str, Any]:
    """How well scores made without the gold answer tell right replies from wrong ones."""
    asked = [text for _ in chains for text in texts]
    replies = [reply for answers in chains for reply in answers]
    steps = step_scores(verifier, asked, replies)
    right = right_RQ.ravel()
    first = len(texts)
    checked = np.concatenate([check_steps(*pair) for pair in zip(asked, replies, strict=True)])
    scores = {name: reply_scores(steps, name) for name in AGGREGATIONS}
    means_RQ = scores["mean"].reshape(right_RQ.shape)
    best = means_RQ[:BUDGET].argmax(axis=0)
    return {
        "auc_first_answers": {
            name: auc(each[:first], right[:first]) for name, each in scores.items()
        },
        "auc_all_rounds": {name: auc(each, right) for name, each in scores.items()},
        "auc_within_questions": {
            name: auc_within_questions(each.reshape(right_RQ.shape), right_RQ)
            for name, each in scores.items()
        },
        "auc_steps": auc(np.concatenate(steps), checked.astype(bool)),
        "first_answers_right_wrong": [int(right[:first].sum()), int((~right[:first]).sum())],
        "mean_score_of_right": float(means_RQ[right_RQ].mean()) if right.any() else None,
        "mean_score_of_wrong": float(means_RQ[~right_RQ].mean()) if not right.all() else None,
        "accuracy_at_half": float(((means_RQ[0] >= 0.5) == right_RQ[0]).mean()),
        "accuracy_of_best_scored": float(np.take_along_axis(right_RQ, best[None], axis=0).mean()),
    }


def targets(
    benchmark: str, chains: Mapping[str, Any], verifier: Mapping[str, Any]
) -> dict[str, bool]:
    """Which of the targets of a benchmark, set before training, are met."""
    p0 = chains["p0"]
    if benchmark == arithmetic.BENCHMARK:
        a, stationary = chains["a"], chains["stationary_accuracy"]
        separated = verifier["auc_first_answers"]["mean"]
        return {
            "0.4 <= p0 <= 0.8": 0.4 <= p0 <= 0.8,
            "a <= 0.15": a is not None and a <= 0.15,
            "L >= p0 + 0.05": stationary is not None and stationary >= p0 + 0.05,
            "AUC >= 0.85": separated is not None and separated >= 0.85,
        }
    lasting = chains["correlation_with_round_0"].get("8")
    separated = verifier["auc_within_questions"]["mean"]
    return {
        "0.6 <= p0 <= 0.8": 0.6 <= p0 <= 0.8,
        "rightness of rounds 0 and 8 correlated below 0.2": lasting is not None and lasting < 0.2,
        "last answer of 8 >= p0 + 0.08": chains["accuracy_at_budget"] >= p0 + 0.08,
        "best scored answer of 8 >= p0 + 0.08": verifier["accuracy_of_best_scored"] >= p0 + 0.08,
        "AUC within a question >= 0.85": separated is not None and separated >= 0.85,
    }
