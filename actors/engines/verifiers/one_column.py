"""``one_column``: the sigmoid of one logit a step, from a head with a single column.

Skywork-o1-PRM, Universal-PRM, and reward models of whole answers (a head of one label).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.engines import vllm_setup
from actors.engines.verifiers.needs import Has, refused, told
from actors.engines.verifiers.step_reader import StepReader
from pipeline.core import prm

_ONE = ("ForRewardModel", "ForPrmModel")  # always of one column, whatever their labels say
_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")


class OneColumn(StepReader):
    """See the module."""

    def check(self, has: Has) -> None:
        """A head that has the column."""
        self._columns = 1 if has.ends_with(*_ONE) else has.labels
        classifies = has.ends_with(*_ONE, *_CLASSIFIERS)
        if not classifies or self.form.column >= self._columns:
            raise refused(
                self.model,
                told(has),
                f"a head with a column {self.form.column} (...ForRewardModel, ...ForPrmModel, "
                "...ForSequenceClassification, ...ForTokenClassification)",
            )
        self._value_head = has.ends_with("ForPrmModel")

    def arguments(self) -> dict[str, Any]:
        """See `Kind.arguments`."""
        return {**super().arguments(), **(vllm_setup.value_head() if self._value_head else {})}

    def overrides(self) -> dict[str, Any]:
        """A value head has one label, which its config.json does not say."""
        return {"num_labels": 1} if self._value_head else {}

    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """Of the column."""
        return prm.column_scores(
            rows,
            n_steps,
            columns=self._columns,
            column=self.form.column,
            temperature=self.form.temperature,
        )
