"""Where a benchmark ran: printed by every one of them."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def described() -> str:
    """One line: commit, processor, cores, memory, GPUs, Python."""
    parts = [f"commit {_commit()}", _processor(), f"{os.cpu_count()} cores", _memory(), *_gpus()]
    return ", ".join([*parts, f"Python {platform.python_version()}"])


def _commit() -> str:
    return _output("git", "rev-parse", "--short", "HEAD") or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _memory() -> str:
    kib = int(Path("/proc/meminfo").read_text().split()[1])
    return f"{kib / 2**20:.0f} GiB"


def _gpus() -> list[str]:
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)  # noqa: S603 - fixed commands
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
