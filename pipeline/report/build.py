"""From runs to the files of a report: which questions it holds, and which lie beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.records.trajectory import Row
from pipeline.report.document import document
from pipeline.report.fronts import Row as FrontRow
from pipeline.report.html import Html, h
from pipeline.report.page import Report, report_page
from pipeline.report.paper_tables import PaperNumbers
from pipeline.report.question_list import (
    EMBEDDED_BYTES,
    EMBEDDED_CHARS,
    EMBEDDED_QUESTIONS,
    FILE_CHARS,
    FOLDER,
    Entry,
    entries_of,
    most_telling,
    page_of,
)
from pipeline.report.question_texts import completions_of
from pipeline.report.run_data import RunData
from pipeline.report.sweep import Row as SweepRow
from pipeline.store.storage import Folder

_BATCH = 200  # questions whose completions are held at once

Pages = Iterator[tuple[str, bytes]]
"""Name and content of files beside the report, made as they are taken."""


def build(
    runs: Sequence[RunData],
    *,
    sweep: Sequence[SweepRow] = (),
    fronts: Mapping[str, Sequence[FrontRow]] | None = None,
    paper: PaperNumbers | None = None,
    price_per_million: float | None = None,
    most_questions: int | None = None,
) -> tuple[Report, Pages]:
    """Fold runs into a report.

    Args:
        runs: read with `read_run`.
        sweep: rows of sweeps.
        fronts: rows of the fronts of sweeps, by the name of the run, "" for one alone.
        paper: the paper's numbers.
        price_per_million: of completion tokens.
        most_questions: pages at most. Those that the report cannot hold (300 questions, 8 MB)
            become files; None makes no files.

    Returns:
        The report and the pages beside it.
    """
    entries = entries_of(runs)
    most = EMBEDDED_QUESTIONS if most_questions is None else most_questions
    chosen = most_telling(entries, min(most, EMBEDDED_QUESTIONS))
    embedded: dict[int, Html] = {}
    size = 0
    for entry, page in _pages(runs, chosen, most_chars=EMBEDDED_CHARS):
        size += len(page.encode())
        if size > EMBEDDED_BYTES:
            break
        embedded[entry.number] = page
    beside: list[Entry] = []
    if most_questions is not None:
        rest = [entry for entry in entries if entry.number not in embedded]
        beside = most_telling(rest, most_questions - len(embedded))
    files = {entry.number: f"{FOLDER}/question-{entry.number}.html" for entry in beside}
    report = Report(
        runs=runs,
        entries=entries,
        embedded=embedded,
        files=files,
        sweep=sweep,
        fronts=fronts or {},
        paper=paper,
        price_per_million=price_per_million,
    )
    return report, _files(runs, beside)


def write_report(report: Report, pages: Pages, folder: Folder, name: str) -> int:
    """Write the pages, then the report that links to them; returns its size in bytes."""
    for file, content in pages:
        folder.write(file, content)
    data = report_page(report).encode()
    folder.write(name, data)
    return len(data)


def _pages(
    runs: Sequence[RunData], entries: Sequence[Entry], *, most_chars: int
) -> Iterator[tuple[Entry, Html]]:
    """Pages of entries in their order, their completions read a batch at a time."""
    for start in range(0, len(entries), _BATCH):
        batch = entries[start : start + _BATCH]
        keys = {entry.key for entry in batch}
        texts: dict[tuple[str, str, str, str], Sequence[Row]] = {
            (run.run_id, *key): rows
            for run in runs
            for key, rows in completions_of(run.run, keys, most_chars=most_chars).items()
        }
        for entry in batch:
            yield entry, page_of(entry, texts)


def _files(runs: Sequence[RunData], entries: Sequence[Entry]) -> Pages:
    made_up = any(run.synthetic for run in runs)
    for entry, page in _pages(runs, entries, most_chars=FILE_CHARS):
        benchmark, question = entry.key
        content = document(
            f"{benchmark}, {question}",
            h("div", h("b", "SYNTHETIC"), "No model answered.", cls="banner") if made_up else None,
            h("main", h("h1", f"{benchmark}, question ", h("bdi", question)), page),
        )
        yield f"{FOLDER}/question-{entry.number}.html", content.encode()
