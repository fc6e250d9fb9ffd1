"""Standard output as tables see it."""

from __future__ import annotations

import os

from rich.console import Console

_WIDE = 160


def terminal() -> Console:
    """As wide as the terminal, or as the variable COLUMNS says; wide where there is neither."""
    told = Console().is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return Console(width=None if told else _WIDE, highlight=False)
