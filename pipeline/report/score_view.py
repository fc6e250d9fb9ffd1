"""*Score view*: reliability of the verifier's score, the posterior and the prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.chain_view import SEED
from pipeline.report.run_data import Cell
from pipeline.statistics.calibration import Calibrated, Reliability, calibrate, reliability
from pipeline.theory.transitions import QuestionKey

_LEAST_QUESTIONS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreView:
    """One kind of prediction against what came."""

    title: str
    about: str
    """What was predicted and which outcomes it is held against."""
    reliability: Reliability
    calibrated: Calibrated | None
    """An isotonic map fitted on half of the questions, judged on the other half; None where there
    are too few."""


@dataclass(slots=True)
class _Pairs:
    """Predictions, outcomes and whose they are."""

    predicted: list[float]
    right: list[bool]
    question: list[QuestionKey]

    def add(self, row: Any, prediction: float | None, verdict: str | None) -> None:
        """Keep a pair where both sides are known."""
        if prediction is not None and verdict in ("right", "wrong"):
            self.predicted.append(prediction)
            self.right.append(verdict == "right")
            self.question.append((row["benchmark"], row["question_id"]))


def score_views(cells: Sequence[Cell]) -> list[ScoreView]:
    """The views of one benchmark that its cells have data for."""
    views = [_scores(cells)]
    for cell in cells:
        views += [_posterior(cell), _prior(cell)]
    return [view for view in views if view is not None]


def _scores(cells: Sequence[Cell]) -> ScoreView | None:
    """Chains that were stopped by their scores would show the score at its best: the longest
    unstopped cell is looked at where there is one."""
    fixed = [cell for cell in cells if cell.kind in ("mr_thinking", "best_of_n")]
    chosen = [max(fixed, key=lambda cell: cell.n)] if fixed else list(cells)
    pairs = _Pairs([], [], [])
    for cell in chosen:
        for row in cell.rows:
            for score, verdict in zip(row["round_scores"], row["round_verdicts"], strict=True):
                pairs.add(row, score, verdict)
    names = ", ".join(cell.name for cell in chosen)
    return _view(
        pairs,
        "Verifier score",
        f"the score of every completion of {names} against its own answer; completions of one "
        f"question hang together, so the intervals are too narrow",
    )


def _posterior(cell: Cell) -> ScoreView | None:
    pairs = _Pairs([], [], [])
    for row in cell.rows:
        path, verdicts = row["posterior_path"], row["round_verdicts"]
        if path and len(verdicts) >= len(path):
            pairs.add(row, path[-1], verdicts[len(path) - 1])
    return _view(
        pairs,
        f"p_MAP of {cell.name}",
        "the posterior mode when the chain ended against the answer of its last round, one a "
        "question",
    )


def _prior(cell: Cell) -> ScoreView | None:
    pairs = _Pairs([], [], [])
    sources = []
    for row in cell.rows:
        if row["p0"] is not None and row["round_verdicts"]:
            pairs.add(row, row["p0"], row["round_verdicts"][0])
            sources.append(row["p0_source"])
    found = ", ".join(dict.fromkeys(source for source in sources if source)) or "unknown"
    return _view(
        pairs,
        f"p0 of {cell.name}",
        f"p0 (from {found}) against the first answer, one a question",
    )


def _view(pairs: _Pairs, title: str, about: str) -> ScoreView | None:
    if not pairs.predicted:
        return None
    enough = len(set(pairs.question)) >= _LEAST_QUESTIONS
    return ScoreView(
        title=title,
        about=about,
        reliability=reliability(pairs.predicted, pairs.right),
        calibrated=calibrate(
            pairs.predicted, pairs.right, pairs.question, method="isotonic", seed=SEED
        )
        if enough
        else None,
    )
