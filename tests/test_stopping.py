"""Why a chain stopped, in words."""

from __future__ import annotations

from pipeline.core.prices import Prices
from pipeline.strategies.markovscale import MarkovScaleStar
from pipeline.theory.stopping import why_stopped


def test_a_stop_for_its_price_is_explained_by_its_price() -> None:
    """Where Eq. 12 does not hold, the report names the price of a round, not the rule."""
    strategy = MarkovScaleStar(
        n=5, tau=0.99, value_of_right_usd=1e-6, usd_per_million=Prices(prompt=1.0, completion=1.0)
    )
    said = [
        why_stopped(each, [0.6], a=0.01, b=0.5, number=lambda x, digits: f"{x:g}")
        for each in (
            strategy,
            MarkovScaleStar(n=5, tau=0.5),
            MarkovScaleStar(n=5, tau=0.99),  # of a run that stopped by another rule
        )
    ]

    assert "worth its price, at 1e-06 USD" in said[0]
    assert "the stopping rule holds" in said[1]
    assert "a rule of an earlier version" in said[2]
