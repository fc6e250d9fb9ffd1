"""Budget forcing: make a reasoning model think on, or stop thinking (s1, arXiv 2501.19393)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pipeline.core.protocol import (
    Completion,
    Decisions,
    Generate,
    Observation,
    PhaseStats,
    Question,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.strategies.samples import Profile

THINKING_CHAIN, ANSWER_CHAIN = 0, 1
"""Thinking and answer stand in chains of their own, so that their tokens are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetForcing(Strategy):
    """Think; append "Wait" and think on, `num_ignore` times; then close the thinking and answer.

    There is no N: a question costs at most `num_ignore` + 2 completions. Thinking ends at a stop
    *token* (`min_tokens` suppresses ids, not strings), at the end of the turn, or when the budget
    is spent; after the last no "Wait" follows and the answer marker is written. The stop rests on
    the answer; completions of chain 0 are thinking, the one of chain 1 is the answer.

    Only the answer is scored. Profiles: ``upstream`` decodes greedily, ``paper`` as every other
    strategy.
    """

    kind: ClassVar[str] = "budget_forcing"

    num_ignore: int = 1
    """Times that the end of the thinking is overruled, >= 0."""
    wait: str = "Wait"
    """What is put in its place."""
    answer_tokens: int | None = None
    """New tokens kept for the answer; a quarter of ``decoding.max_tokens`` where None. The rest is
    the thinking budget."""
    end_of_thinking_ids: tuple[int, ...] = ()
    """Token ids that end the thinking (``</think>`` of the model). Without any, a model that closes
    its thinking goes on to an answer, which is cut off and paid for."""
    thinking_start: str = "<think>\n"
    """What the reply begins with. Engines do not repeat an opening tag that the chat template has
    written already. Empty for models without thinking, whose whole reply is then the thinking."""
    thinking_end: str = "\n</think>\n\n"
    """What is written between thinking and answer."""
    answer_marker: str = "Final Answer:"
    """Written after `thinking_end` where the thinking was cut by its budget."""
    profile: Profile = "upstream"

    def __post_init__(self) -> None:
        if self.num_ignore < 0:
            raise ValueError(f"num_ignore must be >= 0, got {self.num_ignore!r}")
        most = self.decoding.max_tokens - 1
        if most < 1:
            raise ValueError("decoding.max_tokens must be >= 2 to think and to answer, got 1")
        if self.answer_tokens is not None and not 1 <= self.answer_tokens <= most:
            raise ValueError(
                f"answer_tokens must be in [1, {most}], below decoding.max_tokens, "
                f"got {self.answer_tokens!r}"
            )

    @property
    def n(self) -> int:
        """Completions a question at most; the method has no budget of samples or rounds."""
        return self.num_ignore + 2

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Think, think on `num_ignore` times, close the thinking, answer."""
        answer_tokens = self.answer_tokens or max(1, self.decoding.max_tokens // 4)
        left = max(1, question.token_limit(self.decoding) - answer_tokens)
        reply, end, drawn = self.thinking_start, self.thinking_end.strip(), 0
        while True:
            thought = yield from self._write(question, THINKING_CHAIN, drawn, reply, left)
            if thought is None:
                return Stop(reason=StopReason.FAILED, rounds=())
            drawn += 1
            reply += thought.text.partition(end)[0] if end else thought.text
            left = max(0, left - thought.completion_tokens)
            cut = thought.is_cut or left == 0
            if cut or drawn > self.num_ignore:
                break
            reply += self.wait
        reply += self.thinking_end + (self.answer_marker if cut else "")
        answer = yield from self._write(question, ANSWER_CHAIN, drawn, reply, answer_tokens)
        if answer is None:
            return Stop(reason=StopReason.FAILED, rounds=())
        return Stop(reason=StopReason.FINISHED, rounds=(drawn,))

    def _write(
        self, question: Question, chain: int, drawn: int, reply: str, max_tokens: int
    ) -> Generator[Generate, Sequence[Observation], Completion | None]:
        """Go on with the reply; None at a failure."""
        thinking = chain == THINKING_CHAIN
        request = self.request(
            question,
            self.prompts_of(question).ask(question.text),
            chain=chain,
            round=drawn if thinking else 0,
            score=self.score and not thinking,
            greedy=self.profile == "upstream",
        )
        request = replace(
            request,
            assistant_prefix=reply,
            max_tokens=max_tokens,
            min_tokens=min(1, drawn),
            stop_token_ids=self.end_of_thinking_ids if thinking else (),
        )
        (observation,) = yield Generate((request,))
        return observation if isinstance(observation, Completion) else None
