"""What every registered strategy must hold to, whatever the engines answer."""

from __future__ import annotations

import math
import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from functools import cache, partial
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from benchmarks.journals import read_journal
from pipeline.core.decoding import Decoding
from pipeline.core.errors import ConfigError, ProtocolError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Completion,
    Decisions,
    Observation,
    Phase,
    PhaseStats,
    Question,
    QuestionRecord,
    Request,
    Stop,
    StopReason,
    Strategy,
    decisions,
)
from pipeline.records.journal import ByQuestion, QuestionKey, Resumed
from pipeline.records.outcome import BILL, final_outcomes, outcome_of
from pipeline.records.segments import Epoch, write_segment
from pipeline.records.trajectory import Row, row_of
from pipeline.replay import contract
from pipeline.replay.exact import (
    Recorded,
    Recording,
    Replayed,
    check_replayable,
    drive,
    replay,
    replay_phases,
)
from pipeline.store.storage import Folder
from pipeline.strategies import STRATEGIES
from pipeline.strategies.markovscale import MarkovScale0
from tests.generators import Answerer, answerers, completion, question

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "agree": [{"repeat": 2}],
    "settled": [{"repeat": None, "score_at_least": 0.5, "discount": 0.0}, {"min_rounds": 3}],
    "chain_expected_agreement": [{"discount": 0.8}, {"price": 0.05, "alpha": 2.0}],
    "expected_agreement": [{"batch": 3}, {"budget": 2.0}],
    "markovscale_t": [{"p0_source": "first_score"}, {"chain": "settling"}],
    "markovscale_star": [
        {"chain": "settling", "kept": 0.5, "price": 0.05},
        {"gate": False},
        {"p0_source": "first_score"},
        {"value_of_right_usd": 1e-4, "usd_per_million": {"prompt": 1, "completion": 2}},
    ],
    "markovscale_0": [{"gate": True}, {"profile": "paper"}],
    "best_of_n": [
        {"profile": "paper", "aggregation": "mean"},
        {"aggregation": "min"},
        {"aggregation": "product"},
        {"aggregation": "last"},
    ],
    "beacon": [{"cost": 0.2}, {"cost": 1e-4}],
    "self_consistency": [{"profile": "paper"}, {"weighted": True}],
    "esc": [{"profile": "paper"}, {"window": 3}],
    "asc": [{"profile": "paper"}, {"batch": 3}],
    "dsc": [
        {"profile": "paper"},
        {"batch": 2, "neighbours": 1, "judge_window": 1, "waves": 2, "threshold": 0.7, "extend": 2},
    ],
    "budget_forcing": [
        {"num_ignore": 0},
        {"thinking_start": "", "thinking_end": "", "profile": "paper"},
    ],
    "atom_of_thoughts": [{"retries": 0}],
}
"""Settings beside the defaults that take another path."""

CASES = [
    pytest.param(kind, variant, id="-".join([kind, *(f"{k}={v}" for k, v in variant.items())]))
    for kind in STRATEGIES
    for variant in [{}, *VARIANTS.get(kind, [])]
]
BUDGETS = st.sampled_from([1, 2, 3, 5, 8, 9])


def build(kind: str, settings: dict[str, Any], n: int) -> Strategy:
    """A strategy as a configuration builds it, with budget `n` where it has one."""
    budget = {"n": n} if "n" in {field.name for field in fields(STRATEGIES[kind])} else {}
    strategy: Strategy = adapter_of(kind).validate_python({**budget, **settings})
    return strategy


@cache
def adapter_of(kind: str) -> TypeAdapter[Any]:
    """What checks the settings of a strategy; making it takes longer than a test."""
    return TypeAdapter(STRATEGIES[kind])


QUESTIONS = [question(number) for number in range(5)]


@pytest.mark.parametrize(("kind", "variant"), CASES)
@given(n=BUDGETS, answer=answerers())
@settings(max_examples=4, deadline=None)
def test_strategy_keeps_what_it_promises(
    kind: str, variant: dict[str, Any], n: int, answer: Answerer
) -> None:
    """Every question stops; over all phases it has at most the promised addresses, each once a
    phase; its stop rests on completions that were had, and its answer rule can be applied. Where
    two budgets ask for a completion of one address with one prompt, the seed is one. One that says
    `pool_replayable` can be replayed from any rounds of MR-Thinking and any samples of
    Self-Consistency, and makes the same decision each time."""
    strategy = build(kind, variant, n)
    contract.stops_within_its_budget(strategy, QUESTIONS, answer)
    contract.seeds_by_address(build(kind, variant, 3), QUESTIONS[:2], answer, (3, 8))
    contract.replays_from_a_pool(strategy, QUESTIONS[:3], answer)
    contract.decides_alike(strategy, QUESTIONS[:3], answer)


@pytest.mark.parametrize("junk", ["", 3, None, b"x"])
def test_observations_that_do_not_answer_are_refused(junk: Any) -> None:
    """A wrong number or type of observations raises."""
    told = completion("1")
    for wrong in ([], [told], [told] * 3, [junk, told]):
        steps = decisions(STRATEGIES["self_consistency"](n=2), QUESTIONS[0])
        next(steps)
        with pytest.raises(ProtocolError, match="observation"):
            steps.send(wrong)


@dataclass(frozen=True)
class Odd(Strategy):
    """Yields, or else returns, what no strategy may."""

    kind: ClassVar[str] = "odd"
    n: ClassVar[int] = 1
    yields: Any = None

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Go on with something else."""
        if self.yields is not None:
            yield self.yields
        return self.yields  # type: ignore[no-any-return]


@pytest.mark.parametrize("yields", ["go", Stop(reason=StopReason.BUDGET, rounds=()), None])
def test_what_a_strategy_may_not_yield_or_return_is_refused(yields: Any) -> None:
    """It yields requests alone and returns a stop alone."""
    with pytest.raises(ProtocolError, match=r"must (yield Generate|return a Stop), got"):
        next(decisions(Odd(yields=yields), QUESTIONS[0]))


@pytest.mark.parametrize(("kind", "variant"), CASES)
def test_scores_that_decide_must_be_scores(kind: str, variant: dict[str, Any]) -> None:
    """A strategy that decides by scores refuses a completion without one, or with one outside
    [0, 1]; the others do not look at it."""
    for score in (None, -0.1, 1.5, float("nan")):
        contract.check_scores_required(build(kind, variant, 2), QUESTIONS, score)


@pytest.mark.parametrize(("kind", "variant"), CASES)
@given(n=BUDGETS, answer=answerers(), order=st.randoms(use_true_random=False))
@settings(max_examples=3, deadline=None)
def test_arrival_order_cannot_matter(
    kind: str, variant: dict[str, Any], n: int, answer: Answerer, order: Any
) -> None:
    """Questions served in any order, and the requests of a question computed in any order, lead to
    the same stops: what is told is in request order."""
    strategy = build(kind, variant, n)
    shuffled = list(QUESTIONS)
    order.shuffle(shuffled)

    def out_of_order(stage: Strategy, asked: Question, known: PhaseStats | None) -> Stop:
        steps = decisions(stage, asked, known)
        try:
            requests = next(steps)
            while True:
                arrivals = list(enumerate(requests))
                order.shuffle(arrivals)
                arrived = {place: answer(asked, request) for place, request in arrivals}
                requests = steps.send([arrived[place] for place in sorted(arrived)])
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    straight = replay_phases(strategy, QUESTIONS, answer)
    stops: dict[str, Stop] = {}
    for stage, asked, known in contract.stages(strategy, shuffled, answer):
        stops[asked.question_id] = out_of_order(stage, asked, known)

    assert stops == {key: outcome.stop for key, outcome in straight.items()}


@pytest.mark.parametrize(("kind", "variant"), CASES)
@given(n=BUDGETS, answer=answerers())
@settings(max_examples=3, deadline=None)
def test_a_bill_holds_every_completion_once(
    kind: str, variant: dict[str, Any], n: int, answer: Answerer
) -> None:
    """Outcomes written phase by phase, as a run writes them, add up to what was drawn: neither
    rankings nor what a phase asked for and the next did not are missing, and nothing that two
    phases asked for is there twice. Only what a phase says is billed to nobody is left out. A
    replay of all phases counts the same."""
    strategy = build(kind, variant, n)
    drawn: dict[Any, Observation] = {}
    paid: dict[Any, Observation] = {}

    def counted(phase: Phase, asked: Question, request: Request) -> Observation:
        key = (asked.question_id, request.address)
        told = drawn.setdefault(key, answer(asked, request))
        if phase.stream is not None:
            paid[key] = told
        return told

    known, rows = strategy.prepare(QUESTIONS), []
    for phase in strategy.phases():
        records = {}
        for asked in (q for q in QUESTIONS if phase.selects(q.question_id, known)):
            done = drive(phase.strategy, asked, partial(counted, phase, asked), known)
            records[asked.question_id] = QuestionRecord(
                question=asked, completions=done.completions, stop=done.stop
            )
            rows.append(outcome_row(phase.name, asked, done))
        known = phase.fold(records, known)
    had = [told for told in paid.values() if isinstance(told, Completion)]
    replayed = replay_phases(strategy, QUESTIONS, answer).values()

    final = final_outcomes(rows, {"s": strategy})
    assert {row["question_id"] for row in final} == {asked.question_id for asked in QUESTIONS}
    assert sum(row["completions"] for row in final) == len(had)
    assert sum(row["completion_tokens"] for row in final) == sum(o.completion_tokens for o in had)
    assert sum(len(r.earlier) + len(r.completions) for r in replayed) == len(paid)


def outcome_row(phase: str, asked: Question, done: Replayed) -> Row:
    """What a run writes of a question at the end of a phase."""
    return outcome_of(
        run="r",
        attempt=1,
        strategy="s",
        phase=phase,
        benchmark=asked.benchmark,
        question_id=asked.question_id,
        level=None,
        stop=done.stop,
        observations=done.completions,
        verdicts=[None] * len(done.completions),
        wasted_tokens=0,
        seconds=1.0,
    )


def test_of_two_phases_as_deep_the_later_one_has_the_bill() -> None:
    """It asked for the same completions again, and its row alone has what was tried again for it,
    such as a failure that cost tokens."""
    strategy = MarkovScale0(n=2, warm_up=2)
    warm_up, went_on = strategy.phases()
    bill = {**dict.fromkeys(BILL, 3), "seconds": 1.0, "completions": 2}
    rows = [
        {
            **bill,
            **{"strategy": "s", "benchmark": "b", "question_id": "1"},
            "phase": phase.name,
            "wasted_tokens": wasted,
        }
        for phase, wasted in ((warm_up, 5), (went_on, 7))
    ]

    (final,) = final_outcomes(rows, {"s": strategy})
    assert (final["completions"], final["wasted_tokens"], final["seconds"]) == (2, 7, 2.0)


@pytest.mark.parametrize(("kind", "variant"), CASES)
@given(n=BUDGETS, answer=answerers())
@settings(max_examples=2, deadline=None)
def test_a_run_replays_its_own_journal_to_the_same_stops(
    kind: str, variant: dict[str, Any], n: int, answer: Answerer
) -> None:
    """What a run drew, written in segments and read back, leads the resume of a controller and a
    replay to the same requests, completions and stops, phase by phase; journals hold each
    completion once, however many phases ask for it."""
    strategy = build(kind, variant, n)
    rows: dict[tuple[Any, ...], Row] = {}

    def journaling(asked: Question, request: Request) -> Observation:
        observation = answer(asked, request)
        if not request.score and isinstance(observation, Completion):
            observation = replace(observation, score=None, step_scores=None)
        key = (asked.question_id, request.address, request.digest(), request.score)
        rows[key] = row_of(
            run="r",
            attempt=1,
            strategy="s",
            question=asked,
            request=request,
            observation=observation,
            generator="none",
            seconds=0.1,
        )
        return observation

    live = replay_phases(strategy, QUESTIONS, journaling)
    journal = through_the_journal(list(rows.values()))
    resumed = {key[2]: Resumed(of_question) for key, of_question in journal.items()}

    def take(asked: Question, request: Request) -> Observation:
        found = resumed[asked.question_id].take(request)
        assert found is not None
        return found

    assert replay_phases(strategy, QUESTIONS, take) == live
    if len(strategy.phases()) == 1:
        for asked in QUESTIONS:
            of_question = journal["s", asked.benchmark, asked.question_id]
            records = [Recorded.of_row(row) for row in of_question]
            recording = Recording.of(asked, records)
            assert replay(strategy, asked, recording) == live[asked.question_id]


def through_the_journal(rows: list[Row]) -> Mapping[QuestionKey, list[Row]]:
    """Rows by question, written as two segments and read back as a journal."""
    with tempfile.TemporaryDirectory() as folder:
        journal, half = Folder(folder), len(rows) // 2
        for sequence, part in enumerate((rows[:half], rows[half:])):
            write_segment(journal, Epoch(1, "abcdef", 0, "w", 1), sequence, part)
        return ByQuestion(read_journal(journal).table)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_strategy_is_a_frozen_value_with_its_configuration(kind: str) -> None:
    """A strategy names itself, cannot be changed, survives pickle, takes decoding, prompts and
    score, and refuses a field that it does not have."""
    strategy = build(kind, {}, 3)

    assert strategy.kind == kind
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert {"decoding", "prompts", "score"} <= {field.name for field in fields(STRATEGIES[kind])}
    assert strategy.decoding == Decoding()  # type: ignore[attr-defined]
    assert strategy.prompts == Prompts()  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        strategy.score = False  # type: ignore[attr-defined]
    with pytest.raises(ValidationError, match="tua"):
        adapter_of(kind).validate_python({"tua": 1})


@pytest.mark.parametrize(
    "kind", [k for k in STRATEGIES if "n" in {f.name for f in fields(STRATEGIES[k])}]
)
def test_budget_below_one_is_refused(kind: str) -> None:
    """A budget must allow one completion."""
    with pytest.raises(ValueError, match="n must be >= 1, got 0"):
        STRATEGIES[kind](n=0)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("esc", {"window": 0}, "window must be >= 1, got 0"),
    ("asc", {"batch": 0}, "batch must be >= 1, got 0"),
    ("asc", {"threshold": 1.1}, r"threshold must be in \[0, 1\], got 1.1"),
    *(("beacon", {"cost": cost}, "cost must be > 0") for cost in (0.0, math.inf, math.nan)),
    ("settled", {"repeat": 1}, "repeat"),
    ("settled", {"score_at_least": 1.1}, "score_at_least"),
    ("settled", {"min_rounds": 0}, "min_rounds"),
    ("agree", {"repeat": 1}, "repeat"),
    ("expected_agreement", {"n": 33}, "n"),
    ("expected_agreement", {"price": 1.0}, "price"),
    ("expected_agreement", {"alpha": 0.0}, "alpha"),
    ("expected_agreement", {"batch": 0}, "batch"),
    ("expected_agreement", {"budget": 0.5}, "budget"),
    ("chain_expected_agreement", {"discount": -0.1}, "discount"),
    *(
        ("dsc", {name: 0}, f"{name} must be >= 1, got 0")
        for name in ("extend", "rankings", "judge_window", "neighbours", "waves")
    ),
    ("dsc", {"batch": 1}, "batch must be >= 2, got 1"),
    ("atom_of_thoughts", {"retries": -1}, "retries must be >= 0, got -1"),
    ("atom_of_thoughts", {"shown_chars": 0}, "shown_chars must be >= 1, got 0"),
    ("budget_forcing", {"num_ignore": -1}, "num_ignore must be >= 0, got -1"),
    ("budget_forcing", {"decoding": Decoding(max_tokens=1)}, "max_tokens must be >= 2 .* got 1"),
    *(
        ("budget_forcing", {"answer_tokens": n, "decoding": Decoding(max_tokens=100)},
         r"answer_tokens must be in \[1, 99\]")
        for n in (0, 100)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings", "message"), REFUSED)
def test_settings_out_of_range_are_refused_by_name(
    kind: str, settings: dict[str, Any], message: str
) -> None:
    """The error names the field and what must hold."""
    with pytest.raises(ValueError, match=message):
        STRATEGIES[kind](**settings)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_pool_serves_only_those_that_say_so(kind: str) -> None:
    """AoT, budget forcing and DSC with its ranking ask for what no pool holds."""
    strategy = build(kind, {}, 2)
    refused = {"dsc", "budget_forcing", "atom_of_thoughts"}

    assert (not strategy.pool_replayable) == (kind in refused)  # type: ignore[attr-defined]
    if kind in refused:
        with pytest.raises(ConfigError, match=kind):
            check_replayable(strategy)
