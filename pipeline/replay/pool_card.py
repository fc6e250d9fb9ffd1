"""The card of an exported pool: what it is, how it was collected, how it is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pipeline.replay.pool_rows import POOL_TABLE
from pipeline.replay.pools import CompletionPool
from pipeline.store.storage import Folder, sha256

CARD = "README.md"

_TEXT = """\
---
{front}configs:
- config_name: completions
  data_files: {table}
  default: true
- config_name: questions
  data_files: questions.parquet
---
# Recorded completions of {backbone}
{warning}
For every question a chain of {rounds} rounds (`pool` is `sequential`; each round but the first was
shown the answer before) and {samples} independent samples (`parallel`), {scores} and
graded. A row is one completion, found by `benchmark`, `question_id`, `pool`, `round` and `sample`.
Tables are made of `answer`, `verdict` (right, wrong, ungraded), `score`, `step_scores` and
`completion_tokens`. {texts} Questions and gold answers are in `questions.parquet`.

| benchmark | questions | completions |
|---|---|---|
{benchmarks}

## How it was collected

```
python -m jobs.collect --config FILE --name NAME --rounds {rounds} --samples {samples}
python -m jobs.collect --export runs/NAME FOLDER{flags}
```

FILE names generator `{backbone}`, verifier `{verifier}`, temperature {temperature}, top_p {top_p},
at most {max_tokens:,} tokens, seed {seed}; `science` in `pool.json` is all of it. Drawn with
{versions}.
A second collection draws other completions: vLLM does not promise the same ones.

## Digests (SHA-256)

| file | digest |
|---|---|
{digests}

## Licence

{licence}

## Loading

```python
import pandas, polars, datasets

pandas.read_parquet("{table}")
polars.read_parquet("{table}")
datasets.load_dataset("parquet", data_files="{table}", split="train")
```

Strategies are replayed over it by `python -m jobs.paper --pool FOLDER --out DIR` and
`python -m jobs.sweep --pool FOLDER --config FILE`, without any engine.
"""


def card_of(
    pool: CompletionPool,
    folder: Folder,
    versions: Mapping[str, str],
    *,
    texts: bool,
    licence: str,
) -> str:
    """The card as Markdown with the front matter that dataset hubs read.

    Args:
        pool: what was exported.
        folder: with both Parquet files written.
        versions: of the packages that drew it.
        texts: whether the replies are in it.
        licence: "" where it is not stated.
    """
    science = pool.science
    counts = Counter(question.question.benchmark for question in pool.questions)
    each = pool.rounds + pool.samples
    files = (POOL_TABLE, "questions.parquet")
    return _TEXT.format(
        front=f"license: {licence}\n" if licence else "",
        table=POOL_TABLE,
        backbone=science.generator.model,
        warning="\n**Synthetic: scripted engines made it, no model answered.**\n"
        if pool.synthetic
        else "",
        rounds=pool.rounds,
        samples=pool.samples,
        scores="scored by a verifier" if science.verifier else "not scored",
        texts="Replies are in `text`."
        if texts
        else "Replies are left out: `text` is only empty or not.",
        benchmarks="\n".join(
            f"| {name} | {count:,} | up to {count * each:,} |" for name, count in counts.items()
        ),
        flags="" if texts else " --no-texts",
        verifier=science.verifier.model if science.verifier else "none",
        temperature=science.decoding.temperature,
        top_p=science.decoding.top_p,
        max_tokens=science.most_tokens,
        seed=science.seed,
        versions=", ".join(f"{name} {version}" for name, version in versions.items())
        or "versions that were not recorded",
        digests="\n".join(f"| `{name}` | `{sha256(folder.read(name))}` |" for name in files),
        licence=licence or "Not stated.",
    )
