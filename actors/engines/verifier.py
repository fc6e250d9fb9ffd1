"""The verifier engine: replies in, step scores out, on vLLM's pooling runner.

For process reward models of the kind of Qwen2.5-Math-PRM: a separator token after every step, two
classes at each, softmax, class 1 is "right". What surrounds the model is pure
(`pipeline.core.prm`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.engines import vllm_calls, vllm_setup
from actors.engines.engine_stats import EngineStats
from actors.engines.prompting import check_text
from actors.engines.start_checks import context_of
from actors.engines.templates import rendered
from actors.engines.vllm_engine import VllmEngine
from actors.routing.calls import ScoreCall, Scored
from pipeline.config.models import VerifierModel
from pipeline.config.runtime import PoolConfig
from pipeline.core import prm
from pipeline.core.errors import ConfigError, ErrorKind, VerifierError
from pipeline.core.protocol import Failure


@dataclass(frozen=True, slots=True)
class Solution:
    """A reply as the model reads it."""

    ids: list[int]
    n_steps: int
    truncated: bool


class VerifierEngine(VllmEngine):
    """One vLLM pooling engine. Its constructor loads the model and blocks until it can serve."""

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
            ConfigError: before any weights are loaded, if the separator is not one token, the chat
                template refuses a sample or drops separators, or a step of the engine is shorter
                than the context (step pooling reads a prompt in one piece).
        """
        self._model = VerifierModel.model_validate(model)
        pool_config = PoolConfig.model_validate(pool)
        vllm_setup.check_shape(self._model)
        context = context_of(self._model)
        check_step_size(context, pool_config.engine.max_num_batched_tokens)
        self._tokenizer = vllm_setup.tokenizer(self._model)
        self._separator_id = separator_id(self._tokenizer, self._model.step_separator)
        self._context = context or sys.maxsize
        for call in samples:
            self._check(call)
        self._smallest = Solution([self._separator_id], 1, truncated=False)
        arguments = vllm_setup.engine_args(
            self._model,
            pool_config,
            **vllm_setup.step_pooling(self._separator_id),
            # step pooling needs every position of the prompt in one forward pass
            enable_prefix_caching=False,
            enable_chunked_prefill=False,
        )
        self._load(arguments, pool_config)

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
            if isinstance(solution, Failure):
                self._meter.failed += 1
                return solution
            if not solution.n_steps:
                score = prm.aggregate((), self._model.aggregation)
                return Scored(step_scores=(), score=score, tokens=0, truncated=False)
            self._meter.prompt_tokens += len(solution.ids)
            rows = await self._in_time(call, self._run(solution, request_id), "scores")
            if isinstance(rows, Failure):
                return rows
            return self._scored(solution, rows)

    async def warm_up(self) -> None:
        """Score one step, so that what is loaded at first use belongs to the start.

        Raises:
            EngineDeadError: if it cannot.
        """
        await vllm_calls.answer_all([self._probe("warm-up")])
        self._meter.ready()

    def stats(self, replica: str = "") -> EngineStats:
        """What the engine counted so far."""
        stats = super().stats(replica)
        # vLLM tells of a batch when its step is over; a prompt is read in one step, so that it
        # never tells of any prompt in one
        at_work = self._meter.in_flight - stats.waiting
        running = max(0, min(at_work, stats.max_num_seqs))
        return replace(stats, running=running, slot_s=stats.busy_s)

    def _check(self, call: ScoreCall) -> None:
        """Refuse a template or a separator with which this call can never be scored."""
        try:
            solution = self._solution(call.question, call.reply)
        except ValueError as error:
            raise ConfigError(f"science.verifier {self._model.model}: {error}") from error
        kept = solution.ids.count(self._separator_id)
        if kept != solution.n_steps:
            raise ConfigError(
                f"science.verifier {self._model.model}: the chat template must keep "
                f"{solution.n_steps} separators {self._model.step_separator!r}, kept {kept}"
            )

    def _solution(self, question: str, reply: str) -> Solution:
        """Split, render, tokenize and fit; ValueError says what is wrong with the request."""
        check_text(question, "question")
        check_text(reply, "reply")
        separator = self._model.step_separator
        steps = prm.split_steps(reply, separator=separator, text=self._model.text)
        if not steps:
            return Solution([], 0, truncated=False)
        problem = prm.without(question, separator)
        fitted = prm.fit(steps, lambda some: len(self._ids(problem, some)), self._context)
        if fitted is None:
            raise ValueError(
                f"question has {len(self._ids(problem, ())):,} tokens with the prompt, the "
                f"verifier's context holds {self._context:,}"
            )
        ids = self._ids(problem, fitted.steps)
        return Solution(ids, len(fitted.steps), fitted.truncated)

    def _ids(self, problem: str, steps: Sequence[str]) -> list[int]:
        separator = self._model.step_separator
        turns = [
            {"role": "user", "content": problem},
            {"role": "assistant", "content": "".join(step + separator for step in steps)},
        ]
        if self._model.system is not None:
            turns.insert(0, {"role": "system", "content": self._model.system})
        text = rendered(self._tokenizer, turns)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _generated(self, output: Any) -> int:
        return 0

    async def _probe(self, request_id: str) -> Any:
        return await self._run(self._smallest, request_id)

    async def _run(self, solution: Solution, request_id: str) -> Any:
        """The rows at the separators; a Failure for errors of the request's own."""
        return await vllm_calls.token_classes(self._llm, solution.ids, request_id)

    def _scored(self, solution: Solution, rows: Sequence[Sequence[float]]) -> Scored | Failure:
        try:
            sent = solution.ids.count(self._separator_id)
            if sent != solution.n_steps:
                raise VerifierError(
                    f"separators: the chat template must keep {solution.n_steps}, kept {sent}"
                )
            scores = prm.step_scores(rows, solution.n_steps)
        except VerifierError as error:
            self._meter.failed += 1
            return Failure.of(ErrorKind.VERIFIER, error)
        return Scored(
            step_scores=scores,
            score=prm.aggregate(scores, self._model.aggregation),
            tokens=len(solution.ids),
            truncated=solution.truncated,
        )


def check_step_size(context: int | None, max_num_batched_tokens: int) -> None:
    """Step pooling reads a prompt in one piece: an engine step must hold a whole context.

    Raises:
        ConfigError: where it does not. With the model's own context (None), vLLM checks it.
    """
    if context is not None and max_num_batched_tokens < context:
        raise ConfigError(
            f"max_num_batched_tokens of the verifier must be at least its context of {context:,} "
            f"tokens, got {max_num_batched_tokens:,}"
        )


def separator_id(tokenizer: Any, separator: str) -> int:
    """The token that a separator is.

    Raises:
        ConfigError: if it is not exactly one token.
    """
    ids = tokenizer.encode(separator, add_special_tokens=False)
    if len(ids) != 1:
        raise ConfigError(f"step_separator must be one token, got {separator!r} of {len(ids)}")
    return int(ids[0])
