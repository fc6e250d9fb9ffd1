"""Standard output as tables see it."""

from __future__ import annotations

import os

from rich.console import Console

_WIDE = 160


def terminal() -> Console:
    """As wide as the terminal, or as the variable COLUMNS says; wide where there is neither.

    It prints what it is given: names of runs, models and labels may hold ``[brackets]`` and
    ``:colons:``, which are no mark-up.
    """
    told = Console().is_terminal or os.environ.get("COLUMNS", "").isdigit()
    width = None if told else _WIDE
    return Console(width=width, highlight=False, markup=False, emoji=False)
