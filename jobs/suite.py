"""Several runs as one submission: one configuration a backbone, one report for all.

    python -m jobs.suite --name paper configs/qwen-7b-4-nodes.yaml configs/llama-8b-4-nodes.yaml
    python -m jobs.suite --name paper --at-once 2 --set runtime.runs=s3://bucket/runs FILE FILE FILE
    ray job submit --address URL --working-dir . -- python -m jobs.suite --name paper FILE FILE

Each run is a ``jobs.evaluate`` of its own, in a process of its own and in the run directory
``NAME-<name in its configuration>``; they share the cluster. Replicas that an elastic pool gives
back are taken by the pools of the others. Submitted again, every run that is not done is resumed.
Writes ``NAME.html``, the report of all runs, beside the run directories. Exits with 0, with 2
where a configuration cannot be (then nothing is started), else with the largest status of
``jobs.evaluate`` among the runs: 75 where any was stopped and can be resumed; 3, of a run that its
caps ended, only where no other ended otherwise than done.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import posixpath
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from jobs.cli import (
    VerbParser,
    add_set_option,
    at_least,
    log_to_stderr,
    same_verbosity,
    shipped_config,
    terminal,
)
from jobs.endings import ignore_broken_pipe
from pipeline.core.errors import ConfigError, DataError

_NARROWEST = 60  # columns of a table that can be read


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("suite", __doc__)
    options.add_argument(
        "configs", nargs="+", type=shipped_config(), metavar="FILE", help="YAML file of a run"
    )
    options.add_argument(
        "--name", required=True, metavar="NAME", help="begins the name of every run directory"
    )
    options.add_argument(
        "--at-once",
        type=at_least(1),
        metavar="N",
        help="runs at the same time; all of them by default",
    )
    add_set_option(options, "override one field in every configuration")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    log_to_stderr(arguments.level)
    try:
        runs = runs_of(arguments.configs, arguments.overrides, arguments.name)
    except (ConfigError, DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    told = same_verbosity(arguments.level)
    overrides = [part for field in arguments.overrides for part in ("--set", field)]
    commands = [
        [
            *(sys.executable, "-m", "jobs.evaluate", "--config", config),
            *(*told, *overrides, "--name", posixpath.basename(address), "--resume-if-exists"),
        ]
        for config, address in runs
    ]
    names = [posixpath.basename(address) for _, address in runs]
    statuses = run_all(names, commands, arguments.at_once or len(commands))
    for name, status in zip(names, statuses, strict=True):
        print(f"{name}: {'done' if status == 0 else f'ended with status {status}'}")
    _report([address for _, address in runs], arguments.name)
    return max(statuses, key=_weight)


def _weight(status: int) -> float:
    """A capped run (3) is worse than one that is done, and than no other end."""
    return 0.5 if status == 3 else float(status if status >= 0 else 128 - status)


def runs_of(configs: Sequence[str], overrides: Sequence[str], name: str) -> list[tuple[str, str]]:
    """(configuration file, address of its run directory) of every run.

    Raises:
        ConfigError: where one cannot be, or two would share a directory.
    """
    from pipeline.config.run import RunConfig
    from pipeline.store.storage import check_name, resolve

    check_name(name, "a suite's name")
    runs: dict[str, str] = {}
    for path in configs:
        config = RunConfig.load(path, overrides)
        folder = (
            config.runtime.runs if "://" in config.runtime.runs else resolve(config.runtime.runs)[1]
        )
        address = posixpath.join(folder, check_name(f"{name}-{config.name}", "a run's name"))
        if address in runs:
            raise ConfigError(
                f"runs of a suite must have different names, {runs[address]} and {path} are both "
                f"called {config.name}"
            )
        runs[address] = path
    return [(path, address) for address, path in runs.items()]


def run_all(names: Sequence[str], commands: Sequence[list[str]], at_once: int) -> list[int]:
    """Exit statuses of the commands, `at_once` of them running at a time, in order.

    Where several run at a time their lines come out with their names in front, in tables that are
    so much narrower; one alone has the terminal to itself. A signal to stop is handed on to those
    that run, and lets none start any more: a command that never ran counts as stopped (75).
    """
    statuses, running = [75] * len(commands), set[subprocess.Popen[str]]()
    places, lock, sent = threading.Semaphore(at_once), threading.Lock(), list[int]()
    alone = at_once == 1 or len(commands) == 1

    def run(index: int) -> None:
        with places:
            with lock:
                if sent:
                    return
                if alone:
                    print(f"run {index + 1} of {len(commands)}: {names[index]}", flush=True)
                process = subprocess.Popen(  # noqa: S603 (our own interpreter and arguments)
                    commands[index],
                    stdout=None if alone else subprocess.PIPE,
                    stderr=None if alone else subprocess.STDOUT,
                    text=True,
                    errors="replace",  # engines write what they like
                    env=os.environ if alone else {**os.environ, **_narrower(names[index])},
                )
                running.add(process)
                if sent:  # while it started, so that nobody knew of it
                    tell(process, sent[-1])
            with process:
                if process.stdout is not None:
                    _relay(process.stdout, names[index])
            statuses[index] = process.returncode
            running.discard(process)

    def tell(process: subprocess.Popen[str], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    def stop(number: int) -> None:
        sent.append(number)
        for process in list(running):
            tell(process, number)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(commands))]
    with _handing_on(stop):
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # a join without time-out would hold signals back
                thread.join(0.5)
    return statuses


@contextlib.contextmanager
def _handing_on(stop: Callable[[int], None]) -> Iterator[None]:
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    before = {n: handler for n, handler in handlers.items() if handler != signal.SIG_IGN}
    for number in before:
        signal.signal(number, lambda signum, _: stop(signum))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _narrower(name: str) -> dict[str, str]:
    """The width that the name in front of each line leaves, for `jobs.cli`."""
    return {"COLUMNS": str(max(_NARROWEST, terminal().width - len(f"[{name}] ")))}


def _relay(lines: IO[str], name: str) -> None:
    for line in lines:
        print(f"[{name}] {line}", end="", flush=True)


def _report(addresses: Sequence[str], name: str) -> None:
    from jobs import report

    out = posixpath.join(posixpath.dirname(addresses[0]), f"{name}.html")
    report.main([*addresses, "--out", out])


if __name__ == "__main__":
    ignore_broken_pipe()
    sys.exit(main())
