"""The benchmarks that are known by name: where they are, and which fields of their rows hold what.

Five are those of the paper, each at a pinned commit and with its number of rows checked. Of the
others the columns are known as they are published, so that a downloaded file can be read as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.answers.graders import MATH, GraderSettings
from pipeline.benchmarks.fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One benchmark as published on Hugging Face."""

    rows: int
    """How many the split has; checked where the commit is pinned."""
    dataset: str
    config: str | None = None
    split: str = "test"
    revision: str | None = None
    """The commit that is read; None reads the newest."""
    grader: GraderSettings = MATH
    mappings: tuple[Fields, ...] = (Fields(),)
    """Forms in which its rows circulate; the first whose names a row has is meant."""


_OPTIONS = Fields(question="question", answer="correct", choices="options", answer_is="letter")
_GPQA = Fields(
    question="Question",
    answer="Correct Answer",
    id="Record ID",
    subject="High-level domain",
    choices=(
        "Correct Answer",
        "Incorrect Answer 1",
        "Incorrect Answer 2",
        "Incorrect Answer 3",
    ),
    answer_is="text",
    shuffle=True,
)

_UNIT_TESTS = GraderSettings(kind="command")
_TEXT = GraderSettings(kind="text")
_COMPLETE = (
    "Complete the following Python function. Answer with the whole function in one code block."
    "\n\n```python\n{prompt}\n```"
)
_WRITE = "{text}\n\nAnswer with Python code in one code block. It must pass:\n{test_list.0}"
_WRITE_SANITIZED = _WRITE.replace("{text}", "{prompt}")

KNOWN: dict[str, Known] = {
    "math500": Known(
        rows=500,
        dataset="HuggingFaceH4/MATH-500",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    ),
    "gsm8k": Known(
        rows=1319,
        dataset="openai/gsm8k",
        config="main",
        revision="740312add88f781978c0658806c59bc2815b9866",
    ),
    "aime24": Known(
        rows=30,
        dataset="HuggingFaceH4/aime_2024",
        split="train",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
    ),
    "aime25": Known(
        rows=30,
        dataset="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
    ),
    "amc23": Known(
        rows=40,
        dataset="math-ai/amc23",
        revision="80815d37005feb82cd7f8fbc6901d5d3eff43057",
    ),
}
"""The benchmarks of the paper."""

PUBLISHED: dict[str, Known] = {
    "svamp": Known(
        rows=300,
        dataset="ChilleD/SVAMP",
        mappings=(
            Fields(question="{Body} {Question}", answer="Answer", id="ID", subject="Type"),
            Fields(question="{body} {question}", answer="answer"),
        ),
    ),
    "asdiv": Known(
        rows=2305,
        dataset="EleutherAI/asdiv",
        split="validation",
        mappings=(
            Fields(question="{body} {question}", answer="answer", subject="solution_type"),
            Fields(question="{Body} {Question}", answer="Answer"),
        ),
    ),
    "mawps": Known(
        rows=520,
        dataset="MU-NLPC/Calc-mawps",
        mappings=(
            Fields(question="question", answer="result", id="id"),
            Fields(question="sQuestion", answer="lSolutions", id="iIndex"),
            Fields(question="input", answer="target"),
        ),
    ),
    "minerva-math": Known(
        rows=272,
        dataset="math-ai/minervamath",
        mappings=(
            Fields(question="question", answer="answer"),
            Fields(question="problem", answer="answer"),
            Fields(question="problem", answer="solution"),
        ),
    ),
    "olympiadbench": Known(
        rows=674,
        dataset="Hothan/OlympiadBench",
        config="OE_TO_maths_en_COMP",
        split="train",
        mappings=(
            Fields(
                question="{context?} {question}",
                answer="final_answer",
                id="id",
                subject="subfield",
                unit="unit",
            ),
        ),
    ),
    "college-math": Known(
        rows=2818,
        dataset="di-zhang-fdu/College_Math_Test",
        mappings=(
            Fields(question="question", answer="answer", subject="data_topic"),
            Fields(question="question", answer="answer"),
            Fields(question="problem", answer="answer"),
        ),
    ),
    "gaokao-en": Known(
        rows=385,
        dataset="MARIO-Math-Reasoning/Gaokao2023-Math-En",
        split="train",
        mappings=(Fields(question="question", answer="answer"),),
    ),
    "aqua": Known(rows=254, dataset="deepmind/aqua_rat", config="raw", mappings=(_OPTIONS,)),
    "mmlu-stem": Known(
        rows=3153,
        dataset="TIGER-Lab/MMLU-STEM",
        mappings=(Fields(question="question", answer="answer", choices="choices"),),
    ),
    "mmlu-pro": Known(
        rows=12_032,
        dataset="TIGER-Lab/MMLU-Pro",
        mappings=(
            Fields(
                question="question",
                answer="answer",
                id="question_id",
                subject="category",
                choices="options",
                answer_is="letter",
            ),
        ),
    ),
    "humaneval": Known(
        rows=164,
        dataset="openai/openai_humaneval",
        grader=_UNIT_TESTS,
        mappings=(
            Fields(question=_COMPLETE, answer="{test}\n\ncheck({entry_point})", id="task_id"),
        ),
    ),
    "mbpp": Known(
        rows=500,
        dataset="google-research-datasets/mbpp",
        grader=_UNIT_TESTS,
        mappings=(
            Fields(question=_WRITE, answer="{test_setup_code?}\n{test_list}", id="task_id"),
            Fields(question=_WRITE_SANITIZED, answer="{test_list}", id="task_id"),
        ),
    ),
    "simpleqa": Known(
        rows=4326,
        dataset="basicv8vc/SimpleQA",
        grader=_TEXT,
        mappings=(Fields(question="problem", answer="answer"),),
    ),
    "triviaqa": Known(
        rows=17_944,
        dataset="mandarjoshi/trivia_qa",
        config="rc.nocontext",
        split="validation",
        grader=_TEXT,
        mappings=(Fields(question="question", answer="answer", id="question_id"),),
    ),
    "gpqa": Known(
        rows=198,
        dataset="Idavidrein/gpqa",
        config="gpqa_diamond",
        split="train",
        mappings=(_GPQA,),
    ),
}
"""Others by name."""

_ALIASES = {"gaokao2023en": "gaokao-en", "aquarat": "aqua", "gpqadiamond": "gpqa"}
_BY_LETTERS = {name.replace("-", ""): name for name in KNOWN | PUBLISHED} | _ALIASES


def known_of(name: str) -> Known | None:
    """The benchmark of a name, whatever its case and whether ``-`` or ``_`` joins its words."""
    letters = re.sub(r"[\W_]", "", name).lower()
    return (KNOWN | PUBLISHED).get(_BY_LETTERS.get(letters, ""))
