"""What can be known of a model before its weights are loaded, from its tokenizer and config alone.

What is found is a `ConfigError`: it holds for every replica and every try.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actors.engines import vllm_setup
from actors.engines.prompting import Prompter
from actors.routing.calls import GenerateCall
from pipeline.config.models import GeneratorModel, ModelConfig
from pipeline.core.errors import ConfigError
from pipeline.store.shipped import shipped_path


def generator_tokenizer(model: GeneratorModel) -> Any:
    """The generator's tokenizer, with the chat template that the configuration names.

    Raises:
        ConfigError: where that cannot be read.
    """
    tokenizer = vllm_setup.tokenizer(model)
    if model.chat_template is not None:
        try:
            tokenizer.chat_template = Path(model.chat_template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"science.generator.chat_template must be text: {error}") from error
    return tokenizer


def check_prompts(model: GeneratorModel, tokenizer: Any, calls: Iterable[GenerateCall]) -> None:
    """Render requests as the engine will.

    Raises:
        ConfigError: where the chat template refuses one, or it does not fit into the context.
    """
    prompter = Prompter(
        tokenizer,
        context_of(model) or math.inf,
        model.open_thinking,
        reasoning=model.reasoning,
        template=model.chat_template_kwargs,
    )
    for call in calls:
        try:
            prompter.prompt(call.request)
        except ValueError as error:
            raise ConfigError(f"science.generator {model.model}: {error}") from error


def context_of(model: ModelConfig) -> int | None:
    """Tokens of the context: as configured, else the model's own; None where neither says."""
    if model.max_model_len is not None:
        return model.max_model_len
    from transformers import AutoConfig

    own = AutoConfig.from_pretrained(
        shipped_path(model.model),
        revision=model.revision,
        trust_remote_code=model.trust_remote_code,
    )
    positions = getattr(own.get_text_config(), "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None
