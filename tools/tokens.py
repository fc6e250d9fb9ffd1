"""The character-level tokenizer of the embedded tiny models.

A byte-level BPE without merges, loaded as the `Qwen2Tokenizer` that transformers insists on for the
architecture: five special tokens, one token a printable ASCII character or line break, and each
byte of anything else is ``<unk>``. Both models share it, so the verifier can start as the
generator's copy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "<extra_0>")
PAD, BOS, EOS, UNK, STEP = range(len(SPECIAL_TOKENS))
"""Token ids of the special tokens; `STEP` ends each step that the verifier scores."""
STEP_TOKEN = SPECIAL_TOKENS[STEP]
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
VOCABULARY_TOKENS = len(SPECIAL_TOKENS) + len(CHARACTERS)
CONTEXT_TOKENS = 4096
"""Longest input that the models accept; they have learnt from at most 280 tokens."""

_GENERATOR_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}{{- message.content + eos_token -}}"
    "{%- else -%}{{- bos_token + message.content + '\\n' -}}"
    "{%- endif -%}{%- endfor -%}"
)
_VERIFIER_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}{{- bos_token + message.content + '\\n' -}}"
    "{%- elif message.role == 'assistant' -%}{{- message.content + eos_token -}}"
    "{%- endif -%}{%- endfor -%}"
)
"""A system message is accepted and left out: this verifier has learnt one instruction only."""

_IDS = np.full(256, UNK, dtype=np.uint8)
"""Token id of each byte."""
_IDS[list(CHARACTERS.encode())] = np.arange(len(SPECIAL_TOKENS), VOCABULARY_TOKENS)


def encode(text: str) -> npt.NDArray[np.uint8]:
    """Ids (T,) of a text without special tokens, as the saved tokenizer gives them."""
    return _IDS[np.frombuffer(text.encode(), dtype=np.uint8)]


def decode(ids: Sequence[int]) -> str:
    """The text of `ids` up to the first ``</s>``, without special tokens."""
    characters = []
    for token in ids:
        if token == EOS:
            break
        if token >= len(SPECIAL_TOKENS):
            characters.append(CHARACTERS[token - len(SPECIAL_TOKENS)])
    return "".join(characters)


def save_tokenizer(folder: Path, model: Literal["generator", "verifier"]) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` with the model's chat template.

    Generator: a user or system turn is ``<s>TEXT`` and a line break, the assistant's ``TEXT</s>``.
    Verifier: ``<s>PROBLEM``, a line break, the steps each followed by ``<extra_0>``, ``</s>``.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    written = bytes_to_unicode()  # how byte-level tokenizers write each byte as a character
    vocabulary = {token: position for position, token in enumerate(SPECIAL_TOKENS)}
    vocabulary |= {written[byte]: int(token) for byte, token in enumerate(_IDS)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    written_out = json.loads(tokenizer.to_str())
    written_out["model"]["vocab"] = vocabulary  # to_str keeps one of the bytes that share <unk>
    _write_json(folder / "tokenizer.json", written_out)
    configuration = {
        "tokenizer_class": "Qwen2Tokenizer",
        "bos_token": SPECIAL_TOKENS[BOS],
        "eos_token": SPECIAL_TOKENS[EOS],
        "pad_token": SPECIAL_TOKENS[PAD],
        "unk_token": SPECIAL_TOKENS[UNK],
        "additional_special_tokens": [STEP_TOKEN],
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT_TOKENS,
        "padding_side": "left",
        "chat_template": _GENERATOR_TEMPLATE if model == "generator" else _VERIFIER_TEMPLATE,
    }
    _write_json(folder / "tokenizer_config.json", configuration)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
