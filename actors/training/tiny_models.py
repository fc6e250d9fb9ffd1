"""The embedded tiny models: their shapes, their folders, and one forward pass each.

They have the architectures of DeepSeek-R1-Distill-Qwen and Qwen2.5-Math-PRM, so that the engines
which serve those serve these: `Qwen2ForCausalLM`, and `Qwen2ForProcessRewardModel`, a Qwen2
backbone with the head ``Linear(h, h), ReLU, Linear(h, 2)`` named ``score.0`` and ``score.2``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from actors.training.tiny_tokenizer import (
    BOS,
    CONTEXT_TOKENS,
    EOS,
    PAD,
    STEP,
    VOCABULARY_TOKENS,
    save_tokenizer,
)

LAYERS, WIDTH, HEADS, KV_HEADS, FEED_FORWARD = 4, 128, 4, 2, 384
GENERATOR = "generator"
VERIFIER = "verifier"


def folder_name(task: str, model: str) -> str:
    """Folder inside ``models/`` of a task's `GENERATOR` or `VERIFIER`."""
    return f"{'tiny' if task == 'arithmetic' else task}-{model}"


def configuration() -> Any:
    """The `Qwen2Config` that both models share."""
    from transformers import Qwen2Config

    return Qwen2Config(
        vocab_size=VOCABULARY_TOKENS,
        hidden_size=WIDTH,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        attn_implementation="sdpa",
    )


def new_generator() -> Any:
    """A `Qwen2ForCausalLM` with fresh weights, drawn from torch's global generator."""
    from transformers import Qwen2ForCausalLM

    return Qwen2ForCausalLM(configuration())


def new_verifier(generator: Any = None) -> Any:
    """A verifier with a fresh head; its backbone starts as a copy of the generator's, if given.

    Returns:
        A `torch.nn.ModuleDict` whose state has exactly the names that vLLM loads.
    """
    from torch import nn
    from transformers import Qwen2Model

    backbone = Qwen2Model(configuration())
    if generator is not None:
        backbone.load_state_dict(generator.model.state_dict())
    head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    return nn.ModuleDict({"model": backbone, "score": head})


def step_logits(verifier: Any, ids: Any) -> Any:
    """Logits (..., T, 2) of wrong and right at every position of right-padded `ids` (..., T).

    Attention is causal, so padding on the right changes nothing before it and needs no mask.
    """
    return verifier["score"](verifier["model"](input_ids=ids, use_cache=False).last_hidden_state)


def parameters(model: Any) -> int:
    """How many different weights a model has; tied ones count once."""
    return sum(weight.numel() for weight in model.parameters())


def fastest_device() -> str:
    """``cuda`` where there is a GPU, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name(device: str) -> str:
    """The GPU's name, or ``cpu``, for a model card."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def save_generator(generator: Any, folder: Path) -> None:
    """Write bfloat16 weights, configuration and tokenizer, for vLLM and transformers to load."""
    weights = {
        name: value for name, value in generator.state_dict().items() if name != "lm_head.weight"
    }
    _save(weights, folder, "Qwen2ForCausalLM")
    generation = {
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.95,
    }
    _write_json(folder / "generation_config.json", generation)
    save_tokenizer(folder, "generator")


def save_verifier(verifier: Any, folder: Path) -> None:
    """Write bfloat16 weights, configuration and tokenizer, for vLLM to load."""
    _save(verifier.state_dict(), folder, "Qwen2ForProcessRewardModel")
    save_tokenizer(folder, "verifier")


def load_generator(folder: Path, device: str = "cpu") -> Any:
    """The generator of a folder, in float32 and evaluation mode."""
    import torch
    from transformers import Qwen2ForCausalLM

    model = Qwen2ForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    )
    return model.to(device).eval()


def load_verifier(folder: Path, device: str = "cpu") -> Any:
    """The verifier of a folder, in float32 and evaluation mode."""
    import torch
    from safetensors.torch import load_file

    verifier = new_verifier()
    weights = load_file(folder / "model.safetensors")
    verifier.load_state_dict({name: value.to(torch.float32) for name, value in weights.items()})
    return verifier.to(device).eval()


def _save(weights: dict[str, Any], folder: Path, architecture: str) -> None:
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    rounded = {name: value.detach().to("cpu", torch.bfloat16) for name, value in weights.items()}
    save_file(
        {name: value.contiguous() for name, value in rounded.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = configuration().to_dict()
    config |= {"architectures": [architecture], "dtype": "bfloat16", "torch_dtype": "bfloat16"}
    if architecture == "Qwen2ForProcessRewardModel":
        config |= {"num_labels": 2, "step_token_id": STEP}
    _write_json(folder / "config.json", config)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
