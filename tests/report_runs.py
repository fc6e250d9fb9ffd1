"""Run directories for tests of what people look at: made up, and marked as such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.core.protocol import Completion, Failure, Observation, Pool, Question, Request
from pipeline.core.seeds import question_seed
from pipeline.records.outcome import SCHEMA as OUTCOMES
from pipeline.records.outcome import outcome_of
from pipeline.records.questions import SCHEMA as QUESTIONS
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import Row, row_of
from pipeline.replay.exact import replay_phases

P0, A, B = 0.6, 0.06, 0.3
STRATEGIES = ("base", "mr_thinking", "markovscale_t", "markovscale_star", "markovscale_0")


def made_up_config(
    folder: Path,
    *,
    strategies: Sequence[Any] = STRATEGIES,
    n: int = 8,
    benchmarks: Sequence[str] = ("made-up",),
    generator: str = "made-up/small",
    scripted: bool = True,
) -> RunConfig:
    """The configuration of a run that nothing ran."""
    return RunConfig.parse(
        {
            "name": "made-up",
            "science": {
                "benchmarks": [{"name": name, "path": "questions.jsonl"} for name in benchmarks],
                "strategy": {"n": n},
                "strategies": list(strategies),
                "priors": {"a": A, "b": B},
                "generator": {"model": generator},
                "verifier": {"model": "made-up/verifier"},
            },
            "runtime": {"runs": str(folder), "scripted": {} if scripted else None},
        }
    )


class MadeUp:
    """Answers requests as a two-state chain would, the same answer for the same request."""

    def __init__(
        self,
        *,
        chain: tuple[float, float, float] = (P0, A, B),
        replies: Mapping[str, str] | None = None,
        failing: Iterable[str] = (),
        rounds: int = 64,
    ) -> None:
        self._p0, self._a, self._b = chain
        self._replies, self._failing = replies or {}, frozenset(failing)
        self._rounds = rounds

    def right(self, question: Question, request: Request) -> bool:
        """Whether the answer to a request is right."""
        rng = np.random.default_rng([question.seed, request.chain])
        ease = rng.beta(self._p0 * 6, (1 - self._p0) * 6)
        if request.pool is Pool.PARALLEL:
            return bool(np.random.default_rng([question.seed, 7, request.sample]).random() < ease)
        state = rng.random() < ease
        for move in rng.random(self._rounds)[: request.round]:
            state = move >= self._a if state else move < self._b
        return bool(state)

    def __call__(self, question: Question, request: Request) -> Observation:
        """What the engines return."""
        if question.question_id in self._failing and request.round == 1:
            return Failure(error="EngineDeadError: the replica was lost", completion_tokens=None)
        right = self.right(question, request)
        rng = np.random.default_rng([question.seed, request.round, request.sample, 3])
        score = float(np.clip(rng.normal(0.85 if right else 0.45, 0.2), 0, 1))
        tokens = int(rng.integers(40, 120))
        answer = "42" if right else str(int(rng.integers(1, 9)))
        text = self._replies.get(question.question_id, "Step one.\n\nStep two.")
        return Completion(
            text=f"<think>{text}</think>\n\nSo \\boxed{{{answer}}}",
            answer=answer,
            score=score,
            step_scores=(score,),
            prompt_tokens=30,
            cached_prompt_tokens=16,
            completion_tokens=tokens,
            thinking_tokens=tokens // 2,
            verifier_tokens=tokens + 20,
        )


def question_rows(
    number: int, benchmarks: Sequence[str], *, gold: str | None = "42", ids: Sequence[str] = ()
) -> list[Row]:
    """Questions of each benchmark; `ids` names the first ones."""
    rows = []
    for benchmark in benchmarks:
        for i in range(number):
            question_id = ids[i] if i < len(ids) else f"q{i}"
            row = dict.fromkeys(QUESTIONS.names)
            row.update(
                benchmark=benchmark,
                question_id=question_id,
                text=f"What is 6 times 7, asked for the {i}th time?",
                gold=gold,
                seed=question_seed(0, benchmark, question_id),
                a=A,
                b=B,
            )
            rows.append(row)
    return rows


def write_run(
    config: RunConfig,
    name: str,
    rows: Sequence[Row],
    engine: Callable[[Question, Request], Observation] | None = None,
    *,
    done: int | None = None,
    metrics: bool = True,
) -> RunDir:
    """A run directory as a finished run leaves it, or a run stopped after `done` outcomes."""
    engine = engine or MadeUp()
    run = RunDir.create(config, name)
    run.folder.write_table("questions.parquet", pa.Table.from_pylist(list(rows), schema=QUESTIONS))
    gold = {(row["benchmark"], row["question_id"]): row["gold"] for row in rows}
    outcomes: list[Row] = []
    journal: list[Row] = []
    for label, strategy in strategies_of(config.science).items():
        phase = strategy.phases()[-1].name
        for source in config.science.benchmarks:
            asked = [question_of(row) for row in rows if row["benchmark"] == source.name]
            played = replay_phases(strategy, asked, engine)
            for question in asked:
                end = played[question.question_id]
                truth = gold[question.benchmark, question.question_id]
                verdicts = [_verdict(truth, o) for o in end.completions]
                outcomes.append(
                    outcome_of(
                        run=name,
                        attempt=1,
                        strategy=label,
                        phase=phase,
                        benchmark=question.benchmark,
                        question_id=question.question_id,
                        level=None,
                        stop=end.stop,
                        observations=end.completions,
                        verdicts=verdicts,
                        wasted_tokens=3,
                        seconds=1.5,
                    )
                )
                journal += [
                    row_of(
                        run=name,
                        attempt=1,
                        strategy=label,
                        question=question,
                        request=request,
                        observation=told,
                        generator="made-up/small",
                        seconds=0.1,
                    )
                    for request, told in zip(end.requests, end.completions, strict=True)
                ]
    half = len(journal) // 2
    for sequence, part in enumerate((journal[:half], journal[half:])):
        write_segment(run.journal, Epoch(1, "abcdef", 0, "w", 1), sequence, part)
    table = pa.Table.from_pylist(outcomes[:done], schema=OUTCOMES)
    run.folder.child("outcomes", "phase-0").write_table("part-0.parquet", table)
    if metrics:
        run.write_metrics(metric_rows(outcomes[:done], config.science.strategies))
    return run


def metric_rows(outcomes: Sequence[Row], strategies: Sequence[Any]) -> list[Row]:
    """Twelve rows of counters, ten seconds apart, that end where the outcomes do."""
    rows = []
    for tick in range(1, 13):
        share = tick / 12
        part = outcomes[: round(len(outcomes) * share)]
        stops: dict[str, int] = {}
        for outcome in part:
            stops[outcome["stop_reason"]] = stops.get(outcome["stop_reason"], 0) + 1
        rounds = sum(outcome["completions"] for outcome in part)
        rows.append(
            {
                "rounds": rounds,
                "recorded": 0,
                "completion_tokens": sum(outcome["completion_tokens"] for outcome in part),
                "verifier_tokens": 0,
                "wasted_tokens": 0,
                "in_flight": 12 - tick,
                "waiting": 24 - 2 * tick,
                "stops": stops,
                "verdicts": {},
                "last_error": None,
                "time": 1_700_000_000.0 + 10 * tick,
                "attempt": 1,
                "phase": 0,
                "chains": len(outcomes),
                "chains_stopped": len(part),
                "phase_seconds": 10.0 * tick,
                "engines": {
                    "generator": [
                        {
                            "replica": "g0",
                            "running": 8,
                            "max_num_seqs": 16,
                            "up_s": 10.0 * tick,
                            "busy_s": 9.0 * tick,
                            "slot_s": 7.0 * tick,
                        }
                    ],
                    "verifier": [
                        {
                            "replica": "v0",
                            "running": 1,
                            "max_num_seqs": 16,
                            "up_s": 10.0 * tick,
                            "busy_s": 4.0 * tick,
                            "slot_s": 2.0 * tick,
                        }
                    ],
                },
            }
        )
    return rows


def _verdict(gold: str | None, observation: Observation) -> str | None:
    if gold is None or isinstance(observation, Failure):
        return None
    return "right" if observation.answer == gold else "wrong"
