"""Engines that answer from a pool: the live controller over recorded completions.

They prove that a pool's replay takes the decisions that a live run would take if the engines
returned those completions (`pipeline.replay.exact`), with the very controller that runs live.
"""

from __future__ import annotations

from actors.routing.calls import GenerateCall, Generated, ScoreCall, Scored
from pipeline.core.protocol import Completion, Failure
from pipeline.replay.pool_rows import Digests
from pipeline.replay.pools import CompletionPool


class PoolGenerator:
    """Answers each request with what the pool recorded for it; nothing is made up.

    Args:
        pool: read with texts, from which the controller extracts the answers again.
    """

    def __init__(self, pool: CompletionPool) -> None:
        digests = Digests()
        self._answers = {question.key: question.answers(digests) for question in pool.questions}

    async def call(self, call: GenerateCall) -> Generated | Failure:
        """See `actors.routing.calls.EnginePool`; a miss is raised.

        Raises:
            ReplayMissError: where the pool holds nothing for the request.
        """
        found = self._answers[_question_of(call.session)](call.request)
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

    async def call(self, call: ScoreCall) -> Scored | Failure:
        """See `actors.routing.calls.EnginePool`."""
        return self._scored[(*_question_of(call.session), call.reply)]


def _question_of(session: str) -> tuple[str, str]:
    """(benchmark, question_id) of ``<label>/<benchmark>/<question_id>`` (`Work.session`)."""
    _, benchmark, question_id = session.split("/", 2)
    return benchmark, question_id
