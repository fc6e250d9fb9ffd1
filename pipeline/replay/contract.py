"""*Contract*: checks what every strategy must hold to; a violation raises `ContractError`.

`check` runs all of them over a strategy of a user's own with the engines of `engine`, the tests
over every registered one with engines that Hypothesis generates. None of them needs a model.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from typing import Any

from pipeline.answers.answer_rules import apply, rule_named
from pipeline.core.errors import MarkovScaleError, ReplayMissError
from pipeline.core.protocol import (
    Completion,
    Failure,
    Observation,
    PhaseStats,
    Priors,
    Question,
    QuestionRecord,
    Request,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.core.seeds import question_seed
from pipeline.replay.exact import Recorded, Recording, drive, replay_phases
from pipeline.strategies.self_consistency import SelfConsistency
from pipeline.strategies.sequential import MRThinking

Answerer = Callable[[Question, Request], Observation]
"""An engine: it answers the same request of a question alike, whenever it is asked."""


_ENGINES = 9
_BUDGETS = (1, 2, 3, 5, 8)
_BAD_SCORES = (None, -0.1, 1.5, float("nan"))


class ContractError(MarkovScaleError, AssertionError):
    """A strategy does what no strategy may."""


def check(strategy: Strategy) -> None:
    """Check that a strategy of a user's own keeps the contract, with every engine and budget.

    Raises:
        ContractError, ProtocolError: naming what must hold and what came.
    """
    is_a_value(strategy)
    made = questions()
    for number in range(_ENGINES):
        for one in (strategy, *(with_budget(strategy, n) for n in _BUDGETS)):
            stops_within_its_budget(one, made, engine(number))
            decides_alike(one, made, engine(number))
            replays_from_a_pool(one, made, engine(number))
    for score in _BAD_SCORES:
        check_scores_required(strategy, made[:1], score)
    seeds_by_address(strategy, made[:2], engine(1), _BUDGETS)


def questions(number: int = 5) -> list[Question]:
    """Made-up questions of which everything is known that a strategy may want to know."""
    priors = Priors(p0=0.4, p0_source="predictor", a=0.1, b=0.3)
    return [
        Question(
            benchmark="made-up",
            question_id=f"q{i}",
            text=f"{i} + 1?",
            seed=question_seed(0, "made-up", f"q{i}"),
            priors=priors,
        )
        for i in range(number)
    ]


def engine(number: int) -> Answerer:
    """An engine that picks what it answers by a hash: few distinct answers, none at all, replies
    cut short, any score, and, in every third engine, failures."""

    def answer(asked: Question, request: Request) -> Observation:
        key = f"{number} {asked.question_id} {request.address} {request.digest()}"
        dice = hashlib.sha256(key.encode()).digest()
        if number % 3 == 0 and dice[0] < 32:
            return Failure(error="engine: lost", completion_tokens=5)
        text = (None, "1", "2", "3")[dice[1] % (2 + number % 3)]
        score = (0.0, 1.0, dice[3] / 255)[min(dice[2] % 4, 2)]
        return Completion(
            text="" if text is None else f"So \\boxed{{{text}}}",
            answer=text,
            finish_reason="length" if dice[4] < 32 else "stop",
            completion_tokens=dice[5],
            step_scores=(score,) if request.score else None,
            score=score if request.score else None,
        )

    return answer


def with_budget(strategy: Strategy, n: int) -> Strategy:
    """The strategy with budget `n`, where that is one of its fields."""
    has_n = "n" in {field.name for field in fields(strategy)}
    return replace(strategy, n=n) if has_n else strategy  # type: ignore[call-arg]  # by `has_n`


def stages(
    strategy: Strategy, asked: Sequence[Question], answer: Answerer
) -> Iterator[tuple[Strategy, Question, PhaseStats | None]]:
    """Every (strategy, question, statistics) that a run goes through, phase by phase."""
    known = strategy.prepare(asked)
    for phase in strategy.phases():
        records = {}
        for one in asked:
            if phase.selects(one.question_id, known):
                yield phase.strategy, one, known
                done = drive(phase.strategy, one, partial(answer, one), known)
                records[one.question_id] = QuestionRecord(
                    question=one, completions=done.completions, stop=done.stop
                )
        known = phase.fold(records, known)


def stops_within_its_budget(
    strategy: Strategy, asked: Sequence[Question], answer: Answerer
) -> None:
    """Every question stops; over all phases it has at most the promised addresses, each once a
    phase; its stop rests on completions that were had, and its answer rule can be applied."""
    paid: dict[str, dict[Any, str]] = {one.question_id: {} for one in asked}
    most, phases = strategy.max_requests, len(strategy.phases())
    requests = Counter[str]()

    def counted(one: Question, request: Request) -> Observation:
        mine, digest = paid[one.question_id], request.digest()
        first = mine.setdefault(request.address, digest)
        _must(first == digest, f"an address must stand for one prompt, {request.address} has two")
        _must(len(mine) <= most, f"a question may cost {most} completions, it asked for more")
        requests[one.question_id] += 1  # of one that asks for ever no stop can be looked at
        _must(requests[one.question_id] <= most * phases, "a phase must ask for an address once")
        return answer(one, request)

    for key, outcome in replay_phases(strategy, asked, counted).items():
        at = [request.address for request in outcome.requests]
        _must(len(at) == len(set(at)), f"a phase must ask for an address once, got {at} of {key}")
        reason, rounds, had = outcome.stop.reason, outcome.stop.rounds, outcome.completions
        _must(isinstance(reason, StopReason), f"a stop must have a StopReason, got {reason!r}")
        _must(
            list(rounds) == sorted(set(rounds)) and all(0 <= at < len(had) for at in rounds),
            f"rounds of a stop must be positions of the {len(had)} completions, rising, "
            f"got {rounds}",
        )
        rested = [had[position] for position in rounds]
        failed = any(isinstance(observation, Failure) for observation in rested)
        _must(not failed, f"a stop must not rest on a failure, got {rounds}")
        apply(rule_named(strategy.default_rule), had, outcome.stop)


def check_scores_required(
    strategy: Strategy, asked: Sequence[Question], score: float | None
) -> None:
    """A strategy that decides by scores (`needs_score`) refuses a completion without a score, or
    with one outside [0, 1], whether p0 is known or not; the others do not look at it."""
    completion = Completion(text="", answer="1", score=score, completion_tokens=10)
    unknown = [replace(one, priors=replace(one.priors, p0=None, p0_source=None)) for one in asked]
    refusals = []
    for known in (asked, unknown):
        try:
            replay_phases(strategy, known, lambda one, request: completion)
        except ValueError as error:  # a ProtocolError, or one of a fold between phases
            refusals.append(str(error))
    named = [refusal for refusal in refusals if "score" in refusal]
    if strategy.needs_score:
        _must(bool(named), f"it says needs_score, so it must refuse the score {score}, it took it")
    else:
        _must(not named, f"it says that it needs no score, it refuses {score}: {named}")


def decides_alike(strategy: Strategy, asked: Sequence[Question], answer: Answerer) -> None:
    """The same observations lead to the same requests and stops, whenever and in whatever order
    questions are served."""
    once = replay_phases(strategy, asked, answer)
    again = replay_phases(strategy, asked, answer)
    _must(once == again, "it must decide alike when asked again, it did not (random numbers?)")
    single: dict[str, Stop] = {}
    for stage, one, known in stages(strategy, [*reversed(asked)], answer):
        single[one.question_id] = drive(stage, one, partial(answer, one), known).stop
    stops = {key: outcome.stop for key, outcome in once.items()}
    _must(single == stops, "the order of questions must not matter, it does")


def seeds_by_address(
    strategy: Strategy, asked: Sequence[Question], answer: Answerer, budgets: Sequence[int]
) -> None:
    """Where two budgets ask for a completion of one address with one prompt, the seed is one."""
    seeds: dict[tuple[Any, ...], set[int]] = {}

    def noting(one: Question, request: Request) -> Observation:
        key = (one.question_id, request.address, request.digest())
        seeds.setdefault(key, set()).add(request.seed)
        return answer(one, request)

    for n in budgets:
        replay_phases(with_budget(strategy, n), asked, noting)
    for key, found in seeds.items():
        _must(len(found) == 1, f"the seed of {key[:2]} must not depend on n, got {found}")


def replays_from_a_pool(strategy: Strategy, asked: Sequence[Question], answer: Answerer) -> None:
    """What says `pool_replayable` asks for nothing but rounds of MR-Thinking and samples of
    Self-Consistency, with their prompts."""
    if not strategy.pool_replayable:
        return
    depth, shared = strategy.max_requests, {name: getattr(strategy, name) for name in _POOL_FIELDS}
    drawers = (MRThinking(n=depth, **shared), SelfConsistency(n=depth, **shared))
    recordings = {}
    for one in asked:
        drawn = []
        for drawer in drawers:
            done = drive(drawer, one, partial(answer, one))
            drawn += [
                Recorded(address=request.address, digest=request.digest(), observation=seen)
                for request, seen in zip(done.requests, done.completions, strict=True)
            ]
        recordings[one.question_id] = Recording.of(one, drawn)
    try:
        replay_phases(strategy, asked, lambda one, asks: recordings[one.question_id].find(asks))
    except ReplayMissError as error:
        raise ContractError(
            f"it says pool_replayable, so it must ask for what pools hold: {error}"
        ) from error


def is_a_value(strategy: Strategy) -> None:
    """It cannot be changed, equals itself after pickle, and refuses a budget of no completion."""
    pickle.dumps(strategy)
    _must(deepcopy(strategy) == strategy, "it must equal its copy by pickle, it does not")
    try:
        strategy.score = False  # type: ignore[misc]  # frozen: it must raise
    except (FrozenInstanceError, TypeError):
        pass
    else:
        raise ContractError("its fields must not change, they do")
    if with_budget(strategy, 1) is not strategy:
        try:
            with_budget(strategy, 0)
        except ValueError:
            return
        raise ContractError("n must be >= 1: n = 0 must raise ValueError, it does not")


_POOL_FIELDS = ("decoding", "prompts", "score")


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)
