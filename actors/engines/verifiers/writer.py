"""What a generative verifier needs of a language model: to write, and to weigh the next word.

`VllmWriter` is an engine of our own; a server is asked for a verdict in one request instead
(`actors.engines.judge_wire`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.engines import vllm_calls
from actors.engines.verifiers.kind import Running
from pipeline.core.judging import Judge
from pipeline.core.protocol import Failure
from pipeline.core.step_format import Turn


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


class Writer(Protocol):
    """A language model that judges; a failure is of the request's own."""

    async def write(
        self, turns: Sequence[Turn], begun: str, *, seed: int, request_id: str
    ) -> Written | Failure:
        """Go on from `begun`, up to a text of `Judge.until`, which is cut off."""
        ...

    async def weigh(
        self, turns: Sequence[Turn], begun: str, *, known: str | None, request_id: str
    ) -> Weighed | Failure:
        """Log-probabilities of the words of right and wrong after `begun`.

        Args:
            known: the start of `begun` that was read before, and does not count; None for nothing.
        """
        ...


class VllmWriter:
    """A vLLM engine as `Writer`.

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
        """See `Writer.write`."""
        judge = self._judge
        made = await self._prompt(turns, begun, request_id)
        if isinstance(made, Failure):
            return made
        ids, room = made
        output = await vllm_calls.completed(
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
        """See `Writer.weigh`."""
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
        told = await vllm_calls.next_token(
            self._running.llm, ids, [*self._words.values()], request_id
        )
        if isinstance(told, Failure):
            return told
        logprobs = {word: told[token] for word, token in self._words.items() if token in told}
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
