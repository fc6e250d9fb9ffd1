"""What an engine counts of itself over time."""

from actors.engines.engine_stats import Meter


class Clock:
    """Time that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_busy_time_and_slot_time_are_integrals() -> None:
    """Busy is any request in the replica; slot time is the share of slots, times seconds."""
    clock = Clock()
    meter = Meter(4, clock)
    clock.now = 10
    meter.ready()
    with meter.request():
        meter.batch(2, 1, 0.5)
        clock.now = 12
        with meter.request():
            meter.batch(4, 0, 1.0)
            clock.now = 13
    clock.now = 20
    stats = meter.stats("r", "generator", 100)

    assert (stats.up_s, stats.busy_s) == (10, 3)
    assert stats.slot_s == 2 * 2 / 4 + 1 * 4 / 4
    assert (stats.running, stats.waiting, stats.requests) == (0, 0, 2)


def test_steps_are_counted() -> None:
    """Each makes one more."""
    meter = Meter(10, Clock())
    with meter.request():
        for running in (8, 9, 10):
            meter.batch(running, 0, 0.1)

    assert meter.stats("r", "generator", 0).steps == 3


def test_an_engine_is_slow_only_while_it_has_work() -> None:
    """Seconds since the last step count from the request that ended an idle time."""
    clock = Clock()
    meter = Meter(4, clock)
    clock.now = 100

    assert meter.stalled_s() == 0
    with meter.request():
        clock.now = 130
        assert meter.stalled_s() == 30
        meter.batch(1, 0, 0.1)
        assert meter.stalled_s() == 0
    assert meter.stalled_s() == 0
