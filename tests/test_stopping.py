"""A stopping rule is one class: whoever needs something of it asks the class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.core.prices import Prices
from pipeline.core.protocol import Priors, StopReason
from pipeline.planning.phase_work import expected_completions
from pipeline.replay.chain_arrays import chain_arrays
from pipeline.replay.exact import replay
from pipeline.replay.fast import FastReplay
from pipeline.strategies.markovscale import MarkovScaleStar
from pipeline.theory.stopping import STOP_RULES, Rule, StopRule, why_stopped
from tests.generators import completion, question
from tests.pools import pool_of, pool_question


class AfterTwo(Rule):
    """Stops after two completions, whatever they say."""

    def holds(self, p_map: float, drawn: int, **_: Any) -> bool:
        return drawn >= 2

    def prepared(self, map_QT: Any, a_Q: Any, b_Q: Any, n: int) -> Any:
        return np.arange(n) >= 1

    def holds_QN(self, prepared: Any, map_QN: Any, *_: Any) -> Any:
        return prepared & ~np.isnan(map_QN)

    def rounds(self, plan: Any, **_: Any) -> int:
        return 1

    def words(self, p_map: float, drawn: int, **_: Any) -> str:
        return f"{drawn} are enough"


def test_a_rule_is_asked_by_all_who_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state machine, the replay of arrays, the order of work, the forecast and the report
    follow a rule that is put into the table."""
    monkeypatch.setitem(STOP_RULES, StopRule.FORECAST, AfterTwo())
    strategy = MarkovScaleStar(n=5, stop_rule=StopRule.FORECAST)
    priors = Priors(p0=0.4, p0_source="priors_file", a=0.1, b=0.3)
    chain = [completion("1", score) for score in (0.5, 0.4, 0.3, 0.2, 0.1)]
    asked = pool_question(question(0, priors=priors), chain, [], lambda _: "right")
    stop = replay(strategy, asked.question, asked.recording()).stop
    decided = FastReplay(chain_arrays(pool_of([asked], rounds=5, samples=0))).decide(strategy)

    assert (stop.reason, stop.rounds) == (StopReason.CONFIDENT, (0, 1))
    assert decided.drawn_Q.tolist() == [2]
    assert expected_completions(strategy, p0=0.4, a=0.1, b=0.3) == 2
    assert stop.belief is not None
    said = why_stopped(strategy, stop.belief.path, a=0.1, b=0.3, number=lambda x, digits: f"{x:g}")
    assert said == "2 are enough"


def test_a_stop_for_its_price_is_explained_by_its_price() -> None:
    """Where Eq. 12 does not hold, the report names the price of a round, not the rule."""
    strategy = MarkovScaleStar(
        n=5, tau=0.99, value_of_right_usd=1e-6, usd_per_million=Prices(prompt=1.0, completion=1.0)
    )
    said = [
        why_stopped(each, [0.6], a=0.01, b=0.5, number=lambda x, digits: f"{x:g}")
        for each in (strategy, MarkovScaleStar(n=5, tau=0.5))
    ]

    assert "worth its price, at 1e-06 USD" in said[0]
    assert "the stopping rule holds" in said[1]
