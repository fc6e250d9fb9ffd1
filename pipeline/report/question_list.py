"""All questions as a list that a page can filter, and the pages of those that are looked into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.records.outcome import counted_verdict
from pipeline.records.trajectory import Seen
from pipeline.report.html import Html, h, script_json, visible
from pipeline.report.question_page import Shown, question_page
from pipeline.report.run_data import Cell, RunData, right_of
from pipeline.theory.transitions import QuestionKey

EMBEDDED_QUESTIONS = 300
EMBEDDED_BYTES = 8_000_000
FOLDER = "report-questions"
"""Beside the report: pages that it does not hold itself."""
EMBEDDED_CHARS = 6_000
"""Of a completion's text in the report, at most."""
FILE_CHARS = 200_000
"""The same in a page beside it."""

_TITLE_CHARS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One question of the list."""

    number: int
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
    answered = [(key, row) for key, row in questions.items() if key in outcomes]
    return [
        Entry(number=number, question=row, outcomes=tuple(outcomes[key]))
        for number, (key, row) in enumerate(answered)
    ]


def most_telling(entries: Sequence[Entry], most: int) -> list[Entry]:
    """The entries with most to see, in their order."""
    chosen = sorted(entries, key=lambda entry: -entry.interest)[:most]
    return sorted(chosen, key=lambda entry: entry.number)


Texts = Mapping[tuple[str, str, str, str], Sequence[Seen]]
"""Completions by (run, strategy label, benchmark, question_id)."""


def page_of(entry: Entry, texts: Texts) -> Html:
    """The page of an entry."""
    chains = [
        Shown(cell=cell, outcome=row, completions=texts.get((cell.run, cell.label, *entry.key), ()))
        for cell, row in entry.outcomes
    ]
    return question_page(entry.question, chains)


def question_section(
    entries: Sequence[Entry], embedded: Mapping[int, Html], files: Mapping[int, str]
) -> Html:
    """The list with its filter and pager, and the embedded pages as inert templates.

    Args:
        embedded: pages by number of their entry.
        files: addresses of pages beside the report, by number.
    """
    cells = list(dict.fromkeys(cell for entry in entries for cell, _ in entry.outcomes))
    places = {cell: place for place, cell in enumerate(cells)}
    data = {
        "cells": [{"name": cell.name, "benchmark": cell.benchmark} for cell in cells],
        "questions": [_listed(entry, places, entry.number in embedded, files) for entry in entries],
    }
    content = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return h(
        "div",
        h("p", _how_many(len(entries), len(embedded), len(files))),
        h("noscript", h("p", "The list of questions needs JavaScript; all else does not.")),
        h("div", id="question-list"),
        h("div", id="question-page", tabindex="-1", aria_live="polite"),
        h("script", script_json(content), type="application/json", id="question-data"),
        *(h("template", page, id=f"question-{number}") for number, page in embedded.items()),
    )


def _listed(
    entry: Entry, places: Mapping[Cell, int], embedded: bool, files: Mapping[int, str]
) -> list[object]:
    """[benchmark, id, title, address of the page, [cell, verdict, completions, stop reason]...]."""
    address = f"#question-{entry.number}" if embedded else files.get(entry.number)
    title = " ".join(visible(entry.question["text"][: 4 * _TITLE_CHARS]).split())[:_TITLE_CHARS]
    ends = [
        [
            places[cell],
            counted_verdict(row, cell.rule) or "none",
            row["completions"],
            row["stop_reason"],
        ]
        for cell, row in entry.outcomes
    ]
    return [entry.key[0], visible(entry.key[1]), title, address, ends]


def _how_many(questions: int, embedded: int, files: int) -> str:
    said = f"{questions:,} questions, {embedded:,} with their chains in this file"
    if files:
        said += f" and {files:,} in files beside it ({FOLDER}/)"
    left = questions - embedded - files
    if left:
        said += (
            f". The {left:,} others show how they ended; "
            f"`markovscale report RUN --questions all` writes a page for each"
        )
    return said + "."
