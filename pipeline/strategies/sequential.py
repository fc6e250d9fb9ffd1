"""One sequential chain: ask, show the model its previous answer, ask again, and when to stop.

Base, MR-Thinking and the three MarkovScale variants are the same chain under different plans. All
their transitions are in this file.

Counting: N is the number of completions drawn; round r = 0 is the first answer. The paper's rule
is tested with i = r + 1 after round r was scored, so a gated question costs one completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.core.decoding import Decoding
from pipeline.core.errors import ProtocolError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Belief,
    Completion,
    Failure,
    Generate,
    Message,
    Observation,
    Pool,
    Question,
    Request,
    Stop,
    StopReason,
    check_observations,
)
from pipeline.core.seeds import request_seed
from pipeline.statistics.calibration_maps import CalibrationMap
from pipeline.theory.markov import Regime, regime
from pipeline.theory.posterior import BetaPosterior
from pipeline.theory.stopping import STOP_RULES, StopRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a chain decides by; made by each strategy from its own fields and the question."""

    n: int
    """Completions drawn at most."""
    decoding: Decoding
    prompts: Prompts
    score: bool
    """Whether completions are scored."""
    score_every: int = 1
    """Rounds from one score to the next; the first and the last of the budget always have one."""
    gate: bool = False
    stop_rule: StopRule | None = None
    rounds_before_stopping: int = 1
    """Gate and stopping rule are first tested once this many completions were drawn."""
    tau: float = 1.0
    sigma: float = 0.0
    gamma: float = 10.0
    a: float | None = None
    b: float | None = None
    p0: float | None = None
    p0_source: str | None = None
    """``first_score`` where p0 is the score of round 0."""
    calibration: CalibrationMap | None = None
    """What a score is worth as a chance of being right; None takes it as it is."""
    chain: int = 0
    """Which of several chains of the question this is; each has its own seeds."""

    def scores(self, round: int) -> bool:
        """Whether the completion of a round is scored."""
        return self.score and (round % self.score_every == 0 or round == self.n - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """A chain between two rounds."""

    question: Question
    plan: Plan
    round: int = 0
    """The round that was asked for and not yet told."""
    p0: float | None = None
    alpha: float | None = None
    beta: float | None = None
    path: tuple[float, ...] = ()
    """Posterior mode after each round told."""
    stopped: bool = False


def begin(
    question: Question, plan: Plan, posterior: BetaPosterior | None = None
) -> tuple[ChainState, Action]:
    """Start a chain. `posterior` fixes the prior; else it is p0 and gamma of the plan (Eq. 16)."""
    if posterior is None and plan.p0 is not None and plan.stop_rule is not None:
        posterior = BetaPosterior.prior(p0_hat=plan.p0, gamma=plan.gamma)
    state = ChainState(
        question=question,
        plan=plan,
        p0=plan.p0,
        alpha=None if posterior is None else posterior.alpha,
        beta=None if posterior is None else posterior.beta,
    )
    return state, Generate((_request(state, plan.prompts.ask(question.text)),))


def advance(state: ChainState, observations: Sequence[Observation]) -> tuple[ChainState, Action]:
    """Tell a chain its round; the order of the tests is that of `StopReason`."""
    if state.stopped:
        raise ProtocolError(f"a stopped chain takes no observations, got {len(observations)}")
    plan = state.plan
    scored = plan.scores(state.round) or not plan.score
    needs_score = plan.stop_rule is not None or (plan.gate and plan.p0_source == "first_score")
    check_observations(observations, 1, scored=needs_score and scored)
    observation = observations[0]
    match observation:
        case Failure():
            return _stop(state, StopReason.FAILED, drawn=state.round)
        case Completion() if scored:
            state = _believe(state, observation)
        case Completion():  # the belief stands
            state = replace(state, path=(*state.path, *state.path[-1:]))
    drawn = state.round + 1
    if plan.gate and drawn == plan.rounds_before_stopping and _is_gated(state):
        return _stop(state, StopReason.GATED, drawn=drawn)
    tested = plan.stop_rule is not None and scored and drawn >= plan.rounds_before_stopping
    if tested and _is_confident(state):
        return _stop(state, StopReason.CONFIDENT, drawn=drawn)
    if drawn >= plan.n:
        return _stop(state, StopReason.BUDGET, drawn=drawn)
    state = replace(state, round=drawn)
    previous = plan.prompts.fed_back(observation)
    return state, Generate(
        (_request(state, plan.prompts.ask_again(state.question.text, previous)),)
    )


MOST = 32_767
"""Completions a question at most: positions among them take 16 bits."""


def check_budget(n: int) -> None:
    """Refuse a budget under one completion, and one that nobody could draw or keep."""
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n!r}")
    if n > MOST:
        raise ValueError(f"n must be at most {MOST}, got {n!r}")


def check_score_every(rounds: int) -> None:
    """Refuse a distance between two scores of less than one round."""
    if rounds < 1:
        raise ValueError(f"score_every must be >= 1, got {rounds!r}")


def check_unit(name: str, value: float, *, low: float = 0.0) -> None:
    """Refuse a value outside [low, 1]."""
    if not low <= value <= 1:
        raise ValueError(f"{name} must be in [{low:g}, 1], got {value!r}")


def chain_request(
    question: Question,
    decoding: Decoding,
    messages: tuple[Message, ...],
    *,
    round: int,
    score: bool,
    chain: int = 0,
) -> Request:
    """The request of one round of a chain: the same for every strategy that asks for it."""
    return Request(
        messages=messages,
        max_tokens=question.token_limit(decoding),
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        sampling=decoding.sampling,
        pool=Pool.SEQUENTIAL,
        chain=chain,
        round=round,
        seed=request_seed(question.seed, Pool.SEQUENTIAL, chain, round, 0),
        score=score,
    )


def _request(state: ChainState, messages: tuple[Message, ...]) -> Request:
    plan, round = state.plan, state.round
    return chain_request(
        state.question,
        plan.decoding,
        messages,
        round=round,
        score=plan.scores(round),
        chain=plan.chain,
    )


def _believe(state: ChainState, completion: Completion) -> ChainState:
    """Take a round's score into the belief (Eq. 17) and note the mode (Eq. 18)."""
    plan, score = state.plan, completion.score
    if plan.calibration is not None and score is not None:
        score = plan.calibration(score)
    if state.round == 0 and plan.p0_source == "first_score" and score is not None:
        state = replace(state, p0=score)
        if plan.stop_rule is not None and state.alpha is None:
            prior = BetaPosterior.prior(p0_hat=score, gamma=plan.gamma)
            state = replace(state, alpha=prior.alpha, beta=prior.beta)
    if state.alpha is None or state.beta is None or score is None:
        return state
    posterior = BetaPosterior(state.alpha, state.beta).update(score)
    return replace(
        state, alpha=posterior.alpha, beta=posterior.beta, path=(*state.path, posterior.map)
    )


def _is_gated(state: ChainState) -> bool:
    """Theorem 1: scaling is beneficial if and only if p0 < L + sigma."""
    plan = state.plan
    if state.p0 is None or plan.a is None or plan.b is None:
        raise ProtocolError("the gate needs p0, a and b")
    return regime(p0=state.p0, a=plan.a, b=plan.b, sigma=plan.sigma) is not Regime.BENEFICIAL


def _is_confident(state: ChainState) -> bool:
    plan = state.plan
    if plan.stop_rule is None or plan.a is None or plan.b is None or not state.path:
        raise ProtocolError("the stopping rule needs p0, a and b")
    rule = STOP_RULES[plan.stop_rule]
    return rule.holds(state.path[-1], state.round + 1, a=plan.a, b=plan.b, plan=plan)


def _stop(state: ChainState, reason: StopReason, *, drawn: int) -> tuple[ChainState, Stop]:
    plan = state.plan
    belief = Belief(p0=state.p0, p0_source=plan.p0_source, a=plan.a, b=plan.b, path=state.path)
    return replace(state, stopped=True), Stop(
        reason=reason, rounds=tuple(range(drawn)), belief=belief
    )
