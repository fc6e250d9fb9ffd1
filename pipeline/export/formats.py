"""*Formats*: writes a run in a format by its name; CSV and data sets here."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pipeline.core.errors import ConfigError
from pipeline.export.inspect_log import write_inspect
from pipeline.export.lm_eval import write_lm_eval
from pipeline.export.source import Source, open_source
from pipeline.export.tables import (
    ACCURACY_ROWS,
    COMPLETION_ROWS,
    accuracy_rows,
    completion_rows,
    in_tables,
    outcome_rows,
    outcome_rows_schema,
)
from pipeline.results.csv_lines import csv_line
from pipeline.store.storage import Folder
from pipeline.store.streams import write_tables, writing

_MOST_CHARACTERS = 32_000


def _columns(schema: pa.Schema) -> list[str]:
    """Those that fit into a cell."""
    return [field.name for field in schema if not pa.types.is_list(field.type)]


def write_csv(source: Source, folder: Folder) -> None:
    """Write ``accuracies.csv``, ``questions.csv`` (a line a question and strategy) and
    ``completions.csv``; one question is in memory at a time.

    They begin with a byte order mark, by which spreadsheets know UTF-8; texts are cut at what a
    cell of theirs holds.
    """
    files = {
        "accuracies.csv": (ACCURACY_ROWS.names, accuracy_rows(source)),
        "questions.csv": (_columns(outcome_rows_schema(source.rules)), outcome_rows(source)),
        "completions.csv": (_columns(COMPLETION_ROWS), completion_rows(source)),
    }
    for name, (columns, rows) in files.items():
        with writing(folder, name) as stream:
            stream.write(BOM_UTF8 + _line(columns))
            for row in rows:
                stream.write(_line([row[column] for column in columns]))


def _line(values: Sequence[Any]) -> bytes:
    cells = [v[:_MOST_CHARACTERS] if isinstance(v, str) else v for v in values]
    return f"{csv_line(cells)}\n".encode(errors="replace")


_CARD = """\
---
pretty_name: {name}
tags: {tags}
configs:
- config_name: outcomes
  data_files: data/outcomes.parquet
  default: true
- config_name: completions
  data_files: data/completions.parquet
- config_name: questions
  data_files: data/questions.parquet
---
# MarkovScale run {run}
{warning}
`{generator}` answered {questions:,} questions under {strategies} strategies of inference-time
scaling. `outcomes` has a row a question and strategy, `completions` a row a completion that an
outcome rests on, in the order of `position`. `verdict_RULE` of `outcomes` says what a question
counts as under an answer rule: the share of `right` among `right` and `wrong` is the accuracy.
Token columns of `outcomes` are the whole bill of a question.

The configuration of the run:

```json
{science}
```
"""
_SYNTHETIC = "\n**Synthetic: scripted engines made it, no model answered.**\n"
_PARTIAL = (
    "\n**Not finished: figures are of the finished questions alone, which are a biased sample: "
    "short chains end first.**\n"
)


def card_of(source: Source) -> str:
    """The card of a data set: Markdown with the front matter that dataset hubs read."""
    science = source.config.science
    return _CARD.format(
        name=json.dumps(f"MarkovScale run {source.run.run_id}", ensure_ascii=False),  # as in YAML
        run=source.run.run_id,
        tags=json.dumps(["inference-time-scaling", *(["synthetic"] if source.synthetic else [])]),
        warning=_SYNTHETIC * source.synthetic + _PARTIAL * (not source.finished),
        generator=science.generator.model,
        questions=source.question_table.num_rows,
        strategies=len(source.strategies),
        science=science.model_dump_json(indent=2),
    )


def write_hf_dataset(source: Source, folder: Folder) -> None:
    """Write Parquet files and a card that ``datasets.load_dataset(FOLDER)`` reads; a row group is
    in memory at a time."""
    data, schema = folder.child("data"), outcome_rows_schema(source.rules)
    write_tables(data, "outcomes.parquet", schema, in_tables(outcome_rows(source), schema))
    completions = in_tables(completion_rows(source), COMPLETION_ROWS)
    write_tables(data, "completions.parquet", COMPLETION_ROWS, completions)
    data.write_table("questions.parquet", source.question_table)
    folder.write("README.md", card_of(source).encode())


FORMATS: dict[str, Callable[[Source, Folder], None]] = {
    "inspect": write_inspect,
    "lm_eval": write_lm_eval,
    "hf_dataset": write_hf_dataset,
    "csv": write_csv,
}
"""What writes a run into a folder."""


def export_run(address: str, to: str, out: str, exported: float) -> Source:
    """Export a run; returns what was exported.

    Args:
        address: of the run directory.
        to: a key of `FORMATS`.
        out: the folder to write, which must be new.
        exported: the time, in seconds since 1970.

    Raises:
        ConfigError: where `out` is there already.
        ConfigError, DataError: as `open_source`.
    """
    source = open_source(address, exported)
    folder = Folder(out.rstrip("/"))
    if folder.exists() or _is_file(folder):
        raise ConfigError(f"--out must be a new folder, {out} is there")
    FORMATS[to](source, folder)
    return source


def _is_file(folder: Folder) -> bool:
    above, _, name = folder.address.rpartition("/")
    return Folder(above or ".").has(name)
