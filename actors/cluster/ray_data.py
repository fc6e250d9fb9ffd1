"""*data_context*: sets up Ray Data: no progress bars, and only warnings that need an action."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

import ray

_LEVEL = "RAY_DATA_LOG_LEVEL"  # Ray Data's own setting; what the user sets stays
_REFERENCES = b"has constructor arguments in the object store"


def data_context() -> Any:
    """Ray Data's settings, for this process and for the pipelines that it starts from now on."""
    level = os.environ.setdefault(_LEVEL, "WARNING")
    import ray.data

    logging.getLogger("ray.data").setLevel(level)  # where it was imported before
    # its one warning says that bars are off, which is what we ask for
    logging.getLogger("ray.data._internal.progress").setLevel(logging.ERROR)
    _drop_reference_warning()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # it advises a memory setting that is Ray Data's own and guesses from what chains hold
    context.issue_detectors_config.high_memory_detector_config.detection_time_interval_s = -1
    return context


@cache
def _drop_reference_warning() -> None:
    """Let Ray warn here and now of constructor arguments that are references, and drop the line.

    Ray Data gives its actors two references, whatever it is given itself (ray-project/ray#57733),
    and Ray warns once a process that a restart fails if they are lost. They are not: the driver
    holds them for as long as the pipeline lives. The warning comes from Ray's C++ part and knows no
    logger. The actor asks for nothing and is gone before it has started.
    """

    class Placeholder:
        def __init__(self, reference: Any) -> None:
            """Never runs."""

    def warned() -> Any:
        actor = ray.remote(Placeholder).options(num_cpus=0, max_restarts=1)
        return actor.remote(ray.put(None))

    ray.kill(_without(_REFERENCES, warned))


def _without(line: bytes, call: Callable[[], Any]) -> Any:
    """The result of a call, on whose standard error lines with these bytes are left out."""
    sys.stderr.flush()
    with ExitStack() as stack:
        try:
            captured = stack.enter_context(tempfile.TemporaryFile())
        except OSError:  # a disk that is full costs no run for the sake of a line
            return call()
        terminal = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            return call()
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            captured.seek(0)
            with suppress(OSError):  # a terminal that is gone
                for other in captured:
                    if line not in other:
                        os.write(terminal, other)
            os.close(terminal)
