"""Log lines of jobs: time, level, module, on standard error."""

import logging
import sys


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send this project's log lines to standard error; other libraries only warn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("pipeline", "actors", "jobs"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
