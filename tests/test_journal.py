"""Segments, corruption, and recordings."""

import asyncio
import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.journal_writer import JournalWriter
from benchmarks.journals import read_journal
from pipeline.core.decoding import Decoding
from pipeline.core.errors import DataError, ErrorKind, ReplayMissError
from pipeline.core.protocol import Completion, Failure, Question
from pipeline.records.journal import (
    ByQuestion,
    Resumed,
    as_requested,
    counting,
    read_columns,
    set_aside_corrupt,
    without_retried,
)
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import observation_of, row_of, table_of
from pipeline.replay import exact
from pipeline.replay.pool_rows import Digests, Located, Taken
from pipeline.store.storage import Folder
from pipeline.strategies.sequential import MRThinking
from tests.generators import first_requests

QUESTION = Question(benchmark="arithmetic", question_id="1", text="1+1?", seed=7)
(REQUEST,) = first_requests(MRThinking(decoding=Decoding(max_tokens=8)), QUESTION)
SCORED = Completion(text="\\boxed{2}", answer="2", step_scores=(0.25, 0.75), score=0.5)


def make_row(observation=SCORED, request=REQUEST, question=QUESTION, **more):
    return row_of(
        run="r",
        attempt=1,
        strategy="s",
        question=question,
        request=request,
        observation=observation,
        **more,
    )


def life(number, slot="a", attempt=1, phase=0):
    return Epoch(attempt, "00000a", phase, slot, number)


@pytest.fixture
def journal(tmp_path):
    return Folder(str(tmp_path / "journal"))


@pytest.mark.parametrize(
    "observation", [SCORED, Completion(text="", finish_reason="length"), Failure(error="x: y")]
)
def test_what_is_written_is_what_is_read(journal, observation):
    """A row survives the file, and gives back the very observation."""
    write_segment(journal, life(1), 0, [make_row(observation)])

    (row,) = read_journal(journal).table.to_pylist()
    assert observation_of(row) == observation


def test_segments_are_read_in_the_order_of_writing(journal):
    """Epoch, then sequence, decide; not the order of creation on disk."""
    for epoch, sequence, text in ((2, 0, "c"), (1, 1, "b"), (1, 0, "a")):
        rows = [make_row(Completion(text=text))]
        write_segment(journal, life(epoch), sequence, rows)

    assert read_journal(journal).table["text"].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"\0" + data[1:]])
def test_a_damaged_segment_is_named_and_set_aside(journal, tmp_path, damage):
    """A torn or changed segment costs its own rounds only, and is kept for a look."""
    kept = write_segment(journal, life(1), 0, [make_row()])
    torn = write_segment(journal, life(1), 1, [make_row()])
    path = tmp_path / "journal" / torn
    path.write_bytes(damage(path.read_bytes()))

    read = read_journal(journal)
    assert read.table.num_rows == 1
    assert [c.name for c in read.corrupt] == [torn]
    assert "checksum must be" in read.corrupt[0].why
    assert set_aside_corrupt(journal) == read.corrupt
    assert journal.names() == [kept]
    assert journal.child("corrupt").names() == [torn]


def test_columns_can_be_read_of_the_segments_that_count(journal, tmp_path):
    """What counts is the same as where all is read; a segment that cannot be read is left out."""
    base = {life(1).name: [1]}
    names = [write_segment(journal, life(1), number, [make_row()]) for number in range(3)]
    names.append(write_segment(journal, life(2), 0, [make_row()], base))
    del names[2]  # the writer of life 2 had not seen it

    assert counting(journal) == read_journal(journal).names == names
    (tmp_path / "journal" / names[0]).write_bytes(b"torn")
    tables = list(read_columns(journal, names, ["strategy", "completion_tokens"]))
    assert [table.column_names for table in tables] == [["strategy", "completion_tokens"]] * 2
    assert [table.num_rows for table in tables] == [1, 1]


def test_a_failure_counts_until_a_later_row_answers_its_request(journal):
    """What was tried again is apart, as work thrown away; other rows of the question stay."""
    once, twice, never = (
        dataclasses.replace(QUESTION, question_id=name) for name in ("once", "twice", "never")
    )
    failure = Failure(error="deadline: late")
    rows = [
        make_row(question=never),
        make_row(failure, question=once),
        make_row(failure, question=twice),
        make_row(failure, request=dataclasses.replace(REQUEST, round=5), question=twice),
        make_row(failure, question=twice),
        make_row(question=once),
    ]
    for sequence, row in enumerate(rows):
        write_segment(journal, life(1), sequence, [row])

    def told(table):
        columns = (table[name].to_pylist() for name in ("question_id", "round", "error"))
        return list(zip(*columns, strict=True))

    read = read_journal(journal)
    late = failure.error
    assert told(read.table) == [
        ("never", 0, None),
        ("twice", 5, late),
        ("twice", 0, late),
        ("once", 0, None),
    ]
    assert told(read.discarded) == [("once", 0, late), ("twice", 0, late)]


def test_the_first_durable_record_of_an_address_wins():
    """A redone round never replaces the one that was durable first."""
    rows = [make_row(Completion(text="one", score=0.1)), make_row(Completion(text="two", score=1))]
    recording = Resumed(rows)

    assert recording.take(REQUEST).text == "one"
    assert [row["text"] for row in recording.discarded()] == ["two"]


def test_a_record_of_another_request_is_no_answer():
    """The digest must be that of the request: another prompt is another completion."""
    (other,) = first_requests(MRThinking(decoding=Decoding(max_tokens=9)), QUESTION)

    assert Resumed([make_row()]).take(other) is None


def test_an_unscored_record_does_not_serve_a_request_for_a_score():
    """A score that was not recorded is missing, not zero."""
    assert Resumed([make_row(Completion(text="x"))]).take(REQUEST) is None


@pytest.mark.slow
def test_more_text_than_an_array_holds_is_grouped_too():
    """Arrow's strings have 32-bit offsets; a journal may have more than 2 GiB of text."""
    table = table_of([make_row(Completion(text="x" * 2**27))])
    place = table.schema.get_field_index("question_id")
    ids = [str(number) for number in range(17)]
    tables = [table.set_column(place, table.schema.field(place), [[name]]) for name in ids]
    grouped = ByQuestion(pa.concat_tables(tables))

    (row,) = grouped[("s", "arithmetic", "16")]
    assert ([key[2] for key in grouped], len(row["text"])) == (ids, 2**27)


async def test_many_that_wait_are_not_kept_waiting(journal):
    """A segment is written before its time once so many wait for it, and not before."""
    writer = JournalWriter(journal, flush_s=60.0, most_waiting=2)
    writer.append(make_row())
    first = asyncio.create_task(writer.durable())
    await asyncio.sleep(0.1)
    alone = first.done()
    await asyncio.wait_for(writer.durable(), 30)
    await asyncio.wait_for(first, 30)

    assert not alone
    assert read_journal(journal).table.num_rows == 1
    await writer.close()


@pytest.mark.parametrize("kind", [*ErrorKind, None])
def test_a_failure_keeps_its_kind_in_the_journal(kind):
    """The text on disk is ``kind: message``; one of another form, as of a foreign journal, has no
    kind and reads back as it was."""
    failure = Failure(error="odd") if kind is None else Failure.of(kind, "late: 3 s", 7)
    row = make_row(failure)

    assert row["error"] == ("odd" if kind is None else f"{kind.value}: late: 3 s")
    assert observation_of(row) == failure
    assert failure.kind is kind


OBSERVATIONS = st.sampled_from(
    [
        SCORED,
        Completion(text="plain"),
        Failure(error="engine: odd"),
        Failure(error="deadline: late"),
    ]
)


@given(drawn=st.lists(st.tuples(OBSERVATIONS, st.booleans()), max_size=6), score=st.booleans())
def test_one_rule_says_which_row_answers(drawn, score):
    """Live resume, fold, replay and pool take the first completion that was drawn for the request,
    with the score that it asks for; else the last failure; whether or not the journal has put
    failures that were tried again aside."""
    asked = dataclasses.replace(REQUEST, score=score)
    other = dataclasses.replace(REQUEST, temperature=1.0)
    rows = [
        make_row(seen, REQUEST if same else other, seconds=n)
        for n, (seen, same) in enumerate(drawn)
    ]
    mine = [seen for seen, same in drawn if same]
    fitting = [seen for seen in mine if isinstance(seen, Completion) and (seen.score or not score)]
    failures = [seen for seen in mine if isinstance(seen, Failure)]
    expected = [*fitting[:1], *failures[-1:], None][0]
    if isinstance(expected, Completion):
        expected = as_requested(expected, asked)
    if len(fitting) + len(failures) == len(mine):  # putting aside knows no score that is asked for
        stripped = without_retried(table_of(rows))[0].to_pylist()
        assert Resumed(stripped).take(asked) == expected
    replayed = exact.Recording.of(QUESTION, map(exact.Recorded.of_row, rows))
    located = [Located(row, "f", n) for n, row in enumerate(rows)]
    pool = Taken(QUESTION, located, "a", Digests())

    assert Resumed(rows).take(asked) == expected
    if expected is None:
        with pytest.raises(ReplayMissError):
            replayed.find(asked)
        with pytest.raises(DataError):
            pool.answer(asked)
    else:
        assert replayed.find(asked) == as_requested(pool.answer(asked), asked) == expected
