"""*Generative*: asks a language model whether a solution is right.

See `pipeline.core.judging` for what it is asked and how its verdict is read, and
`actors.engines.chat_wire.JudgeWire` for judges behind an endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from actors.engines import vllm_engine
from actors.engines.prompting import rendered
from actors.engines.verifiers.kind import (
    LANGUAGE_MODELS,
    Running,
    Scores,
    Solution,
    described,
    refused,
    shape_of,
    special_tokens,
    tokens_of,
    unforged,
)
from pipeline.config.models import VerifierModel
from pipeline.config.runtime import PoolConfig
from pipeline.core import prm
from pipeline.core.judging import (
    probability_of_right,
    question_turns,
    require_one_request,
    share_of_right,
)
from pipeline.core.prm import Fitted
from pipeline.core.protocol import Failure
from pipeline.core.step_format import MARK, Turn
from pipeline.core.thinking import is_open, opened_by


class Generative:
    """A `Kind`."""

    def __init__(self, model: VerifierModel, tokenizer: Any) -> None:
        self.model, self.judge, self.tokenizer = model, model.judge, tokenizer
        has = shape_of(model)
        if not has.ends_with(*LANGUAGE_MODELS):
            raise refused(model, described(has), "a language model head (...ForCausalLM)")
        require_one_request(self.judge)
        self.words: dict[str, int] = {}
        if self.judge.read == "probability":
            words = (*self.judge.right, *self.judge.wrong)
            self.words = tokens_of(model, tokenizer, words, "a word of right or wrong")
        self.marks = special_tokens(tokenizer)
        self.probe = Solution("", ("",), truncated=False)

    def arguments(self) -> dict[str, Any]:
        """See `Kind.arguments`."""
        return {"enable_prefix_caching": True}

    def check_pool(self, pool: PoolConfig, context: int | None) -> None:
        """See `Kind.check_pool`: any engine will do."""

    def split(self, reply: str) -> tuple[str, ...]:
        """See `Kind.split`."""
        steps = prm.split_steps(reply, separator=MARK, text=self.model.text)
        return unforged(steps, self.marks)

    def clean(self, text: str) -> str:
        """See `Kind.clean`."""
        return prm.without(text, *self.marks)

    def length(self, problem: str, steps: Sequence[str]) -> int:
        """See `Kind.length`."""
        judge = self.judge
        tokens = len(self._ids(question_turns(judge, problem, steps)))
        return tokens + 1 + (judge.max_tokens if judge.think else 0)

    def solution(self, problem: str, fitted: Fitted) -> Solution:
        """See `Kind.solution`."""
        turns = question_turns(self.judge, problem, fitted.steps)
        opened = opened_by(self._text(turns))
        if not self.judge.think and is_open(opened):
            raise ValueError(
                f"the chat template opens a thought, {opened!r}, which chat_template_kwargs must "
                "keep from opening where think is false"
            )
        return Solution(problem, fitted.steps, fitted.truncated)

    async def run(self, running: Running, solution: Solution, request_id: str) -> Scores | Failure:
        """See `Kind.run`."""
        is_probe = solution is self.probe
        turns = [Turn("user", "1")]
        if not is_probe:
            turns = question_turns(self.judge, solution.problem, solution.steps)
        ids = await running.tokenizing.run(request_id, lambda: self._ids(turns))
        if isinstance(ids, Failure):
            return ids
        if self.judge.read == "verdicts" and not is_probe:
            return await self._verdicts(running.llm, ids, request_id)
        tokens = list(self.words.values())
        logprobs = await vllm_engine.next_token(running.llm, ids, tokens, request_id)
        if isinstance(logprobs, Failure):
            return logprobs
        if is_probe:  # what it says does not matter
            return Scores((), len(ids))
        of_words = {word: logprobs[t] for word, t in self.words.items() if t in logprobs}
        return Scores((probability_of_right(self.judge, of_words),), len(ids))

    async def _verdicts(self, llm: Any, ids: list[int], request_id: str) -> Scores | Failure:
        """The share of right among several replies."""
        judge = self.judge
        outputs = await asyncio.gather(
            *(
                vllm_engine.completed(
                    llm,
                    ids,
                    f"{request_id}-{seed}",
                    0,
                    max_tokens=judge.max_tokens,
                    temperature=judge.temperature,
                    top_p=judge.top_p,
                    seed=seed,
                )
                for seed in range(judge.samples)
            )
        )
        for output in outputs:
            if isinstance(output, Failure):
                return output
        replies = [output.outputs[0] for output in outputs]
        score = share_of_right(judge, [reply.text for reply in replies])
        wrote = sum(len(reply.token_ids) for reply in replies)
        return Scores((score,), len(ids) * judge.samples, wrote)

    def _ids(self, turns: Sequence[Turn]) -> list[int]:
        ids: list[int] = self.tokenizer.encode(self._text(turns), add_special_tokens=False)
        return ids

    def _text(self, turns: Sequence[Turn]) -> str:
        messages = [turn._asdict() for turn in turns]
        known = self.judge.chat_template_kwargs
        return rendered(self.tokenizer, messages, add_generation_prompt=True, **known)
