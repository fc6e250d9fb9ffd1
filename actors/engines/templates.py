"""Chat templates are code of strangers: rendered within a limit of time, and refused by name."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

LIMIT_S = 30.0

R = TypeVar("R")


def rendered(tokenizer: Any, turns: Sequence[Mapping[str, str]], **variables: Any) -> str:
    """The text that a tokenizer's chat template makes of a conversation.

    Raises:
        ValueError: what the template says or does wrong, and for which turns.
    """
    try:
        text: str = within(
            LIMIT_S,
            lambda: tokenizer.apply_chat_template(list(turns), tokenize=False, **variables),
        )
    except Exception as error:
        roles = ", ".join(turn["role"] for turn in turns)
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"the chat template must take turns of {roles}, got: {why}") from error
    return text


class _TooLongError(BaseException):
    """Raised inside what takes too long; no ``except Exception`` there may stop it."""


def within(seconds: float, call: Callable[[], R]) -> R:
    """What `call` returns; Python code that takes longer is interrupted.

    Raises:
        TimeoutError: where it was.
    """
    thread, lock, over = threading.get_ident(), threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not over:
                raised = ctypes.py_object(_TooLongError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        try:
            return call()
        finally:
            with lock:
                over = True
            timer.cancel()
    except _TooLongError:
        raise TimeoutError(f"it took over {seconds:g} s") from None
