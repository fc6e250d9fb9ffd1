"""Replay: what is recorded is used exactly, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.core.decoding import Decoding
from pipeline.core.errors import ReplayMissError
from pipeline.core.protocol import Failure, Observation, Request, StopReason
from pipeline.records.trajectory import row_of
from pipeline.replay.exact import Recorded, Recording, drive, replay
from pipeline.strategies.best_of_n import BestOfN
from pipeline.strategies.self_consistency import AdaptiveConsistency, SelfConsistency
from pipeline.strategies.sequential import MRThinking
from tests.generators import completion, first_requests, question

QUESTION = question()


def pool_of(observations: list[Observation]) -> Recording:
    """A pool of samples of the question, drawn with the default prompt and decoding."""
    requests = first_requests(SelfConsistency(n=len(observations)), QUESTION)
    return recording(list(zip(requests, observations, strict=True)))


def recording(pairs: list[tuple[Request, Observation]]) -> Recording:
    """Requests and what they got, as a pool."""
    recorded = [
        Recorded(address=request.address, digest=request.digest(), observation=observation)
        for request, observation in pairs
    ]
    return Recording.of(QUESTION, recorded)


POOL = pool_of([completion(answer) for answer in "1112111111"])


def test_strategies_share_a_pool_of_samples() -> None:
    """Best-of-n, self-consistency and ASC ask for the same samples, whatever their budgets."""
    stops = [
        replay(strategy, QUESTION, POOL).stop
        for strategy in (BestOfN(n=3), SelfConsistency(n=10), AdaptiveConsistency(n=10))
    ]

    assert [(stop.reason, len(stop.rounds)) for stop in stops] == [
        (StopReason.BUDGET, 3),
        (StopReason.BUDGET, 10),
        (StopReason.AGREED, 7),
    ]


def test_replay_gives_back_requests_and_completions() -> None:
    """One completion a request, in request order."""
    replayed = replay(BestOfN(n=2), QUESTION, POOL)

    assert [request.address for request in replayed.requests] == [
        ("parallel", 0, 0, 0),
        ("parallel", 0, 0, 1),
    ]
    assert replayed.completions == (completion("1"), completion("1"))


def test_missing_completion_is_named_and_not_resampled() -> None:
    """A budget beyond the pool is a miss with benchmark, question, address and what there is."""
    with pytest.raises(
        ReplayMissError,
        match="benchmark 'made-up', question 'q0', pool parallel, chain 0, round 0, sample 10 of "
        "10 recorded addresses: nothing was recorded there",
    ):
        replay(SelfConsistency(n=11), QUESTION, POOL)


def test_other_sampling_parameters_are_a_mismatch() -> None:
    """A completion drawn at another temperature is not that of this request."""
    hotter = SelfConsistency(n=2, decoding=Decoding(temperature=1.0))

    with pytest.raises(ReplayMissError, match="another request was recorded there"):
        replay(hotter, QUESTION, POOL)


def test_another_prompt_is_a_mismatch() -> None:
    """A chain over a pool in which round 0 had another answer asks something else in round 1."""
    chain = MRThinking(n=2)
    requests = drive(chain, QUESTION, lambda request: completion("1")).requests
    told = recording(list(zip(requests, [completion("2"), completion("3")], strict=True)))

    with pytest.raises(ReplayMissError, match=r"round 1, sample 0 .* another request"):
        replay(chain, QUESTION, told)


def test_unscored_completion_does_not_serve_a_request_for_a_score() -> None:
    """It serves one that asks for none; a failure was recorded as it came and serves both."""
    unscored = pool_of([completion("1", None), Failure(error="EngineError: lost")])

    with pytest.raises(ReplayMissError, match="without a score"):
        replay(SelfConsistency(n=2), QUESTION, unscored)
    assert replay(SelfConsistency(n=2, score=False), QUESTION, unscored).stop.rounds == (0,)


def test_first_record_with_the_digest_counts() -> None:
    """Where work was redone, the oldest record of this very request is used."""
    request = replay(BestOfN(n=1), QUESTION, POOL).requests[0]
    other = replace(request, temperature=1.0)
    told = recording(
        [(other, completion("0")), (request, completion("1")), (request, completion("2"))]
    )

    assert told.find(request) == completion("1")
    assert told.find(other) == completion("0")


def test_rows_of_a_journal_are_records() -> None:
    """A recording is made from rows in the trajectory schema."""
    request = replay(BestOfN(n=1), QUESTION, POOL).requests[0]
    row = row_of(
        run="r",
        attempt=0,
        strategy="best_of_n",
        question=QUESTION,
        request=request,
        observation=completion("1"),
    )

    assert Recorded.of_row(row) == Recorded(
        address=request.address, digest=request.digest(), observation=completion("1")
    )


def test_recording_of_another_question_is_refused() -> None:
    """A mix-up is named before anything is replayed."""
    with pytest.raises(ValueError, match=r"recording must be of question \('made-up', 'q1'\)"):
        replay(BestOfN(n=1), question(1), POOL)
