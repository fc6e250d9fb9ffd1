"""Replies of the tiny generator and step scores of the tiny verifier, by transformers alone.

Training and its measurements run on machines without vLLM; runs of the pipeline use the engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.training.tiny_data import padded, prompt, prompt_ids, scored_steps_ids
from actors.training.tiny_models import step_logits
from actors.training.tiny_tokenizer import BOS, EOS, PAD, decode
from pipeline.benchmarks.generated import answer_of

TEMPERATURE = 0.7
TOP_P = 0.95
MAX_NEW_TOKENS = 96
"""Longest reply; a worked solution has at most 64 tokens."""
_AT_ONCE = 4096


def sample_replies(
    generator: Any,
    prompts: Sequence[str],
    *,
    seed: int,
    temperature: float = TEMPERATURE,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[str]:
    """One sampled reply a prompt, in order, at top_p 0.95.

    The same seed gives the same replies on the same machine and versions only.
    """
    import torch
    from transformers import GenerationConfig

    configuration = GenerationConfig(
        do_sample=True,
        temperature=temperature,
        top_p=TOP_P,
        top_k=0,
        max_new_tokens=max_new_tokens,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    torch.manual_seed(seed)
    replies: list[str] = []
    for start in range(0, len(prompts), _AT_ONCE):
        rows = padded([prompt_ids(text) for text in prompts[start : start + _AT_ONCE]], left=True)
        ids = torch.from_numpy(rows).long().to(generator.device)
        output = generator.generate(
            ids, attention_mask=(ids != PAD).long(), generation_config=configuration
        )
        replies += [decode(row) for row in output[:, ids.shape[1] :].tolist()]
    return replies


def sample_chains(
    generator: Any,
    questions: Sequence[str],
    *,
    rounds: int,
    seed: int,
    temperature: float = TEMPERATURE,
) -> list[list[str]]:
    """MR-Thinking: replies by round and question; a round without an answer is asked plainly again.

    Returns:
        `rounds` lists of one reply a question.
    """
    chains: list[list[str]] = []
    previous: list[str | None] = [None] * len(questions)
    for turn in range(rounds):
        prompts = [prompt(text, shown) for text, shown in zip(questions, previous, strict=True)]
        replies = sample_replies(generator, prompts, seed=seed + turn, temperature=temperature)
        chains.append(replies)
        previous = [answer_of(reply) for reply in replies]
    return chains


def step_scores(
    verifier: Any, questions: Sequence[str], replies: Sequence[str]
) -> list[npt.NDArray[np.float64]]:
    """P(right) of each step of each reply; an empty array for a reply without steps."""
    import torch

    device = next(verifier.parameters()).device
    scores: list[npt.NDArray[np.float64]] = []
    for start in range(0, len(replies), _AT_ONCE):
        chunk = slice(start, start + _AT_ONCE)
        pairs = zip(questions[chunk], replies[chunk], strict=True)
        encoded = [scored_steps_ids(question, reply) for question, reply in pairs]
        ids = torch.from_numpy(padded([row for row, _ in encoded])).long().to(device)
        with torch.inference_mode():
            p_right = step_logits(verifier, ids).softmax(-1)[..., 1].double().cpu().numpy()
        scores += [row[ends] for row, (_, ends) in zip(p_right, encoded, strict=True)]
    return scores
