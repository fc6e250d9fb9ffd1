"""A pool of made-up chains on disk, as large as is asked for. No model made it: synthetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.config.science import ScienceConfig
from pipeline.core.protocol import Completion, Observation, Question, Request
from pipeline.core.seeds import question_seed
from pipeline.records.questions import SCHEMA as QUESTION_SCHEMA
from pipeline.records.trajectory import Row, row_of, table_of
from pipeline.replay.exact import drive
from pipeline.replay.pool_rows import POOL_TABLE
from pipeline.replay.pools import POOL_VERSION
from pipeline.store.storage import Folder
from pipeline.strategies.self_consistency import SelfConsistency
from pipeline.strategies.sequential import MRThinking

BENCHMARKS = {"math500": 500, "gsm8k": 1319, "aime24": 30, "aime25": 30, "amc23": 40}
"""Sizes of the paper's benchmarks: 1,919 questions."""


def write_synthetic_pool(
    address: str, *, questions: int = 1_919, rounds: int = 64, samples: int = 0, seed: int = 0
) -> int:
    """Write an exported pool; returns its rows.

    Each question has a difficulty of its own: p0, a and b are drawn around 0.6, 0.06 and 0.3, and
    the verifier's score is right more often than not.
    """
    folder = Folder(address)
    rng = np.random.default_rng(seed)
    names = [name for name, size in BENCHMARKS.items() for _ in range(size)]
    every = len(names) / questions
    rows: list[Row] = []
    described: list[Row] = []
    for number in range(questions):
        benchmark = names[int(number * every)]
        question = Question(
            benchmark=benchmark,
            question_id=str(number),
            text=f"What is {number} + {number}? Explain every step of the addition.",
            seed=question_seed(seed, benchmark, str(number)),
        )
        source = _Source(question, rng)
        if rounds:
            drive(MRThinking(n=rounds), question, source.answer)
        if samples:
            drive(SelfConsistency(n=samples), question, source.answer)
        rows += source.rows
        described.append(
            {
                **dict.fromkeys(QUESTION_SCHEMA.names),
                "benchmark": benchmark,
                "question_id": question.question_id,
                "text": question.text,
                "gold": str(2 * number),
                "seed": question.seed,
            }
        )
    folder.write_table("questions.parquet", pa.Table.from_pylist(described, schema=QUESTION_SCHEMA))
    folder.write_table(POOL_TABLE, table_of(rows))
    science = ScienceConfig.model_validate(
        {
            "benchmarks": [{"name": "arithmetic", "size": 1}],
            "strategies": [
                *([{"kind": "mr_thinking", "label": "sequential", "n": rounds}] if rounds else []),
                *(
                    [{"kind": "self_consistency", "label": "parallel", "n": samples}]
                    if samples
                    else []
                ),
            ],
            "generator": {"model": "synthetic"},
            "verifier": {"model": "synthetic"},
        }
    )
    folder.write_json(
        "pool.json",
        {
            "version": POOL_VERSION,
            "run": "synthetic",
            "synthetic": True,
            "science": science.model_dump(mode="json"),
        },
    )
    return len(rows)


class _Source:
    """Answers one question by a chain of its own and keeps the rows."""

    def __init__(self, question: Question, rng: np.random.Generator) -> None:
        self._question, self._rng = question, rng
        self._p0 = rng.beta(3, 2)
        self._a, self._b = rng.beta(1.2, 18), rng.beta(1.5, 3.5)
        self._right = False
        self.rows: list[Row] = []

    def answer(self, request: Request) -> Observation:
        """The next completion."""
        rng = self._rng
        if request.pool == "parallel" or request.round == 0:
            right = rng.random() < self._p0
        else:
            right = rng.random() < (1 - self._a if self._right else self._b)
        if request.pool == "sequential":
            self._right = right
        gold = 2 * int(self._question.question_id)
        score = float(rng.beta(8, 2) if right else rng.beta(3, 4))
        answer = str(gold if right else gold + int(rng.integers(1, 4)))
        completion = Completion(
            text=f"So it is \\boxed{{{answer}}}.",
            answer=answer,
            completion_tokens=int(rng.integers(200, 4_000)),
            step_scores=(score,),
            score=score,
        )
        row = row_of(
            run="synthetic",
            attempt=1,
            strategy=request.pool.value,
            question=self._question,
            request=request,
            observation=completion,
        )
        row["verdict"] = "right" if right else "wrong"
        self.rows.append(row)
        return completion


def with_priors(question: Question, *, p0: float, a: float, b: float) -> Question:
    """A question as a predictor would leave it."""
    priors = replace(question.priors, p0=p0, p0_source="predictor", a=a, b=b)
    return replace(question, priors=priors)
