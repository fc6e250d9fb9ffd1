"""Caps of a whole run: what it may spend at most, over all its attempts."""

from __future__ import annotations

from pydantic import Field, model_validator

from pipeline.config.schema import Section


class LimitsConfig(Section):
    """The most that a run may spend; None is no cap. Raised on a resume, the run goes on.

    Once a cap is reached no completion starts; what is in flight ends, and the run ends as capped
    (docs/operations.md).
    """

    completion_tokens: int | None = Field(None, gt=0)
    """Tokens of all completions in the journal and of their lost tries, and those that the judge
    reads and writes."""
    gpu_hours: float | None = Field(None, gt=0)
    """GPUs of all replicas times the hours from the start of the engines to their end."""
    wall_hours: float | None = Field(None, gt=0)
    """Hours of all attempts, without the time between them."""
    usd: float | None = Field(None, gt=0)
    """Money, by the prices below; where both are given they add up."""
    price_gpu_hour: float | None = Field(None, gt=0)
    """Of one GPU, in USD."""
    price_million_tokens: float | None = Field(None, gt=0)
    """Of the tokens that `completion_tokens` counts, in USD."""

    @model_validator(mode="after")
    def _has_a_price(self) -> LimitsConfig:
        if self.usd is not None and not (self.price_gpu_hour or self.price_million_tokens):
            raise ValueError(
                f"usd must have a price, price_gpu_hour or price_million_tokens, got {self.usd:g} "
                "and neither"
            )
        return self

    @property
    def caps(self) -> dict[str, float]:
        """The caps that are set, by name."""
        named = {
            "completion_tokens": self.completion_tokens,
            "gpu_hours": self.gpu_hours,
            "wall_hours": self.wall_hours,
            "usd": self.usd,
        }
        return {name: float(cap) for name, cap in named.items() if cap is not None}
