"""Pools for tests: drawn by scripted observations through the strategies that draw real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pipeline.config.science import ScienceConfig
from pipeline.core.protocol import Completion, Failure, Observation, Priors, Question, Request
from pipeline.replay.exact import Recorded, drive
from pipeline.replay.pools import CompletionPool, PoolQuestion
from pipeline.strategies.self_consistency import SelfConsistency
from pipeline.strategies.sequential import MRThinking
from tests.generators import answers, completion, logprobs, scores
from tests.generators import question as a_question

VERDICTS = ("right", "wrong", "ungraded", None)


def science(rounds: int = 4, samples: int = 4, **fields: Any) -> ScienceConfig:
    """What a collection of made-up questions was asked."""
    return ScienceConfig.model_validate(
        {
            "benchmarks": [{"name": "arithmetic", "size": 4}],
            "strategies": [
                {"kind": "mr_thinking", "label": "sequential", "n": rounds},
                {"kind": "self_consistency", "label": "parallel", "n": samples},
            ],
            "generator": {"model": "made-up"},
            "verifier": {"model": "made-up"},
            **fields,
        }
    )


def pool_question(
    question: Question,
    rounds: Sequence[Observation],
    samples: Sequence[Observation],
    verdict: Callable[[Completion], str | None],
) -> PoolQuestion:
    """A question whose chain and samples are these; a failure ends the chain."""
    taken: dict[str, list[Recorded]] = {"sequential": [], "parallel": []}

    def answer(request: Request) -> Observation:
        place = request.round if request.pool == "sequential" else request.sample
        observation = (rounds if request.pool == "sequential" else samples)[place]
        taken[request.pool].append(
            Recorded(address=request.address, digest=request.digest(), observation=observation)
        )
        return observation

    if rounds:
        drive(MRThinking(n=len(rounds)), question, answer)
    if samples:
        drive(SelfConsistency(n=len(samples)), question, answer)

    def verdicts(entries: Sequence[Recorded]) -> tuple[str | None, ...]:
        seen = [entry.observation for entry in entries]
        return tuple(verdict(o) if isinstance(o, Completion) else None for o in seen)

    return PoolQuestion(
        question=question,
        gold="1",
        level=None,
        rounds=tuple(taken["sequential"]),
        round_verdicts=verdicts(taken["sequential"]),
        samples=tuple(taken["parallel"]),
        sample_verdicts=verdicts(taken["parallel"]),
    )


def pool_of(
    questions: Sequence[PoolQuestion], *, rounds: int = 4, samples: int = 4
) -> CompletionPool:
    """Questions as a pool."""
    return CompletionPool(
        address="made-up-pool",
        science=science(rounds, samples),
        synthetic=True,
        rounds=rounds,
        samples=samples,
        questions=tuple(questions),
        discarded=0,
    )


@st.composite
def pools(draw: st.DrawFn, *, rounds: int = 6, samples: int = 0) -> CompletionPool:
    """Pools of 1 to 4 questions in two benchmarks, with failures, ties, votes and all verdicts."""
    verdicts = draw(st.lists(st.sampled_from(VERDICTS), min_size=4, max_size=4))
    by_answer = dict(zip(["1", "2", "3", None], verdicts, strict=True))
    with_p0 = draw(st.booleans())
    questions = []
    for number in range(draw(st.integers(1, 4))):
        priors = Priors(
            p0=draw(scores()) if with_p0 else None,
            p0_source="predictor" if with_p0 else None,
            a=draw(scores()),
            b=draw(scores()),
        )
        asked = a_question(number, priors=priors)
        asked = Question(
            benchmark=f"set-{number % 2}",
            question_id=asked.question_id,
            text=asked.text,
            seed=asked.seed,
            priors=priors,
        )
        chain = draw(st.lists(_observations(), min_size=rounds, max_size=rounds))
        drawn = draw(st.lists(_observations(), min_size=samples, max_size=samples))
        questions.append(
            pool_question(asked, chain, drawn, lambda seen: by_answer.get(seen.answer))
        )
    return pool_of(questions, rounds=rounds, samples=samples)


@cache
def _observations() -> st.SearchStrategy[Observation]:
    """Scored completions; one in sixteen fails."""
    had = st.builds(
        lambda answer, score, tokens, told, stop: completion(
            answer, score, completion_tokens=tokens, says_stop=stop, **told
        ),
        answers(),
        scores(),
        st.integers(0, 99),
        logprobs(),
        st.booleans(),
    )
    lost = st.just(Failure(error="engine: lost"))
    return st.integers(0, 15).flatmap(lambda dice: lost if dice == 0 else had)
