"""Engines that answer from a pool: the live controller over recorded completions.

They prove that a pool's replay takes the decisions that a live run would take if the engines
returned those completions (`pipeline.replay.exact`), with the very controller that runs live.
"""

from __future__ import annotations

from actors.routing.interfaces import Generated, Scored
from pipeline.core.protocol import Completion, Failure, Request
from pipeline.replay.pool_selection import Digests
from pipeline.replay.pools import CompletionPool


class PoolGenerator:
    """Answers each request with what the pool recorded for it; nothing is made up.

    Args:
        pool: read with texts, from which the controller extracts the answers again.
    """

    def __init__(self, pool: CompletionPool) -> None:
        digests = Digests()
        self._answers = {question.key: question.answers(digests) for question in pool.questions}

    async def generate(
        self, request: Request, *, session: str, priority: float = 0.0
    ) -> Generated | Failure:
        """See `actors.routing.interfaces.Generator`; a miss is raised.

        Raises:
            ReplayMissError: where the pool holds nothing for the request.
        """
        del priority
        found = self._answers[_question_of(session)](request)
        if isinstance(found, Failure):
            return found
        return Generated(
            text=found.text,
            finish_reason=found.finish_reason,
            prompt_tokens=found.prompt_tokens,
            cached_prompt_tokens=found.cached_prompt_tokens,
            completion_tokens=found.completion_tokens,
            thinking_tokens=found.thinking_tokens,
            replica="pool",
        )


class PoolVerifier:
    """Scores each reply as the pool has it.

    Raises:
        ValueError: (by the constructor) where one reply to a question was given two scores.
    """

    def __init__(self, pool: CompletionPool) -> None:
        self._scored: dict[tuple[str, str, str], Scored] = {}
        for question in pool.questions:
            for entry in (*question.rounds, *question.samples):
                seen = entry.observation
                if not isinstance(seen, Completion) or seen.score is None:
                    continue
                scored = Scored(
                    step_scores=seen.step_scores or (),
                    score=seen.score,
                    tokens=seen.verifier_tokens,
                    truncated=seen.prm_truncated,
                )
                if self._scored.setdefault((*question.key, seen.text), scored) != scored:
                    raise ValueError(
                        f"a reply must have one score, question {question.key!r} has a reply "
                        f"with {scored.score!r} and another"
                    )

    async def score(self, question: str, reply: str, *, session: str) -> Scored | Failure:
        """See `actors.routing.interfaces.Verifier`."""
        del question
        return self._scored[(*_question_of(session), reply)]


def _question_of(session: str) -> tuple[str, str]:
    """(benchmark, question_id) of ``<label>/<benchmark>/<question_id>`` (`Work.session`)."""
    _, benchmark, question_id = session.split("/", 2)
    return benchmark, question_id
