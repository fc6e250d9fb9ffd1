"""*Prices*: what tokens cost, in USD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in USD."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    prompt: float
    completion: float
    cached_prompt: float | None = None
    """Of prompt tokens that the server had in its cache; None takes that of the others."""
    verifier: float = 0.0
    """Of tokens that the verifier reads or writes."""
    judge: float = 0.0
    """Of tokens that the judge of ``grader: {kind: judge}`` reads or writes."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{field.name} must be >= 0 and finite, got {value!r}")

    def of(self, *, prompt: Any, cached: Any, completion: Any, verifier: Any = 0) -> Any:
        """What tokens cost, in USD.

        Args:
            prompt, cached, completion, verifier: tokens, as numbers or arrays of one shape; cached
                prompt tokens are among the prompt tokens.
        """
        price = self.prompt if self.cached_prompt is None else self.cached_prompt
        return (
            (prompt - cached) * self.prompt
            + cached * price
            + completion * self.completion
            + verifier * self.verifier
        ) / 1e6

    def usd(self, tokens: Mapping[str, Any]) -> float:
        """What the tokens of outcomes cost.

        Args:
            tokens: numbers by column of an outcome (`pipeline.records.outcome.TOKEN_KINDS`,
                ``wasted_tokens``).
        """
        made = self.of(
            prompt=tokens["prompt_tokens"],
            cached=tokens["cached_prompt_tokens"],
            completion=tokens["completion_tokens"] + tokens["wasted_tokens"],
            verifier=tokens.get("verifier_tokens", 0),
        )
        return float(made + tokens.get("judge_tokens", 0) * self.judge / 1e6)
