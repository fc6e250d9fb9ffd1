"""Log lines of jobs: time, level, module, on standard error."""

import logging
import sys
from typing import TextIO


class _ToStderr(logging.StreamHandler[TextIO]):
    """Standard error as it is at the moment: a progress line there makes room for others."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send this project's log lines to standard error; other libraries only warn."""
    handler = _ToStderr()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("pipeline", "actors", "jobs"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
