"""Confidence of a completion, from the log-probabilities of its tokens.

Token confidence is that of DeepConf (arXiv 2508.15260): C_t = -(1/k) sum_j ln p_j over the k most
likely tokens at place t. It is high where one token takes nearly all, since the others are then
very unlikely. Token entropy is that of inverse-entropy voting (arXiv 2511.02309), over the same k:
H_t = -sum_j p_j ln p_j. Both are in nats, before temperature, top_p and penalties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

TOP_LOGPROBS = 20
"""k; the most that OpenAI's API and vLLM return by default."""

LEAST = -9999.0
"""What vLLM's server writes for minus infinity, which JSON has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """Of one completion, thinking included."""

    token_confidence: float
    """Mean of C_t over all tokens (DeepConf's average trace confidence), >= 0."""
    least_token_confidence: float
    """The least C_t."""
    token_entropy: float
    """Mean of H_t over all tokens, >= 0."""


def confidence_of(top_logprobs: Iterable[Sequence[float]]) -> Confidence | None:
    """The confidence of a completion.

    Args:
        top_logprobs: for each of its tokens ln p of the most likely ones, in any order; of more
            than `TOP_LOGPROBS` the greatest count.

    Returns:
        None where there is no token, or one of them has none.
    """
    confidences, entropies = [], []
    for place in top_logprobs:
        if len(place) > TOP_LOGPROBS:
            place = sorted(place, reverse=True)[:TOP_LOGPROBS]
        top = [value if value > LEAST else LEAST for value in place]
        if not top:
            return None
        confidences.append(-math.fsum(top) / len(top))
        entropies.append(-math.fsum(map(mul, map(math.exp, top), top)))
    if not confidences:
        return None
    return Confidence(
        token_confidence=math.fsum(confidences) / len(confidences),
        least_token_confidence=min(confidences),
        token_entropy=math.fsum(entropies) / len(entropies),
    )
