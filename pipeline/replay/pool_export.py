"""Exports: a pool as one Parquet file of graded rows, apart from the run that drew it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pipeline.config.answer_rules import DEFAULT
from pipeline.config.science import ScienceConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Feedback
from pipeline.records.facts import environments
from pipeline.records.questions import QUESTIONS_FILE, read_questions
from pipeline.records.run_dir import RunDir
from pipeline.records.segments import read_segment
from pipeline.records.trajectory import SCHEMA, table_of
from pipeline.replay.pool_card import CARD, card_of
from pipeline.replay.pool_rows import POOL_TABLE, without_texts
from pipeline.replay.pools import POOL_VERSION, CompletionPool, Place, read_with_places
from pipeline.store.storage import Folder, sha256

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
    written = folder.write_tables(POOL_TABLE, SCHEMA, groups)
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
