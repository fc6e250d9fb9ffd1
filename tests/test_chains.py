"""Chains on one event loop: order, failures, durability, drain."""

import asyncio
import time
from dataclasses import dataclass, field, replace

import pytest

from actors.controllers.chain_types import RunIdentity, Work
from actors.controllers.chains import Chains
from actors.controllers.journal_writer import JournalError, JournalWriter
from actors.engines.prompting import check_text
from actors.routing.calls import Generated, Scored
from benchmarks.journals import read_journal
from pipeline.core.decoding import Decoding
from pipeline.core.protocol import Failure, Generate, Question
from pipeline.planning.phase_work import Forecast
from pipeline.records.journal import ByQuestion, Resumed
from pipeline.store.storage import Folder
from pipeline.strategies.self_consistency import SelfConsistency
from pipeline.strategies.sequential import MRThinking
from tests.generators import first_requests


@dataclass
class ScriptedGenerator:
    """Answers round r of every question with r, after `delay_s`."""

    delay_s: float = 0.0
    fail: tuple[str, ...] = ()
    served: list = field(default_factory=list)
    cancelled: int = 0

    async def call(self, call):
        request, session = call.request, call.session
        try:
            await asyncio.sleep(self.delay_s * (1 + (request.sample * 7) % 3))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.served.append((session, request.round, request.sample))
        if session.endswith(self.fail) and self.fail:
            return Failure(error="bad_request: poison", completion_tokens=3)
        return Generated(
            text=f"so \\boxed{{{request.round + request.sample}}}",
            finish_reason="stop",
            prompt_tokens=5,
            cached_prompt_tokens=2,
            completion_tokens=7,
            thinking_tokens=0,
            replica="r0",
            wasted_tokens=1,
        )


@dataclass
class HoldingGenerator(ScriptedGenerator):
    """Answers the rounds from `hold` on once it is let go; says when one is asked for."""

    hold: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, call):
        if call.request.round >= self.hold:
            self.asked.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return await super().call(call)


async def settled():
    """Until every task waits for something from outside."""
    for _ in range(20):
        await asyncio.sleep(0)


class HalfVerifier:
    """Scores everything 0.5."""

    async def call(self, call):
        return Scored(step_scores=(0.5,), score=0.5, tokens=9, truncated=False)


class BrokenVerifier:
    """Never manages to score."""

    async def call(self, call):
        return Failure(error="verifier_nan: a score must be in [0, 1], got nan")


async def grade(gold, completion, *_: object):
    return "right" if completion.answer == gold else "wrong"


def make_work(question_id="1", strategy=None, gold="2"):
    strategy = strategy or MRThinking(n=3, decoding=Decoding(max_tokens=8))
    question = Question(benchmark="arithmetic", question_id=question_id, text="1+1?")
    return Work(label="s", phase="p", strategy=strategy, question=question, gold=gold)


def make_chains(tmp_path, generator, verifier=None, recorded=None, in_flight=8, flush_s=0.02):
    recorded = recorded or {}
    journal = JournalWriter(Folder(str(tmp_path / "journal")), flush_s=flush_s)
    chains = Chains(
        identity=RunIdentity(run="r", attempt=1),
        pools={"generator": generator, "verifier": verifier or HalfVerifier()},
        journal=journal,
        grade=grade,
        recording_of=lambda work: recorded.get(work.question.question_id),
        in_flight=in_flight,
    )
    return chains, journal


def read(tmp_path):
    return read_journal(Folder(str(tmp_path / "journal"))).table


async def test_a_chain_ends_with_its_whole_bill(tmp_path):
    """The outcome holds answers, verdicts and tokens of every kind; the journal every round."""
    chains, _ = make_chains(tmp_path, ScriptedGenerator())
    row = await chains.run(make_work())

    assert row["round_answers"] == ["0", "1", "2"]
    assert row["round_verdicts"] == ["wrong", "wrong", "right"]
    assert (row["answer_last"], row["verdict_last"]) == ("2", "right")
    assert (row["answer_prm_argmax"], row["verdict_prm_argmax"]) == ("0", "wrong")
    assert (row["completion_tokens"], row["verifier_tokens"], row["wasted_tokens"]) == (21, 27, 3)
    assert (row["stop_reason"], row["completions"]) == ("budget", 3)
    assert read(tmp_path)["round"].to_pylist() == [0, 1, 2]


async def test_a_reply_with_nul_costs_no_chain(tmp_path):
    """Engines refuse it in what they are given; a model may write it all the same. What it wrote is
    scored, and fed back, with a question mark there."""

    class Writing(ScriptedGenerator):
        async def call(self, call):
            check_text(call.request.messages[-1].content, "user message")
            return replace(await super().call(call), text="so\0 \\boxed{1\0}")

    class Reading(HalfVerifier):
        async def call(self, call):
            check_text(call.reply, "reply")
            return await super().call(call)

    chains, _ = make_chains(tmp_path, Writing(), Reading())
    row = await chains.run(make_work())

    assert (row["stop_reason"], row["completions"], row["error"]) == ("budget", 3, None)
    assert read(tmp_path)["text"].to_pylist() == ["so? \\boxed{1?}"] * 3


async def test_the_chain_with_most_to_come_is_urgent(tmp_path):
    """Each round's priority is what is expected to come from it on, as vLLM counts: less first."""
    asked = []

    class Noting(ScriptedGenerator):
        async def call(self, call):
            asked.append(call.priority)
            return await super().call(call)

    chains, _ = make_chains(tmp_path, Noting())
    work = replace(make_work(), forecast=Forecast(completions=3, tokens_each=100.0))
    await chains.run(work)

    assert asked == [-300.0, -14.0, -7.0]  # completions turn out to have 7 tokens


async def test_an_outcome_comes_after_its_rounds_are_durable(tmp_path):
    """When `run` returns, the journal on disk has every round of the chain."""
    chains, _ = make_chains(tmp_path, ScriptedGenerator(), flush_s=0.3)
    await chains.run(make_work())

    assert read(tmp_path).num_rows == 3


async def test_observations_are_told_in_request_order(tmp_path):
    """Samples that finish in another order than they were asked for change nothing."""
    strategy = SelfConsistency(n=5, decoding=Decoding(max_tokens=8))
    chains, _ = make_chains(tmp_path, ScriptedGenerator(delay_s=0.01))
    row = await chains.run(make_work(strategy=strategy))

    assert row["round_answers"] == ["0", "1", "2", "3", "4"]


async def test_samples_do_not_flood_the_engines(tmp_path):
    """However many samples a question wants, at most `in_flight` of them are asked for at once; a
    sequential chain beside them is not held up by those that wait."""

    class Counting(ScriptedGenerator):
        now = most = 0

        async def call(self, call):
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                return await super().call(call)
            finally:
                self.now -= 1

    generator = Counting(delay_s=0.005)
    chains, _ = make_chains(tmp_path, generator, in_flight=3)
    decoding = Decoding(max_tokens=8)
    work = [
        make_work("many", SelfConsistency(n=40, decoding=decoding)),
        make_work("more", SelfConsistency(n=40, decoding=decoding)),
        make_work("chain", MRThinking(n=3, decoding=decoding)),
    ]
    rows = await asyncio.gather(*(chains.run(one) for one in work))

    assert [row["completions"] for row in rows] == [40, 40, 3]
    assert generator.most <= 3 + 1
    last_round = generator.served.index(("s/arithmetic/chain", 2, 0))
    assert last_round < 40


async def test_recorded_rounds_are_not_drawn_again(tmp_path):
    """A resume asks the engines only for what is not durable yet."""
    first, _ = make_chains(tmp_path, ScriptedGenerator())
    await first.run(make_work())
    rows = ByQuestion(read(tmp_path))[("s", "arithmetic", "1")][:2]
    generator = ScriptedGenerator()
    again, _ = make_chains(tmp_path, generator, recorded={"1": Resumed(rows)})
    row = await again.run(make_work())

    assert [round_ for _, round_, _ in generator.served] == [2]
    assert row["round_answers"] == ["0", "1", "2"]


async def test_a_failed_question_is_a_row_and_costs_nobody_else(tmp_path):
    """One poisonous question ends with its error and its tokens; the other is untouched."""
    chains, _ = make_chains(tmp_path, ScriptedGenerator(fail=("/bad",)))
    bad, good = await asyncio.gather(chains.run(make_work("bad")), chains.run(make_work("good")))

    assert (bad["stop_reason"], bad["error"]) == ("failed", "bad_request: poison")
    assert (bad["wasted_tokens"], bad["completions"]) == (3, 0)
    assert good["error"] is None


async def test_a_verifier_fault_is_a_named_error_and_never_a_score(tmp_path):
    """The row says what the verifier did; the completion's tokens are still paid for."""
    chains, _ = make_chains(tmp_path, ScriptedGenerator(), BrokenVerifier())
    row = await chains.run(make_work())

    assert row["error"].startswith("verifier: verifier_nan")
    assert row["round_scores"] == [None]
    assert row["wasted_tokens"] == 8


async def test_a_strategy_that_breaks_costs_its_own_question_only(tmp_path):
    """An error inside a strategy is that question's outcome."""

    class Broken(MRThinking):
        def decide(self, question, statistics=None):
            yield Generate((self.request(question, self.prompts.ask(question.text)),))
            raise ArithmeticError("no")

    chains, _ = make_chains(tmp_path, ScriptedGenerator())
    row = await chains.run(make_work(strategy=Broken(n=2)))

    assert (row["stop_reason"], row["error"]) == ("failed", "ArithmeticError: no")


async def test_the_limit_moves_while_chains_work(tmp_path):
    """A higher one admits who waits, in the order of coming; a lower one stops nobody. Samples of
    chains that ask for several at once follow it too."""
    generator = HoldingGenerator()
    chains, _ = make_chains(tmp_path, generator, in_flight=1)
    running = [asyncio.create_task(chains.run(make_work(str(i)))) for i in range(8)]
    await settled()
    before = (chains.counters.in_flight, chains.counters.waiting)
    chains.limit(4)
    await settled()
    raised = (chains.counters.in_flight, chains.counters.waiting)
    chains.limit(2)
    await settled()
    lowered = (chains.counters.in_flight, chains.counters.waiting)
    generator.go.set()
    many = SelfConsistency(n=6, decoding=Decoding(max_tokens=8))
    rows = await asyncio.gather(*running, chains.run(make_work("many", many)))

    assert (before, raised, lowered) == ((1, 7), (4, 4), (4, 4))
    assert [row["completions"] for row in rows] == [3] * 8 + [6]
    first = dict.fromkeys(session for session, round_, _ in generator.served if round_ == 0)
    assert list(first)[:4] == [f"s/arithmetic/{i}" for i in range(4)]


async def test_a_drain_cancels_in_the_engine_and_leaves_a_resumable_journal(tmp_path):
    """Drained chains give no outcome; what they finished is durable."""
    generator = HoldingGenerator(hold=1)
    chains, journal = make_chains(tmp_path, generator, in_flight=1)
    running = [asyncio.create_task(chains.run(make_work(str(i)))) for i in range(3)]
    await generator.asked.wait()
    chains.drain()
    rows = await asyncio.gather(*running)
    await journal.close()

    assert rows == [None, None, None]
    assert generator.cancelled == 1
    assert read(tmp_path).num_rows == 1


async def test_a_chain_that_was_cut_ends_after_its_rounds_are_durable(tmp_path):
    """Ray ends a controller once its last chain has returned, however slow storage is just then."""
    generator = HoldingGenerator(hold=1)
    chains, journal = make_chains(tmp_path, generator, flush_s=60)
    write = journal._write
    journal._write = lambda rows: (time.sleep(0.2), write(rows))
    running = asyncio.create_task(chains.run(make_work()))
    await generator.asked.wait()
    await chains.wind_down(0.0)
    closing = asyncio.create_task(journal.close())
    row = await running
    durable = read(tmp_path).num_rows
    await closing

    assert (row, durable) == (None, 1)


async def test_storage_that_never_comes_back_ends_the_run_with_its_reason(tmp_path):
    """After the give-up time the writer says which folder failed and why."""
    (tmp_path / "journal").write_text("a file where the folder must be")
    journal = JournalWriter(Folder(str(tmp_path / "journal")), flush_s=0.01, give_up_s=0.1)
    told = []
    journal.on_failure = told.append
    journal.append(next(iter(by_question_row(tmp_path))))

    with pytest.raises(JournalError, match="must take segments, failed for"):
        await journal.durable()
    assert [str(e) for e in told] == [str(journal.failure)]


def by_question_row(tmp_path):
    from pipeline.core.protocol import Completion
    from pipeline.records.trajectory import row_of

    work = make_work()
    (request,) = first_requests(work.strategy, work.question)
    yield row_of(
        run="r",
        attempt=1,
        strategy="s",
        question=work.question,
        request=request,
        observation=Completion(text="x"),
    )


async def test_what_chains_held_is_weighed_by_their_time(tmp_path):
    """The longest round of a chain counts, times the seconds of the whole chain."""

    class Shrinking(ScriptedGenerator):
        async def call(self, call):
            made = await super().call(call)
            return replace(made, completion_tokens=30 - 10 * call.request.round)

    chains, _ = make_chains(tmp_path, Shrinking(delay_s=0.02))
    row = await chains.run(make_work())

    assert chains.counters.held_s == row["seconds"] > 0.06
    assert chains.counters.held_token_s == (5 + 30) * row["seconds"]
