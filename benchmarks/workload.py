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
from typing import Any, Literal

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
        "head_dim": 128,
        "max_window_layers": 28,
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


def jobs(
    count: int, *, mean_tokens: int, most_tokens: int, rounds: int = ROUNDS, seed: int = 0
) -> list[Job]:
    """`count` chains of `rounds`; half of them are gated after their first."""
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
            rounds=1 if gated[number] else rounds,
            tokens=int(lengths[number]),
        )
        for number, (a, b, c) in enumerate(terms)
    ]


def model_of(shape: str, folder: Path, kind: Literal["generator", "verifier"]) -> dict[str, Any]:
    """A model to measure with: the embedded tiny one, or random weights of a larger shape.

    A generator never ends by itself: its tokenizer has no end-of-text token, so a completion is as
    long as its limit. Larger shapes are for ``load_format: dummy``, configuration and tokenizer
    without weights; a text has as many tokens for such a verifier as for such a generator.

    Args:
        shape: ``tiny`` or one of `SHAPES`.
        folder: is made.
        kind: which of the tiny models it is made from.

    Returns:
        Fields of a model's configuration (`pipeline.config.models.ModelConfig`).
    """
    source = Path(__file__).resolve().parents[1] / "models" / f"tiny-{kind}"
    # a tokenizer of words must lie beside no config.json, which would decide its class
    words = folder if shape == "tiny" else folder / "tokenizer"
    words.mkdir(parents=True, exist_ok=True)
    config, tokenizer = _read(source / "config.json"), _read(source / "tokenizer.json")
    settings = _read(source / "tokenizer_config.json")
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    if shape == "tiny":
        shutil.copy(source / "model.safetensors", folder / "model.safetensors")
    else:
        config.update(SHAPES[shape], max_position_embeddings=32_768)
        config.update(torch_dtype="bfloat16", dtype="bfloat16")
        config.pop("layer_types", None)
        tokenizer = _word_tokenizer(tokenizer, config["vocab_size"])
    if kind == "generator":
        config["eos_token_id"] = None
        settings.pop("eos_token", None)
    _write(folder / "config.json", config)
    _write(words / "tokenizer.json", tokenizer)
    _write(words / "tokenizer_config.json", settings)
    return {
        "model": str(folder),
        "tokenizer": str(words),
        "load_format": "auto" if shape == "tiny" else "dummy",
        "dtype": "bfloat16",
    }


_STEP_TOKENS = 60


def _word_tokenizer(tokenizer: dict[str, Any], size: int) -> dict[str, Any]:
    """One word a token, so that a random reply reads back as the tokens that it was written with;
    one in `_STEP_TOKENS` begins a step."""
    vocabulary = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    for number in set(range(size)) - set(vocabulary.values()):
        vocabulary[f"\n\nw{number}" if number % _STEP_TOKENS == 0 else f"w{number}"] = number
    return {
        **tokenizer,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": None,
    }


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), "utf-8")
