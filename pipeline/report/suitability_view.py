"""*Suitability view*: diagnostics of the chains of runs and pools, and their table."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.core.protocol import Completion, Observation
from pipeline.replay.pools import CompletionPool
from pipeline.report import words
from pipeline.report.html import Html, folded, table
from pipeline.report.run_data import Cell
from pipeline.theory.suitability import Suitability, suitability
from pipeline.theory.transitions import labels_of_verdicts


def suitability_of(cells: Sequence[Cell]) -> Suitability | None:
    """The diagnostics of one benchmark, from its longest MR-Thinking chains; None without
    chains."""
    whole = [cell for cell in cells if cell.kind == "mr_thinking" and cell.n > 1]
    if not whole:
        return None
    rows = max(whole, key=lambda cell: cell.n).rows
    return suitability(
        [labels_of_verdicts(row["round_verdicts"]) for row in rows],
        [row["round_scores"] for row in rows],
    )


def suitability_of_pool(pool: CompletionPool) -> Suitability | None:
    """The same of a pool of one benchmark."""
    return suitability(
        [labels_of_verdicts(question.round_verdicts) for question in pool.questions],
        [[_score(entry.observation) for entry in q.rounds] for q in pool.questions],
    )


def _score(observation: Observation) -> float | None:
    return observation.score if isinstance(observation, Completion) else None


def numbers_of(found: Suitability) -> Html:
    """All diagnostics as a table, folded."""
    rows: list[tuple[str, str, str]] = []
    if found.auc_within is not None:
        told = words.decimal_with(found.auc_within)
        rows.append(("verifier's AUC within a question", told, words.NONE))
    rows += [
        (
            f"correlation of rightness, {words.plural(each.lag, 'round')} apart",
            words.decimal_with(each.observed),
            words.decimal(each.chain),
        )
        for each in found.lags
    ]
    rows += [
        (f"{name} the same in every round", words.p_value(p), words.NONE)
        for name, p in zip("ab", found.drift, strict=True)
    ]
    if found.order is not None:
        told = f"{words.points(found.order.value)} "
        told += words.points_range(found.order.low, found.order.high)
        rows.append(("a change after a change, points more likely [99 %]", told, words.points(0)))
    for model, gain in () if found.models is None else found.models.gain.items():
        told = words.decimal_with(gain, 1)
        rows.append((f"log likelihood of later rounds, {model} over H [99 %]", told, words.NONE))
    return folded(
        f"The diagnostics of {words.plural(found.questions, 'chain')} in numbers",
        table(("", "observed [95 %]", "of the fitted chain"), rows),
    )
