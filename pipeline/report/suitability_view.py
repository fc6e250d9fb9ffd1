"""What chains say of the choice of a strategy: each benchmark alone, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.report.run_data import Cell
from pipeline.theory.suitability import Suitability, suitability
from pipeline.theory.transitions import labels_of_verdicts


def suitability_of(cells: Sequence[Cell]) -> Suitability | None:
    """The diagnostics of one benchmark, from its longest MR-Thinking chains; None without them."""
    whole = [cell for cell in cells if cell.kind == "mr_thinking" and cell.n > 1]
    if not whole:
        return None
    rows = max(whole, key=lambda cell: cell.n).rows
    return suitability(
        [labels_of_verdicts(row["round_verdicts"]) for row in rows],
        [row["round_scores"] for row in rows],
    )


def contrast(found: Mapping[str, Suitability]) -> str | None:
    """One sentence where the verifier sees the answers of one benchmark and not of another.

    Args:
        found: diagnostics by benchmark.
    """
    seen = {name: each for name, each in found.items() if each.tells_apart is True}
    unseen = {name: each for name, each in found.items() if each.tells_apart is False}
    if not seen or not unseen:
        return None
    return (
        f"The benchmarks differ in kind. The verifier tells the answers of one question apart on "
        f"{_with_figures(seen)}: there prm_argmax and MarkovScale's stopping can pay. It does not "
        f"on {_with_figures(unseen)}: there prefer vote and chain_asc."
    )


def _with_figures(found: Mapping[str, Suitability]) -> str:
    said = []
    for name, each in found.items():
        figures = [] if each.auc_within is None else [f"AUC {each.auc_within.value:.2f}"]
        if each.lags:
            last = each.lags[-1]
            figures.append(
                f"rightness {last.lag} rounds apart correlates {last.observed.value:.2f}"
            )
        said.append(f"{name} ({', '.join(figures)})")
    return " and ".join(said)
