"""Graders by kind: what each reads of a reply, and what it calls right, wrong and ungraded."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.controllers.grading import GradingPool
from pipeline.answers import Verdict
from pipeline.answers.graders import ASKS_FOR_A_LETTER, MATH, GraderSettings
from pipeline.benchmarks import BenchmarkSource, load
from pipeline.core.protocol import Completion
from tests.test_chains import ScriptedGenerator, make_chains, make_work, read

CODE = GraderSettings(kind="command", timeout_s=5.0, memory_mb=512)
TESTS = "def check(f):\n    assert f(3) == 9\n\ncheck(square)"
RIGHT, WRONG, UNGRADED = Verdict.RIGHT, Verdict.WRONG, Verdict.UNGRADED


@pytest.fixture(scope="module")
def pool() -> Iterator[GradingPool]:
    with GradingPool(workers=1) as opened:
        yield opened


def starts_alike(gold: str, answer: str) -> bool | None:
    """A grader of a user's own, which cannot say anything of long answers."""
    return None if len(answer) > 20 else answer[:1] == gold[:1]


def fails(gold: str, answer: str) -> bool:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("settings", "gold", "answer", "verdict"),
    [
        (GraderSettings(kind="choices"), "B", "(B) 10^-4 eV", RIGHT),
        (GraderSettings(kind="choices"), "ABD", "B, A and D", RIGHT),
        (GraderSettings(kind="choices"), "ABD", "A or B or D", WRONG),
        (GraderSettings(kind="choices"), "B", "10^-4 eV", WRONG),
        (GraderSettings(kind="text"), "Paris", "paris.", RIGHT),
        (GraderSettings(kind="text"), '["Paris", "City of Light"]', "The City of Light", RIGHT),
        (GraderSettings(kind="text"), "Paris", "the capital of France", UNGRADED),
        (GraderSettings(kind="text"), "1912", "1913", WRONG),
        (GraderSettings(kind="text"), "Paris", None, WRONG),
        (GraderSettings(ordered=True), "75, 6250", "6250, 75", WRONG),
        (GraderSettings(ordered=True), "75, 6250", "75, 6250.0", RIGHT),
        (MATH, "75, 6250", "6250, 75", RIGHT),
        (GraderSettings(decimal=","), "2,5", "2.5", RIGHT),
        (GraderSettings(decimal=","), "1.250,5", "1250.5", RIGHT),
        (GraderSettings(kind="tests.test_graders:starts_alike"), "abc", "axy", RIGHT),
        (GraderSettings(kind="tests.test_graders:starts_alike"), "abc", "xya", WRONG),
        (GraderSettings(kind="tests.test_graders:starts_alike"), "abc", "a" * 30, UNGRADED),
        (GraderSettings(kind="tests.test_graders:fails"), "abc", "abc", UNGRADED),
        (CODE, TESTS, "def square(x):\n    return x * x", RIGHT),
        (CODE, TESTS, "def square(x):\n    return x + x", WRONG),
        (CODE, TESTS, "def square(x)\n    return x + x", WRONG),
        (CODE, TESTS, "raise SystemExit(0)", WRONG),
        (CODE, TESTS, "held = 'x' * (1 << 30)\ndef square(x):\n    return x * x", WRONG),
        (
            GraderSettings(kind="command", command=("cmp", "-s", "{gold}", "{answer}")),
            "same",
            "same",
            RIGHT,
        ),
        (
            GraderSettings(kind="command", command=("cmp", "-s", "{gold}", "{answer}")),
            "same",
            "other",
            WRONG,
        ),
        (GraderSettings(kind="command", command=("cat", "{gold}.none")), "a", "a", WRONG),
        (GraderSettings(kind="command", command=("no-such-program",)), "a", "a", UNGRADED),
    ],
)
def test_each_kind_says_what_it_can(
    pool: GradingPool, settings: GraderSettings, gold: str, answer: str | None, verdict: Verdict
) -> None:
    """Letters, words, lists in order, decimal commas, programs and functions each have a verdict,
    and UNGRADED where nobody can say."""
    assert pool.grade_many([(gold, answer)], settings=settings) == [verdict]


def test_code_that_runs_on_is_stopped_with_its_children(pool: GradingPool) -> None:
    """An overrun is WRONG in time, and nothing that it started is left."""
    hasty = GraderSettings(kind="command", timeout_s=1.0)
    mark = f"{os.getpid()}.25"
    code = f"import subprocess\nsubprocess.Popen(['sleep', '3{mark}'])\nwhile True:\n    pass"
    start = time.monotonic()
    verdict = pool.grade_many([(TESTS, code)], settings=hasty)
    seconds = time.monotonic() - start

    commands = [
        path.read_bytes().replace(b"\0", b" ") for path in Path("/proc").glob("[0-9]*/cmdline")
    ]
    assert verdict == [WRONG]
    assert seconds < 30
    assert not any(f"3{mark}".encode() in command for command in commands)


def test_a_command_sees_nothing_of_this_process(
    pool: GradingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither secrets of the environment nor the working folder reach a program."""
    monkeypatch.setenv("SECRET_TOKEN", "swordfish")
    code = (
        "import os\n"
        "assert 'SECRET_TOKEN' not in os.environ\n"
        f"assert os.getcwd() != {os.getcwd()!r}\n"
        "def square(x):\n    return x * x"
    )

    assert pool.grade_many([(TESTS, code)], settings=CODE) == [RIGHT]


@pytest.mark.parametrize(
    ("settings", "question", "reply", "answer"),
    [
        (MATH, f"Which?\n\n{ASKS_FOR_A_LETTER}", "C\n\nBecause the 3 others fail.", "C"),
        (MATH, "How many?", "C\n\nBecause the 3 others fail.", "3"),
        (GraderSettings(kind="choices"), "", "I would choose B, as 4 > 3.", "B"),
        (GraderSettings(kind="text"), "", "<think>Lyon?</think>Paris", "Paris"),
        (GraderSettings(kind="text"), "", "It was long.\n\nAnswer: Paris", "Paris"),
        (GraderSettings(decimal=","), "", "Die Antwort: \\boxed{12.500}", "12500"),
        (CODE, "", "So:\n```python\ndef f():\n    return 1\n```\nDone.", "def f():\n    return 1"),
        (CODE, "", "def f():\n    return 1\n", "def f():\n    return 1"),
    ],
)
def test_each_kind_reads_its_answer(
    settings: GraderSettings, question: str, reply: str, answer: str
) -> None:
    """A letter where one is asked for, words, numbers in points, the last block of code."""
    assert settings.answer_of(reply, question) == answer


def test_a_reply_that_was_cut_has_the_answer_that_it_states_alone() -> None:
    """The last number of an unfinished sentence is no answer, a box is one."""
    assert MATH.answer_of("There are 60 parts. Each machine", cut=True) is None
    assert MATH.answer_of("There are 60 parts. Each machine", cut=False) == "60"
    assert MATH.answer_of("So \\boxed{5}. Check: 60", cut=True) == "5"
    assert CODE.answer_of("```python\ndef f():", cut=True) is None


ROWS: dict[str, list[dict[str, Any]]] = {
    "humaneval": [
        {
            "task_id": "Own/0",
            "prompt": 'def square(x: int) -> int:\n    """The square of x."""\n',
            "canonical_solution": "    return x * x\n",
            "test": "def check(candidate):\n    assert candidate(3) == 9\n",
            "entry_point": "square",
        }
    ],
    "mbpp": [
        {
            "task_id": 1,
            "text": "Write a function square that squares a number.",
            "code": "def square(x):\n    return x * x",
            "test_list": ["assert square(3) == 9", "assert square(-2) == 4"],
            "test_setup_code": "",
        }
    ],
    "simpleqa": [{"problem": "What is the capital of France?", "answer": "Paris"}],
    "triviaqa": [
        {
            "question": "What is the capital of France?",
            "question_id": "own_1",
            "answer": {"value": "Paris", "aliases": ["City of Light", "Paris"]},
        }
    ],
}
ANSWERS = {
    "humaneval": ("def square(x):\n    return x ** 2", "def square(x):\n    return 9 * x"),
    "mbpp": ("def square(x):\n    return x ** 2", "def square(x):\n    return 3 * x"),
    "simpleqa": ("paris", None),
    "triviaqa": ("city of light", None),
}


@pytest.mark.parametrize("name", list(ROWS))
def test_benchmarks_of_code_and_free_text_are_known_by_name(
    pool: GradingPool, tmp_path: Path, name: str
) -> None:
    """Rows as published are read, with a grader that tells a right answer from a wrong one; hidden
    tests are no part of the question."""
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]), encoding="utf-8")
    source = BenchmarkSource(name=name, path=str(path), limit=1)
    (item,) = load(source).items
    right, wrong = ANSWERS[name]

    verdicts = pool.grade_many([(item.gold, right), (item.gold, wrong)], settings=source.graded_by)
    assert verdicts == [RIGHT, WRONG]
    assert "candidate(3)" not in item.text
    assert "square(-2)" not in item.text


async def test_a_chain_of_programs_is_graded_round_by_round(
    pool: GradingPool, tmp_path: Path
) -> None:
    """The code of each reply is its answer in the journal, and hidden tests judge each round."""
    bodies = ("x + x", "x * x", "x ** 3")

    class Coding(ScriptedGenerator):
        async def call(self, call: Any) -> Any:
            made = await super().call(call)
            body = bodies[call.request.round]
            assert "check(square)" not in call.request.messages[-1].content
            code = f"def square(x):\n    return {body}"
            return dataclasses.replace(made, text=f"Here:\n```python\n{code}\n```\n")

    async def judge(gold: str, completion: Completion, grader: GraderSettings) -> str:
        return await pool.grade(gold, completion.answer, settings=grader)

    chains, _ = make_chains(tmp_path, Coding())
    chains._grade = judge
    row = await chains.run(dataclasses.replace(make_work(gold=TESTS), grader=CODE))

    assert row["round_verdicts"] == ["wrong", "right", "wrong"]
    assert read(tmp_path)["answer"].to_pylist() == [
        f"def square(x):\n    return {body}" for body in bodies
    ]
