"""*Suitability view*: diagnostics of the chains and scores of runs and pools, and their tables."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.core.protocol import Completion, Observation
from pipeline.replay.pools import CompletionPool
from pipeline.report import words
from pipeline.report.html import Html, folded, table
from pipeline.report.run_data import Cell
from pipeline.statistics.calibration import reliability
from pipeline.theory.suitability import Suitability, suitability
from pipeline.theory.transitions import labels_of_verdicts


def suitability_of(cells: Sequence[Cell]) -> Suitability | None:
    """The diagnostics of one benchmark, from its longest MR-Thinking chains; None without
    chains."""
    chains = [cell for cell in cells if cell.kind == "mr_thinking" and cell.n > 1]
    if not chains:
        return None
    rows = max(chains, key=lambda cell: cell.n).rows
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
        auc = words.decimal_with(found.auc_within)
        rows.append(("verifier's AUC within a question", auc, words.NONE))
    rows += [
        (
            f"correlation of correctness, {words.plural(each.lag, 'round')} apart",
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
        auc = f"{words.points(found.order.value)} "
        auc += words.points_range(found.order.low, found.order.high)
        rows.append(("a change after a change, points more likely [99 %]", auc, words.points(0)))
    for model, gain in () if found.models is None else found.models.gain.items():
        auc = words.decimal_with(gain, 1)
        rows.append((f"log likelihood of later rounds, {model} over H [99 %]", auc, words.NONE))
    return folded(
        f"The diagnostics of {words.plural(found.questions, 'chain')} in numbers",
        table(("", "observed [95 %]", "of the fitted chain"), rows),
    )


def trust_table(cells: Sequence[Cell]) -> Html | None:
    """How well the verifier's score, and p_MAP and p0 of each cell that has them, predict a right
    answer; None without predictions."""
    # scores of chains that their scores have stopped look too good: the longest unstopped cell
    fixed = [cell for cell in cells if cell.kind in ("mr_thinking", "best_of_n")]
    scored = [max(fixed, key=lambda cell: cell.n)] if fixed else list(cells)
    names = words.listed([cell.name for cell in scored])
    found = {
        f"verifier's score of each completion of {names}": [
            pair
            for cell in scored
            for row in cell.rows
            for pair in zip(row["round_scores"], row["round_verdicts"], strict=True)
        ]
    }
    for cell in cells:
        found[f"p_MAP of {cell.name} at its stop"] = [
            (path[-1], row["round_verdicts"][len(path) - 1])
            for row in cell.rows
            if (path := row["posterior_path"]) and len(path) <= len(row["round_verdicts"])
        ]
        begun = [row for row in cell.rows if row["round_verdicts"]]
        found[f"p0 of {cell.name}, first answer"] = [
            (row["p0"], row["round_verdicts"][0]) for row in begun
        ]
    rows = []
    for name, pairs in found.items():
        known = [(p, v == "right") for p, v in pairs if p is not None and v in ("right", "wrong")]
        if known:
            made = reliability(*zip(*known, strict=True))
            numbers = map(words.decimal, (made.auc, made.ece, made.brier))
            rows.append((name, f"{made.n:,}", *numbers))
    header = ("prediction", "number", "AUC", "calibration error", "Brier score")
    return table(header, rows, caption="Predictions against answers") if rows else None
