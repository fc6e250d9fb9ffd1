"""Exports: a pool as one Parquet file of graded rows with a card, apart from its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa

from pipeline.config.answer_rules import DEFAULT
from pipeline.config.science import ScienceConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Feedback
from pipeline.records.questions import QUESTIONS_FILE, read_questions
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import read_segment
from pipeline.records.side_files import environments
from pipeline.records.trajectory import SCHEMA, table_of
from pipeline.replay.pool_rows import POOL_TABLE, without_texts
from pipeline.replay.pools import (
    POOL_VERSION,
    CompletionPool,
    Origin,
    Place,
    read_with_places,
)
from pipeline.store.storage import Folder, sha256
from pipeline.store.streams import write_tables

CARD = "README.md"
_ROWS = 50_000  # a row group: few of them compress better
_BYTES = 2**28  # of it in memory
_ORDER = ("benchmark", "pool", "question_id", "chain", "round", "sample")


def export_pool(run: RunDir, address: str, *, texts: bool = True, licence: str = "") -> int:
    """Write the pool of a run to a new folder, graded, without redone work; returns its rows.

    The folder holds ``questions.parquet``, ``pool.parquet`` in the trajectory schema,
    ``pool.json`` and a card, ``README.md``. It is read by `pipeline.replay.pools.read_pool`.

    Args:
        run: a finished collection.
        address: of the new folder.
        texts: whether the replies' texts are kept. Without them a pool is a third as large and
            replays alike.
        licence: for the card, such as ``apache-2.0``.

    Raises:
        ConfigError: where the folder holds a pool already, the run none, or its prompts need the
            texts that are to be left out.
        DataError: as `read_pool`.
    """
    folder = Folder(address.rstrip("/"))
    if folder.has("pool.json"):
        raise ConfigError(f"a pool must be exported to a new folder, {address} holds one")
    others = set(folder.names()) - {POOL_TABLE, QUESTIONS_FILE, CARD}
    if others:  # whose README.md the card would replace
        raise ConfigError(f"a pool must be exported to a new folder, {address} has {min(others)}")
    pool, places = read_with_places(run.address)
    if not texts and pool.science.prompts.feedback is not Feedback.FINAL_BOX:
        raise ConfigError(
            f"texts can be left out where prompts show boxed answers only, got feedback "
            f"{pool.science.prompts.feedback.value}: export without --no-texts"
        )
    folder.write_table("questions.parquet", read_questions(run.folder))
    taken = _taken(run, places)
    groups = _grouped(taken) if texts else _packed(taken)
    written = write_tables(folder, POOL_TABLE, SCHEMA, groups)
    folder.write(CARD, card_of(pool, folder, _versions(run), texts=texts, licence=licence).encode())
    digests = {name: sha256(folder.read(name)) for name in (POOL_TABLE, QUESTIONS_FILE)}
    facts = {**_facts(run, pool, texts=texts), "sha256": digests}
    folder.write_json("pool.json", facts)  # last: without it no pool
    return written


def _facts(run: RunDir, pool: CompletionPool, *, texts: bool) -> dict[str, object]:
    return {
        "version": POOL_VERSION,
        "run": run.run_id,
        "synthetic": pool.synthetic,
        "texts": texts,
        "science": _shipped(pool.science).model_dump(mode="json", exclude={"answer_rules"}),
    }


def _shipped(science: ScienceConfig) -> ScienceConfig:
    """Without users' own answer rules: a pool is read by those of a sweep."""
    own = science.answer_rule in [entry.label for entry in science.answer_rules]
    return science.model_copy(update={"answer_rule": DEFAULT}) if own else science


def _versions(run: RunDir) -> dict[str, str]:
    """Of what drew the pool, as the first attempt recorded them."""
    return dict(environments(run.folder).get(1, {}).get("versions", {}))


def _taken(run: RunDir, places: Mapping[Place, str | None]) -> Iterator[pa.Table]:
    """The rows that the pool rests on, segment by segment, with their verdicts."""
    journal = run.journal
    for name in journal.names():
        where = f"{journal.address}/{name}"
        numbered = enumerate(read_segment(journal, name).to_pylist(), 1)
        yield table_of(
            {**row, "verdict": places[(where, number)]}
            for number, row in numbered
            if (where, number) in places
        )


def _grouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Row groups of at least `_ROWS` rows or `_BYTES` but for the last: no more is in memory."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= _ROWS or sum(part.nbytes for part in held) >= _BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _packed(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """All rows in one group, without texts, question by question: what is alike lies together."""
    whole = pa.concat_tables([without_texts(table) for table in tables])
    yield whole.sort_by([(name, "ascending") for name in _ORDER])


_FRONT = """\
---
{front}configs:
- config_name: completions
  data_files: {table}
  default: true
- config_name: questions
  data_files: questions.parquet
---
# Recorded completions of {backbone}
"""
_TEXT = """\
{warning}
For every question a chain of {rounds} rounds (`pool` is `sequential`; each round but the first was
shown the answer before) and {samples} independent samples (`parallel`), {scores} and
graded. A row is one completion, found by `benchmark`, `question_id`, `pool`, `round` and `sample`.
Tables are made of `answer`, `verdict` (right, wrong, ungraded), `score`, `step_scores` and
`completion_tokens`. {texts} Questions and gold answers are in `questions.parquet`.

| benchmark | questions | completions |
|---|---|---|
{benchmarks}

Generator `{backbone}`, verifier `{verifier}`, temperature {temperature}, top_p {top_p}, at most
{max_tokens:,} tokens, seed {seed}, {versions}; `science` in `pool.json` is all of it.

## Digests (SHA-256)

| file | digest |
|---|---|
{digests}

## Licence

{licence}

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
    return (_FRONT + _TEXT).format(
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


_IMPORTED = """\

{origin}.

{questions:,} questions, {completions:,} completions: {drawn}. A row is one completion, found by
`benchmark`, `question_id`, `pool`, `chain`, `round` and `sample`. Prompts are {prompts}.

| source | SHA-256 |
|---|---|
{sources}

## Licence

{licence}
"""


def imported_card(
    science: ScienceConfig, origin: Origin, questions: int, completions: int, drawn: str
) -> str:
    """The card of an imported pool.

    Args:
        science: what the log says of models and sampling.
        origin: of the pool.
        questions: in the pool.
        completions: in the pool.
        drawn: chains and samples in words.
    """
    sentence = origin.sentence
    known = "those that were asked" if origin.prompts == "known" else "not those that were asked"
    return (_FRONT + _IMPORTED).format(
        front=f"license: {origin.licence}\n" if origin.licence else "",
        table=POOL_TABLE,
        backbone=science.generator.model,
        origin=sentence[0].upper() + sentence[1:],
        questions=questions,
        completions=completions,
        drawn=drawn,
        prompts=known,
        sources="\n".join(f"| `{one['name']}` | `{one['sha256']}` |" for one in origin.sources),
        licence=origin.licence or "Not stated.",
    )
