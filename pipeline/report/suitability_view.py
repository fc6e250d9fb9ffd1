"""What chains say of the choice of a strategy: each benchmark alone, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.core.protocol import Completion, Observation
from pipeline.replay.pools import CompletionPool
from pipeline.report import words
from pipeline.report.run_data import Cell
from pipeline.theory.suitability import Suitability, suitability
from pipeline.theory.transitions import labels_of_verdicts

_SAMPLERS = ("self_consistency", "best_of_n")
"""Kinds that draw all their samples whatever comes."""


def suitability_of(cells: Sequence[Cell]) -> Suitability | None:
    """The diagnostics of one benchmark, from its longest MR-Thinking chains and its most samples;
    None without chains."""
    whole = [cell for cell in cells if cell.kind == "mr_thinking" and cell.n > 1]
    if not whole:
        return None
    rows = max(whole, key=lambda cell: cell.n).rows
    drawn = [cell for cell in cells if cell.kind in _SAMPLERS and cell.n > 1]
    samples = max(drawn, key=lambda cell: cell.n).rows if drawn else ()
    return suitability(
        [labels_of_verdicts(row["round_verdicts"]) for row in rows],
        [row["round_scores"] for row in rows],
        [labels_of_verdicts(row["round_verdicts"]) for row in samples],
    )


def suitability_of_pool(pool: CompletionPool) -> Suitability | None:
    """The same of a pool of one benchmark."""
    return suitability(
        [labels_of_verdicts(question.round_verdicts) for question in pool.questions],
        [[_score(entry.observation) for entry in q.rounds] for q in pool.questions],
        [labels_of_verdicts(q.sample_verdicts) for q in pool.questions] if pool.samples else (),
    )


def _score(observation: Observation) -> float | None:
    return observation.score if isinstance(observation, Completion) else None


def contrast(found: Mapping[str, Suitability]) -> str | None:
    """One sentence where the verifier sees the answers of one benchmark and, for all that its
    questions show, not those of another.

    Args:
        found: diagnostics by benchmark.
    """
    seen = {name: each for name, each in found.items() if each.tells_apart is True}
    unseen = {name: each for name, each in found.items() if _may_be_chance(each)}
    if not seen or not unseen:
        return None
    return (
        f"The benchmarks differ in kind. The verifier tells the answers of one question apart on "
        f"{_with_figures(seen)}: there prm_argmax and MarkovScale's gate and stopping can pay. On "
        f"{_with_figures(unseen)} it may as well be chance: there prefer vote and chain_asc."
    )


def _may_be_chance(found: Suitability) -> bool:
    within = found.auc_within
    return found.tells_apart is False or (within is not None and within.low <= 0.5)


def _with_figures(found: Mapping[str, Suitability]) -> str:
    said = []
    for name, each in found.items():
        figures = (
            [] if each.auc_within is None else [f"AUC {words.decimal_with(each.auc_within, 2)}"]
        )
        if each.lags:
            last = each.lags[-1]
            correlated = words.decimal_with(last.observed, 2)
            figures.append(f"rightness {last.lag} rounds apart correlates {correlated}")
        said.append(f"{name} ({'; '.join(figures)})")
    return " and ".join(said)
