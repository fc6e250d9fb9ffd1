"""The summary of a run: tokens saved on common questions, and no chain that nothing was seen of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.results import write_summary
from jobs.tables import print_summary
from pipeline.report.page import report_page
from pipeline.report.run_data import Cell, read_run
from pipeline.report.summary import summarise
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run


def test_tokens_are_saved_on_the_questions_that_both_have_answered(tmp_path: Path) -> None:
    """Where MR-Thinking is behind, only what both have done is held against each other."""
    config = made_up_config(tmp_path, strategies=["mr_thinking", "markovscale_t"])
    run = read_run(write_run(config, "partial", question_rows(30, ["made-up"])).address)
    chain, ours = run.cells
    behind = replace(chain, rows=list(chain.rows)[:10])

    def saved(cell: Cell) -> float:
        return float(summarise([behind, cell])[1]["tokens_saved"])

    assert saved(ours) == saved(replace(ours, rows=list(ours.rows)[:10]))
    assert saved(ours) == 1 - sum(ours.tokens[:10]) / sum(chain.tokens[:10])


@pytest.mark.parametrize(
    ("always", "said"),
    [
        (False, "no right answer was asked about again, so no a and no L"),
        (True, "no wrong answer was asked about again, so no b and no L"),
    ],
)
def test_a_rate_that_nothing_was_seen_of_is_not_printed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    always: bool,
    said: str,
) -> None:
    """Its prior alone would look like a measurement, in the terminal and in the report."""
    config = made_up_config(tmp_path, strategies=["mr_thinking"])

    class Certain(MadeUp):
        def right(self, question: object, request: object) -> bool:
            return always

    run = write_run(config, "one", question_rows(6, ["made-up"]), Certain(), metrics=False)
    print_summary(write_summary(run), run.address)
    page = report_page([read_run(run.address)])

    printed = capsys.readouterr().out
    assert said in printed
    assert "lambda" not in printed
    assert ("no right answer seen" in page) == (not always)
    assert ("no wrong answer seen" in page) == always
