"""What the driver decides: when to end a run, how long to let it finish, what to wait for."""

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest
import ray

from actors.cluster.background import StorageError, with_retries
from actors.cluster.run_monitor import RunMonitor
from actors.controllers.chain_types import Counters
from actors.driver.admission_control import StatsPoller
from actors.driver.driver import Attempt
from actors.driver.limits import AbortPolicy, RunCappedError, Spending
from actors.driver.metric_rows import MetricRows
from actors.driver.signals import RunInterruptedError, Signals, answer, stop_grace_s
from pipeline.config.runtime import RuntimeConfig
from pipeline.core.errors import EngineError
from pipeline.records.segments import Epoch
from pipeline.report.run_data import read_run
from pipeline.report.run_progress import progress_of
from tests.attempts import config_of, new_run

FINE = {"fatal": None, "idle_s": 0.0, "stops": {"budget": 20}, "last_error": None}


def reason(seconds=1_000.0, **totals):
    breaker = AbortPolicy(RuntimeConfig(no_progress_timeout_s=60), "runs/r")
    return str(breaker.reason({**FINE, **totals}, seconds))


def test_a_run_goes_on_while_most_questions_succeed():
    """Half may fail; and a few failures at the start mean nothing yet."""
    assert reason() == "None"
    assert reason(stops={"budget": 10, "failed": 10}) == "None"
    assert reason(stops={"failed": 19}) == "None"


def test_a_run_ends_with_one_message_that_says_how_to_go_on():
    """Failures, a standstill and storage that was given up each have their own."""
    failed = reason(stops={"budget": 9, "failed": 11}, last_error="engine: x")

    assert failed.startswith("failed questions must be at most 50% of those finished, got 11 of 20")
    assert "the last with: engine: x" in failed
    assert failed.endswith("resume with --resume runs/r --retry-failed")
    assert reason(idle_s=61.0).startswith("a round must end every 60 s, none did for 61 s")
    assert reason(fatal="disk: no") == "disk: no; resume with --resume runs/r"


class Flow:
    """A phase that ends while the driver looks at its engines."""

    def __init__(self, at_the_end):
        self.running, self._at_the_end = True, at_the_end

    def end(self):
        if self.running:
            self._at_the_end()
            self.running = False

    def wait(self, seconds):
        pass

    def ending(self):
        pass

    def result(self):
        pass


class InPlace:
    """A run's monitor that answers at once."""

    def __init__(self):
        self._monitor = RunMonitor()

    def __getattr__(self, name):
        call = getattr(self._monitor, name)
        return SimpleNamespace(remote=lambda *given: asyncio.run(call(*given)))


def phase_of(tmp_path, monkeypatch, at_the_end):
    """A phase of one chain without engines and Ray: (driver, what runs it, rows told, folded)."""
    config = config_of(tmp_path)
    run = new_run(config)
    driver = Attempt(run, config, 1)
    told, folded, watch = [], [], InPlace()
    flow = Flow(lambda: at_the_end(run, config, watch))
    driver._account = SimpleNamespace(look=flow.end, latest={})
    driver._admission = SimpleNamespace(step=lambda totals: None)
    driver._rows = SimpleNamespace(log=lambda totals, *_: told.append(totals))
    driver._spending = Spending(run, config.runtime, config.science.models)
    work = [{"expected_completions": 4}]
    driver._phases = SimpleNamespace(count=1, work=lambda *_: work, fold=folded.append)
    monkeypatch.setattr("actors.driver.driver.answer", lambda asked: asked)
    monkeypatch.setattr("actors.driver.driver.PhaseFlow", lambda *_: flow)
    return driver, lambda: driver._phase(0, watch, SimpleNamespace(address=None)), told, folded


def test_an_attempt_that_was_taken_over_counts_no_phase(tmp_path, monkeypatch):
    """Nor where it learns of that only as the phase ends: its last rounds are another's to redo, so
    the statistics of the next phase are, too."""
    _, phase, _, folded = phase_of(tmp_path, monkeypatch, lambda run, config, _: run.resume(config))

    with pytest.raises(RunInterruptedError, match="another attempt has taken"):
        phase()
    assert folded == []


def test_the_last_figures_of_a_phase_are_from_after_its_end(tmp_path, monkeypatch):
    """Else what came between the last look and the end would be in no row."""
    epoch = Epoch(1, "abcdef", 0, "a", 1).name

    def ends(run, config, watch):
        watch.report.remote(epoch, {**Counters().as_dict(), "rounds": 7}, None, 1)

    _, phase, told, folded = phase_of(tmp_path, monkeypatch, ends)
    phase()

    assert [totals["rounds"] for totals in told] == [7]
    assert folded == [0]


@pytest.mark.timeout(60)
def test_where_no_controller_is_up_nothing_is_waited_for(tmp_path, monkeypatch):
    """A run that is told to stop while its controllers wait for room ends soon."""
    monkeypatch.setattr("actors.driver.driver._DRAIN_S", 1e9)
    monkeypatch.setattr("actors.driver.driver._NONE_UP_S", 0.0)
    driver, phase, _, _ = phase_of(tmp_path, monkeypatch, None)
    driver._account.look = lambda: None  # the phase goes on
    driver._signals._stop.set()

    with pytest.raises(RunInterruptedError, match="stopped by a signal"):
        phase()


@pytest.mark.parametrize("ends", [EngineError, KeyboardInterrupt, None])
def test_engines_that_only_loaded_have_cost_their_time(tmp_path, monkeypatch, ends):
    """An attempt that ends while they start, or as soon as they have, is in the account of the run:
    else its caps would let it load them again and again."""
    pools = {name: {"num_gpus": 1} for name in ("generator", "verifier")}
    config = config_of(tmp_path, limits={"gpu_hours": 1.5}, **pools)
    run, now = new_run(config), [0.0]
    driver = Attempt(run, config, 1)

    def account():
        return Spending(run, config.runtime, config.science.models, lambda: now[0])

    def starts(*_):
        now[0] += 3_600
        if ends is not None:
            raise ends
        address = SimpleNamespace(most=8, in_flight=8)
        stats = {"generator": [], "verifier": []}
        return SimpleNamespace(address=address, stats=lambda: stats, stop=lambda: None)

    driver._spending = account()
    monkeypatch.setattr("actors.driver.driver.answer", lambda asked: asked)
    monkeypatch.setattr("actors.driver.driver.start_engines", starts)
    monkeypatch.setattr("actors.driver.driver.write_environment", lambda *_: None)
    monkeypatch.setattr("actors.driver.driver.MetricRows", lambda *given: Rows(*given))
    with pytest.raises(ends or RunCappedError):
        driver._go_through(InPlace())

    assert account().whole.gpu_s == 2 * 3_600
    with pytest.raises(RunCappedError):
        raise account().reason()
    assert progress_of(read_run(run.address)).limits["gpu_hours"]["spent"] == 2.0


class Rows(MetricRows):
    """Metrics that Prometheus is not told."""

    def __init__(self, *given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("actors.driver.metric_rows.RunMetrics", lambda run_id: None)
            super().__init__(*given)


@pytest.mark.parametrize(
    ("wait", "drain", "grace"),
    [(None, None, 1.0), ("3", None, 1.0), ("150", None, 118.6), ("150", 5.0, 5.0), ("3", 0.0, 0.0)],
)
def test_the_grace_is_most_of_what_ray_leaves_a_stopped_job(monkeypatch, wait, drain, grace):
    """Unless the configuration says otherwise."""
    monkeypatch.delenv("RAY_JOB_STOP_WAIT_TIME_S", raising=False)
    if wait is not None:
        monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", wait)

    assert stop_grace_s(RuntimeConfig(drain_s=drain)) == pytest.approx(grace)


def test_a_signal_is_noted_in_a_run_and_raised_in_a_long_start(monkeypatch):
    """While engines load, the first SIGTERM ends the start; later the first one is only noted.
    Two at one moment are one."""
    now = [0.0]
    monkeypatch.setattr("actors.driver.signals.time", SimpleNamespace(monotonic=lambda: now[0]))
    before = signal.getsignal(signal.SIGTERM)
    signals, noted = Signals("go on"), []

    def told_twice():
        with signals.installed():
            signals.raising = False
            os.kill(os.getpid(), signal.SIGTERM)
            noted.append(signals.stop)
            os.kill(os.getpid(), signal.SIGTERM)  # `ray job stop` sends it to parent and child
            now[0] = 2.0
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(RunInterruptedError, match="stopped by SIGTERM; go on"):
        told_twice()
    with (
        pytest.raises(RunInterruptedError, match="stopped by SIGINT; go on"),
        Signals("go on").installed(),
    ):
        os.kill(os.getpid(), signal.SIGINT)

    assert noted == [True]
    assert signal.getsignal(signal.SIGTERM) == before


def test_storage_is_waited_for_and_then_given_up():
    """A call is made again until it succeeds, or until the time is over."""
    fails = [OSError("gone"), OSError("gone")]

    def call():
        if fails:
            raise fails.pop()
        return 7

    assert with_retries(call, "read") == 7
    with pytest.raises(StorageError, match="could not read for 0 s: gone"):
        with_retries(lambda: (_ for _ in ()).throw(OSError("gone")), "read", give_up_s=0)


async def test_controllers_learn_of_a_drain_at_once():
    """Whoever waits is told, with the grace; whoever asks later as well."""
    watch = RunMonitor()
    waiting = asyncio.create_task(watch.until_drain())
    await asyncio.sleep(0)
    await watch.drain(4.0)

    assert await asyncio.wait_for(waiting, 1) == 4.0
    assert await watch.until_drain() == 4.0
    assert (await watch.totals())["draining"]


def test_engines_that_do_not_answer_hold_nobody_up():
    """The last figures stand."""

    class Silent:
        def stats(self):
            raise RuntimeError("no answer")

    account = StatsPoller(Silent())
    account.last_look()
    account.close()

    assert (account.latest, account.preemptions) == ({}, 0)


def test_a_monitor_that_hangs_is_named(monkeypatch):
    """The driver waits for it five minutes, and then ends as where Ray is gone."""

    def hangs(asked, timeout):
        assert (asked, timeout) == ("totals", 300)
        raise ray.exceptions.GetTimeoutError("Get timed out: some object(s) not ready.")

    monkeypatch.setattr(ray, "get", hangs)
    with pytest.raises(ray.exceptions.RayError, match="monitor must answer within 300 s"):
        answer("totals")
