"""Background tasks of actors: an exception restarts them, and none is left to die in silence."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster import background
from actors.cluster.background import supervised
from tests.conftest import ROOT

_STARTS = ("create_task", "ensure_future")
_KNOWN = {
    ("actors/cluster/background.py", "supervised"): "catches every exception itself",
    ("actors/controllers/chains.py", "_run_admitted"): "awaited by its caller",
    (
        "actors/controllers/journal_writer.py",
        "_keep_running",
    ): "gives up, with a reason",
    ("actors/controllers/completion_source.py", "of"): "awaited, one after the other",
    ("actors/routing/bundles.py", "_start"): "an exception is the answer of the call",
    ("actors/engines/endpoint_transport.py", "ended"): "looks again after every exception",
    ("actors/engines/actor_host.py", "_warm"): "awaited by `ping`",
    ("actors/engines/actor_host.py", "_warm_up"): "awaited with a limit",
    ("actors/engines/scripted.py", "_hold"): "awaited by the request",
    ("actors/engines/vllm_engine.py", "prove_alive"): "awaited with a limit",
    ("actors/engines/vllm_engine.py", "_in_time"): "awaited with a limit",
    ("actors/routing/actor_transport.py", "add"): "asks again after every exception",
    ("actors/routing/bundles.py", "_send"): "an exception ends the calls of the bundle",
    ("actors/routing/bundles.py", "_carried"): "awaited with a limit",
    ("actors/routing/http_connections.py", "_close"): "closes a connection, and that is all",
}
"""Where tasks are started without `supervised`, by file and function, and what watches them."""
_OTHERS = ("actors/serving/",)


def _starts(path: Path) -> Iterator[tuple[str, str]]:
    """(file, function) of every call that starts a task."""
    name = str(path.relative_to(ROOT))

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            inner = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = child.name
            called = child.func if isinstance(child, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in _STARTS:
                yield name, function
            yield from walk(child, inner)

    yield from walk(ast.parse(path.read_text("utf-8")), "")


def test_every_background_task_is_supervised() -> None:
    """A new one is started by `supervised`, or its file and function say here what watches it."""
    found = {
        start
        for path in sorted((ROOT / "actors").rglob("*.py"))
        for start in _starts(path)
        if not start[0].startswith(_OTHERS)
    }

    assert found == _KNOWN.keys()


async def test_a_task_that_breaks_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After any exception, with the exception in the log, until it returns; cancelling ends it."""
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    runs = iter([TypeError("odd"), MemoryError(), None])

    async def run() -> None:
        if error := next(runs):
            raise error

    await asyncio.wait_for(supervised(run, "the test"), 20)
    assert next(runs, "all") == "all"
    assert caplog.text.count("the test broke and is started again") == 2
    assert "TypeError: odd" in caplog.text

    task = supervised(asyncio.Event().wait, "for ever")  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
