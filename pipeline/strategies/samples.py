"""Independent samples of one prompt: asking for them, being told, stopping on them.

What the parallel strategies share. Samples stand at round 0 of the parallel pool and are numbered
in the order in which they are asked for, whatever the strategy and its budget, so all of them draw
the same completions. A failed sample keeps its place, counts against the budget and does not vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from pipeline.answers.voting import Cluster, clusters, leader
from pipeline.core.decoding import Decoding
from pipeline.core.errors import ProtocolError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Failure,
    Generate,
    Observation,
    Pool,
    Question,
    Request,
    Stop,
    StopReason,
    check_observations,
)
from pipeline.core.seeds import request_seed

Profile = Literal["upstream", "paper"]
"""``upstream`` follows the method's own code, ``paper`` the code behind the paper's tables."""


class Sampler(Protocol):
    """What a strategy says about its samples."""

    @property
    def decoding(self) -> Decoding: ...
    @property
    def prompts(self) -> Prompts: ...
    @property
    def score(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What came of the samples of one question so far."""

    question: Question
    open: int = 0
    """Requests that were asked and not yet told."""
    answers: tuple[str | None, ...] = ()
    """One a sample told; None where it has none."""
    failed: tuple[int, ...] = ()
    """Positions of the samples that could not be had, ascending."""
    stopped: bool = False

    @property
    def drawn(self) -> int:
        """Samples told, the failed ones included."""
        return len(self.answers)

    @property
    def had(self) -> tuple[int, ...]:
        """Positions of the samples that were had, ascending."""
        return tuple(sample for sample in range(self.drawn) if sample not in self.failed)


def ask(samples: Samples, count: int, sampler: Sampler) -> tuple[Samples, Generate]:
    """Ask for the next `count` samples at once; they share a prompt, computed once."""
    question, decoding = samples.question, sampler.decoding
    messages, sampling = sampler.prompts.ask(question.text), decoding.sampling
    requests = tuple(
        Request(
            messages=messages,
            max_tokens=question.token_limit(decoding),
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            sampling=sampling,
            pool=Pool.PARALLEL,
            sample=sample,
            seed=request_seed(question.seed, Pool.PARALLEL, 0, 0, sample),
            score=sampler.score,
        )
        for sample in range(samples.drawn, samples.drawn + count)
    )
    return replace(samples, open=count), Generate(requests)


def tell(samples: Samples, observations: Sequence[Observation], *, scored: bool = False) -> Samples:
    """Take in what came for the open requests.

    Raises:
        ProtocolError: if it does not answer them, or the question has stopped.
    """
    if samples.stopped:
        raise ProtocolError(f"a stopped question takes no observations, got {len(observations)}")
    check_observations(observations, samples.open, scored=scored)
    answers, failed = list(samples.answers), list(samples.failed)
    for observation in observations:
        if isinstance(observation, Failure):
            failed.append(len(answers))
            answers.append(None)
        else:
            answers.append(observation.answer)
    return replace(samples, open=0, answers=tuple(answers), failed=tuple(failed))


def votes(
    samples: Samples, *, as_written: bool, weights: Sequence[float] | None = None
) -> tuple[Cluster, ...]:
    """The votes of the samples that were had; `members` are indices into `samples.had`."""
    return clusters(
        [samples.answers[position] for position in samples.had], weights, as_written=as_written
    )


def stop(samples: Samples, reason: StopReason, rounds: Sequence[int]) -> tuple[Samples, Stop]:
    """Stop on the samples at `rounds`; failed where none could be had at all."""
    if not samples.had:
        reason, rounds = StopReason.FAILED, ()
    return replace(samples, stopped=True), Stop(reason=reason, rounds=tuple(rounds))


def stop_on_vote(
    samples: Samples,
    reason: StopReason,
    *,
    profile: Profile,
    weights: Sequence[float] | None = None,
    silent: bool = False,
) -> tuple[Samples, Stop]:
    """Stop on all samples, to be voted over.

    Where "no answer" is a vote (`silent`) and wins, the stop rests on those samples alone, which
    give none. In the paper's profile answers are compared as written and "no answer" is a vote like
    any other, which no answer rule does: there the stop rests on the winning cluster alone, and
    every rule returns its answer.
    """
    if profile == "upstream" or not samples.had:
        had = samples.had
        winner = leader(clusters([samples.answers[at] for at in had], silent=silent))
        if winner is not None and winner.answer is None:
            had = tuple(had[index] for index in winner.members)
        return stop(samples, reason, had)
    winner = leader(votes(samples, as_written=True, weights=weights))
    assert winner is not None  # as written, every sample that was had votes
    return stop(samples, reason, [samples.had[index] for index in winner.members])
