"""Confidence and entropy of completions: definitions, records, and where they come from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.journals import read_journal
from pipeline.config.runtime import Script
from pipeline.core.confidence import TOP_LOGPROBS, confidence_of
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Completion
from pipeline.records import trajectory
from pipeline.records.journal import checked, set_aside_corrupt
from pipeline.records.segments import Epoch, read_segment, write_segment
from pipeline.records.trajectory import (
    LATER,
    SCHEMA,
    NewerFormatError,
    as_current,
    observation_of,
    observations_of,
    table_of,
)
from pipeline.replay.run import replay_run
from pipeline.store.storage import Folder
from tests.chat_servers import Asked, Said, ScriptedModel, serving
from tests.endpoints import endpoint_run, generator_of, started
from tests.live import config_of, create, live

PLACES = st.lists(st.lists(st.floats(-30, 0), min_size=1, max_size=25), min_size=1, max_size=20)


@given(PLACES)
def test_the_definitions(places: list[list[float]]) -> None:
    """C_t = -(1/k) sum ln p and H_t = -sum p ln p over the k most likely tokens; mean, least, mean.
    The order of a place does not matter."""
    tops = [sorted(place, reverse=True)[:TOP_LOGPROBS] for place in places]
    found = confidence_of(places)

    assert found is not None
    means = [-sum(top) / len(top) for top in tops]
    entropies = [-sum(math.exp(value) * value for value in top) for top in tops]
    assert found.token_confidence == pytest.approx(sum(means) / len(means))
    assert found.least_token_confidence == pytest.approx(min(means))
    assert found.token_entropy == pytest.approx(sum(entropies) / len(entropies))
    assert found == confidence_of([place[::-1] for place in places])


async def test_they_are_recorded_where_asked_for(tmp_path: Path) -> None:
    """From an endpoint, in the journal; the rules that read them have answers in the outcomes, and
    the journal replays. Requests keep their digests."""
    digests = []
    for asked in (False, True):
        generator = {"model": "m", **({"logprobs": True} if asked else {})}
        with serving(_with_logprobs) as server:
            config = endpoint_run(
                str(tmp_path), {"base_urls": [server.url], "model": "tiny"}, generator=generator
            )
            with started(config) as engines:
                run = create(config, f"run-{asked}")
                async with generator_of(engines) as client:
                    await live(run, client)
        table = read_journal(run.journal).table
        digests.append(set(table["request_digest"].to_pylist()))
        told = {name: set(table[name].to_pylist()) for name in _TOLD}
        verdicts = run.outcomes()["verdict_confidence_weighted_vote"].to_pylist()
        assert told == (_TOLD if asked else {name: {None} for name in _TOLD})
        assert (None in verdicts) is not asked
        assert replay_run(run).differences == ()

    assert digests[0] == digests[1]


def test_a_rule_that_weighs_by_them_needs_them(tmp_path: Path) -> None:
    """Refused where they would not be recorded; the default leaves the digest as it was."""
    rule = {"answer_rule": "confidence_weighted_vote"}
    plain = config_of(str(tmp_path), ["base"])
    asked = config_of(str(tmp_path), ["base"], generator={"model": "scripted", "logprobs": True})
    off = config_of(str(tmp_path), ["base"], generator={"model": "scripted", "logprobs": False})

    with pytest.raises(ConfigError, match=r"must come with science\.generator\.logprobs: true"):
        config_of(str(tmp_path), ["base"], **rule)
    config_of(str(tmp_path), ["base"], generator={"model": "m", "logprobs": True}, **rule)
    assert plain.science_digest() == off.science_digest() != asked.science_digest()


_ROW = {
    **dict.fromkeys(SCHEMA.names),
    **dict.fromkeys(("run", "strategy", "benchmark", "question_id", "pool"), "x"),
    **dict.fromkeys(("attempt", "chain", "round", "sample", "seed"), 0),
    **{"request_digest": "d", "text": "4", "finish_reason": "stop"},
}


def test_tables_without_them_stay_readable() -> None:
    """Those of earlier runs: the columns come as nulls; any other gap is still refused."""
    row = _ROW
    old = table_of([row]).drop_columns(list(LATER))
    read = as_current(old, "here")

    assert read.schema.equals(SCHEMA)
    assert read.to_pylist() == [row]
    seen = observation_of({name: row[name] for name in row if name not in LATER})
    assert isinstance(seen, Completion)
    assert seen.token_confidence is None
    assert observations_of(read) == [seen]
    with pytest.raises(DataError, match="missing \\['score'\\]"):
        as_current(old.drop_columns(["score"]), "here")
    assert isinstance(read, pa.Table)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int32())]
)
def test_a_new_column_of_any_type_leaves_old_journals_readable(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old segments get nulls of the column's own type; the version before refuses new segments by
    the number of their version and does not set them aside as corrupt."""
    journal, epoch = Folder(str(tmp_path)), Epoch(1, "abcdef", 0, "0", 1)
    write_segment(journal, epoch, 0, [_ROW])
    version = trajectory.SCHEMA_VERSION
    metadata = {b"markovscale_trajectory_version": str(version + 1).encode()}
    wider = pa.schema([*trajectory.SCHEMA, pa.field("extra", kind)], metadata=metadata)
    with monkeypatch.context() as newer:
        newer.setattr(trajectory, "SCHEMA_VERSION", version + 1)
        newer.setattr(trajectory, "LATER", (*LATER, "extra"))
        newer.setattr(trajectory, "SCHEMA", wider)
        write_segment(journal, epoch, 1, [_ROW])
        names, corrupt = checked(journal)
        tables = [read_segment(journal, name) for name in names]
    assert (len(tables), corrupt) == (2, [])
    assert all(table.schema.equals(wider) for table in tables)
    assert [table["extra"].null_count for table in tables] == [1, 1]

    for read in (checked, read_journal, set_aside_corrupt):
        said = f"version {version + 1}, this version reads up to {version}"
        with pytest.raises(NewerFormatError, match=said):
            read(journal)
    assert journal.names() == names


_TOP = [-0.5, -1.0, -4.0]
_TOLD = {
    "token_confidence": {5.5 / 3},
    "least_token_confidence": {5.5 / 3},
    "token_entropy": {-math.fsum(math.exp(v) * v for v in _TOP)},
}


def _with_logprobs(asked: Asked) -> Said:
    said = ScriptedModel(script=Script(p0=0.5, tokens=20))(asked)
    if asked.body.get("logprobs") is True:
        place: dict[str, Any] = {"token": "x", "logprob": -0.5}
        place["top_logprobs"] = [{"token": "x", "logprob": value} for value in _TOP]
        said.body["choices"][0]["logprobs"] = {"content": [place]}
    return said
