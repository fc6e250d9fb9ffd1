"""*Kind*: the interface between `VerifierEngine` and the models that it can host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from actors.engines import vllm_setup
from actors.engines.prompting import Tokenizing
from pipeline.config.models import VerifierModel
from pipeline.config.runtime import PoolConfig
from pipeline.core import prm
from pipeline.core.errors import ConfigError
from pipeline.core.prm import Fitted
from pipeline.core.protocol import Failure
from pipeline.core.thinking import MARKS

LANGUAGE_MODELS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The architecture and the labels of a model."""

    architectures: tuple[str, ...]
    labels: int
    """Columns of its head, where it has one."""

    def ends_with(self, *endings: str) -> bool:
        """Whether an architecture's name ends so."""
        return any(name.endswith(endings) for name in self.architectures)


def special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """What a text must not say to a model, such as ``<|im_end|>``: its tokenizer reads the mark
    of a turn, and a reply could speak in the verifier's place. Marks of thinking are text."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    marks = {token.content for token in added if token.special}
    return tuple(sorted(mark for mark in marks if len(mark.strip()) > 1 and mark not in MARKS))


def unforged(steps: Sequence[str], marks: Sequence[str]) -> tuple[str, ...]:
    """Steps without `marks`; those of which nothing is left are dropped."""
    cleaned = (prm.without(step, *marks).strip() for step in steps)
    return tuple(step for step in cleaned if step)


def shape_of(model: VerifierModel) -> ModelShape:
    """What the model's config.json says."""
    raw = vllm_setup.model_config(model)
    labels = raw.get("num_labels") or len(raw.get("id2label") or ()) or 2  # transformers' default
    return ModelShape(tuple(raw.get("architectures") or ()), int(labels))


def refused(model: VerifierModel, has: str, needed: str) -> ConfigError:
    """The error for a model that cannot be of its kind."""
    return ConfigError(
        f"science.verifier {model.model} must have {needed} for kind {model.kind}, has {has}"
    )


def described(has: ModelShape) -> str:
    """What a model has, in words."""
    return f"{', '.join(has.architectures) or 'no architecture'} with {has.labels} labels"


def token_of(model: VerifierModel, tokenizer: Any, text: str, what: str) -> int:
    """The token that a text is.

    Raises:
        ConfigError: if it is not exactly one.
    """
    ids = tokenizer.encode(text, add_special_tokens=False)
    if len(ids) != 1:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        raise refused(
            model, f"{len(ids)} tokens for it: {pieces}", f"one token as {what}, {text!r},"
        )
    return int(ids[0])


def tokens_of(
    model: VerifierModel, tokenizer: Any, texts: Sequence[str], what: str
) -> dict[str, int]:
    """The token of each text; see `token_of`.

    Raises:
        ConfigError: also where two of them are the same token.
    """
    found = {text: token_of(model, tokenizer, text, what) for text in texts}
    if len({*found.values()}) != len(texts):
        raise refused(model, f"the same token twice: {found}", f"different tokens as {what}")
    return found


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
