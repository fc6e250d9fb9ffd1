"""The chain behind the curves in numbers, and the choice among backbones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.report import words
from pipeline.report.chain_view import Candidate, Diagnosis, RoundCurve
from pipeline.report.figure import facts, table
from pipeline.report.html import Child, Html, h


def diagnosis_table(curve: RoundCurve, found: Diagnosis) -> Html:
    """The fitted chain, and whether it is one first-order chain."""
    fit = curve.fit
    drift = found.drift
    seen_a, seen_b = fit.counts.from_right > 0, fit.counts.from_wrong > 0
    parameters = facts(
        [
            ("a, right → wrong", words.decimal_with(fit.a) if seen_a else "no right answer seen"),
            ("b, wrong → right", words.decimal_with(fit.b) if seen_b else "no wrong answer seen"),
            *(
                [
                    ("L = b / (a + b)", words.percent_with(fit.stationary_accuracy)),
                    ("λ = 1 − a − b", words.decimal_with(fit.second_eigenvalue)),
                ]
                if seen_a and seen_b
                else []
            ),
            (
                "transitions",
                f"{fit.counts.from_right:,} from right answers, "
                f"{fit.counts.from_wrong:,} from wrong ones",
            ),
            (
                "last round",
                f"{words.percent(curve.predicted[-1])} predicted, "
                f"{words.percent_with(curve.observed[-1])} reached",
            ),
        ]
    )
    tests: list[list[Child]] = [
        ["first order against second", _ratio(found.order), _reject(found.order.p_value)],
        ["a the same in every round", _ratio(drift.a), _reject(drift.a.p_value)],
        ["b the same in every round", _ratio(drift.b), _reject(drift.b.p_value)],
        [
            "one a for all questions",
            f"spread {words.decimal(found.mixture_a.spread, 2)}, "
            f"{words.p_value(found.mixture_a.p_value)}",
            _reject(found.mixture_a.p_value),
        ],
        [
            "one b for all questions",
            f"spread {words.decimal(found.mixture_b.spread, 2)}, "
            f"{words.p_value(found.mixture_b.p_value)}",
            _reject(found.mixture_b.p_value),
        ],
    ]
    if found.fit is not None:
        tests.append(
            [
                "p_r follows the curve",
                f"χ² {found.fit.chi_square:.1f}, {words.p_value(found.fit.p_value)}, mean error "
                f"{words.magnitude(found.fit.mean_absolute_error)} points",
                _reject(found.fit.p_value),
            ]
        )
    return h(
        "div",
        parameters,
        table(("taken for granted", "test", "reading"), tests, caption="Is it one chain?"),
        h(
            "p",
            "Read the two lines on questions first: where questions differ, the tests of order and "
            "of rounds reject as well. The p-values of rounds and of the curve are shares of "
            "simulated chains, those of the other tests from the χ² distribution; none is "
            "corrected for the others. Spread is 0 where all questions share one rate, 1 where "
            "each is always or never. The intervals of a, b, L and λ weigh whole questions.",
            cls="hint",
        ),
    )


def _ratio(test: Any) -> str:
    return f"χ² {test.statistic:.1f} on {test.df}, {words.p_value(test.p_value)}"


def _reject(p: float) -> str:
    return "rejected" if p < 0.05 else "not rejected"


def candidates_table(benchmark: str, ranked: Sequence[Candidate]) -> Html:
    """Backbones by L."""
    return table(
        (
            "backbone",
            "run",
            "L [95 %]",
            "p0",
            "expected accuracy",
            "expected tokens a question",
            "questions",
        ),
        [
            (
                candidate.curve.cell.backbone,
                candidate.curve.cell.run,
                words.percent_with(candidate.curve.fit.stationary_accuracy),
                words.percent(candidate.curve.p0),
                f"{words.percent(candidate.expected_accuracy)} at N = {candidate.n}",
                words.count(candidate.expected_tokens),
                str(len(candidate.curve.cell.rows)),
            )
            for candidate in ranked
        ],
        caption=f"{benchmark}: backbones by L",
    )
