"""*evaluate*: a live run from Python, in a process of its own; ``markovscale.evaluate``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pipeline.api import Run, open_run
from pipeline.core.errors import MarkovScaleError
from pipeline.store.storage import Address

_PACKAGE = __name__.rpartition("jobs.")[0]
"""Empty in a checkout, ``markovscale.`` in a wheel."""
_CAPPED = 3


def evaluate(
    config: Address, *, settings: Mapping[str, Any] | None = None, name: str | None = None
) -> Run:
    """Run ``evaluate``: start or join Ray, draw, grade; what it prints goes to standard error.

    Args:
        config: a configuration file, or the name of a shipped one.
        settings: fields to set by their dotted names, such as ``{"science.strategy.tau": 0.9}``.
        name: of the run; None is that of the configuration with the time.

    Returns:
        The run, also where a cap of ``runtime.limits`` ended it.

    Raises:
        MarkovScaleError: where it failed or was stopped, with its last line and how to resume.
    """
    command = [sys.executable, "-m", f"{_PACKAGE}jobs.evaluate", "--config", str(config)]
    for field, value in (settings or {}).items():
        command += ["--set", f"{field}={value if isinstance(value, str) else json.dumps(value)}"]
    command += [] if name is None else ["--name", name]
    address, last = None, ""
    with subprocess.Popen(  # noqa: S603  # our own verb
        command, stderr=subprocess.PIPE, stdout=sys.stderr, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", file=sys.stderr)
            last = line.strip() or last
            address = line.partition("run directory: ")[2].strip() or address
    if process.returncode not in (0, _CAPPED) or address is None:
        raise MarkovScaleError(f"evaluate ended with status {process.returncode}: {last}")
    return open_run(address)
