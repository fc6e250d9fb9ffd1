"""What is asked of answers while chains go on: a judge's verdicts, and feedback for revisions."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from actors.controllers.command_grader import run_check
from actors.engines.endpoint_host import EndpointHost
from actors.engines.endpoint_transport import EndpointTransport
from actors.engines.hosts import PoolSpec
from actors.engines.scripted import ScriptedJudge
from actors.routing.calls import GenerateCall, Generated
from actors.routing.client import EngineClient
from benchmarks.journals import read_journal
from jobs import regrade
from pipeline.answers import Verdict
from pipeline.answers.graders import GraderSettings, verdict_of
from pipeline.config.models import JudgeModel
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig, RequestConfig, RuntimeConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prices import Prices
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Failure
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.replay.run import replay_run
from tests import live
from tests.chat_servers import Asked, Said, serving
from tests.endpoints import QUICK

RIGHT, WRONG, UNGRADED = Verdict.RIGHT, Verdict.WRONG, Verdict.UNGRADED
CODE = GraderSettings(kind="command", timeout_s=5.0, memory_mb=512)
REVISE = "{question}\nBefore: {answer}\nChecked: {feedback}\nAgain, please."


@dataclass
class Judge:
    """A scripted judge that counts what it is asked."""

    asked: list[str] = field(default_factory=list)
    fails: bool = False

    def __post_init__(self) -> None:
        self._engine, self._ids = ScriptedJudge({}), itertools.count()

    async def call(self, call: GenerateCall) -> Generated | Failure:
        self.asked.append(call.request.messages[-1].content)
        if self.fails:
            return Failure(error="engine: gone", completion_tokens=2)
        return await self._engine.serve(replace(call, request_id=str(next(self._ids))))


def judged_run(folder: Path, name: str = "run", **science: Any) -> RunDir:
    """A run over sums whose answers a judge grades."""
    source = {"name": "arithmetic", "size": 5, "grader": {"kind": "judge"}}
    return live.create(
        live.config_of(
            str(folder),
            [{"kind": "mr_thinking", "n": 3}],
            benchmarks=[source],
            judge={"model": "judge"},
            **science,
        ),
        name,
    )


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("CORRECT", RIGHT),
        ("The same city.\n\n**Correct.**", RIGHT),
        ("It is right in part, yet\nINCORRECT", WRONG),
        ("The answer is not correct.", WRONG),
        ("<think>CORRECT?</think>\nno", WRONG),
        ("CORRECT\nor so I think", UNGRADED),
        ("CORRECT or INCORRECT", UNGRADED),
        ("UNSURE", UNGRADED),
        ("", UNGRADED),
    ],
)
def test_the_last_line_of_a_judge_is_its_verdict(reply: str, verdict: Verdict) -> None:
    """A word of it alone, negated where "not" stands before it; else there is no verdict."""
    assert verdict_of(reply) is verdict


async def test_verdicts_of_a_judge_are_recorded_billed_and_replayed(tmp_path: Path) -> None:
    """Each is in the journal and in the outcome with its tokens; equal answers are judged once;
    neither a resume nor a replay nor a new grading asks a model."""
    run, judge = judged_run(tmp_path), Judge()
    await live.live(run, judge=judge)
    rows = rows_of(read_journal(run.journal).table)
    outcomes = rows_of(run.outcomes())
    gold = {
        q["question_id"]: q["gold"] for q in rows_of(run.folder.read_table("questions.parquet"))
    }

    for row in rows:
        expected = "right" if row["answer"] == gold[row["question_id"]] else "wrong"
        assert row["verdict"] == expected
    wrong = {(row["question_id"], row["answer"]) for row in rows if row["verdict"] == "wrong"}
    assert len(judge.asked) == len(wrong) > 0  # an answer that is the gold's text needs no judge
    tokens = sum(outcome["judge_tokens"] for outcome in outcomes)
    assert tokens == sum(row["judge_tokens"] for row in rows) > sum(map(len, judge.asked))
    assert Prices(prompt=0, completion=0, judge=2).usd(
        {"completion_tokens": 0, "prompt_tokens": 0, "cached_prompt_tokens": 0, "wasted_tokens": 0}
        | {"judge_tokens": tokens}
    ) == pytest.approx(2e-6 * tokens)

    assert replay_run(run).differences == ()
    shutil.rmtree(tmp_path / "run" / "outcomes")  # as if it was killed before it wrote any
    silent = Judge(fails=True)
    await live.live(run, judge=silent)
    assert silent.asked == []
    assert [row["round_verdicts"] for row in rows_of(run.outcomes())] == [
        outcome["round_verdicts"] for outcome in outcomes
    ]


async def test_a_judge_that_gives_no_reply_leaves_answers_ungraded(tmp_path: Path) -> None:
    """No chain fails for it, and what it cost is billed."""
    run = judged_run(tmp_path)
    await live.live(run, judge=Judge(fails=True))
    rows = rows_of(read_journal(run.journal).table)

    assert {row["verdict"] for row in rows} == {"right", "ungraded"}
    assert all(row["judge_tokens"] == 2 for row in rows if row["verdict"] == "ungraded")
    assert all(row["error"] is None for row in rows_of(run.outcomes()))


async def test_people_are_compared_with_the_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sample without verdicts is written for them; what they filled in gives agreement and
    kappa, with the answers on which the two differ."""
    run = judged_run(tmp_path)
    await live.live(run, judge=Judge())
    labels = tmp_path / "labels.csv"
    assert regrade.main([run.address, "--labels", str(labels)]) == 0
    assert regrade.main([run.address, "--labels", str(labels)]) == 2
    assert "must label answers of the run" in capsys.readouterr().err

    rows = list(csv.DictReader(labels.read_text(encoding="utf-8").splitlines()))
    assert set(rows[0]) == {"benchmark", "question_id", "gold", "answer", "label"}
    for row in rows:
        row["label"] = "right" if row["answer"] == row["gold"] else "wrong"
    rows[0]["label"] = "wrong" if rows[0]["label"] == "right" else "right"
    with labels.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    assert regrade.main([run.address, "--labels", str(labels)]) == 0
    said = capsys.readouterr().out
    assert f"{(len(rows) - 1) / len(rows):.1%} of {len(rows)}" in said
    assert f"{rows[0]['question_id']}: gold '{rows[0]['gold']}'" in said


async def test_a_judge_may_be_behind_an_endpoint(tmp_path: Path) -> None:
    """It is asked greedily for a verdict over the wire that generators have."""

    def answers(asked: Asked) -> Said:
        if asked.path.endswith("/models"):
            return Said(body={"data": [{"id": "judge"}]})
        choice = {"message": {"content": "Same.\nCORRECT"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 30, "completion_tokens": 4}
        return Said(body={"choices": [choice], "usage": usage})

    model = JudgeModel(model="judge", extra_body={"reasoning_effort": "low"})
    request = model.request("CORRECT?")
    with serving(answers) as server:
        pool = PoolConfig.model_validate({"endpoint": {"base_urls": [server.url]}})
        spec = PoolSpec(
            role="judge",
            model=model,
            pool=pool,
            runtime=RuntimeConfig(judge=pool),
            run_id="j",
            samples=(GenerateCall(request),),
        )
        host = EndpointHost(spec)
        await asyncio.to_thread(host.wait)
        settings = RequestConfig.model_validate(QUICK)
        transport = EndpointTransport(host.address, settings)
        made = await EngineClient(transport, settings, "judge").call(GenerateCall(request))
        host.stop()
        await transport.close()
        body = server.completions[-1].body

    assert isinstance(made, Generated)
    assert verdict_of(made.text) is RIGHT
    assert (body["temperature"], body["reasoning_effort"]) == (0.0, "low")


HUMANEVAL = '''Complete it.

```python
def double(x: int) -> int:
    """Twice x.

    >>> double(2)
    4
    >>> double(-1)
    -2
    """
```'''
MBPP = "Write a function.\n\nIt must pass:\nassert double(2) == 4"


@pytest.mark.parametrize(
    ("question", "code", "said"),
    [
        (HUMANEVAL, "def double(x):\n    return x + 2", "double(-1) must give -2, it gives 1"),
        (HUMANEVAL, "def double(x):\n    return 2 * x", "The tests shown pass (2)."),
        (HUMANEVAL, "def double(x):\n    return [][x]", "double(2) fails with IndexError: list"),
        (MBPP, "def double(x):\n    return x", "assert double(2) == 4 fails with AssertionError"),
        (MBPP, "def double(x)\n    return x", "SyntaxError"),
        (MBPP, "def double(x):\n    while True: pass", "longer than 2 s"),
        (MBPP, "raise SystemExit('no input')", "ends before its tests, with:\nno input"),
    ],
)
def test_a_failing_public_test_is_feedback(question: str, code: str, said: str) -> None:
    """The tests that a question shows are run, and the first that fail are named."""
    assert said in (run_check(replace(CODE, timeout_s=2.0), question, code) or "")


def test_a_users_own_check_is_shown_what_it_prints() -> None:
    """It is given answer and question as files, and no gold answer."""
    settings = GraderSettings(check=("cat", "{question}", "{answer}"))
    assert run_check(settings, "1+1?", " 3") == "1+1? 3"
    assert run_check(replace(settings, check=("no-such-program",)), "1+1?", "3") is None


def test_feedback_stands_in_its_place_alone() -> None:
    """What a question, an answer or a remark says of fields is not filled in."""
    prompts = Prompts(revise=REVISE)
    (turn,) = prompts.ask_again("Q {feedback} {answer}?", "A {feedback}", "F {question} {answer}")
    assert turn.content == (
        "Q {feedback} {answer}?\nBefore: A {feedback}\nChecked: F {question} {answer}\n"
        "Again, please."
    )


async def test_revisions_are_shown_failing_public_tests_and_replay(tmp_path: Path) -> None:
    """The next prompt has what failed, and nothing of the hidden tests; a replay has the same
    prompts from the record."""
    bodies = ("x + 2", "x ** 2", "2 * x")

    class Coding:
        def __init__(self) -> None:
            self.prompts: list[str] = []

        async def call(self, call: GenerateCall) -> Generated:
            self.prompts.append(call.request.messages[-1].content)
            code = f"def double(x):\n    return {bodies[call.request.round]}"
            return Generated(
                text=f"```python\n{code}\n```",
                finish_reason="stop",
                prompt_tokens=5,
                cached_prompt_tokens=0,
                completion_tokens=7,
                thinking_tokens=0,
            )

    row = {
        "task_id": "Own/0",
        "prompt": HUMANEVAL.split("```python\n")[1].removesuffix("\n```"),
        "test": "def check(candidate):\n    assert candidate(31) == 62\n",
        "entry_point": "double",
    }
    path = tmp_path / "humaneval.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    config = live.config_of(
        str(tmp_path / "runs"),
        [{"kind": "mr_thinking", "n": 3}],
        benchmarks=[{"name": "humaneval", "path": str(path), "limit": 1}],
        prompts={"first": "{question}", "revise": REVISE},
    )
    run, generator = live.create(config), Coding()
    await live.live(run, generator)

    assert "Checked: double(-1) must give -2, it gives 1\n" in generator.prompts[1]
    assert "Checked: double(2) must" not in generator.prompts[2]
    assert "double(-1) must give -2, it gives 1" in generator.prompts[2]
    assert not any("31" in prompt or "62" in prompt for prompt in generator.prompts)
    assert (
        read_journal(run.journal).table["feedback"].to_pylist()[-1] == "The tests shown pass (2)."
    )
    assert replay_run(run).differences == ()


async def test_a_remark_of_a_judge_knows_no_gold_answer(tmp_path: Path) -> None:
    """It is asked for without the reference, and stands in the next prompt and in the journal."""
    run = judged_run(tmp_path, prompts={"first": "{question}", "revise": REVISE})
    judge = Judge()
    generator = await live.live(run, judge=judge)
    remarks = [prompt for prompt in judge.asked if "Reference answer" not in prompt]

    assert remarks
    assert all("Check it again." in r.messages[-1].content for r in generator.served if r.round)
    assert set(read_journal(run.journal).table["feedback"].to_pylist()) == {"Check it again."}
    assert replay_run(run).differences == ()


def test_configurations_that_cannot_be_are_refused() -> None:
    """A judge that is not there or nowhere, a remark with the gold answer, feedback of nobody."""
    judged = {"benchmarks": [{"name": "arithmetic", "grader": {"kind": "judge"}}]}
    told = {"prompts": {"first": "{question}", "revise": REVISE}}
    for science, said in (
        (judged, "science.judge must be given: benchmark arithmetic"),
        (
            {**judged, "judge": {"model": "j"}},
            "must come with runtime.judge.endpoint",
        ),
        ({"judge": {"model": "j", "remark": "{answer} {gold}"}}, "must not contain {gold}"),
        ({"judge": {"model": "j", "prompt": "{answer}"}}, "prompt must contain {gold}"),
        (told, "revise must not hold {feedback} where nothing gives it"),
    ):
        with pytest.raises(ConfigError, match=said.replace("{", r"\{")):
            RunConfig.parse(
                {
                    "science": {
                        "benchmarks": [{"name": "arithmetic"}],
                        "strategies": ["mr_thinking"],
                        "generator": {"model": "m"},
                        **science,
                    }
                }
            )
