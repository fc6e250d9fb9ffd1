"""List the benchmarks, or run the quick form of each, one after another.

    python -m benchmarks
    python -m benchmarks --quick
    python -m benchmarks --quick hops scaling

Each is a module of its own that prints one JSON object as its last line; with --quick these are
collected into one object, by name, on the last line here. Exits with 1 where one of them failed.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent


def benchmarks() -> dict[str, str]:
    """What each benchmark is for, by name: the first line of the modules that have a ``main``."""
    found = {}
    for path in sorted(_HERE.glob("[!_]*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def has_quick(name: str) -> bool:
    """Whether a benchmark takes --quick."""
    return '"--quick"' in (_HERE / f"{name}.py").read_text("utf-8")


def run_quick(name: str) -> dict[str, Any] | None:
    """Run one and pass on what it prints; its figures, None where it failed."""
    print(f"== {name}", flush=True)
    last, began = "", time.perf_counter()
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if line.startswith("{") else last
    print(f"== {name}: {time.perf_counter() - began:.1f} s, exit {process.returncode}", flush=True)
    if process.returncode or not last:
        return None
    figures: dict[str, Any] = json.loads(last)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """List or run; returns the exit status."""
    known = benchmarks()
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="run the quick form of each")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of these alone")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"a benchmark must be one of {', '.join(known)}, got {unknown[0]!r}")
    names = options.names or list(known)
    if not options.quick:
        for name in names:
            mark = "quick" if has_quick(name) else "     "
            print(f"{name:14} {mark}  {known[name]}")
        return 0
    figures = {name: run_quick(name) for name in names if has_quick(name)}
    print(json.dumps(figures))
    return 1 if None in figures.values() else 0


if __name__ == "__main__":
    sys.exit(main())
