"""A chain of revisions that stops on what its answers say: asking, being told, stopping.

What `chain_asc` and `agree` share. They draw the rounds that MR-Thinking draws, in the same order
and with the same seeds, so one pool of chains replays them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.core.errors import ProtocolError
from pipeline.core.protocol import (
    Completion,
    Failure,
    Generate,
    Observation,
    Question,
    Stop,
    StopReason,
    check_observations,
)
from pipeline.strategies.samples import Sampler
from pipeline.strategies.sequential import chain_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """What came of the rounds of one question so far."""

    question: Question
    answers: tuple[str | None, ...] = ()
    """One a round told; None where it has none."""
    scores: tuple[float | None, ...] = ()
    """One a round told; None where the verifier gave none."""
    stopped: bool = False

    @property
    def drawn(self) -> int:
        """Rounds told."""
        return len(self.answers)


def ask_first(question: Question, reviser: Sampler) -> tuple[Revisions, Generate]:
    """Ask the plain question."""
    messages = reviser.prompts.ask(question.text)
    request = chain_request(question, reviser.decoding, messages, round=0, score=reviser.score)
    return Revisions(question=question), Generate((request,))


def tell(state: Revisions, observations: Sequence[Observation]) -> Revisions | None:
    """Take in the round that was asked for; None where it could not be had.

    Raises:
        ProtocolError: if `observations` do not answer it, or the question has stopped.
    """
    if state.stopped:
        raise ProtocolError(f"a stopped chain takes no observations, got {len(observations)}")
    check_observations(observations, 1, scored=False)
    match observations[0]:
        case Failure():
            return None
        case Completion(answer=answer, score=score):
            return replace(state, answers=(*state.answers, answer), scores=(*state.scores, score))


def ask_again(state: Revisions, last: Observation, reviser: Sampler) -> tuple[Revisions, Generate]:
    """Show the answer of the last round and ask again."""
    assert isinstance(last, Completion)  # a failure ends the chain
    previous = reviser.prompts.fed_back(last)
    messages = reviser.prompts.ask_again(state.question.text, previous)
    request = chain_request(
        state.question, reviser.decoding, messages, round=state.drawn, score=reviser.score
    )
    return state, Generate((request,))


def stop(
    state: Revisions, reason: StopReason, rounds: Sequence[int] | None = None
) -> tuple[Revisions, Stop]:
    """Stop on `rounds`, or on all that were told."""
    rests_on = range(state.drawn) if rounds is None else rounds
    return replace(state, stopped=True), Stop(reason=reason, rounds=tuple(rests_on))
