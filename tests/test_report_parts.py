"""The small parts of a report: words, markup, drawing, folds and tables."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from pipeline.answers.answer_rules import AnswerRule
from pipeline.config.runtime import LimitsConfig
from pipeline.core.prices import Prices
from pipeline.report import published, words
from pipeline.report.chain_view import round_curve
from pipeline.report.comparison import Reading, against_rivals, column_of
from pipeline.report.html import Html, h, script_json
from pipeline.report.page import report_page, trouble_of
from pipeline.report.published import NOTHING, Published, read_published
from pipeline.report.questions import (
    browser_data,
    entries_of,
    views_of,
)
from pipeline.report.run_data import Cell, RunData, read_run
from pipeline.report.suitability_view import trust_table
from pipeline.report.summary import summarise
from pipeline.report.tables import Entry, Table, csv_of, html_of, latex, latex_of
from pipeline.report.verdict import corrected_interval, verdict_of
from pipeline.results.compare import Comparison, compare
from pipeline.statistics.calibration import roc_auc
from pipeline.statistics.intervals import Interval, mean_interval
from pipeline.statistics.paired import mcnemar
from tests.report_runs import MadeUp, made_up_config, question_rows, write_run

STAR = {"kind": "markovscale_star", "tau": 0.7}
STRATEGIES = [
    "base",
    "mr_thinking",
    "markovscale_star",
    "self_consistency",
    "best_of_n",
    {**STAR, "label": "wide", "gamma": 1.0},
    {**STAR, "label": "no-gate", "gate": False},
    {**STAR, "label": "no-stopping", "stopping": False},
    "esc",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """A run of many strategies."""
    config = made_up_config(tmp_path_factory.mktemp("runs"), strategies=STRATEGIES)
    write_run(config, "parts", question_rows(40, ["made-up"]), MadeUp(failing=["q5"]))
    return read_run(f"{config.runtime.runs}/parts")


def cell(run: RunData, label: str) -> Cell:
    """A cell by its label."""
    return next(c for c in run.cells if c.label == label)


def changed(cell: Cell, number: int, **fields: Any) -> Cell:
    """A cell with one outcome changed."""
    rows = list(cell.rows)
    rows[number] = {**rows[number], **fields}
    return replace(cell, rows=tuple(rows))


def without_round(row: dict[str, Any], number: int) -> dict[str, Any]:
    """An outcome in which one round could not be graded."""
    verdicts = [v if r != number else None for r, v in enumerate(row["round_verdicts"])]
    return {**row, "round_verdicts": verdicts}


def test_markup_escapes_everything_but_markup() -> None:
    """Text and attributes are escaped, markup is not, and what hides is made visible."""
    made = h("a", "<b>", Html("<i>"), None, [1, 2.25], cls='"', hidden=True, open=False, x=1)

    assert made == '<a class="&quot;" hidden x="1">&lt;b&gt;<i>12.25</a>'
    assert h("br", id="x") == '<br id="x">'
    assert h("p", "\u202ea\x07b\ud800\tc\n") == "<p>[U+202E]a␇b?\tc\n</p>"
    data = script_json({"a": "</script>&"})
    assert data.count("</script>") == 1
    assert json.loads(data[data.index("{") : data.rindex("}") + 1]) == {"a": "</script>&"}


def made(run: RunData, gain: float, saved: Interval | None, p: float) -> Comparison:
    """A comparison with a chosen result."""
    found = compare(column_of(cell(run, "markovscale_star")), column_of(cell(run, "mr_thinking")))
    assert found is not None
    assert found.accuracy is not None
    return replace(found, accuracy=replace(found.accuracy, value=gain), saved=saved, p_adjusted=p)


SAVED = Interval(value=0.4, low=0.3, high=0.5)
SPENT = Interval(value=-0.4, low=-0.5, high=-0.3)


@pytest.mark.parametrize(
    ("gain", "saved", "p", "line"),
    [
        (0.0, SAVED, 1.0, "no difference; 40 % fewer tokens"),
        (0.0, None, 1.0, "no difference; tokens not known"),
        (0.1, SAVED, 0.01, "+10.0 points; 40 % fewer tokens"),
        (0.1, SPENT, 0.01, "+10.0 points; 40 % more tokens"),
        (-0.1, SAVED, 0.2, "−10.0 points, not settled; 40 % fewer tokens"),
    ],
)
def test_the_verdict_says_what_was_found(
    run: RunData, gain: float, saved: Interval | None, p: float, line: str
) -> None:
    """The difference, settled or not, and the tokens; never more than the corrected test allows."""
    lead = made(run, gain, saved, p)
    verdict = verdict_of("made-up", run.cells, [lead])

    assert verdict.lead is lead
    assert verdict.line.endswith(line)
    assert ("no proof of equal accuracy" in " ".join(verdict.sentences)) == (p > 0.05)


@pytest.mark.parametrize(("only_first", "only_second"), [(2, 12), (0, 9), (30, 20), (15, 2)])
@pytest.mark.parametrize("factor", [1.0, 3.0, 24.0])
def test_one_difference_has_one_interval(
    run: RunData, only_first: int, only_second: int, factor: float
) -> None:
    """Tile and text have the same ends, and these hold zero where the corrected test does not
    reject, but for p-values at the very edge."""
    n = 100
    p = mcnemar(only_first, only_second)
    lead = replace(
        made(run, (only_first - only_second) / n, SAVED, min(1.0, factor * p)),
        only_first=only_first,
        only_second=only_second,
        n_questions=n,
        p_accuracy=p,
        tests=24,
    )
    verdict = verdict_of("made-up", run.cells, [lead])
    low, high = corrected_interval(lead)

    assert words.points_range(low, high) in verdict.tiles[0][2]
    assert words.points_range(low, high) in " ".join(verdict.sentences)
    assert lead.p_adjusted is not None
    if not 0.02 < lead.p_adjusted < 0.1:
        assert (low <= 0 <= high) == (not lead.distinguishable)


def test_the_opponent_is_read_at_its_best(run: RunData) -> None:
    """MR-Thinking by the rule with most right answers, ours by its own."""
    verdict = verdict_of("made-up", run.cells, against_rivals(run.cells))
    rival, lead = cell(run, "mr_thinking"), verdict.lead
    assert lead is not None
    right = {rule: sum(rival.rights(rule).values()) for rule in AnswerRule}

    assert right[AnswerRule(lead.second.rule)] == max(right.values()) > right[AnswerRule.LAST]
    assert f"MR-Thinking at its best {words.percent(max(right.values()) / 40)}" in verdict.line


def test_the_headline_speaks_of_the_most_accurate_variant(run: RunData) -> None:
    """Gain first, then tokens; a comparison of another run is left alone."""
    worse, better = made(run, -0.1, SAVED, 1.0), made(run, 0.1, SPENT, 1.0)
    cheaper = replace(better, saved=SAVED)
    elsewhere = Reading(replace(better.first.of.cell, run="other"), better.first.of.rule)
    foreign = replace(better, first=replace(better.first, of=elsewhere))

    assert verdict_of("made-up", run.cells, [worse, better, cheaper]).lead is cheaper
    assert verdict_of("made-up", run.cells, [worse, foreign]).lead is worse


def test_a_curve_follows_its_closed_form(run: RunData) -> None:
    """p_r starts at the observed p_0."""
    curve = round_curve(cell(run, "mr_thinking"))
    assert curve is not None
    first, *_ = curve.observed
    assert first is not None

    tokens = [spent.value for spent in curve.tokens]
    assert curve.predicted[0].value == first.value
    assert all(p.low <= p.value <= p.high for p in curve.predicted)
    assert len(curve.observed) == len(tokens) == 8
    assert tokens == sorted(tokens)


def test_cells_without_a_chain_have_no_curve(run: RunData) -> None:
    """Other strategies, a budget of one and ungraded chains."""
    chain = cell(run, "mr_thinking")
    blind = tuple({**row, "round_verdicts": [None] * 8} for row in chain.rows)

    assert round_curve(cell(run, "base")) is None
    assert round_curve(replace(chain, n=1)) is None
    assert round_curve(replace(chain, rows=blind)) is None


def test_copies_of_a_question_are_one_in_a_report(run: RunData) -> None:
    """Ten questions of one text count once: in accuracies as their mean, in the chain as ten chains
    of one question."""
    chain = cell(run, "mr_thinking")
    first, *others = chain.by_question
    copied = replace(chain, copies=dict.fromkeys(others[:9], first))
    known = chain.rights(chain.rule)
    together = [float(known[key]) for key in (first, *others[:9]) if key in known]
    alone = [float(known[key]) for key in others[9:] if key in known]
    found, expected = column_of(copied).accuracy, mean_interval([fmean(together), *alone])

    assert found is not None
    assert (found.value, found.low) == pytest.approx((expected.value, expected.low))
    curve = round_curve(copied)
    assert curve is not None
    assert len({one.key for one in curve.chains}) == len(chain.rows) - 9


def test_the_bill_adds_up(run: RunData) -> None:
    """All that was made has its price, wasted tokens too."""
    (entry,) = summarise([cell(run, "mr_thinking")], Prices(prompt=0.0, completion=2.0))
    made_tokens = entry["tokens"]["completion_tokens"] + entry["tokens"]["wasted_tokens"]

    assert entry["usd"] == pytest.approx(made_tokens * 2e-6)
    assert "usd" not in summarise([cell(run, "base")])[0]


def test_prices_are_those_of_the_run(tmp_path: Path) -> None:
    """Of the endpoint, else of the cap on money, else none; what is given comes first, and cached
    prompt tokens have their own price."""
    config = made_up_config(tmp_path, strategies=["base"])
    capped = config.model_copy(
        update={
            "runtime": config.runtime.model_copy(
                update={"limits": LimitsConfig(usd=1.0, price_million_tokens=3.0)}
            )
        }
    )

    assert config.runtime.prices() is None
    assert capped.runtime.prices() == Prices(prompt=0.0, completion=3.0)
    assert capped.runtime.prices(0.5) == Prices(prompt=0.0, completion=0.5)
    run = write_run(config, "run", question_rows(5, ["made-up"]), metrics=False)
    base = read_run(run.address).cells[0]
    (told,) = summarise([base], Prices(prompt=1.0, completion=0.0, cached_prompt=0.1))
    assert told["usd"] == pytest.approx(5 * ((30 - 16) * 1.0 + 16 * 0.1) / 1e6)


def test_what_went_wrong_has_its_kind(run: RunData) -> None:
    """Failed, ungraded and unanswered, each with its question."""
    first = cell(run, "base")
    broken = changed(first, 0, error="EngineDeadError: gone")
    broken = changed(broken, 1, verdict_last="ungraded", answer_last="x")
    broken = changed(broken, 2, answer_last=None)
    question = run.questions["made-up", "q1"]
    found = [trouble_of(broken, row, question) for row in broken.rows[:4]]

    assert found == [
        ("failed: EngineDeadError", "EngineDeadError: gone"),
        ("ungraded answer", "answer 'x', gold '42'"),
        ("no answer", "none in 1 completions"),
        None,
    ]


def test_scores_are_held_against_the_answers_they_were_given_for(run: RunData) -> None:
    """Of the longest chains that no score has stopped: every graded completion with its score; a
    strategy that has no p0 and no belief has no row of its own."""
    chain, base = cell(run, "mr_thinking"), cell(run, "base")
    pairs = [
        (score, verdict == "right")
        for row in chain.rows
        for score, verdict in zip(row["round_scores"], row["round_verdicts"], strict=True)
        if score is not None and verdict in ("right", "wrong")
    ]
    found = str(trust_table([chain, base]))
    cells = re.findall(r"<td>(.*?)</td>", found)

    assert cells[:2] == [str(len(pairs)), f"{roc_auc(*zip(*pairs, strict=True)):.3f}"]
    assert len(cells) == 4
    assert trust_table([replace(base, rows=[])]) is None


def test_a_question_is_shown_round_by_round(run: RunData) -> None:
    """Answers, verdicts, scores and beliefs of each completion as they were recorded, with texts;
    a failed round has its error, a cut one its reason."""
    entries = {entry.key[1]: entry for entry in entries_of([run])}
    views = {v.question_id: v for v in views_of([run], [entries["q5"], entries["q6"]], 100)}
    chains = {chain.strategy: chain for chain in views["q6"].chains}
    star, row = chains["MarkovScale*"], cell(run, "markovscale_star").by_question["made-up", "q6"]

    assert len(chains) == len(STRATEGIES)
    assert star.answers == row["round_answers"]
    assert star.scores == pytest.approx(row["round_scores"], abs=1e-4)
    assert star.beliefs == pytest.approx(row["posterior_path"], abs=1e-4)
    assert [{"✓": "right", "✗": "wrong"}[m] for m in star.marks] == row["round_verdicts"]
    assert all("boxed" in text for text in star.texts)
    assert star.chosen is not None
    assert star.answers[star.chosen] == star.answer == row["answer_prm_argmax"]
    failed = next(c for c in views["q5"].chains if c.strategy == "MR-Thinking")
    assert failed.texts[-1] == "EngineDeadError: the replica was lost"
    assert failed.notes[-1] == "failed"
    printed = str(views["q6"])
    assert all(f"{c.strategy}: {c.verdict}, answer {c.answer}" in printed for c in chains.values())
    assert printed.count(" tokens") == sum(1 + len(c.names) for c in chains.values())


def test_the_browser_holds_what_fits(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question with how it ended; the most telling with their chains, within the cap."""
    entries = entries_of([run])
    few = browser_data([run], entries, 7)
    monkeypatch.setattr("pipeline.report.questions.MOST_BYTES", 60_000)
    small = browser_data([run], entries, 100)

    assert (few["within"], len(few["questions"])) == (7, 40)
    assert sum("names" in q["chains"][0] for q in few["questions"]) == 7
    assert all(c["marks"] for q in few["questions"] for c in q["chains"])
    assert 0 < small["within"] < 40


def test_a_report_of_parts_that_lack_something(run: RunData) -> None:
    """No scores on one side, no whole chain, no thinking: the tables and charts say so."""
    chain, base = cell(run, "mr_thinking"), cell(run, "base")
    holed = tuple(without_round(row, 3) for row in chain.rows)
    unscored = tuple({**row, "verdict_prm_argmax": None, "thinking_tokens": 0} for row in base.rows)
    cells = (replace(chain, rows=holed), replace(base, rows=unscored))
    page = report_page([replace(run, cells=cells)])

    assert '<th scope="row">Base</th>' in page
    assert "p_r follows the curve" not in page


PAPER = {
    "main_accuracy.csv": "backbone,method,benchmark,n,accuracy_percent\n"
    "Small,Base,Made Up,8,99.0\nSmall,MarkovScale^*,Made-up,8,70.0\nLarge,Base,Made Up,8,1.0\n",
    "variants.csv": "backbone,method,benchmark,n,accuracy_percent,tokens_per_question\n"
    "small,MR-Thinking,MADE-UP,8,85.4,21868\n",
    "ablation.csv": "variant,benchmark,accuracy_percent,tokens_per_question\n"
    "w/o OS + SG,Made-up,91.2,21396\n",
    "tau.csv": "backbone,benchmark,tau,accuracy_percent,tokens_per_question\n"
    "small,made-up,0.90,89.6,2939\n",
    "gamma.csv": "gamma,tau,accuracy_percent,tokens_per_question\n10,0.80,53.33,9884\n",
}


@pytest.fixture
def paper(tmp_path: Path) -> Published:
    """Numbers that a paper might have."""
    for name, text in PAPER.items():
        (tmp_path / name).write_text(text)
    return read_published(str(tmp_path))


def test_the_papers_numbers_are_found_where_they_match(
    paper: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backbone, benchmark and N must be the same, whatever owner and punctuation."""
    monkeypatch.setattr(published, "ABLATION_SETTING", ("small", 8))

    assert paper.main("made-up/small", "base", "made-up", 8) == (0.99, None)
    assert paper.main("made-up/small", "base", "made-up", 16) == NOTHING
    assert paper.main("made-up/small", "dsc", "made-up", 8) == NOTHING
    assert paper.main("made-up/small", "mr_thinking", "made-up", 8)[1] == 21868
    assert paper.ablation("made-up/small", "w/o OS + SG", "made-up", 8)[0] == 0.912


def test_tables_are_written_for_pages_sheets_and_papers(run: RunData, paper: Published) -> None:
    """The same numbers as HTML, CSV and LaTeX, with what was not run in words; only what lies
    outside the interval is marked."""
    entries = {
        name: Entry(
            column=None if kind == "markovscale_t" else column_of(cell(run, kind)),
            paper=paper.main("small", kind, "made-up", 8),
        )
        for name, kind in (("Base", "base"), ("MarkovScaleᵗ", "markovscale_t"))
    }
    main = Table(
        name="main", title="Accuracy, N = 8", backbone="small", benchmark="", tokens=True,
        columns=("made-up",), rows=tuple((name, (one,)) for name, one in entries.items()),
    )  # fmt: skip
    page, sheet, typeset = html_of(main), csv_of([main]), latex_of(main)
    lines = sheet.splitlines()

    assert entries["Base"].differs(0)
    assert not entries["Base"].differs(1)
    assert '<small class="differs">paper 99.0 outside</small>' in page
    assert "not run" in page
    assert lines[0].startswith("table,backbone,benchmark,row,column,method,n,setting")
    assert len(lines) == 1 + len(main.rows)
    assert r"(99.0$^\dagger$)" in typeset
    assert r"MarkovScale\textsuperscript{t} & not run & not run \\" in typeset
    assert r"\toprule" in typeset
    assert latex("50 % a_b & {x}") == r"50 \% a\_b \& \{x\}"
