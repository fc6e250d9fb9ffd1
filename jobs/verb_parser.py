"""The command-line parser that every verb begins with: its help, ``-q`` and ``-v``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from jobs.logs import add_log_options


def verb_parser(verb: str, text: str | None) -> argparse.ArgumentParser:
    """A parser of one verb.

    Args:
        verb: its name, as after ``markovscale``.
        text: the docstring of its module, shown by ``--help`` without its mark-up.
    """
    parser = argparse.ArgumentParser(
        prog=f"markovscale {verb}",
        description=(text or "").replace("``", "").replace("`", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_log_options(parser)
    return parser


def verbosity(level: int) -> list[str]:
    """The option that makes another verb as quiet or as talkative.

    Args:
        level: as parsed with `verb_parser`.
    """
    return {logging.WARNING: ["-q"], logging.DEBUG: ["-v"]}.get(level, [])


def at_least(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A type of argparse: a whole number from `least` to `most`."""
    must = f">= {least}" if most == 2**63 - 1 else f"from {least} to {most}"

    def number(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) < 20
        if not plain or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number {must}, got {text[:40]!r}")
        return int(text)

    return number
