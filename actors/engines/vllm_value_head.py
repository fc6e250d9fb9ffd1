"""A model that vLLM does not know: Qwen2 with a value head of one column (Skywork-o1-PRM).

vLLM imports it in each of its processes, by the name that `vllm_setup.value_head` gives it, and so
learns of the model there. Its weights are Qwen2's and ``v_head.summary``, a linear layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ARCHITECTURE = "Qwen2ForPrmModel"


def register() -> None:
    """Tell vLLM of the model, in this process."""
    from vllm import ModelRegistry
    from vllm.model_executor.models.adapters import as_seq_cls_model
    from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM

    class Qwen2ForPrmModel(as_seq_cls_model(Qwen2ForCausalLM)):  # type: ignore[misc]
        """Qwen2 with a score for every token."""

        def load_weights(self, weights: Iterable[tuple[str, Any]]) -> Any:
            """The checkpoint's, whose head has another name."""
            return super().load_weights(
                (name.replace("v_head.summary.", "score."), weight) for name, weight in weights
            )

    ModelRegistry.register_model(ARCHITECTURE, Qwen2ForPrmModel)


def __getattr__(name: str) -> Any:
    """`Registered`: vLLM asks for it where it makes a worker, before it loads a model."""
    if name != "Registered":
        raise AttributeError(name)
    register()
    return type(name, (), {})
