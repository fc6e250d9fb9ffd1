"""What a kind of verifier is: the interface between `VerifierEngine` and the models it can host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from actors.engines.tokenizing import Tokenizing
from pipeline.config.runtime import PoolConfig
from pipeline.core.prm import Fitted
from pipeline.core.protocol import Failure


@dataclass(frozen=True, slots=True)
class Scores:
    """What a verifier says of the steps that it was given."""

    of_steps: tuple[float, ...]
    """In [0, 1], in the order of the steps."""
    read: int
    """Tokens of prompts, each token once where a prompt goes on."""
    wrote: int = 0
    """Tokens that the model wrote."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A question and the steps of a reply, as they fit into the context, ready for the model."""

    problem: str
    steps: tuple[str, ...]
    truncated: bool
    """Whether leading steps were dropped."""
    prompts: Any = None
    """What the kind makes of it."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a kind works with once its engine runs."""

    llm: Any
    """vLLM's AsyncLLM."""
    tokenizing: Tokenizing
    context: int
    """Tokens that a prompt and what is written after it may have."""


class Kind(Protocol):
    """A kind of verifier, made of the model's configuration and tokenizer before weights load.

    Making it raises a `ConfigError` where the model cannot be of this kind: with what the model
    has, and what is needed.
    """

    probe: Solution
    """A shortest piece of work, for warming up and health checks."""

    def arguments(self) -> dict[str, Any]:
        """Arguments of vLLM's that the kind needs (`vllm_setup.engine_args`)."""
        ...

    def check_pool(self, pool: PoolConfig, context: int | None) -> None:
        """Refuse engines that cannot serve the kind.

        Args:
            pool: how they are started.
            context: tokens of the context; None where only vLLM knows.

        Raises:
            ConfigError: naming the field.
        """
        ...

    def split(self, reply: str) -> tuple[str, ...]:
        """The steps of a reply; none for one without text to judge."""
        ...

    def clean(self, text: str) -> str:
        """A question, without what could be taken for the verifier's own marks."""
        ...

    def length(self, problem: str, steps: Sequence[str]) -> int:
        """Tokens of the longest prompt, with what the model may write after it."""
        ...

    def solution(self, problem: str, fitted: Fitted) -> Solution:
        """The prompts.

        Raises:
            ValueError: where they cannot be made, such as a chat template that loses steps.
        """
        ...

    async def run(self, running: Running, solution: Solution, request_id: str) -> Scores | Failure:
        """Ask the model; cancelling aborts in the engine.

        Raises:
            VerifierError: where what it says cannot be scores of these steps.
            EngineDeadError: if the engine cannot serve any request any more.
        """
        ...
