"""*CLI*: options, shipped files by name, logging and completion that all verbs share."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from pipeline.store.local import INSTALLED, PROJECT

_CONFIGS = PROJECT / "configs"
_LOGGERS = ("markovscale",) if INSTALLED else ("pipeline", "actors", "jobs")
_WIDTH = 160  # columns of a table where standard output is no terminal


class VerbParser(argparse.ArgumentParser):
    """The parser of a verb: ``-q``, ``-v``, help from its module, one-line errors, completion."""

    def __init__(self, verb: str, text: str | None) -> None:
        """
        Args:
            verb: its name, as after ``markovscale``.
            text: the docstring of its module, which ``--help`` shows without markup.
        """
        super().__init__(
            prog=f"markovscale {verb}",
            description=(text or "").replace("``", "").replace("`", ""),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        level = self.add_mutually_exclusive_group()
        level.add_argument(
            "-q",
            "--quiet",
            action="store_const",
            const=logging.WARNING,
            dest="level",
            help="no progress, only warnings and the result",
        )
        level.add_argument(
            "-v",
            "--verbose",
            action="store_const",
            const=logging.DEBUG,
            dest="level",
            help="log more details",
        )
        self.set_defaults(level=logging.INFO)

    def parse_args(  # type: ignore[override]  # argparse's overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parses; where a shell asks for completions, prints these and exits."""
        complete(self)
        return super().parse_args(args, namespace)

    def error(self, message: str) -> Any:
        """Ends with status 2 and one line."""
        self.exit(2, f"error: {message} ({self.prog} --help)\n")


def complete(parser: argparse.ArgumentParser) -> None:
    """Lets argcomplete answer a shell that completes a command line; does nothing otherwise."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def at_least(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """An argparse type: a whole number from `least` to `most`."""
    must = f">= {least}" if most == 2**63 - 1 else f"from {least} to {most}"

    def number(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) < 20
        if not plain or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number {must}, got {text[:40]!r}")
        return int(text)

    return number


def number(least: float, most: float = math.inf, *, above: bool = False) -> Callable[[str], float]:
    """An argparse type: a finite number from `least`, or `above` it, to `most`."""
    must = f"{'>' if above else '>='} {least:g}"
    if most < math.inf:
        must = f"above {least:g} and at most {most:g}" if above else f"from {least:g} to {most:g}"

    def parsed(text: str) -> float:
        with suppress(ValueError):
            value = float(text)
            finite = math.isfinite(value)
            if finite and least <= value <= most and not (above and value == least):
                return value
        raise argparse.ArgumentTypeError(f"must be a number {must}, got {text[:40]!r}")

    return parsed


def add_set_option(
    parser: argparse.ArgumentParser,
    purpose: str = "override one field, dotted, such as science.strategy.tau=0.9",
) -> None:
    """Adds ``--set FIELD=VALUE``, repeatable, as `overrides`
    (`pipeline.config.run.override_field`)."""
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help=f"{purpose} (repeatable)",
    )


_SHARED: dict[str, dict[str, Any]] = {
    "run": {"metavar": "RUN", "help": "run directory"},
    "--json": {"action": "store_true", "help": "print one JSON object instead"},
    "--features": {
        "metavar": "FOLDER",
        "help": "cache of features; by default in the run, or in the pool's parent folder",
    },
    "--prices": {
        "nargs": 4,
        "type": float,
        "metavar": ("PROMPT", "CACHED", "COMPLETION", "VERIFIER"),
    },
}


def add_shared(parser: argparse.ArgumentParser, name: str, **changes: Any) -> None:
    """Adds an option that several verbs have: ``run``, ``--json``, ``--features``, ``--prices``.

    Args:
        parser: of the verb.
        name: of the option.
        changes: what is other in this verb, such as `help`.
    """
    parser.add_argument(name, **{**_SHARED[name], **changes})


def shipped_config(folder: str = "") -> Callable[[str], str]:
    """An argparse type: a file, or the bare name of a file in a folder below ``configs``, such as
    ``laptop``."""

    def path(text: str) -> str:
        if Path(text).suffix or "/" in text or os.path.exists(text):
            return text
        file = str(_CONFIGS / folder / f"{text}.yaml")
        if os.path.isfile(file):
            return file
        names = sorted(path.stem for path in (_CONFIGS / folder).glob("*.yaml"))
        near = get_close_matches(text, names, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none'}"
        raise argparse.ArgumentTypeError(
            f"must be a file, or a shipped one by name ({meant}), got {text!r}"
        )

    return path


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """``--config``, ``--set``, ``--name``, ``--resume`` and looks at what would be run."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=shipped_config(),
        help="YAML file of the run, or a shipped one by name, such as laptop",
    )
    add_set_option(parser)
    parser.add_argument("--name", metavar="NAME", help="name of the run directory")
    parser.add_argument("--resume", metavar="RUN", help="run directory to continue")
    parser.add_argument(
        "--resume-if-exists",
        action="store_true",
        help="continue the run directory called NAME if it exists, else create it: a job that is "
        "submitted again needs no other command line",
    )
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="with a resume: retry the questions that failed before",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the configuration and its memory, tokens and hours, and stop",
    )
    parser.add_argument(
        "--show-rows",
        metavar="N",
        type=at_least(1),
        help="print the first N rows of each benchmark as read and as parsed, and stop",
    )


def terminal() -> Console:
    """Standard output, as wide as the terminal or as the variable COLUMNS says, else 160 columns.

    Names of runs, models and labels may hold ``[brackets]`` and ``:colons:``: they are printed as
    they are, not read as markup.
    """
    known = Console().is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return Console(width=None if known else _WIDTH, highlight=False, markup=False, emoji=False)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the standard error of the moment, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends this project's log lines (time, level, module) to standard error."""
    handler = _StderrHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
