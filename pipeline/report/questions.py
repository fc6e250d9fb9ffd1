"""*Questions*: reads every chain of a question round by round, for the report, the terminal and the
API: answers, scores, beliefs, and why the chain stopped."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.answers.answer_rules import OwnRule, apply
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Completion, Pool, Stop, StopReason
from pipeline.core.text import visible
from pipeline.records.journal import counting, sound
from pipeline.records.outcome import counted_verdict
from pipeline.records.run_dir import RunDir
from pipeline.records.trajectory import Row, Seen
from pipeline.report import words
from pipeline.report.run_data import Cell, RunData, right_of
from pipeline.theory.markov import stationary_accuracy
from pipeline.theory.stopping import why_stopped
from pipeline.theory.transitions import QuestionKey

MOST_QUESTIONS = 300
"""That a report holds with their chains by default."""
MOST_BYTES = 8_000_000
MOST_CHARS = 6_000
"""Of a completion's text in a report."""

_BATCH = 200  # questions whose completions are held at once
_WANTED = ("strategy", "benchmark", "question_id", "pool", "chain", "round", "sample", "text",
           "finish_reason", "prm_truncated", "error", "seconds")  # fmt: skip
_MARKS = {"right": "✓", "wrong": "✗", "ungraded": "?"}

Texts = Mapping[tuple[str, str, str, str], Sequence[Row]]
"""Completions by (run, strategy label, benchmark, question_id)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One question with its outcomes."""

    number: int
    """Its place in the run, from 1."""
    question: Seen
    outcomes: tuple[tuple[Cell, Seen], ...]
    """Of every cell that has answered it."""

    @property
    def key(self) -> QuestionKey:
        """(benchmark, question_id)."""
        return (self.question["benchmark"], self.question["question_id"])

    @property
    def interest(self) -> int:
        """How much there is to see: trouble, then strategies that differ, then the rest."""
        rights = [right_of(row, cell.rule) for cell, row in self.outcomes]
        if any(row["error"] is not None for _, row in self.outcomes) or None in rights:
            return 2
        return int(len(set(rights)) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """One chain of a question; lists have one entry per completion, in request order."""

    strategy: str
    verdict: str
    """``right``, ``wrong``, ``ungraded`` or ``none``, by the headline rule."""
    stop: str
    completions: int
    tokens: int
    """Completion tokens."""
    marks: str
    """Verdict of each completion: ✓, ✗, ? or –."""
    why: str
    """Why it stopped, with the numbers that decided."""
    rule: str
    answer: str | None
    chosen: int | None
    """Position of the answer; None where it cannot be said."""
    names: list[str]
    answers: list[str | None]
    scores: list[float | None]
    beliefs: list[float]
    """p_MAP by round; shorter where the strategy has no belief."""
    round_tokens: list[int | None]
    texts: list[str]
    """[] where the journal does not have them."""
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """One question with all its chains, as the report shows it."""

    number: int
    benchmark: str
    question_id: str
    text: str
    gold: str | None
    level: str | None
    subject: str | None
    chains: list[ChainView]

    def __str__(self) -> str:
        return self.written()

    def written(self, *, texts: bool = False) -> str:
        """All of it as text; with the completions, if they are wanted."""
        known = (("level", self.level), ("subject", self.subject), ("gold answer", self.gold))
        lines = [
            f"{self.benchmark}, question {self.question_id} (number {self.number})",
            *(f"{name}: {value}" for name, value in known if value is not None),
            self.text,
        ]
        for chain in self.chains:
            lines += ["", *_chain_lines(chain, texts)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from pipeline.report.html import h

        return h("pre", str(self), style="white-space: pre-wrap")


def entries_of(runs: Sequence[RunData]) -> list[Entry]:
    """Every question that a strategy of any run has answered, in order of the runs."""
    questions: dict[QuestionKey, Seen] = {}
    for run in runs:
        for key, row in run.questions.items():
            questions.setdefault(key, row)
    outcomes: dict[QuestionKey, list[tuple[Cell, Seen]]] = {}
    for run in runs:
        for cell in run.cells:
            for key, row in cell.by_question.items():
                outcomes.setdefault(key, []).append((cell, row))
    return [
        Entry(number=number, question=row, outcomes=tuple(outcomes[key]))
        for number, (key, row) in enumerate(questions.items(), 1)
        if key in outcomes
    ]


def most_telling(entries: Sequence[Entry], most: int) -> list[Entry]:
    """The entries with most to see, in their order."""
    chosen = sorted(entries, key=lambda entry: -entry.interest)[:most]
    return sorted(chosen, key=lambda entry: entry.number)


def find(entries: Sequence[Entry], name: str) -> Entry:
    """The entry of an id, of ``BENCHMARK/ID``, or of a place from 1.

    Raises:
        ConfigError: where it is none of them, naming the nearest ids.
    """
    for entry in entries:
        if name in (entry.key[1], "/".join(entry.key)):
            return entry
    by_place = {str(entry.number): entry for entry in entries}
    if name in by_place:
        return by_place[name]
    near = difflib.get_close_matches(name, [entry.key[1] for entry in entries], 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    most = max((entry.number for entry in entries), default=0)
    raise ConfigError(
        f"a question must be an id, BENCHMARK/ID or a place from 1 to {most}, got {name!r}{hint}"
    )


def views_of(
    runs: Sequence[RunData], entries: Sequence[Entry], most_chars: int
) -> Iterator[QuestionView]:
    """Entries with the texts of their completions, which are read a batch at a time."""
    for start in range(0, len(entries), _BATCH):
        batch = entries[start : start + _BATCH]
        keys = {entry.key for entry in batch}
        texts: Texts = {
            (run.run_id, *key): rows
            for run in runs
            for key, rows in completions_of(run.run, keys, most_chars=most_chars).items()
        }
        for entry in batch:
            yield _view(entry, texts)


def browser_data(runs: Sequence[RunData], entries: Sequence[Entry], most: int) -> dict[str, Any]:
    """Data of the report's chain browser: of every question how its chains ended, and of the most
    telling ones all of it.

    Args:
        runs: of the report.
        entries: of `entries_of`.
        most: questions with their chains, as long as they fit into `MOST_BYTES`.
    """
    full: dict[int, dict[str, Any]] = {}
    size = 0
    for view in views_of(runs, most_telling(entries, most), MOST_CHARS):
        found = asdict(view)
        size += sum(len(text.encode()) for chain in view.chains for text in chain.texts) + 400
        size += 60 * sum(len(chain.names) for chain in view.chains)
        if size > MOST_BYTES:
            break
        full[view.number] = found
    return {
        "cells": list(dict.fromkeys(cell.name for e in entries for cell, _ in e.outcomes)),
        "questions": [full.get(entry.number) or _listed(entry) for entry in entries],
        "within": len(full),
    }


def completions_of(
    run: RunDir, questions: Collection[tuple[str, str]], *, most_chars: int
) -> dict[tuple[str, str, str], list[Row]]:
    """Recorded completions of (benchmark, question_id) pairs, in order of chain, round and sample.

    Segments are read one by one; those that do not count or are torn are left out. Of several
    records of one address the first counts, a failure only where nothing else was recorded. Each
    text is cut in its middle to `most_chars`.

    Returns:
        Rows by (strategy label, benchmark, question_id).
    """
    ids = pa.array(sorted({question for _, question in questions}), type=pa.string())
    wanted = set(questions)
    found: dict[tuple[str, str, str], dict[tuple[int, int, int, str], Row]] = {}
    for _, table in sound(run.journal, counting(run.journal), corrupt=[]):
        chosen = table.filter(pc.is_in(table["question_id"], value_set=ids)).select(list(_WANTED))
        for row in chosen.to_pylist():
            if (row["benchmark"], row["question_id"]) not in wanted:
                continue
            rows = found.setdefault((row["strategy"], row["benchmark"], row["question_id"]), {})
            address = (row["chain"], row["round"], row["sample"], row["pool"])
            if address not in rows or rows[address]["error"] is not None:
                rows[address] = {**row, "text": cut(row["text"] or "", most_chars)}
    return {key: [rows[address] for address in sorted(rows)] for key, rows in found.items()}


def cut(content: str, most_chars: int) -> str:
    """A text without its middle where it is longer than `most_chars`; the end matters most."""
    if len(content) <= most_chars:
        return content
    head = most_chars // 3
    left_out = len(content) - most_chars
    return (
        f"{content[:head]}\n\n[… {left_out:,} characters left out; the journal has them …]\n\n"
        f"{content[len(content) - (most_chars - head) :]}"
    )


def why(cell: Cell, row: Seen) -> str:
    """Why a chain stopped, with the numbers that decided it."""
    drawn, path = row["completions"], row["posterior_path"]
    after = words.plural(drawn, "completion")
    match StopReason(row["stop_reason"]):
        case StopReason.FAILED:
            return f"Failed: {row['error'] or 'a completion could not be had'}."
        case StopReason.GATED:
            if None in (row["p0"], row["a"], row["b"]):
                return f"Gated after {after}."
            margin = getattr(cell.strategy, "sigma", 0.0)
            limit = stationary_accuracy(row["a"], row["b"])
            return (
                f"Gated after {after}: p0 = {words.decimal(row['p0'])} ({row['p0_source']}) is not "
                f"below L + σ = {words.decimal(limit + margin)}, so further rounds are not "
                f"expected to help (Theorem 1)."
            )
        case StopReason.CONFIDENT:
            known = cell.kind in ("markovscale_star", "markovscale_0") and path
            if not known or None in (row["a"], row["b"]):  # confident in a way of its own
                return f"Confident after {after}."
            a, b = row["a"], row["b"]
            rule = why_stopped(cell.strategy, path, a=a, b=b, number=words.decimal)
            return f"Confident after {after}: {rule}."
        case StopReason.AGREED:
            return f"The samples agreed after {after}."
        case StopReason.BUDGET:
            ended = f", with a belief of p_MAP = {words.decimal(path[-1])}" if path else ""
            return f"The budget of {after} was spent{ended}."
        case StopReason.FINISHED:
            return f"The method's own steps were done, {after} in all."
        case other:
            assert_never(other)


def _view(entry: Entry, texts: Texts) -> QuestionView:
    benchmark, question_id = entry.key
    row = entry.question
    known = {name: row[name] and visible(row[name]) for name in ("gold", "level", "subject")}
    return QuestionView(
        number=entry.number,
        benchmark=benchmark,
        question_id=visible(question_id),
        text=visible(row["text"]),
        **known,
        chains=[
            _chain(cell, row, texts.get((cell.run, cell.label, *entry.key), ()))
            for cell, row in entry.outcomes
        ],
    )


def _listed(entry: Entry) -> dict[str, Any]:
    """What the list shows of a question whose chains are left out."""
    chains = [
        {
            "strategy": cell.name,
            "verdict": counted_verdict(row, cell.rule) or "none",
            "stop": row["stop_reason"],
            "completions": row["completions"],
            "marks": _marks(row),
        }
        for cell, row in entry.outcomes
    ]
    benchmark, question_id = entry.key
    title = visible(entry.question["text"][:200])
    return {"number": entry.number, "benchmark": benchmark, "question_id": visible(question_id),
            "text": title, "chains": chains}  # fmt: skip


def _chain(cell: Cell, row: Seen, completions: Sequence[Seen]) -> ChainView:
    rounds = len(row["round_answers"])
    recorded = completions if len(completions) == rounds else ()
    path = row["posterior_path"]
    answer = row[f"answer_{cell.rule.value}"]
    return ChainView(
        strategy=cell.name,
        verdict=counted_verdict(row, cell.rule) or "none",
        stop=row["stop_reason"],
        completions=row["completions"],
        tokens=row["completion_tokens"],
        marks=_marks(row),
        why=visible(why(cell, row)),
        rule=cell.rule.value,
        answer=answer and visible(answer),
        chosen=chosen_position(cell, row),
        names=[
            f"{'sample' if recorded and recorded[r]['pool'] == Pool.PARALLEL else 'round'} {r}"
            for r in range(rounds)
        ],
        answers=[each and visible(each) for each in row["round_answers"]],
        scores=[score if score is None else round(score, 4) for score in row["round_scores"]],
        beliefs=[round(belief, 4) for belief in path],
        round_tokens=list(row["round_tokens"]),
        texts=[visible(each["error"] or each["text"] or "") for each in recorded],
        notes=[_note(each) for each in recorded],
    )


def _note(recorded: Seen) -> str:
    if recorded["error"] is not None:
        return "failed"
    notes = [recorded["finish_reason"]] if recorded["finish_reason"] != "stop" else []
    notes += ["leading steps dropped for the verifier"] if recorded["prm_truncated"] else []
    return ", ".join(map(str, notes))


def _marks(row: Seen) -> str:
    return "".join(_MARKS.get(verdict or "", "–") for verdict in row["round_verdicts"])


def chosen_position(cell: Cell, row: Seen) -> int | None:
    """Position of the answer under the headline rule, None where it cannot be said; the code of a
    user's own rule is not run: it may not be installed here."""
    if isinstance(cell.rule, OwnRule):
        answer = row[f"answer_{cell.rule}"]
        same = [i for i in row["stop_rounds"] if row["round_answers"][i] == answer]
        return same[0] if len(same) == 1 else None
    drawn = [
        Completion(text="", answer=answer, score=score)
        for answer, score in zip(row["round_answers"], row["round_scores"], strict=True)
    ]
    stop = Stop(reason=StopReason(row["stop_reason"]), rounds=tuple(row["stop_rounds"]))
    found = apply(cell.rule, drawn, stop)
    if found is None or found.answer != row[f"answer_{cell.rule.value}"]:
        return None
    return found.position


def _chain_lines(chain: ChainView, texts: bool) -> list[str]:
    """A chain for the terminal."""
    lines = [
        f"{chain.strategy}: {chain.verdict}, answer {chain.answer or 'none'} by {chain.rule}, "
        f"{chain.tokens:,} tokens",
        f"  {chain.why}",
    ]
    for r, name in enumerate(chain.names):
        parts = [f"  {'*' if r == chain.chosen else ' '} {name:9s} {chain.marks[r]}"]
        parts.append(f"{chain.answers[r] or 'none':12s}")
        if chain.scores[r] is not None:
            parts.append(f"score {words.decimal(chain.scores[r])}")
        if r < len(chain.beliefs):
            parts.append(f"p_MAP {words.decimal(chain.beliefs[r])}")
        parts.append(f"{words.count(chain.round_tokens[r])} tokens")
        if chain.notes and chain.notes[r]:
            parts.append(f"({chain.notes[r]})")
        lines.append("  ".join(parts))
        if texts and chain.texts:
            lines += [f"      | {line}" for line in chain.texts[r].splitlines()]
    return lines
