"""*Dataset export*: writes Parquet files and a card that ``datasets.load_dataset(FOLDER)`` reads.

Configurations: ``outcomes`` (a row a question and strategy), ``completions`` (a row a completion),
``questions``. Verdicts in ``outcomes`` are as summary.json counts them.
"""

from __future__ import annotations

import json

from pipeline.answers.answer_rules import OwnRule
from pipeline.export.samples import samples
from pipeline.export.source import Cell, Source
from pipeline.export.tables import (
    COMPLETION_ROWS,
    RowGroups,
    completion_rows,
    outcome_row,
    outcome_rows_schema,
)
from pipeline.store.storage import Folder
from pipeline.store.streams import tables

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

_SYNTHETIC = "\n**Synthetic: scripted engines made it, no model answered.**\n"
_PARTIAL = (
    "\n**Not finished: figures are of the finished questions alone, which are a biased sample: "
    "short chains end first.**\n"
)

_TEXT = """\
---
pretty_name: {quoted}
tags:
- {tags}
size_categories:
- {size}
configs:
- config_name: outcomes
  data_files: data/outcomes.parquet
  default: true
- config_name: completions
  data_files: data/completions.parquet
- config_name: questions
  data_files: data/questions.parquet
---
# {name}
{warning}
`{generator}` answered {questions:,} questions under {strategies} strategies of inference-time
scaling{verified}. `outcomes` has {outcomes:,} rows, one a question and strategy; `completions`
{completions:,}, one a completion that an outcome rests on, in the order of `position`.

| benchmark | strategy | N | answer rule | accuracy | 95 % interval | graded | tokens a question |
|---|---|---|---|---|---|---|---|
{rows}

Intervals are Wilson's. A question that failed counts as wrong; one that could not be graded counts
as neither. `verdict_RULE` of `outcomes` says what each question counts as under an answer rule
({rules}), so that the share of `right` among `right` and
`wrong` is the accuracy. Token columns of `outcomes` are the whole bill of a question.

## Loading

```python
from datasets import load_dataset

outcomes = load_dataset("FOLDER", split="train")
completions = load_dataset("FOLDER", "completions", split="train")
```

## How it was made

Temperature {temperature}, top_p {top_p}, at most {max_tokens:,} tokens a completion, seed {seed},
grader `{grader}`, with {versions}.
"""


def card_of(source: Source, outcomes: int, completions: int) -> str:
    """The card as Markdown with the front matter that dataset hubs read.

    Args:
        source: the run.
        outcomes, completions: rows written.
    """
    science = source.config.science
    tags = ["inference-time-scaling", *(["synthetic"] if source.synthetic else [])]
    name = f"MarkovScale run {source.run.run_id}"
    return _TEXT.format(
        name=name,
        quoted=json.dumps(name, ensure_ascii=False),  # as YAML has it
        tags="\n- ".join(tags),
        size=next((name for most, name in _SIZES if completions < most), "n>1M"),
        warning=_SYNTHETIC * source.synthetic + _PARTIAL * (not source.finished),
        generator=science.generator.model,
        questions=source.question_table.num_rows,
        strategies=len(source.strategies),
        verified=f", scored by `{science.verifier.model}`" if science.verifier else "",
        outcomes=outcomes,
        completions=completions,
        rows="\n".join(_row(cell) for cell in source.cells),
        rules=", ".join(
            f"`{rule}`" + (f" ({rule.told()})" if isinstance(rule, OwnRule) else "")
            for rule in source.rules
        ),
        temperature=science.decoding.temperature,
        top_p=science.decoding.top_p,
        max_tokens=science.most_tokens,
        seed=science.seed,
        grader=science.grader,
        versions=", ".join(f"{name} {version}" for name, version in source.versions.items())
        or "versions that were not recorded",
    )


def _row(cell: Cell) -> str:
    accuracy = cell.entry["accuracy"][cell.rule.value]
    told = ("not graded", "", "0")
    if accuracy and accuracy["graded"]:
        low, value, high = (f"{100 * accuracy[name]:.1f}" for name in ("low", "accuracy", "high"))
        told = (f"{value} %", f"{low} to {high}", f"{accuracy['graded']:,}")
    cells = (cell.benchmark, cell.label, cell.entry["n"], cell.rule.value, *told)
    return f"| {' | '.join(map(str, cells))} | {cell.entry['tokens_per_question']:,.0f} |"


def write_hf_dataset(source: Source, folder: Folder) -> None:
    """Write the files and the card; a row group is in memory at a time."""
    data, schema = folder.child("data"), outcome_rows_schema(source.rules)
    with (
        tables(data, "outcomes.parquet", schema) as outcomes,
        tables(data, "completions.parquet", COMPLETION_ROWS) as completions,
    ):
        stopped = RowGroups(outcomes.add, schema)
        drawn = RowGroups(completions.add, COMPLETION_ROWS)
        for cell, found in samples(source):
            for sample in found:
                stopped.add(outcome_row(cell, sample))
                for row in completion_rows(sample):
                    drawn.add(row)
        stopped.flush()
        drawn.flush()
    data.write_table("questions.parquet", source.question_table)
    folder.write("README.md", card_of(source, outcomes.rows, completions.rows).encode())
