"""The independent count after a run that was disturbed: what should have come out, and what did.

It uses neither resume nor fold nor the engines' meters: every chain is computed anew, by its
strategy and the rules of the scripted engines, in this process; journal and outcomes are read as
plain tables; and the logs that generators left on disk say what was made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors.engines.scripted import reply, rows
from benchmarks.journals import read_journal
from pipeline.answers import extract
from pipeline.config.runtime import Script
from pipeline.config.strategies import strategies_of
from pipeline.core import prm
from pipeline.core.protocol import Completion, Question, Request
from pipeline.records.questions import question_of
from pipeline.records.run_dir import RunDir, rows_of
from pipeline.replay.exact import drive


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The account of a run. `lost`, `duplicated`, `invented` and `different` must be 0."""

    chains: int
    rounds: int
    lost: int
    """Chains without an outcome, and rounds of an outcome that the journal lacks."""
    duplicated: int
    """Outcomes and rounds that count twice."""
    different: int
    """Chains whose answers, scores, tokens or stop are not those of an undisturbed run."""
    invented: int
    """Journaled rounds that no engine says it made."""
    redone: int
    """Completions that engines made beyond the rounds that count."""
    engine_tokens: int
    """Completion tokens that the engines say they made."""
    journaled_tokens: int
    """Of those, what stands in the journal, work that does not count included."""
    unjournaled_tokens: int
    """The rest: cut in the middle, or died with a process before they were durable."""

    @property
    def right(self) -> bool:
        """Whether nothing is lost, doubled, made up or otherwise decided."""
        return not (self.lost or self.duplicated or self.different or self.invented)

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)


def undisturbed(strategy: Any, question: Question, script: Script) -> dict[str, Any]:
    """What a chain comes to when nothing happens to it."""

    def answer(request: Request) -> Completion:
        prompt = "\n".join(turn.content for turn in request.messages)
        text, tokens = reply(prompt, request.seed, script)
        scores = prm.step_scores(
            rows(question.text, text, None), len(rows(question.text, text, None))
        )
        return Completion(
            text=text,
            answer=extract(text),
            completion_tokens=tokens,
            step_scores=scores,
            score=prm.aggregate(scores, "mean"),
        )

    played = drive(strategy, question, answer)
    made = [c for c in played.completions if isinstance(c, Completion)]
    return {
        "stop_reason": played.stop.reason.value,
        "round_answers": [c.answer for c in made],
        "round_scores": [c.score for c in made],
        "round_tokens": [c.completion_tokens for c in made],
    }


def count(run: RunDir, witness: Path) -> Count:
    """Count a finished run of strategies of one phase each on scripted engines."""
    config = run.config()
    script = config.runtime.scripted or Script()
    questions = rows_of(run.folder.read_table("questions.parquet"))
    outcomes = rows_of(run.outcomes())
    journal = read_journal(run.journal)
    found = {(o["strategy"], o["benchmark"], o["question_id"]): o for o in outcomes}
    places = Counter(
        (r["strategy"], r["benchmark"], r["question_id"], r["pool"], r["chain"], r["round"],
         r["sample"])
        for r in rows_of(journal.table.drop_columns(["text"]))
    )  # fmt: skip
    lost, different = 0, 0
    for label, strategy in strategies_of(config.science).items():
        (phase,) = strategy.phases()
        for row in questions:
            outcome = found.get((label, row["benchmark"], row["question_id"]))
            if outcome is None:
                lost += 1
                continue
            should = undisturbed(phase.strategy, question_of(row), script)
            different += any(outcome[name] != value for name, value in should.items())
            key = (label, row["benchmark"], row["question_id"], "sequential", 0)
            lost += sum((*key, r, 0) not in places for r in range(len(outcome["round_tokens"])))
    made = logged_generations(str(witness))
    left = Counter(made)
    everything = rows_of(journal.table) + rows_of(journal.discarded)
    invented = 0
    for row in everything:
        entry = (row["seed"], row["completion_tokens"])
        invented += left[entry] <= 0
        left[entry] -= 1
    engine_tokens = sum(tokens for _, tokens in made)
    journaled = sum(row["completion_tokens"] or 0 for row in everything)
    return Count(
        chains=len(found),
        rounds=sum(places.values()),
        lost=lost,
        duplicated=len(outcomes) - len(found) + sum(places.values()) - len(places),
        different=different,
        invented=invented,
        redone=len(made) - sum(places.values()),
        engine_tokens=engine_tokens,
        journaled_tokens=journaled,
        unjournaled_tokens=engine_tokens - journaled,
    )


def logged_generations(folder: str) -> list[tuple[int, int]]:
    """(seed, tokens) of everything that all generators of a folder made."""
    files = sorted(Path(folder).glob("*.txt"))
    lines = [line.split() for path in files for line in path.read_bytes().splitlines()]
    return [(int(seed), int(tokens)) for seed, tokens in lines]
