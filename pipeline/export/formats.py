"""*Formats*: writes a run in a format by its name, CSV among them."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.answers.answer_rules import Rule
from pipeline.core.errors import ConfigError
from pipeline.export.hf_dataset import write_hf_dataset
from pipeline.export.inspect_log import write_inspect
from pipeline.export.lm_eval import write_lm_eval
from pipeline.export.samples import samples
from pipeline.export.source import Source, open_source
from pipeline.export.tables import ACCURACY_ROWS, accuracy_rows, completion_rows, outcome_row
from pipeline.results.csv_lines import csv_line
from pipeline.store.storage import Folder
from pipeline.store.streams import writing

_COMPLETION = (
    *("strategy", "benchmark", "question_id", "position", "pool", "chain", "round", "sample"),
    *("answer", "verdict", "score", "finish_reason", "prompt_tokens", "completion_tokens"),
    *("error", "text"),
)
_MOST_CHARACTERS = 32_000


def _columns(rules: Sequence[Rule]) -> tuple[str, ...]:
    return (
        *("strategy", "benchmark", "question_id", "level", "subject", "text", "gold"),
        *(f"{what}_{rule}" for rule in rules for what in ("answer", "verdict")),
        *("failed", "stop_reason", "completions", "completion_tokens", "thinking_tokens"),
        *("prompt_tokens", "verifier_tokens", "wasted_tokens", "p0", "a", "b", "seconds", "error"),
    )


def write_csv(source: Source, folder: Folder) -> None:
    """Write ``accuracies.csv``, ``questions.csv`` (a line a question and strategy) and
    ``completions.csv``; one question is in memory at a time.

    They begin with a byte order mark, by which spreadsheets know UTF-8; texts are cut at what a
    cell of theirs holds.
    """
    with writing(folder, "accuracies.csv") as stream:
        stream.write(BOM_UTF8 + _line(ACCURACY_ROWS.names))
        for row in accuracy_rows(source):
            stream.write(_line([row[name] for name in ACCURACY_ROWS.names]))
    columns = _columns(source.rules)
    with (
        writing(folder, "questions.csv") as questions,
        writing(folder, "completions.csv") as completions,
    ):
        questions.write(BOM_UTF8 + _line(columns))
        completions.write(BOM_UTF8 + _line(_COMPLETION))
        for cell, found in samples(source):
            for sample in found:
                row = outcome_row(cell, sample)
                questions.write(_line([row[name] for name in columns]))
                for row in completion_rows(sample):
                    completions.write(_line([row[name] for name in _COMPLETION]))


def _line(values: Sequence[Any]) -> bytes:
    cells = [v[:_MOST_CHARACTERS] if isinstance(v, str) else v for v in values]
    return f"{csv_line(cells)}\n".encode(errors="replace")


FORMATS: dict[str, Callable[[Source, Folder], None]] = {
    "inspect": write_inspect,
    "lm_eval": write_lm_eval,
    "hf_dataset": write_hf_dataset,
    "csv": write_csv,
}
"""What writes a run into a folder."""


def export_run(address: str, to: str, out: str, exported: float, *, overwrite: bool) -> Source:
    """Export a run; returns what was exported.

    Args:
        address: of the run directory.
        to: a key of `FORMATS`.
        out: the folder to write.
        exported: the time, in seconds since 1970.
        overwrite: whether files of the same names in `out` are replaced; others stay.

    Raises:
        ConfigError: where `out` is there already.
        ConfigError, DataError: as `open_source`.
    """
    source = open_source(address, exported)
    folder = Folder(out.rstrip("/"))
    if not overwrite and (folder.exists() or _is_file(folder)):
        raise ConfigError(f"an export needs a new folder, {out} is there: add --overwrite")
    FORMATS[to](source, folder)
    return source


def _is_file(folder: Folder) -> bool:
    above, _, name = folder.address.rpartition("/")
    return Folder(above or ".").has(name)
