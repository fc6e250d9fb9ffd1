"""Whole runs as processes of their own, with parts of them killed, stopped or starved.

Afterwards `benchmarks.chaos_count` counts independently: every chain and every round once, and the
decisions of the same run undisturbed.
"""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.chaos import Chaos
from benchmarks.chaos_count import count
from benchmarks.chaos_faults import hanging
from benchmarks.journals import read_journal
from benchmarks.running import Job, newest_attempt, scripted_run, until
from pipeline.records.run_dir import RunDir, rows_of

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

START_S = 400.0  # of a run, on a machine that is busy with others


class Killed:
    """A run in a folder of its own, attempt by attempt."""

    def __init__(self, folder: Path, **runtime) -> None:
        self.folder, self.run = folder, folder / "runs" / "r"
        self.witness = folder / "witness"
        self.config = scripted_run(folder, **runtime)
        self.jobs: list[Job] = []

    def start(self, *more: str, **environment: str) -> Job:
        """The next attempt, once it has made a round durable."""
        begun = (self.run / "config.json").exists()
        resume = ["--resume", str(self.run)] if begun else ["--name", "r"]
        before = newest_attempt(self.run)
        log = self.folder / f"log-{len(self.jobs)}.txt"
        arguments = [*resume, "--config", str(self.config), *more]
        job = Job(arguments, log, environment)
        self.jobs.append(job)
        until(lambda: newest_attempt(self.run) > before or not job.running, START_S)
        return job

    def counted(self):
        """The independent count."""
        return count(RunDir.open(str(self.run)), self.witness)

    def durable(self) -> set[int]:
        """Seeds of the rounds in the journal."""
        table = read_journal(RunDir.open(str(self.run)).journal).table
        return {row["seed"] for row in rows_of(table)}


@pytest.fixture
def killed(tmp_path):
    """Makes a run; ends its processes afterwards."""
    made = []

    def make(**runtime):
        made.append(Killed(tmp_path, **runtime))
        return made[-1]

    yield make
    for run in made:
        for job in run.jobs:
            job.end()


SLOW_ENGINES = {"tokens_per_s": 30.0}  # a round takes about 2 s


@pytest.mark.slow
def test_a_stopped_run_flushes_within_the_grace_of_ray_and_is_resumed(killed):
    """SIGTERM, as `ray job stop` sends it: within 3 s all that is finished is durable and the exit
    status says that the run can be resumed, which then draws nothing durable again. Meanwhile Ray
    binds the loopback interface only; there is no dashboard."""
    run = killed(scripted=SLOW_ENGINES, size=20, n=4, strategies=["mr_thinking"])
    first = run.start()
    until(lambda: len(run.durable()) >= 5, 60)
    family = psutil.Process(first.process.pid).children(recursive=True)
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in family
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    first.kill(signal.SIGTERM)
    status = first.wait(60)
    durable, made = run.durable(), len(list(run.witness.glob("*.txt")))
    second = run.start()

    assert listening == {"127.0.0.1"}
    assert status == 75
    assert f"stopped by a signal; resume with --resume {run.run}" in first.output()
    assert psutil.wait_procs(family, timeout=30)[1] == []
    assert second.wait(300) == 0
    counted = run.counted()
    assert counted.right, counted
    assert (counted.chains, counted.rounds) == (20, 80)
    again = {row["seed"] for row in rows_of(rounds_of(run.run)) if row["attempt"] == 2}
    assert not durable & again
    assert made >= 1


def rounds_of(run):
    return read_journal(RunDir.open(str(run)).journal).table


@pytest.mark.slow
def test_a_run_in_which_everything_fails_says_so_once(killed):
    """Every question fails: one message with the last error, exit status 1, no endless retries."""
    run = killed(
        scripted={"faults": {"?": "error"}},
        requests={"attempts": 2, "backoff_s": 0.01},
        size=30,
        strategies=["mr_thinking"],
    )
    job = run.start()

    assert job.wait(300) == 1
    (line,) = [line for line in job.output().splitlines() if line.startswith("failed: ")]
    assert "failed questions must be at most 50% of those finished" in line
    assert "engine: scripted (try 2)" in line
    assert "Traceback" not in job.output()


@pytest.mark.slow
def test_a_short_chaos_loses_nothing(tmp_path):
    """Parts are killed and stopped, storage fails and is full; the independent count finds nothing
    amiss."""
    kinds = ["generator", "hang", "storage", "controller", "full", "verifier"]
    chaos = Chaos(tmp_path, chains=60, seconds=30, every_s=0.5, seed=3, victims=kinds, fault_s=1.5)
    try:
        chaos.disturb()
        account = chaos.account()
    finally:
        chaos.close()

    assert account["right"], account
    assert (account["chains"], account["lost"], account["duplicated"]) == (60, 0, 0)
    assert account["faults"] >= 5
    assert account["engine_tokens"] == account["journaled_tokens"] + account["unjournaled_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["generator", "verifier", "controller", "driver"])
def test_a_killed_part_costs_no_question(killed, victim):
    """SIGKILL in the middle of requests; what was durable is not made again."""
    run = killed(scripted=SLOW_ENGINES, size=20, n=4, strategies=["mr_thinking"])
    job = run.start()
    until(lambda: len(run.durable()) >= 5, 60)
    durable = run.durable()
    if victim == "driver":
        family = psutil.Process(job.process.pid).children(recursive=True)
        job.kill()
        assert job.wait(30) == -signal.SIGKILL
        assert psutil.wait_procs(family, timeout=20)[1] == []
        durable = run.durable()
        job = run.start()
    else:
        pids = list(job.controllers()) if victim == "controller" else None
        for pid in pids or job.replicas(run.witness)[victim]:
            os.kill(pid, signal.SIGKILL)

    assert job.wait(300) == 0
    counted = run.counted()
    assert counted.right, counted
    assert durable <= run.durable()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", "gcs_server", "ray::DashboardAgent"])
def test_ray_that_dies_under_a_run_leaves_it_resumable(killed, victim):
    """A process of Ray's is killed: the driver ends with one line that says so and the status of a
    stopped run, and the next attempt goes on."""
    run = killed(scripted=SLOW_ENGINES, size=20, n=4, strategies=["mr_thinking"])
    job = run.start()
    until(lambda: len(run.durable()) >= 5, 60)
    (pid,) = job.named(victim) or job.processes(victim)
    os.kill(pid, signal.SIGKILL)

    assert job.wait(180) == 75
    (line,) = [line for line in job.output().splitlines() if line.startswith("stopped: ")]
    assert "Ray" in line
    assert line.endswith(f"resume with --resume {run.run}")
    assert run.start().wait(300) == 0
    counted = run.counted()
    assert counted.right, counted


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", ["controller", "generator", "verifier", "driver", "gcs_server", "raylet", "monitor"]
)
def test_a_part_that_hangs_for_a_minute_costs_no_question(killed, victim):
    """SIGSTOP and, 60 s later, SIGCONT: the same attempt takes the run to its end."""
    run = killed(scripted=SLOW_ENGINES, size=20, n=4, strategies=["mr_thinking"])
    job = run.start()
    until(lambda: len(run.durable()) >= 5, 60)
    pids = {
        "controller": lambda: list(job.controllers()),
        "driver": job.drivers,
        "monitor": lambda: list(job.processes("ray::RunMonitor")),
        "generator": lambda: job.replicas(run.witness)["generator"],
        "verifier": lambda: job.replicas(run.witness)["verifier"],
    }.get(victim, lambda: job.named(victim))()
    assert pids
    with hanging(pids):
        time.sleep(60)

    assert job.wait(300) == 0
    counted = run.counted()
    assert counted.right, counted
    assert counted.redone == 0


@pytest.mark.slow
def test_storage_that_fails_for_a_while_stops_nothing(killed):
    """The run directory cannot be written for 30 s: the run waits, and goes on by itself."""
    run = killed(scripted=SLOW_ENGINES, size=20, n=4, strategies=["mr_thinking"])
    job = run.start()
    hidden = {}
    for name in ("journal", "outcomes"):
        place = run.run / name
        hidden[place] = run.folder / f"{name}-hidden"
        place.rename(hidden[place])
        place.write_text("a file where the folder must be")
    time.sleep(30)
    for place, aside in hidden.items():
        place.unlink()
        aside.rename(place)

    assert job.wait(400) == 0
    counted = run.counted()
    assert counted.right, counted


@pytest.mark.slow
def test_two_drivers_of_one_run_do_not_fork_it(killed):
    """A driver that was paused while another went on with its run ends by itself when it wakes."""
    run = killed(scripted=SLOW_ENGINES, size=20, n=4, strategies=["mr_thinking"])
    first = run.start()
    everyone = [psutil.Process(first.process.pid)]
    everyone += everyone[0].children(recursive=True)
    for process in everyone:
        process.suspend()
    second = run.start()
    until(lambda: len(run.durable()) >= 40, 120)
    for process in everyone:
        if process.is_running():
            process.resume()

    assert second.wait(300) == 0
    assert first.wait(120) == 75
    assert "has taken" in first.output()
    counted = run.counted()
    assert counted.right, counted


def test_a_cluster_that_is_not_there_is_said_in_one_line(killed):
    """No traceback: what could not be reached, and that the run can be resumed."""
    run = killed(size=3, strategies=["base"])
    job = run.start(RAY_ADDRESS="127.0.0.1:9")

    assert job.wait(300) == 75
    assert "stopped: could not join the Ray cluster at 127.0.0.1:9: " in job.output()
    assert "Traceback" not in job.output()
