"""*Generative*: asks a language model whether a solution, or each of its steps, is right.

GenPRM (arXiv:2504.00891), ThinkPRM (arXiv:2504.16828), or any model as a judge; see
`pipeline.core.judging` for what it is asked and how its verdict is read. `Writer` writes and weighs
the next word with an engine of our own; a server is asked for a verdict in one request
(`actors.engines.chat_wire.JudgeWire`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    Judge,
    filled,
    judged_parts,
    probability_of_right,
    question_turns,
    share_of_right,
    verdict_reply,
)
from pipeline.core.prm import Fitted
from pipeline.core.protocol import Failure
from pipeline.core.step_format import MARK, Turn
from pipeline.core.thinking import is_open, opened_by


@dataclass(frozen=True, slots=True)
class Written:
    """What a judge wrote."""

    text: str
    read: int
    wrote: int


@dataclass(frozen=True, slots=True)
class Weighed:
    """How likely words are to come next."""

    logprobs: Mapping[str, float]
    read: int


class Writer:
    """A vLLM engine that judges; a failure is of the request's own.

    Args:
        running: the engine.
        judge: what it is asked.
        ids: makes the tokens of a conversation whose next turn has begun.
        words: the token of each word of right and wrong.
    """

    def __init__(
        self,
        running: Running,
        judge: Judge,
        ids: Callable[[Sequence[Turn], str], list[int]],
        words: Mapping[str, int],
    ) -> None:
        self._running, self._judge, self._ids, self._words = running, judge, ids, words

    async def write(
        self, turns: Sequence[Turn], begun: str, *, seed: int, request_id: str
    ) -> Written | Failure:
        """Go on from `begun`, up to a text of `Judge.until`, which is cut off."""
        judge = self._judge
        made = await self._prompt(turns, begun, request_id)
        if isinstance(made, Failure):
            return made
        ids, room = made
        output = await vllm_engine.completed(
            self._running.llm,
            ids,
            request_id,
            0,
            max_tokens=min(judge.max_tokens, room),
            temperature=judge.temperature,
            top_p=judge.top_p,
            seed=seed,
            stop=list(judge.until),
        )
        if isinstance(output, Failure):
            return output
        said = output.outputs[0]
        return Written(said.text, read=len(ids), wrote=len(said.token_ids))

    async def weigh(
        self, turns: Sequence[Turn], begun: str, *, known: str | None, request_id: str
    ) -> Weighed | Failure:
        """Log-probabilities of the words of right and wrong after `begun`.

        Args:
            known: the start of `begun` that was read before, and does not count; None for nothing.
        """
        made = await self._prompt(turns, begun, request_id, writes=False)
        if isinstance(made, Failure):
            return made
        ids, _ = made
        before = 0
        if known is not None:
            counted = await self._running.tokenizing.run(
                request_id, lambda: len(self._ids(turns, known))
            )
            if isinstance(counted, Failure):
                return counted
            before = counted
        answer = await vllm_engine.next_token(
            self._running.llm, ids, [*self._words.values()], request_id
        )
        if isinstance(answer, Failure):
            return answer
        logprobs = {word: answer[token] for word, token in self._words.items() if token in answer}
        return Weighed(logprobs, read=max(0, len(ids) - before))

    async def _prompt(
        self, turns: Sequence[Turn], begun: str, request_id: str, writes: bool = True
    ) -> tuple[list[int], int] | Failure:
        """Tokens of a prompt, and how many may be written after it."""

        def make() -> tuple[list[int], int]:
            ids = self._ids(turns, begun)
            ending = len(self._ids(turns, begun + self._judge.conclude)) - len(ids) if writes else 0
            room = self._running.context - len(ids) - max(0, ending) - 1
            if room < writes:
                raise ValueError(
                    f"the judge's conversation has {len(ids):,} tokens, the context holds "
                    f"{self._running.context:,}"
                )
            return ids, room

        return await self._running.tokenizing.run(request_id, make)


class Generative:
    """A `Kind`."""

    def __init__(self, model: VerifierModel, tokenizer: Any) -> None:
        self.model, self.judge, self.tokenizer = model, model.judge, tokenizer
        has = shape_of(model)
        if not has.ends_with(*LANGUAGE_MODELS):
            raise refused(model, described(has), "a language model head (...ForCausalLM)")
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
        begun = filled(judge, judge.begin, problem, steps) + judge.conclude
        asked = len(self._ids(question_turns(judge, problem, steps), begun))
        return asked + 1 + (judge.max_tokens if judge.think else 0)

    def solution(self, problem: str, fitted: Fitted) -> Solution:
        """See `Kind.solution`."""
        judge = self.judge
        opened = opened_by(self._text(question_turns(judge, problem, fitted.steps)))
        if not judge.think and is_open(opened + judge.begin + judge.conclude):
            raise ValueError(
                f"the chat template opens a thought, {opened!r}, which begin must close where "
                "think is false, or chat_template_kwargs must keep from opening"
            )
        return Solution(problem, fitted.steps, fitted.truncated)

    def writer(self, running: Running) -> Writer:
        """Who judges."""
        return Writer(running, self.judge, self._ids, self.words)

    async def run(self, running: Running, solution: Solution, request_id: str) -> Scores | Failure:
        """See `Kind.run`."""
        writer = self.writer(running)
        if solution is self.probe:
            return await self._weighed(writer, [Turn("user", "1")], request_id)
        parts = judged_parts(self.judge, solution.steps)
        if self.judge.ask_next is not None:
            return await self._in_one_conversation(writer, solution.problem, parts, request_id)
        judged = await asyncio.gather(
            *(
                self._judged(writer, solution.problem, part, f"{request_id}-{n}")
                for n, part in enumerate(parts)
            )
        )
        return _together(judged)

    async def _in_one_conversation(
        self, writer: Writer, problem: str, parts: Sequence[Sequence[str]], request_id: str
    ) -> Scores | Failure:
        judged: list[Scores] = []
        replies: list[str] = []
        for number, part in enumerate(parts):
            turns = question_turns(self.judge, problem, part, replies)
            begun = filled(self.judge, self.judge.begin, problem, part)
            scores = await self._once(writer, turns, begun, f"{request_id}-{number}", 0)
            if isinstance(scores, Failure):
                return scores
            one, written = scores
            replies.append(verdict_reply(self.judge, written, one.of_steps[0]))
            judged.append(one)
        return _together(judged)

    async def _judged(
        self, writer: Writer, problem: str, steps: Sequence[str], request_id: str
    ) -> Scores | Failure:
        """One score for these steps."""
        judge = self.judge
        turns = question_turns(judge, problem, steps)
        begun = filled(judge, judge.begin, problem, steps)
        if judge.read == "probability":
            once = await asyncio.gather(
                *(
                    self._once(writer, turns, begun, f"{request_id}-{seed}", seed)
                    for seed in range(judge.samples)
                )
            )
            each = [made if isinstance(made, Failure) else made[0] for made in once]
            return _mean(each)
        written = await asyncio.gather(
            *(
                writer.write(turns, begun, seed=seed, request_id=f"{request_id}-{seed}")
                for seed in range(judge.samples)
            )
        )
        texts: list[Written] = []
        for one in written:
            if isinstance(one, Failure):
                return one
            texts.append(one)
        score = share_of_right(judge, [begun + one.text for one in texts])
        return Scores((score,), sum(t.read for t in texts), sum(t.wrote for t in texts))

    async def _once(
        self, writer: Writer, turns: Sequence[Turn], begun: str, request_id: str, seed: int
    ) -> tuple[Scores, str] | Failure:
        """P(right) after what the judge writes, if it does, and what it wrote."""
        read = wrote = 0
        text, known = begun, None
        if self.judge.think:
            written = await writer.write(turns, begun, seed=seed, request_id=f"{request_id}-w")
            if isinstance(written, Failure):
                return written
            read, wrote = written.read, written.wrote
            text = known = begun + written.text
        weighed = await writer.weigh(
            turns, text + self.judge.conclude, known=known, request_id=f"{request_id}-v"
        )
        if isinstance(weighed, Failure):
            return weighed
        score = probability_of_right(self.judge, weighed.logprobs)
        return Scores((score,), read + weighed.read, wrote), text

    async def _weighed(
        self, writer: Writer, turns: Sequence[Turn], request_id: str
    ) -> Scores | Failure:
        """A shortest request; what it says does not matter."""
        weighed = await writer.weigh(turns, "", known=None, request_id=request_id)
        return weighed if isinstance(weighed, Failure) else Scores((), weighed.read)

    def _ids(self, turns: Sequence[Turn], begun: str) -> list[int]:
        text = self._text(turns) + begun
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _text(self, turns: Sequence[Turn]) -> str:
        asked = [turn._asdict() for turn in turns]
        known = self.judge.chat_template_kwargs
        return rendered(self.tokenizer, asked, add_generation_prompt=True, **known)


def _together(judged: Sequence[Scores | Failure]) -> Scores | Failure:
    """The scores of parts, one after the other; a failure of one is that of all."""
    scores: list[Scores] = []
    for one in judged:
        if isinstance(one, Failure):
            return one
        scores.append(one)
    return Scores(
        tuple(score for one in scores for score in one.of_steps),
        sum(one.read for one in scores),
        sum(one.wrote for one in scores),
    )


def _mean(judged: Sequence[Scores | Failure]) -> Scores | Failure:
    """The mean score of several judgements of the same."""
    all_of_them = _together(judged)
    if isinstance(all_of_them, Failure):
        return all_of_them
    mean = min(1.0, sum(all_of_them.of_steps) / len(judged))
    return Scores((mean,), all_of_them.read, all_of_them.wrote)
