"""With how many chains a run begins, between which bounds that moves, and who gets how many."""

from __future__ import annotations

import pytest

from pipeline.config.runtime import ControllerConfig
from pipeline.planning.admission import rule_of, shares, usual


def test_a_run_begins_with_half_as_many_chains_again_as_slots() -> None:
    """Whatever the replicas."""
    assert usual(101) == 152


def test_a_pool_is_kept_full_and_may_have_what_controllers_hold() -> None:
    """The floor follows the slots that there are, the ceiling the controllers."""
    controllers = ControllerConfig(actors=2)
    rule = rule_of(controllers, slots=100, most=150)

    assert (rule.floor, rule.ceiling) == (100, 304)
    assert rule.ceiling == controllers.holds(150) == 2 * controllers.calls(150) * 8


def test_controllers_that_hold_too_few_do_not_lower_the_floor() -> None:
    """What is configured too small bounds itself; and a pool without a slot has one chain."""
    few = ControllerConfig(calls_per_actor=1)

    assert rule_of(few, slots=100, most=150).ceiling == 100
    assert rule_of(few, slots=0, most=150).floor == 1


def test_shares() -> None:
    """Controllers get what adds up to the cap, and one chain at least."""
    assert shares(10, 3) == (4, 3, 3)
    assert shares(2, 4) == (1, 1, 1, 1)
    with pytest.raises(ValueError, match="controllers must be >= 1, got 0"):
        shares(3, 0)
