"""Chains of known length, and a model that always writes as much as it is asked to.

Lengths are drawn once, from a seed: a chain has one round where its question is gated, else
`ROUNDS`; the completions of a question are all of one length, log-normal over questions, which is
how reasoning models spread (a factor of 20 between short and long ones).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 4

SHAPES: dict[str, dict[str, int]] = {
    "7b": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152_064,
    },
}
"""The shape of DeepSeek-R1-Distill-Qwen-7B; ``tiny`` is the embedded generator."""


@dataclass(frozen=True, slots=True)
class Job:
    """One chain."""

    question_id: str
    text: str
    rounds: int
    tokens: int
    """Of each round."""

    @property
    def total(self) -> int:
        """Completion tokens of the whole chain."""
        return self.rounds * self.tokens


def jobs(count: int, *, mean_tokens: int, most_tokens: int, seed: int = 0) -> list[Job]:
    """`count` chains; half of them are gated after their first round."""
    rng = np.random.default_rng(seed)
    sigma = 0.8
    drawn = rng.lognormal(np.log(mean_tokens) - sigma**2 / 2, sigma, count)
    lengths = np.clip(drawn, 8, most_tokens).astype(int)
    gated = rng.random(count) < 0.5
    terms = rng.integers(10, 99, (count, 3))
    return [
        Job(
            question_id=str(number),
            text=f"{a}*{b}+{c}?",
            rounds=1 if gated[number] else ROUNDS,
            tokens=int(lengths[number]),
        )
        for number, (a, b, c) in enumerate(terms)
    ]


def model_folder(shape: str, folder: Path) -> Path:
    """A model that never ends by itself: the tiny generator, or random weights of a larger shape.

    Its tokenizer has no end-of-text token, so a completion is as long as its limit. Larger shapes
    are for ``load_format: dummy``: configuration and tokenizer without weights.
    """
    source = Path(__file__).resolve().parents[1] / "models" / "tiny-generator"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(source / name, folder / name)
    if shape == "tiny":
        shutil.copy(source / "model.safetensors", folder / "model.safetensors")
    config = _read(folder / "config.json")
    config.update(SHAPES.get(shape, {}), eos_token_id=None)
    if shape != "tiny":
        config.update(max_position_embeddings=32_768, torch_dtype="bfloat16", dtype="bfloat16")
        config.pop("layer_types", None)
        config.update(head_dim=128, max_window_layers=28)
    _write(folder / "config.json", config)
    settings = _read(folder / "tokenizer_config.json")
    settings.pop("eos_token", None)
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # which adds no end token of its own
    _write(folder / "tokenizer_config.json", settings)
    tokenizer = _read(folder / "tokenizer.json")
    vocabulary = tokenizer["model"]["vocab"]
    for number in range(max(vocabulary.values()) + 1, config["vocab_size"]):
        vocabulary[f"x{number}"] = number  # so that every id that is sampled has a text
    _write(folder / "tokenizer.json", tokenizer)
    return folder


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), "utf-8")
