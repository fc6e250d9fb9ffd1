"""Log lines of jobs: time, level, module, on standard error; ``-q`` and ``-v`` say how many."""

import argparse
import logging
import sys
from typing import TextIO


class _ToStderr(logging.StreamHandler[TextIO]):
    """Standard error as it is at the moment: a progress line there makes room for others."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.stream = sys.stderr
        super().emit(record)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """``-q`` and ``-v``, as `level`."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-q",
        "--quiet",
        action="store_const",
        const=logging.WARNING,
        dest="level",
        help="no progress, only warnings and the result",
    )
    which.add_argument(
        "-v",
        "--verbose",
        action="store_const",
        const=logging.DEBUG,
        dest="level",
        help="tell more",
    )
    parser.set_defaults(level=logging.INFO)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send this project's log lines to standard error; other libraries only warn."""
    handler = _ToStderr()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("pipeline", "actors", "jobs"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
