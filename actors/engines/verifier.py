"""*VerifierEngine*: scores the steps of replies, on vLLM.

It hosts any kind of verifier (`actors.engines.verifiers`): a kind makes the prompts, asks the model
and reads its scores; what surrounds that is here. What surrounds the model is pure
(`pipeline.core.prm`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

from actors.engines import vllm_engine, vllm_setup
from actors.engines.engine_stats import EngineStats
from actors.engines.prompting import check_text, most_characters
from actors.engines.verifiers.kind import Kind, Running, Scores, Solution
from actors.engines.vllm_engine import VllmEngine
from actors.engines.vllm_setup import context_of
from actors.routing.calls import ScoreCall, Scored
from pipeline.config.models import VerifierModel
from pipeline.config.profiles import VerifierKind
from pipeline.config.runtime import PoolConfig
from pipeline.core import prm
from pipeline.core.errors import ConfigError, ErrorKind, VerifierError
from pipeline.core.protocol import Failure

KINDS: dict[VerifierKind, str] = {
    "qwen_prm": "actors.engines.verifiers.step_reader:QwenPrm",
    "token_pair": "actors.engines.verifiers.step_reader:TokenPair",
    "one_column": "actors.engines.verifiers.step_reader:OneColumn",
    "generative": "actors.engines.verifiers.generative:Generative",
}
"""``module:class`` of each kind, made with the model's configuration and its tokenizer."""


class VerifierEngine(VllmEngine):
    """One vLLM engine. Its constructor loads the model and blocks until it can serve."""

    kind = "verifier"

    def __init__(
        self, model: dict[str, Any], pool: dict[str, Any], samples: Sequence[ScoreCall] = ()
    ) -> None:
        """Start the engine.

        Args:
            model: fields of `VerifierModel`, JSON-able so that a restarted actor gets them again.
            pool: fields of `PoolConfig`.
            samples: a call of each kind that will come.

        Raises:
            ConfigError: before any weights are loaded, if the model is not of the verifier's kind,
                a tag is not one token, the chat template refuses a sample or drops tags, or a step
                of the engine is shorter than the context where it must read a prompt in one piece.
        """
        self._model = VerifierModel.model_validate(model)
        pool_config = PoolConfig.model_validate(pool)
        vllm_setup.check_shape(self._model)
        context = context_of(self._model)
        tokenizer = vllm_setup.tokenizer(self._model)
        self._kind: Kind = resolve_name(KINDS[self._model.kind])(self._model, tokenizer)
        self._kind.check_pool(pool_config, context)
        self._context = context or sys.maxsize
        self._most_characters = most_characters(tokenizer, self._context)
        for call in samples:
            self._check(call)
        arguments = vllm_setup.engine_args(self._model, pool_config, **self._kind.arguments())
        self._load(arguments, pool_config)
        self._to_run = Running(self._llm, self._tokenizing)

    async def serve(self, call: ScoreCall) -> Scored | Failure:
        """See `Engine.serve`.

        A reply without text to judge (cut inside its thinking) is not sent to the model; see
        `pipeline.core.prm.aggregate` for its score.

        Returns:
            The scores, or a `Failure` of any kind but those of a lost replica.
        """
        request_id = call.request_id
        with self._meter.request():
            solution = await self._tokenizing.run(
                request_id, lambda: self._solution(call.question, call.reply)
            )
            if solution is None:
                score = prm.aggregate((), self._model.aggregation)
                return Scored(step_scores=(), score=score, tokens=0, truncated=False)
            if isinstance(solution, Failure):
                return solution
            scores = await self._in_time(call, self._run(solution, request_id), "scores")
            if isinstance(scores, Failure):
                return scores
            return Scored(
                step_scores=scores.of_steps,
                score=prm.aggregate(scores.of_steps, self._model.aggregation),
                tokens=scores.read + scores.wrote,
                truncated=solution.truncated,
            )

    async def abort(self, request_id: str) -> int | None:
        """Stop a request in the engine.

        Returns:
            0, a verifier makes no part of a reply; None for a request that is not running here.
        """
        if self._tokenizing.abort(request_id):
            return 0
        task = self._running.get(request_id)
        if task is None or task.done():
            return None
        task.cancel()  # vLLM aborts what nobody waits for any more
        await asyncio.wait({task})
        self._meter.aborted += 1
        return 0

    async def warm_up(self) -> None:
        """Score one step, so that what is loaded at first use belongs to the start.

        Raises:
            EngineDeadError: if it cannot.
        """
        await vllm_engine.answer_all([self._probe("warm-up")])
        self._meter.ready()

    async def _probe(self, request_id: str) -> Any:
        return await self._run(self._kind.probe, request_id)

    def stats(self, replica: str = "") -> EngineStats:
        """What the engine counted so far."""
        stats = super().stats(replica)
        # vLLM tells of a batch when its step is over; a prompt is read in one step, so that it
        # never tells of any prompt in one
        at_work = self._meter.in_flight - stats.waiting
        running = max(0, min(at_work, stats.max_num_seqs))
        return replace(stats, running=running, slot_s=stats.busy_s)

    def _check(self, call: ScoreCall) -> None:
        """Refuse a template or a tag with which this call can never be scored."""
        try:
            self._solution(call.question, call.reply)
        except ValueError as error:
            raise ConfigError(f"science.verifier {self._model.model}: {error}") from error

    def _solution(self, question: str, reply: str) -> Solution | None:
        """Split, render, tokenize and fit; None for a reply without text to judge.

        Raises:
            ValueError: saying what is wrong with the request.
        """
        check_text(question, "question")
        check_text(reply, "reply")
        if len(question) > self._most_characters:
            raise ValueError(
                f"question has {len(question):,} characters, the verifier's context of "
                f"{self._context:,} tokens holds at most {self._most_characters:,}"
            )
        steps = self._kind.split(reply)
        if not steps:
            return None
        problem = self._kind.clean(question)
        fitted = prm.fit(steps, lambda some: self._kind.length(problem, some), self._context)
        if fitted is None:
            raise ValueError(
                f"question has {self._kind.length(problem, ()):,} tokens with the prompt, and what "
                f"is written after it, the verifier's context holds {self._context:,}"
            )
        return self._kind.solution(problem, fitted)

    async def _run(self, solution: Solution, request_id: str) -> Scores | Failure:
        """The scores; a Failure for errors of the request's own, and for what are no scores."""
        try:
            scores = await self._kind.run(self._to_run, solution, request_id)
        except VerifierError as error:
            return Failure.of(ErrorKind.VERIFIER, error)
        if isinstance(scores, Scores):
            self._meter.prompt_tokens += scores.read
        return scores
