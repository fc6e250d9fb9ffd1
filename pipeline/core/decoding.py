"""*Decoding*: how completions are sampled: settings of a run, and those that each request carries.

Names are vLLM's, but for `Sampling.thinking_budget` (``thinking_token_budget``). A field at its
default is not part of any digest (`Sampling.chosen`), so that runs recorded before it was there
still replay.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionDetection:
    """When a reply that repeats itself is cut: a pattern of tokens, again and again at its end."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    max_pattern_size: int
    """Longest pattern in tokens."""
    min_pattern_size: int = 1
    """Shortest pattern in tokens."""
    min_count: int
    """Times that it stands at the end, one after the other."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_pattern_size <= self.max_pattern_size:
            raise ValueError(
                "repetition_detection must have 1 <= min_pattern_size <= max_pattern_size, "
                f"got {self.min_pattern_size!r} and {self.max_pattern_size!r}"
            )
        if self.min_count < 2:
            raise ValueError(
                f"min_count of repetition_detection must be >= 2, got {self.min_count!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Changes a model's distribution or ends its reply, in addition to temperature and top_p."""

    top_k: int = 0
    """Sample among the `top_k` most likely tokens; 0 among all."""
    min_p: float = 0.0
    """Drop tokens less likely than this share of the most likely one, in [0, 1]; 0 drops none."""
    presence_penalty: float = 0.0
    """Taken from the logit of each token that the reply has, in [-2, 2]."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit for each time that the reply has it, in [-2, 2]."""
    repetition_penalty: float = 1.0
    """Divides positive logits, and multiplies negative ones, of tokens that prompt or reply have,
    > 0; 1 changes nothing."""
    thinking_budget: int | None = None
    """Tokens after which the engine ends the thinking, >= 0; None never. The engine must know what
    ends it (``science.generator.reasoning``, or vLLM's ``reasoning_parser``)."""
    repetition_detection: RepetitionDetection | None = None
    """None lets a reply repeat itself up to its limit of tokens."""

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0, where 0 takes all tokens, got {self.top_k!r}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be in [0, 1], got {self.min_p!r}")
        for name in ("presence_penalty", "frequency_penalty"):
            if not -2 <= (penalty := getattr(self, name)) <= 2:
                raise ValueError(f"{name} must be in [-2, 2], got {penalty!r}")
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(f"repetition_penalty must be > 0, got {self.repetition_penalty!r}")
        if self.thinking_budget is not None and self.thinking_budget < 0:
            raise ValueError(f"thinking_budget must be >= 0, got {self.thinking_budget!r}")

    def chosen(self) -> dict[str, Any]:
        """The fields that are not at their defaults, JSON-able."""
        values = asdict(self)
        return {
            field.name: values[field.name]
            for field in fields(Sampling)
            if values[field.name] != field.default
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding(Sampling):
    """The settings of a run; the paper's values are the defaults."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 10_000
    """New tokens a completion, thinking included."""

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be >= 0, got {self.temperature!r}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p!r}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be >= 1, got {self.max_tokens!r}")
        if self.thinking_budget is not None and self.thinking_budget >= self.max_tokens:
            raise ValueError(
                f"thinking_budget must be below max_tokens of {self.max_tokens}, "
                f"got {self.thinking_budget!r}"
            )

    def described(self) -> str:
        """In words: temperature, top_p, what else is not at its default, limit of tokens."""
        chosen = [f"{name} {value}" for name, value in self.sampling.chosen().items()]
        settings = [f"temperature {self.temperature:g}", f"top_p {self.top_p:g}", *chosen]
        return f"{', '.join(settings)}, at most {self.max_tokens:,} new tokens"

    @property
    def sampling(self) -> Sampling:
        """The fields of a request in addition to temperature, top_p and limits of tokens."""
        return Sampling(**{field.name: getattr(self, field.name) for field in fields(Sampling)})
