"""The report as a whole: what it says, holds and leaves out."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jobs import report as job
from jobs import show
from pipeline.core.protocol import Failure, Observation, Question, Request
from pipeline.report.page import report_page
from pipeline.report.run_data import RunData, read_run, read_runs
from pipeline.report.run_progress import progress_of
from tests.report_runs import (
    STRATEGIES,
    MadeUp,
    made_up_config,
    question_rows,
    write_run,
)

HOSTILE = "</script></template><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x00"
QWEN = "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"


class Outline(HTMLParser):
    """Elements that a page has, and whether they are closed in order."""

    VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.addresses += [v or "" for n, v in attrs if n in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    """The elements of a whole page."""
    parser = Outline()
    parser.feed(page)
    parser.close()
    return parser


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """A finished run of every sequential strategy and of a parallel pool, with a hostile reply."""
    strategies = [*STRATEGIES, "self_consistency", {"kind": "markovscale_star", "tau": 0.7}]
    strategies[-1]["label"] = "early"  # type: ignore[index]  # the last one is a mapping
    config = made_up_config(tmp_path_factory.mktemp("runs"), strategies=strategies)
    engine = MadeUp(replies={"q3": HOSTILE}, failing=["q5"])
    write_run(config, "one", question_rows(60, ["made-up"]), engine)
    return read_run(f"{config.runtime.runs}/one")


@pytest.fixture(scope="module")
def page(run: RunData) -> str:
    """The report of that run."""
    return report_page([run], price_per_million=0.5)


def test_the_page_is_whole_and_asks_nothing_of_the_network(page: str) -> None:
    """Elements close in order, every address stays within the page, and only its script may run."""
    parsed = outline(page)

    assert parsed.open == []
    assert {a for a in parsed.addresses if not a.startswith(("#", "data:"))} == set()
    assert parsed.counts["script"] == page.count('type="application/json"') + 2  # Vega and ours
    assert "default-src 'none'" in unescape(page)


def test_hostile_text_is_text(page: str) -> None:
    """What a model wrote cannot open an element, end the data, or turn the reading direction."""
    body = page[: page.index("<script>")]  # before Vega
    text = data_of(page)["questions"][3]["chains"][0]["texts"][0]

    assert "<script>alert" not in body
    assert "<img" not in body
    assert "\u202e" not in page
    assert "\x00" not in page
    assert "<script>alert(1)</script>" in text
    assert "[U+202E]" in text


def test_synthetic_data_is_announced(page: str) -> None:
    """A run of scripted engines says so in large letters before anything else."""
    assert page.index("<b>SYNTHETIC</b>") < page.index("<main>")


def test_a_question_says_why_it_stopped(page: str) -> None:
    """Gated and confident chains are explained with the numbers of their rule."""
    said = [chain["why"] for q in data_of(page)["questions"] for chain in q["chains"]]

    assert any(re.match(r"Gated after 1 completion: p0 = 0\.\d+ \(first_score\)", w) for w in said)
    assert any(re.search(r"the stopping rule holds at i = \d+: λ\^i", w) for w in said)


def test_one_question_is_printed_as_the_report_shows_it(
    run: RunData, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show` has the chains of the report, by id and by place, as text and as JSON."""
    shown = data_of(page)["questions"][3]

    assert show.main([run.run.address, "q3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
    assert show.main([run.run.address, "4", "--strategy", "early", "--text"]) == 0
    printed = capsys.readouterr().out
    [chain] = [chain for chain in shown["chains"] if "early" in chain["strategy"]]
    assert chain["why"] in printed
    assert chain["texts"][0].splitlines()[0] in printed
    for wrong in ("nowhere", "0", "61"):
        assert show.main([run.run.address, wrong]) == 2
        assert "a place from 1 to 60" in capsys.readouterr().err


def test_the_same_run_gives_the_same_report(run: RunData, page: str) -> None:
    """Nothing in a report depends on chance or on the clock."""
    assert report_page([run], price_per_million=0.5) == page


def test_a_large_run_holds_as_many_chains_as_asked(tmp_path: Path) -> None:
    """`--questions` says how many questions are in the report with their chains."""
    config = made_up_config(tmp_path, strategies=["base"])
    write_run(config, "large", question_rows(12, ["made-up"]), metrics=False)
    address = str(tmp_path / "large")

    for asked, within in (("all", 12), ("3", 3)):
        assert job.main([address, "--questions", asked]) == 0
        data = data_of((tmp_path / "large" / "report.html").read_text())
        assert sum("names" in q["chains"][0] for q in data["questions"]) == within
        assert len(data["questions"]) == 12


def data_of(page: str) -> dict[str, Any]:
    """What the browser of chains has."""
    found = re.search(r'id="question-data">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def test_two_runs_stand_side_by_side(tmp_path: Path) -> None:
    """Two backbones on one benchmark: each strategy names its run."""
    for name, model, chain in (
        ("two", QWEN, (0.6, 0.06, 0.3)),
        ("three", "Qwen/QwQ-32B", (0.75, 0.05, 0.5)),
    ):
        config = made_up_config(tmp_path, benchmarks=["aime24"], generator=model, scripted=False)
        write_run(config, name, question_rows(30, ["aime24"]), MadeUp(chain=chain))
    out = tmp_path / "both.html"

    assert job.main([str(tmp_path / "two"), str(tmp_path / "three"), "--out", str(out)]) == 0
    page = out.read_text()
    assert "SYNTHETIC" not in page
    assert "MR-Thinking in two" in page
    assert "one question is worth 3.3 points" in page
    assert re.search(r"calls no difference below \d+ questions", page)


def test_a_partial_run_says_so(tmp_path: Path) -> None:
    """A run that is not done is reported as far as it went, without chains where there are none."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking"])
    write_run(config, "part", question_rows(20, ["made-up"]), done=10, metrics=False)
    page = report_page([read_run(str(tmp_path / "part"))])

    assert "Partial: 10 of 40 chains of part are done." in page
    assert "No outcome yet: mr_thinking on made-up." in page
    assert "The chain of made-up is not shown" in page
    assert "There is no MR-Thinking run of the same N" in page


class Dead(MadeUp):
    """Engines that answer nothing."""

    def __call__(self, question: Question, request: Request) -> Observation:
        return Failure(error="EngineDeadError: the replica was lost", completion_tokens=None)


def test_a_run_that_drew_nothing_has_a_report(tmp_path: Path) -> None:
    """Every first request failed: there are failures to show, and no tokens to draw against."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking", "best_of_n"])
    run = write_run(config, "dead", question_rows(3, ["made-up"]), Dead())
    page = report_page([read_run(run.address)])

    assert "Nothing was answered right: none of 3 questions of made-up." in page
    assert "EngineDeadError: the replica was lost" in page
    assert "Accuracy against tokens" not in page
    assert outline(page).open == []


@pytest.mark.parametrize("name", ["summary.json", "skipped.json", "warnings.json"])
@pytest.mark.parametrize("text", ["{", "[{}]", '{"capped": {"attempt": 1}, "attempts": "one"}'])
def test_torn_words_for_people_keep_no_figure_back(tmp_path: Path, name: str, text: str) -> None:
    """What a run wrote down for people is as if it were not there where it is torn or changed."""
    config = made_up_config(tmp_path, strategies=["base"])
    run = write_run(config, "run", question_rows(3, ["made-up"]))
    before = read_run(run.address)
    run.folder.write(name, text.encode())
    after = read_run(run.address)

    assert (after.warnings, after.capped) == (before.warnings, before.capped)
    assert progress_of(after) == progress_of(before)


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Two folders of the same name are two runs: each has its own headline, comparisons and texts,
    as each would have alone."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking"])
    addresses = [str(tmp_path / above / "same") for above in ("a", "b")]
    for address, p0 in zip(addresses, (0.3, 0.8), strict=True):
        folder = config.model_copy(
            update={"runtime": config.runtime.model_copy(update={"runs": address[: -len("/same")]})}
        )
        engine = MadeUp(chain=(p0, 0.05, 0.3), replies={"q0": f"thought of {p0}"})
        write_run(folder, "same", question_rows(6, ["made-up"]), engine, metrics=False)
    runs = read_runs(addresses)
    page = report_page(runs)

    assert [run.run_id for run in runs] == ["a/same", "b/same"]
    assert {cell.run for cell in runs[1].cells} == {"b/same"}
    assert "There is no MR-Thinking run of the same N" not in page
    assert page.count("thought of 0.3") == page.count("thought of 0.8") > 0


def test_a_run_that_has_just_begun_opens(tmp_path: Path) -> None:
    """Without a single outcome there is still a page."""
    config = made_up_config(tmp_path, strategies=["base"])
    write_run(config, "new", question_rows(3, ["made-up"]), done=0, metrics=False)
    page = report_page([read_run(str(tmp_path / "new"))])

    assert "No question has been answered yet." in page
    assert outline(page).open == []


def test_without_gold_there_is_no_accuracy(tmp_path: Path) -> None:
    """Tokens are reported, accuracy is not, and nothing is invented."""
    config = made_up_config(tmp_path, strategies=["base", "mr_thinking", "markovscale_t"])
    write_run(config, "blind", question_rows(12, ["made-up"], gold=None))
    page = report_page([read_run(str(tmp_path / "blind"))])

    assert "No gold answers are known for made-up: tokens are reported, accuracy is not." in page
    assert "Accuracy against tokens" not in page
    assert outline(page).open == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "a run directory must hold config.json, there is no folder nowhere"),
        (["{run}", "{run}"], "runs to look at together must differ"),
    ],
)
def test_bad_input_is_named(
    run: RunData, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Exit 2 and one clear line."""
    status = job.main([argument.format(run=run.run.address) for argument in arguments])

    assert status == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--questions", "few"], ["--price-per-million", "-1"]])
def test_bad_options_are_refused(arguments: list[str]) -> None:
    """Options out of range end the job before anything is read."""
    with pytest.raises(SystemExit) as ended:
        job.main(["run", *arguments])

    assert ended.value.code == 2


def test_a_folder_without_questions_is_no_run(tmp_path: Path) -> None:
    """A configuration alone is not enough."""
    from pipeline.records.run_dir import RunDir

    RunDir.create(made_up_config(tmp_path), "empty")

    assert job.main([str(tmp_path / "empty")]) == 2
