"""*Published*: looks up the paper's numbers in CSV files by backbone, method, benchmark and N.

The files (``main_accuracy.csv``, ``variants.csv``, ``ablation.csv``, ``tau.csv``, ``gamma.csv``)
are the user's; no number of them is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.core.errors import DataError
from pipeline.results.column import METHODS
from pipeline.store.local import read_csv_rows

Numbers = tuple[float | None, float | None]
"""Accuracy as a share and tokens a question; None where the paper has none."""

NOTHING: Numbers = (None, None)

FILES = ("main_accuracy", "variants", "ablation", "tau", "gamma")
ABLATION_SETTING = ("deepseekr1distillqwen7b", 8)
"""Backbone and N of the paper's ablation."""
SWEEP_N = 64
"""N of its tables of tau and gamma."""
GAMMA_SETTING = ("deepseekr1distillqwen7b", SWEEP_N, "aime2024")
"""Backbone, N and benchmark of its table of gamma."""

_ALIASES = {"amc23": "amc2023", "aime24": "aime2024", "aime25": "aime2025"}
_METHODS = METHODS | {
    "markovscale_t": "MarkovScale^t",
    "markovscale_star": "MarkovScale^*",
    "markovscale_0": "MarkovScale^0",
}


@dataclass(frozen=True, slots=True)
class Published:
    """Looks numbers up; finds none where no folder was given."""

    files: Mapping[str, Sequence[Mapping[str, str]]]
    """Rows of each file by its name without ending."""

    def main(self, backbone: str, kind: str, benchmark: str, n: int) -> Numbers:
        """Of the main table, tokens from the table of variants."""
        name = _METHODS.get(kind, kind)
        accuracy = self._find("main_accuracy", backbone, benchmark, method=name, n=n)
        variants = self._find("variants", backbone, benchmark, method=name, n=n)
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
        for row in self.files.get(file, ()):
            if (
                (backbone is None or normal(row["backbone"]) == normal(backbone))
                and (benchmark is None or normal(row["benchmark"]) == normal(benchmark))
                and all(_same(row[name], value) for name, value in wanted.items())
            ):
                share, tokens = float(row["accuracy_percent"]) / 100, row.get("tokens_per_question")
                return share, None if tokens is None else float(tokens)
        return NOTHING


NONE_PUBLISHED = Published({})


def read_published(folder: str) -> Published:
    """The paper's numbers.

    Raises:
        DataError: where the folder holds none of the files.
    """
    found = {name: rows for name in FILES if (rows := read_csv_rows(folder, f"{name}.csv"))}
    if not found:
        raise DataError(
            f"--paper must be a folder with any of {', '.join(f'{n}.csv' for n in FILES)}, "
            f"got {folder!r}"
        )
    return Published(found)


def normal(name: str) -> str:
    """A backbone's or benchmark's name without owner, case and punctuation."""
    bare = "".join(c for c in name.rpartition("/")[2].lower() if c.isalnum())
    return _ALIASES.get(bare, bare)


def _same(text: str, value: Any) -> bool:
    return text == value if isinstance(value, str) else abs(float(text) - value) < 1e-9
