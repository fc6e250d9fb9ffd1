"""An engine tokenizes in one thread and nowhere else: a long text takes half a second, in which the
event loop would serve nobody, and tokenizers are not thread-safe."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from actors.engines.engine_stats import Meter
from actors.engines.generator import GeneratorEngine
from actors.engines.prompting import Prompter, Tokenizing
from actors.routing.calls import GenerateCall, Generated
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Request


class Letters:
    """A tokenizer of a token a letter, so that no mark of thinking is one token."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def apply_chat_template(self, turns: Any, **_: Any) -> str:
        """The contents, one after the other."""
        return "".join(turn["content"] for turn in turns)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Where it is called is remembered."""
        self.threads.append(threading.current_thread().name)
        return [*map(ord, text)]

    @property
    def elsewhere(self) -> list[str]:
        """Threads that are not the engine's own for it."""
        return [name for name in self.threads if not name.startswith("tokenize")]


async def test_a_generator_reads_its_replies_in_the_thread_of_its_tokenizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thinking is counted right, and not on the event loop."""
    engine, letters = object.__new__(GeneratorEngine), Letters()
    engine._tokenizing, engine._meter, engine._running = Tokenizing(), Meter(1), {}
    engine._prompter = Prompter(letters, 1_000)
    text = "<think>x</think>5"
    made = SimpleNamespace(
        text=text, token_ids=[*map(ord, text)], finish_reason="stop", logprobs=None
    )

    async def output(*_: Any) -> Any:
        return SimpleNamespace(outputs=[made], num_cached_tokens=0)

    monkeypatch.setattr(engine, "_run", output)
    asked = Request(messages=(Message("user", "1"),), max_tokens=9, temperature=0.0, top_p=1.0)
    answer = await engine.serve(GenerateCall(asked, session="s"))

    assert isinstance(answer, Generated)
    assert answer.thinking_tokens == len("<think>x</think>")
    assert letters.threads
    assert letters.elsewhere == []


class Slow(Letters):
    """Takes until `answered` for a long text; its copies are counted."""

    copies = 0

    def __init__(self, answered: threading.Event) -> None:
        super().__init__()
        self.answered = answered

    def __deepcopy__(self, memo: Any) -> Slow:
        Slow.copies += 1
        other = Slow(self.answered)
        other.threads = self.threads
        return other

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Where it is called is remembered; nobody waits for ever."""
        if len(text) > 1_000:
            assert self.answered.wait(60)
        return super().encode(text)

    def get_vocab(self) -> dict[str, int]:
        """Of one letter each."""
        return {"a": 97}


async def test_long_prompts_keep_neither_short_ones_nor_replies_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are tokenized in a thread of their own, with a tokenizer of their own; one that cannot
    fit is refused by its characters without being tokenized at all."""
    shorts = threading.Event()
    engine, slow = object.__new__(GeneratorEngine), Slow(shorts)
    engine._tokenizing, engine._meter, engine._running = Tokenizing(), Meter(1), {}
    engine._prompter = Prompter(slow, 1_000_000)

    async def run(_: Any, prompt: Any, *rest: Any) -> Any:
        made = SimpleNamespace(text="5", token_ids=[5], finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[made], num_cached_tokens=0)

    monkeypatch.setattr(engine, "_run", run)

    async def answered(characters: int) -> Any:
        turn = Message("user", "a" * characters)
        asked = Request(messages=(turn,), max_tokens=9, temperature=0.0, top_p=1.0)
        call = GenerateCall(asked, session="s", request_id=str(characters), deadline_s=60)
        return await engine.serve(call)

    long = [asyncio.create_task(answered(100_000 + n)) for n in range(4)]
    await asyncio.sleep(0)
    short = await answered(10)
    pending = [task for task in long if not task.done()]
    shorts.set()
    refused = await answered(2_000_000)
    done = await asyncio.gather(*long)

    assert isinstance(short, Generated)
    assert len(pending) == 4
    assert isinstance(refused, Failure)
    assert "2,000,000 characters, the context of 1,000,000 tokens holds at most" in refused.error
    assert all(isinstance(answer, Generated) for answer in done)
    assert (Slow.copies, slow.elsewhere) == (1, [])
    assert sum(name.startswith("tokenize-long") for name in slow.threads) == 4
