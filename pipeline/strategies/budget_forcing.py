"""Budget forcing: make a reasoning model think on, or stop thinking (s1, arXiv 2501.19393)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pipeline.core.decoding import Decoding
from pipeline.core.errors import ProtocolError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import (
    Action,
    Completion,
    Failure,
    Generate,
    Observation,
    Pool,
    Question,
    Request,
    Statistics,
    Stop,
    StopReason,
    check_observations,
)
from pipeline.core.seeds import request_seed
from pipeline.strategies.samples import Profile

THINKING_CHAIN, ANSWER_CHAIN = 0, 1
"""Thinking and answer stand in chains of their own, so that their tokens are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """A question between two pieces of its reply."""

    question: Question
    text: str
    """The reply so far, forced words included; the next request continues it."""
    left_tokens: int
    """Thinking tokens that may still be generated."""
    told: int = 0
    """Completions told."""
    answering: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetForcing:
    """Think; append "Wait" and think on, `num_ignore` times; then close the thinking and answer.

    There is no N: a question costs at most `num_ignore` + 2 completions. Thinking ends at a stop
    *token* (`min_tokens` suppresses ids, not strings), at the end of the turn, or when the budget
    is spent; after the last no "Wait" follows and the answer marker is written. The stop rests on
    the answer; completions of chain 0 are thinking, the one of chain 1 is the answer.

    Profiles: ``upstream`` decodes greedily, ``paper`` as every other strategy.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    kind: ClassVar[str] = "budget_forcing"
    default_rule: ClassVar[str] = "last"
    needs_score: ClassVar[bool] = False
    pool_replayable: ClassVar[bool] = False

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
    decoding: Decoding = Decoding()
    prompts: Prompts = Prompts()
    score: bool = True
    """Whether the answer is scored by the verifier; thinking alone never is."""
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
    def max_requests(self) -> int:
        """Completions a question at most."""
        return self.num_ignore + 2

    @property
    def n(self) -> int:
        """The same: the method has no budget of samples or rounds."""
        return self.max_requests

    def start(
        self, question: Question, statistics: Statistics | None = None
    ) -> tuple[Thought, Action]:
        """Begin to think."""
        thought = Thought(
            question=question,
            text=self.thinking_start,
            left_tokens=max(1, question.token_limit(self.decoding) - self._answer_tokens),
        )
        return self._think(thought)

    def step(self, state: Thought, observations: Sequence[Observation]) -> tuple[Thought, Action]:
        """Think on, close the thinking, or stop with the answer."""
        if state.stopped:
            raise ProtocolError(
                f"a stopped question takes no observations, got {len(observations)}"
            )
        check_observations(observations, 1, scored=False)
        observation = observations[0]
        told = replace(state, told=state.told + 1)
        if isinstance(observation, Failure):
            return replace(told, stopped=True), Stop(reason=StopReason.FAILED, rounds=())
        if state.answering:
            stop = Stop(reason=StopReason.FINISHED, rounds=(state.told,))
            return replace(told, stopped=True), stop
        return self._after_thinking(told, observation)

    def _after_thinking(self, state: Thought, completion: Completion) -> tuple[Thought, Action]:
        end = self.thinking_end.strip()
        text = completion.text.partition(end)[0] if end else completion.text
        left = max(0, state.left_tokens - completion.completion_tokens)
        cut = completion.is_cut or left == 0
        state = replace(state, text=state.text + text, left_tokens=left)
        if not cut and state.told <= self.num_ignore:
            return self._think(replace(state, text=state.text + self.wait))
        closing = self.thinking_end + (self.answer_marker if cut else "")
        state = replace(state, text=state.text + closing, answering=True)
        return state, self._request(
            state, chain=ANSWER_CHAIN, max_tokens=self._answer_tokens, score=self.score
        )

    def _think(self, state: Thought) -> tuple[Thought, Action]:
        return state, self._request(
            state, chain=THINKING_CHAIN, max_tokens=state.left_tokens, score=False
        )

    def _request(self, state: Thought, *, chain: int, max_tokens: int, score: bool) -> Generate:
        question, thinking = state.question, chain == THINKING_CHAIN
        round = state.told if thinking else 0  # of its chain
        request = Request(
            messages=self.prompts.ask(question.text),
            assistant_prefix=state.text,
            max_tokens=max_tokens,
            temperature=0.0 if self.profile == "upstream" else self.decoding.temperature,
            top_p=1.0 if self.profile == "upstream" else self.decoding.top_p,
            sampling=self.decoding.sampling,
            stop_token_ids=self.end_of_thinking_ids if thinking else (),
            min_tokens=1 if state.told > 0 else 0,
            pool=Pool.SEQUENTIAL,
            chain=chain,
            round=round,
            seed=request_seed(question.seed, Pool.SEQUENTIAL, chain, round, 0),
            score=score,
        )
        return Generate((request,))

    @property
    def _answer_tokens(self) -> int:
        if self.answer_tokens is not None:
            return self.answer_tokens
        return max(1, self.decoding.max_tokens // 4)
