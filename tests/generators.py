"""Hypothesis generators and small builders shared by the tests of strategies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pipeline.core.protocol import (
    Completion,
    Failure,
    Observation,
    PhaseStats,
    Priors,
    Question,
    Request,
    Strategy,
    decisions,
)
from pipeline.core.seeds import question_seed

ALPHABET = "ab1 {}\\<>&\"'\n\x00\u202e\u00e9\u0663\U0001f600"
"""Characters that text may trip over; the tables of all of Unicode take seconds to make."""
PRIORS = Priors(p0=0.4, p0_source="predictor", a=0.1, b=0.3)


def question(number: int = 0, *, priors: Priors = PRIORS) -> Question:
    """A question with everything that any strategy may want to know of it."""
    question_id = f"q{number}"
    return Question(
        benchmark="made-up",
        question_id=question_id,
        text=f"{number} + 1?",
        seed=question_seed(0, "made-up", question_id),
        priors=priors,
    )


def completion(answer: str | None, score: float | None = 0.5, **fields: Any) -> Completion:
    """A scored completion with an answer; its text boxes it."""
    fields.setdefault("text", "" if answer is None else f"So \\boxed{{{answer}}}")
    fields.setdefault("completion_tokens", 10)
    fields.setdefault("step_scores", None if score is None else (score,))
    return Completion(answer=answer, score=score, **fields)


def completions(answers: Sequence[str | None]) -> list[Completion]:
    """One scored completion an answer."""
    return [completion(answer) for answer in answers]


@cache
def scores() -> st.SearchStrategy[float]:
    """Verifier scores, the ends of the range included."""
    return st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])


@cache
def answers() -> st.SearchStrategy[str | None]:
    """Few distinct answers, so that votes agree and tie, and none at all."""
    return st.sampled_from(["1", "2", "3", None])


_TEXTS = st.sampled_from(
    [
        "",
        "<think>\nhm</think> \\boxed{ANSWER}",
        "hm",
        '{"sub-questions": [{"description": "a?", "answer": 1, "depend": []}, '
        '{"description": "b?", "answer": "2", "depend": [0]}]}',
        "<question>1 + 2?</question>",
        "Ranking: Q2, Q1",
        "Q1 is easy. Ranking: Q1, Q2, Q3",
    ]
) | st.text(ALPHABET, max_size=20)
_STEPS, _TOKENS = st.lists(scores(), max_size=3), st.integers(0, 50)
_ENDS = st.sampled_from(["stop", "length"])


@st.composite
def completions_of_any_kind(draw: st.DrawFn) -> Completion:
    """Scored completions: answered or not, whole or cut, with the texts that strategies read."""
    answer = draw(answers())
    return Completion(
        text=draw(_TEXTS).replace("ANSWER", str(answer)),
        answer=answer,
        finish_reason=draw(_ENDS),
        completion_tokens=draw(_TOKENS),
        step_scores=tuple(draw(_STEPS)),
        score=draw(scores()),
        **draw(logprobs()),
    )


@cache
def logprobs() -> st.SearchStrategy[dict[str, float]]:
    """Fields of a completion whose log-probabilities were recorded, or of one without."""
    return st.sampled_from(
        [
            {},
            *(
                {"token_confidence": sure, "least_token_confidence": 0.5, "token_entropy": entropy}
                for sure, entropy in ((9.9, 0.0), (2.0, 1.5), (1.0, 3.0))
            ),
        ]
    )


@cache
def observations() -> st.SearchStrategy[Observation]:
    """What may come for a request that is to be scored; one in eight fails."""
    failure = st.builds(Failure, error=st.just("EngineError: lost"))
    had = completions_of_any_kind()
    return st.integers(0, 7).flatmap(lambda dice: failure if dice == 0 else had)


Answerer = Callable[[Question, Request], Observation]


@cache
def answerers() -> st.SearchStrategy[Answerer]:
    """Engines: functions that answer the same request of a question alike, whenever it is asked.

    An engine holds a few drawn observations and picks by a hash of question, address and prompt.
    """
    return st.lists(observations(), min_size=1, max_size=6).map(_answerer)


def _answerer(choices: Sequence[Observation]) -> Answerer:
    def answer(asked: Question, request: Request) -> Observation:
        key = f"{asked.question_id} {request.address} {request.digest()}"
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
        return choices[number % len(choices)]

    return answer


def statistics() -> PhaseStats:
    """What a phase may have learnt."""
    return PhaseStats(a=0.1, b=0.3, labels="score")


def first_requests(
    strategy: Strategy, question: Question, statistics: PhaseStats | None = None
) -> tuple[Request, ...]:
    """What a strategy asks for first."""
    return next(decisions(strategy, question, statistics))
