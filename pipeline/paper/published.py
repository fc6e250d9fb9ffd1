"""The paper's numbers, found by backbone, method, benchmark and budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.report.paper_numbers import PaperNumbers, normal
from pipeline.report.paper_sweeps import GAMMA_SETTING, SWEEP_N
from pipeline.report.paper_tables import ABLATION_SETTING
from pipeline.results.column import METHODS

Numbers = tuple[float | None, float | None]
"""Accuracy as a share and tokens a question; None where the paper has none."""

NOTHING: Numbers = (None, None)

_METHODS = METHODS | {
    "markovscale_t": "MarkovScale^t",
    "markovscale_star": "MarkovScale^*",
    "markovscale_0": "MarkovScale^0",
}


@dataclass(frozen=True, slots=True)
class Published:
    """Looks numbers up; finds none where no folder was given."""

    paper: PaperNumbers | None = None

    def main(self, backbone: str, kind: str, benchmark: str, n: int) -> Numbers:
        """Of the main table, tokens from the table of variants."""
        accuracy = self._find(
            "main_accuracy", backbone, benchmark, method=_METHODS.get(kind, kind), n=n
        )
        variants = self._find("variants", backbone, benchmark, method=_METHODS.get(kind, kind), n=n)
        return (accuracy[0] if accuracy[0] is not None else variants[0], variants[1])

    def ablation(self, backbone: str, variant: str, benchmark: str, n: int) -> Numbers:
        """Of the ablation, which the paper has for one backbone and N."""
        if (normal(backbone), n) != ABLATION_SETTING:
            return NOTHING
        return self._find("ablation", None, benchmark, variant=variant)

    def tau(self, backbone: str, benchmark: str, n: int, tau: float) -> Numbers:
        """Of the table of tau, at the paper's gamma."""
        return self._find("tau", backbone, benchmark, tau=tau) if n == SWEEP_N else NOTHING

    def gamma(self, backbone: str, benchmark: str, n: int, tau: float, gamma: float) -> Numbers:
        """Of the table of gamma, which the paper has for one backbone and benchmark."""
        if (normal(backbone), n, normal(benchmark)) != GAMMA_SETTING:
            return NOTHING
        return self._find("gamma", None, None, tau=tau, gamma=gamma)

    def _find(
        self, file: str, backbone: str | None, benchmark: str | None, **wanted: Any
    ) -> Numbers:
        for row in (self.paper or {}).get(file, ()):
            if (
                (backbone is None or normal(row["backbone"]) == normal(backbone))
                and (benchmark is None or normal(row["benchmark"]) == normal(benchmark))
                and all(_same(row[name], value) for name, value in wanted.items())
            ):
                return (_share(row), _tokens(row))
        return NOTHING


def _same(text: str, value: Any) -> bool:
    return text == value if isinstance(value, str) else abs(float(text) - value) < 1e-9


def _share(row: Mapping[str, str]) -> float:
    return float(row["accuracy_percent"]) / 100


def _tokens(row: Mapping[str, str]) -> float | None:
    return float(row["tokens_per_question"]) if "tokens_per_question" in row else None
