"""Belief in p as a Beta distribution, updated by verifier scores (Eq. 16 to 18)."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BetaPosterior:
    """p ~ Beta(alpha, beta); both >= 0 with a positive sum.

    Raises:
        ValueError: naming the parameter out of range.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and >= 0, got {value!r}")
        if self.alpha + self.beta <= 0:
            raise ValueError(f"alpha + beta must be > 0, got {self.alpha!r} + {self.beta!r}")

    @classmethod
    def prior(cls, p0_hat: float, gamma: float) -> BetaPosterior:
        """alpha_0 = p0_hat gamma, beta_0 = (1 - p0_hat) gamma (Eq. 16).

        Args:
            p0_hat: prior probability that the first answer is right, in [0, 1].
            gamma: prior strength, > 0, in observations.
        """
        if not 0 <= p0_hat <= 1:
            raise ValueError(f"p0_hat must be in [0, 1], got {p0_hat!r}")
        if not (math.isfinite(gamma) and gamma > 0):
            raise ValueError(f"gamma must be finite and > 0, got {gamma!r}")
        return cls(p0_hat * gamma, (1 - p0_hat) * gamma)

    def update(self, phi: float) -> BetaPosterior:
        """The belief after an answer with verifier score `phi` in [0, 1] (Eq. 17)."""
        if not 0 <= phi <= 1:
            raise ValueError(f"phi must be in [0, 1], got {phi!r}")
        return BetaPosterior(self.alpha + phi, self.beta + (1 - phi))

    @property
    def map(self) -> float:
        """Mode where both parameters exceed 1, else the mean (Eq. 18), in [0, 1]."""
        if self.alpha <= 1 or self.beta <= 1:
            return self.alpha / (self.alpha + self.beta)
        return (self.alpha - 1) / (self.alpha + self.beta - 2)
