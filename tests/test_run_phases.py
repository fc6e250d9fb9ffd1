"""Phases of a run over several attempts, by the driver's own parts, without Ray."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from actors.driver.run_phases import RunPhases
from jobs.results import write_summary
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Decisions, Generate, Phase, PhaseStats, Question
from pipeline.records.run_dir import RunDir
from pipeline.replay.run import replay_run
from pipeline.strategies.sequential import MRThinking
from tests.live import (
    ScriptedGenerator,
    config_of,
    create,
    live,
    write_questions,
)


async def attempt(
    run: RunDir,
    number: int = 1,
    fail: tuple[str, ...] = (),
    verdicts: Counter[str] | None = None,
) -> RunPhases:
    """Every phase of what is left of a run; requests at some places fail, and verdicts are counted
    as for the progress of a run."""
    entry = run.attempt(number)
    script = entry.config.runtime.scripted or Script()
    await live(run, ScriptedGenerator(script, fail), attempt=number, verdicts=verdicts)
    return RunPhases(run, entry.config, entry)


PHASED: list[Any] = ["base", "markovscale_0", {"kind": "dsc", "n": 4, "batch": 2, "waves": 2}]


def with_another(config: RunConfig, folder: Path) -> RunConfig:
    """The same run with a second benchmark of three questions."""
    path = folder / "extra.jsonl"
    path.write_text(
        "".join(f'{{"id": "x{i}", "question": "{i}*3+4-5?", "answer": "5"}}\n' for i in range(3))
    )
    values = config.model_dump(mode="json")
    values["science"]["benchmarks"].append({"name": "extra", "path": str(path)})
    return RunConfig.parse(values)


def limited(config: RunConfig, limit: int) -> RunConfig:
    """The same run over the first questions of twelve."""
    values = config.model_dump(mode="json")
    values["science"]["benchmarks"][0] |= {"size": 12, "limit": limit}
    return RunConfig.parse(values)


def learnt(run: RunDir, benchmark: str) -> dict[str, Any]:
    """What is written of a benchmark, by strategy, phase and attempt."""
    files = {
        n: run.folder.read_json(f"statistics/{n}") for n in run.folder.child("statistics").names()
    }
    return {name: values[benchmark] for name, values in files.items()}


async def test_progress_counts_each_question_once_and_as_the_summary(tmp_path: Path) -> None:
    """A warm-up and a ranking are no answers: they are not among the verdicts that are told while a
    run goes on."""
    run = create(config_of(str(tmp_path), PHASED))
    verdicts: Counter[str] = Counter()
    await attempt(run, verdicts=verdicts)
    summary = write_summary(run)["strategies"]

    for entry in summary:
        right = entry["accuracy"][entry["headline_rule"]]["right"]
        assert verdicts[f"{entry['strategy']}/right"] == right
    assert verdicts.total() == sum(entry["questions"] for entry in summary)


async def test_methods_in_phases_learn_from_a_benchmark_that_is_added(tmp_path: Path) -> None:
    """It has its own statistics, those of the benchmark before stay, and replay agrees."""
    config = config_of(str(tmp_path), PHASED)
    run = create(config)
    assert not (await attempt(run)).pending()
    before = learnt(run, "arithmetic")
    more = with_another(config, tmp_path)
    number = run.resume(more)
    write_questions(run, more)
    again = await attempt(run, number)
    errors = run.outcomes(columns=["error"])["error"].to_pylist()
    found = replay_run(run)

    assert not again.pending()
    assert set(errors) == {None}
    assert learnt(run, "arithmetic").items() >= before.items()
    assert (found.differences, found.outcomes) == ((), (6 + 3) * len(PHASED))


async def test_more_questions_go_on_with_what_was_learnt(tmp_path: Path) -> None:
    """A larger limit changes no decision that was taken: replay agrees with old and new ones."""
    config = limited(config_of(str(tmp_path), ["markovscale_0"]), 6)
    run = create(config)
    await attempt(run)
    more = limited(config, 12)
    number = run.resume(more)
    write_questions(run, more)
    await attempt(run, number)
    found = replay_run(run)

    assert (found.differences, found.outcomes) == ((), 12)


async def test_no_questions_come_to_those_that_were_put_in_an_order(tmp_path: Path) -> None:
    """The resume is refused before anything is written, and the run can go on as it was."""
    config = limited(config_of(str(tmp_path), PHASED), 6)
    run = create(config)
    await attempt(run)

    with pytest.raises(ConfigError, match="must keep the limit of arithmetic, since dsc has put"):
        run.resume(limited(config, 12))
    assert len(run.attempts()) == 1
    assert not (await attempt(run, run.resume(config))).pending()


async def test_failures_of_a_phase_are_tried_again_under_what_was_learnt(tmp_path: Path) -> None:
    """The phases after it go on with the same statistics, in the run as in its replay."""
    config = config_of(str(tmp_path), PHASED)
    run = create(config)
    ids = [row["question_id"] for row in run.folder.read_table("questions.parquet").to_pylist()]
    ill = tuple(
        f"{label}/arithmetic/{name}#{round_}"
        for label, round_ in (("markovscale_0", 2), ("dsc", 0))
        for name in ids[:2]
    )
    await attempt(run, fail=ill)
    failed = [row["strategy"] for row in run.outcomes().to_pylist() if row["error"]]
    before = learnt(run, "arithmetic")
    again = await attempt(run, run.resume(config, retry_failed=True))
    found = replay_run(run)

    assert {"markovscale_0", "dsc"} <= set(failed)
    assert not again.pending()
    assert [row["error"] for row in run.outcomes().to_pylist() if row["error"]] == []
    assert learnt(run, "arithmetic") == before
    assert found.differences == ()


@dataclass(frozen=True, kw_only=True)
class TwoPasses(MRThinking):
    """A strategy of somebody's own: two passes, the first of which teaches nothing."""

    kind: ClassVar[str] = "two_passes"

    def phases(self) -> tuple[Phase, ...]:
        """Two rounds, then all of them."""
        return (
            Phase(name="some", strategy=MRThinking(n=2, prompts=self.prompts)),
            Phase(name="all", strategy=MRThinking(n=self.n, prompts=self.prompts)),
        )


@dataclass(frozen=True, kw_only=True)
class BreaksAt(TwoPasses):
    """As that, with a first pass that has a bug which some questions meet."""

    kind: ClassVar[str] = "breaks_at"

    def phases(self) -> tuple[Phase, ...]:
        """The same two."""
        some, all_of_them = super().phases()
        return (
            Phase(name=some.name, strategy=Breaking(n=2, prompts=self.prompts)),
            all_of_them,
        )


@dataclass(frozen=True, kw_only=True)
class Breaking(MRThinking):
    """Breaks at every text with a 7 in it."""

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """One round, and an error or all rounds."""
        if "7" in question.text:
            yield Generate((self.request(question, self.prompts.ask(question.text)),))
            raise ArithmeticError("seven")
        return (yield from super().decide(question, statistics))


async def test_a_question_at_which_a_phase_breaks_costs_no_other(tmp_path: Path) -> None:
    """It is a row with its error there, in a replay as well; what the phase teaches is learnt all
    the same."""
    run = create(config_of(str(tmp_path), [{"kind": f"{__name__}:BreaksAt", "n": 3}], size=12))
    phases = await attempt(run)
    rows = run.outcomes().to_pylist()
    broken = {r["question_id"]: r["error"] for r in rows if r["phase"] == "some" and r["error"]}

    assert not phases.pending()
    assert broken == {
        r["question_id"]: "ArithmeticError: seven" for r in rows if "7" in r["question_id"]
    }
    assert 0 < len(broken) < 12
    assert len(rows) == 2 * 12
    assert replay_run(run).differences == ()


async def test_a_phase_that_teaches_nothing_is_done_when_it_is_done(tmp_path: Path) -> None:
    """A run of such phases comes to its end."""
    run = create(config_of(str(tmp_path), [{"kind": f"{__name__}:TwoPasses", "n": 3}]))

    assert not (await attempt(run)).pending()
    assert run.outcomes().num_rows == 2 * 6
