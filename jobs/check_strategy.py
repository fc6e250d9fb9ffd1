"""Check that a strategy of your own keeps the contract of strategies, without any model.

    python -m jobs.check_strategy mypackage.mymodule:MyStrategy
    python -m jobs.check_strategy mypackage.mymodule:MyStrategy --set n=16

Drives it over made-up questions and completions (`pipeline.replay.contract`): it stops within its
budget, its states survive JSON and pickle, it refuses what does not answer, it replays from a pool
where it says so, and it asks neither clock nor random numbers, nor files, nor the hash of a text:
a replay decides as the live run did. Exits with 0, or with 2 and one line that says what must hold.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from jobs.logs import log_to_stderr
from jobs.verb_parser import verb_parser
from pipeline.config.errors import described
from pipeline.config.run import override_field
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Strategy
from pipeline.replay import contract
from pipeline.strategies.registry import strategy_class

_ENGINES = 9
_BUDGETS = (1, 2, 3, 5, 8)
_BAD_SCORES = (None, -0.1, 1.5, float("nan"))
_ASIDE = {
    "time": "the clock",
    "random": "random numbers",
    "posix": "the system (files, random bytes, the environment)",
    "_io": "files",
    "io": "files",
    "_socket": "the network",
}
"""What a decision must not rest on, by the module that the called function is of."""
_HASH_SEEDS = ("1", "2", "3")
"""Of other processes: of one alone a decision may be the same by chance."""
_NOW = ("now", "today", "utcnow")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = verb_parser("check_strategy", __doc__)
    options.add_argument(
        "kind", metavar="STRATEGY", help="package.module:Class, or an entry point's or own name"
    )
    options.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="a field of the strategy (repeatable)",
    )
    options.add_argument("--digest", action="store_true", help=argparse.SUPPRESS)
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    log_to_stderr(arguments.level)
    try:
        strategy = _built(arguments.kind, arguments.overrides)
        if arguments.digest:  # of a process with other hashes of texts
            print(_digest(strategy))
            return 0
        for says, check in _CHECKS.items():
            check(strategy)
            print(f"ok  {says}")
        _hashes(strategy, sys.argv[1:] if argv is None else argv)
        print("ok  decides alike in another process")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # the strategy's own, whatever it is
        why = error if isinstance(error, contract.ContractError) else _told(error)
        print(f"error: {arguments.kind}: {why}", file=sys.stderr)
        return 2
    print(f"{arguments.kind} keeps the contract of strategies")
    return 0


def _built(kind: str, overrides: list[str]) -> Strategy[Any]:
    values: dict[str, Any] = {}
    for override in overrides:
        override_field(values, override)
    try:
        strategy: Strategy[Any] = TypeAdapter(strategy_class(kind)).validate_python(values)
    except ValidationError as error:
        raise ConfigError(described(error, kind)) from error
    except PydanticUserError as error:
        raise ConfigError(f"{kind} must have fields of JSON types: {error.message}") from error
    return strategy


def _everywhere(check: Callable[..., object]) -> Callable[[Strategy[Any]], None]:
    """A check with every engine and budget, and with the strategy's own budget."""

    def checked(strategy: Strategy[Any]) -> None:
        asked = contract.questions()
        for number in range(_ENGINES):
            for one in (strategy, *(contract.with_budget(strategy, n) for n in _BUDGETS)):
                check(one, asked, contract.engine(number))

    return checked


def _scores(strategy: Strategy[Any]) -> None:
    for score in _BAD_SCORES:
        contract.heeds_scores(strategy, contract.questions(1), score)


def _seeds(strategy: Strategy[Any]) -> None:
    contract.seeds_by_address(strategy, contract.questions(2), contract.engine(1), _BUDGETS)


def _pure(strategy: Strategy[Any]) -> None:
    drive = _everywhere(contract.stops_within_its_budget)
    with suppress(Exception):  # what else is amiss is found by the other checks
        drive(strategy)  # imports within functions are done by now
    with _watched() as seen, suppress(Exception):
        drive(strategy)
    if seen:
        raise contract.ContractError(f"{seen[0]}: it must decide by what it is told alone")


def _digest(strategy: Strategy[Any]) -> str:
    asked = contract.questions()
    engines = map(contract.engine, range(_ENGINES))
    return " ".join(contract.decides_alike(strategy, asked, engine) for engine in engines)


def _hashes(strategy: Strategy[Any], argv: list[str]) -> None:
    command = [sys.executable, "-m", "jobs.check_strategy", *argv, "--digest"]
    paths = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    own = _digest(strategy)
    for seed in _HASH_SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        done = subprocess.run(  # noqa: S603  # this very program
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode or done.stdout.strip() != own:
            raise contract.ContractError(
                "it must decide alike in another process, it does not (the hash of a text, the "
                "order of a set?)"
            )


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Notes calls of functions that no decision may rest on, with their place."""
    seen: list[str] = []
    standard = sysconfig.get_path("stdlib")

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or seen:
            return
        owner = getattr(called, "__self__", None)
        kind = owner if isinstance(owner, type) else type(owner)
        module = getattr(called, "__module__", None) or kind.__module__
        what = _ASIDE.get(module)
        if module == "datetime" and called.__name__ in _NOW:
            what = "the clock"
        if what is None:
            return
        place: FrameType | None = frame
        while place is not None and place.f_code.co_filename.startswith(standard):
            place = place.f_back
        at = frame if place is None else place
        seen.append(
            f"{at.f_code.co_filename}, line {at.f_lineno}, asks {what} ({module}.{called.__name__})"
        )

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what others do as it collects (gc.callbacks, finalizers) is not the strategy's
    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def _told(error: Exception) -> str:
    """An error of the strategy's code with the line where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return f"it raised {type(error).__name__}: {error}{where}"


_CHECKS: dict[str, Callable[[Strategy[Any]], None]] = {
    "a frozen value, equal to its copy": contract.is_a_value,
    "asks neither clock nor random numbers nor files": _pure,
    "stops within its budget, on completions that it had": _everywhere(
        contract.stops_within_its_budget
    ),
    "decides alike when asked again": _everywhere(contract.decides_alike),
    "states survive JSON and pickle": _everywhere(contract.survives_storage),
    "refuses what does not answer its requests": _everywhere(contract.refuses_what_does_not_answer),
    "needs the scores that it says it needs": _scores,
    "seeds do not depend on the budget": _seeds,
    "replays from a pool, where it says so": _everywhere(contract.replays_from_a_pool),
}


if __name__ == "__main__":
    sys.exit(main())
