"""Lives of writers: who has taken over from whom, and what counts then."""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from benchmarks.journals import read_journal
from pipeline.core.decoding import Decoding
from pipeline.core.protocol import Completion, PhaseStats, Question, Stop, decisions
from pipeline.records.journal import ByQuestion, fences_of
from pipeline.records.segments import Epoch, Fences, base_of, holds, listed, write_segment
from pipeline.records.trajectory import row_of
from pipeline.store.storage import Folder
from pipeline.strategies.sequential import MRThinking
from tests.generators import first_requests

STRATEGY = MRThinking(n=5, decoding=Decoding(max_tokens=8))
QUESTION = Question(benchmark="arithmetic", question_id="1", text="1+1?", seed=7)


def life(number, *, slot="a", attempt=1, phase=0):
    return Epoch(attempt, "00000a", phase, slot, number)


@pytest.mark.parametrize("name", ["", "0001-00000a-00-a", "1-00000a-00-a-0001", "../../x"])
def test_other_names_are_refused(name):
    """What is no epoch's name raises and is quoted."""
    with pytest.raises(ValueError, match="an epoch must be attempt"):
        Epoch.parse(name)


def test_who_takes_over_from_whom():
    """A later attempt, a later phase, and a later life of the same writer; never one beside it."""
    assert life(2).succeeds(life(1))
    assert life(1, phase=1).succeeds(life(9))
    assert life(1, attempt=2).succeeds(life(9, phase=3))
    assert not life(2).succeeds(life(1, slot="b"))
    assert not life(1).succeeds(life(1))
    assert not life(1).succeeds(life(2))


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_base_holds_exactly_the_segments_it_was_made_of(numbers):
    """However many are missing in between."""
    base = base_of(("e", number) for number in numbers)

    assert {n for n in range(50) if holds(base, "e", n)} == numbers
    assert not holds(base, "other", 0)


def test_an_outcome_counts_with_every_segment_before_it():
    """One segment of its writer or of its base that is gone, or was not taken over, voids it."""
    old, new = life(1).name, life(2).name
    whole = base_of([(old, 0), (old, 1), (new, 0)])
    torn = base_of([(old, 1), (new, 0)])
    taken = {new: base_of([(old, 0)])}

    assert Fences(whole, {}).whole_until(old) >= 1
    assert Fences(torn, {}).whole_until(old) < 1
    assert Fences(whole, taken).whole_until(old) >= 0
    assert Fences(whole, taken).whole_until(old) < 1
    assert Fences(whole, taken).whole_until(new) >= 0
    assert Fences(torn, taken).whole_until(new) < 0


class Life:
    """One life of a controller on one question, paused wherever the test likes.

    It draws rounds (each life draws another answer, as engines do), keeps them in memory, and makes
    them durable when it is told to.
    """

    def __init__(self, journal, epoch):
        self.journal, self.epoch = journal, epoch
        read = read_journal(journal)
        self.base = listed(read.names)
        self.rows = ByQuestion(read.table).get(("s", "arithmetic", "1"), [])
        self.waiting, self.sequence = [], 0
        self.drawn = []
        self.stop = None
        self.game = decisions(STRATEGY, QUESTION, PhaseStats())
        self.asked = next(self.game)

    def draw(self):
        """One round, from the record or from an engine."""
        if self.stop is not None:
            return
        (request,) = self.asked
        found = fold_take(self.rows, request)
        if found is None:
            answer = f"{self.epoch.life}{request.round}"
            found = Completion(text=f"\\boxed{{{answer}}}", answer=answer, score=0.5)
            self.waiting.append(
                row_of(
                    run="r",
                    attempt=self.epoch.attempt,
                    strategy="s",
                    question=QUESTION,
                    request=request,
                    observation=found,
                )
            )
        self.drawn.append(found.answer)
        try:
            self.asked = self.game.send([found])
        except StopIteration as end:
            self.stop = end.value

    def flush(self):
        """Make durable what waits; the first time, the claim."""
        rows, self.waiting = self.waiting, []
        write_segment(self.journal, self.epoch, self.sequence, rows, self.base)
        self.sequence += 1

    def outcome(self):
        """(epoch, sequence, answers), once the chain has stopped and all is durable."""
        if self.stop is None or self.waiting or not self.sequence:
            return None
        return (self.epoch.name, self.sequence - 1, self.drawn)


def fold_take(rows, request):
    from pipeline.records.journal import Resumed

    return Resumed(rows).take(request)


def folded(journal):
    """The chain that the journal holds, as far as it goes, and whether it stopped."""
    rows = ByQuestion(read_journal(journal).table).get(("s", "arithmetic", "1"), [])
    game = decisions(STRATEGY, QUESTION, PhaseStats())
    asked, answers = next(game), []
    while True:
        found = fold_take(rows, asked[0])
        if found is None:
            return answers, None
        answers.append(found.answer)
        try:
            asked = game.send([found])
        except StopIteration as end:
            stop: Stop = end.value
            return answers, stop


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_whoever_wakes_up_the_fold_is_the_chain_of_an_outcome_that_counts(tmp_path_factory, data):
    """Lives of one writer, paused and woken in any order, never fork a chain.

    Every outcome that counts has the answers that the journal folds to, and once the newest life
    has stopped, its outcome counts.
    """
    journal = Folder(str(tmp_path_factory.mktemp("journal")))
    lives = [Life(journal, life(1))]
    outcomes = []
    for _ in range(data.draw(st.integers(5, 40))):
        step = data.draw(st.sampled_from(["draw", "draw", "flush", "die", "attempt"]))
        chosen = data.draw(st.sampled_from(lives))
        newest = lives[-1].epoch
        if step == "draw":
            chosen.draw()
        elif step == "flush":
            chosen.flush()
            outcomes += [made for made in [chosen.outcome()] if made]
        elif step == "die":
            lives.append(Life(journal, life(newest.life + 1, attempt=newest.attempt)))
        else:
            lives.append(Life(journal, life(1, attempt=newest.attempt + 1)))
    last = lives[-1]
    while last.stop is None:
        last.draw()
    last.flush()
    outcomes.append(last.outcome())
    answers, stop = folded(journal)
    fences = fences_of(journal)
    counting = [o for o in outcomes if o[1] <= fences.whole_until(o[0])]

    assert outcomes[-1] in counting
    assert stop is not None
    assert all(made[2] == answers for made in counting)


def test_a_life_that_wakes_up_between_two_others_takes_nothing_back(tmp_path):
    """The third life took the rounds of the first; the second, awake late, had not seen them."""
    journal = Folder(str(tmp_path))
    first, second = Life(journal, life(1)), Life(journal, life(2))
    while first.stop is None:
        first.draw()
    first.flush()
    third = Life(journal, life(3))
    second.flush()
    while third.stop is None:
        third.draw()
    third.flush()

    assert third.drawn == first.drawn
    assert folded(journal)[0] == third.drawn
    epoch, sequence, *_ = third.outcome()
    assert sequence <= fences_of(journal).whole_until(epoch)
    assert fences_of(journal).whole_until(life(2).name) < 0


async def test_a_writer_claims_its_epoch_before_its_first_outcome(tmp_path):
    """A life that draws nothing still says in the journal what it took over."""
    from actors.controllers.journal_writer import JournalWriter

    journal = Folder(str(tmp_path))
    write_segment(journal, life(1), 0, [])
    base = listed(journal.names())
    writer = JournalWriter(journal, flush_s=0.01, epoch=life(2), base=base)
    await asyncio.wait_for(writer.durable(), 10)
    await writer.close()
    write_segment(journal, life(1), 1, [])  # the first life wakes up

    assert writer.reached == (life(2).name, 0)
    assert fences_of(journal).whole_until(life(1).name) < 1
    assert fences_of(journal).whole_until(life(2).name) >= 0


def test_the_base_of_an_epoch_is_read_from_its_first_whole_segment(tmp_path):
    """A torn claim does not hide what the others of its epoch say."""
    journal = Folder(str(tmp_path))
    write_segment(journal, life(1), 0, [])
    base = listed(journal.names())
    write_segment(journal, life(1), 1, [])
    claim = write_segment(journal, life(2), 0, [], base)
    write_segment(journal, life(2), 1, [], base)
    (tmp_path / claim).write_bytes(b"torn")

    assert fences_of(journal).counts(life(1).name, 0)
    assert not fences_of(journal).counts(life(1).name, 1)


def test_a_life_goes_on_from_the_record_of_the_one_before(tmp_path):
    """It reads the phase's record and its own earlier lives, later also what it wrote itself."""
    from pipeline.records.question_blocks import RecordedWork, write_recorded
    from tests.attempts import config_of, new_run

    run = new_run(config_of(tmp_path))
    key = ("s", "arithmetic", "1")
    write_recorded(run, 1, 0, read_journal(run.journal).names, [key])
    old, new = life(1), life(2)
    first = RecordedWork(run, old)
    write_segment(run.journal, old, 0, [drawn(old, "1")], first.base)
    write_segment(run.journal, life(1, slot="b"), 0, [drawn(old, "2")], first.base)
    second = RecordedWork(run, new)
    write_segment(run.journal, new, 0, [drawn(new, "1")], second.base)

    assert first.of(key) is None
    assert second.base == {old.name: [0]}
    assert second.of(("s", "arithmetic", "2")) is None
    assert [row["attempt"] for row in second.of(key).discarded()] == [1]
    assert len(list(second.again(key).discarded())) == 2


@pytest.mark.parametrize("part_bytes", [1, 2**28])
def test_what_is_laid_out_is_the_rows_of_the_questions_that_are_left(
    tmp_path, monkeypatch, part_bytes
):
    """In the order of the journal, and nothing of other questions, benchmarks or strategies; in one
    part or in many."""
    from pipeline.records import question_blocks as module
    from pipeline.records.question_blocks import RecordedWork, write_recorded
    from tests.attempts import config_of, new_run

    monkeypatch.setattr(module, "_PART_BYTES", part_bytes)
    run = new_run(config_of(tmp_path))
    ids = [str(number) for number in range(200)]
    for sequence in range(3):
        rows = [drawn(life(1), name) | {"seconds": float(sequence)} for name in ids]
        others = [row | {"strategy": "t"} for row in rows] + [
            row | {"benchmark": "b"} for row in rows
        ]
        write_segment(run.journal, life(1), sequence, rows + others)
    wanted = [("s", "arithmetic", name) for name in ids[::2]]
    write_recorded(run, 1, 0, read_journal(run.journal).names, wanted)
    recorded = RecordedWork(run, life(1, slot="b"))

    assert len(list(tmp_path.rglob("part-*"))) == (3 if part_bytes == 1 else 1)
    for key in wanted:
        rows = list(recorded.of(key).discarded())
        assert [row["seconds"] for row in rows] == [0.0, 1.0, 2.0]
        assert {(r["strategy"], r["benchmark"], r["question_id"]) for r in rows} == {key}
    assert recorded.of(("s", "arithmetic", "1")) is None


def drawn(epoch, question_id):
    (request,) = first_requests(STRATEGY, QUESTION)
    question = Question(benchmark="arithmetic", question_id=question_id, text="1+1?", seed=7)
    return row_of(
        run="r",
        attempt=epoch.attempt,
        strategy="s",
        question=question,
        request=request,
        observation=Completion(text="x", score=0.5),
    )
