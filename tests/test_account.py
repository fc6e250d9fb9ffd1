"""What engines say they made, over all the lives of their replicas."""

from dataclasses import replace

from actors.driver.admission_control import StatsPoller
from actors.engines.engine_stats import Meter


class Pool:
    """Engines whose figures the test sets."""

    def __init__(self):
        self.generator = []

    def stats(self):
        return {"generator": list(self.generator), "verifier": []}


def figures(meter, tokens):
    meter.completion_tokens = tokens
    return meter.stats("r0", "generator", 0)


def test_a_slow_answer_is_no_second_life():
    """However late a replica answers, its process is counted once, by what it said last."""
    pool, meter = Pool(), Meter(4)
    account = StatsPoller(pool)
    for tokens, late_s in ((10, 0.0), (20, 5.0), (30, 9.0)):
        stats = figures(meter, tokens)
        pool.generator = [replace(stats, up_s=stats.up_s - late_s)]
        account.last_look()
    account.close()

    assert account.totals()["completion_tokens"] == 30
    assert (account.totals()["lives"], account.totals()["deaths"]) == (1, 0)


def test_a_replica_that_was_given_back_has_said_its_last_word():
    """It neither died nor is missing at the end; one that comes back under its name is no death."""
    pool, meter = Pool(), Meter(4)
    account = StatsPoller(pool)
    pool.generator = [replace(figures(meter, 10), given_back=True)]
    account.last_look()
    pool.generator = []
    account.last_look()
    gone = account.totals()
    pool.generator = [figures(Meter(4), 5)]
    account.last_look()
    account.close()
    back = account.totals()

    assert (gone["completion_tokens"], gone["deaths"], gone["seen_to_the_end"]) == (10, 0, True)
    assert (back["completion_tokens"], back["lives"], back["deaths"]) == (15, 2, 0)
