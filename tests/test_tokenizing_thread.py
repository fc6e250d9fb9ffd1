"""An engine tokenizes in one thread and nowhere else: a long text takes half a second, in which the
event loop would serve nobody, and tokenizers are not thread-safe."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from actors.engines import vllm_calls
from actors.engines.engine_stats import Meter
from actors.engines.generator import GeneratorEngine
from actors.engines.prompting import Prompter
from actors.engines.tokenizing import Tokenizing
from actors.engines.verifiers.kind import Running
from actors.engines.verifiers.writer import VllmWriter, Weighed
from actors.routing.calls import GenerateCall, Generated
from pipeline.core.judging import Judge
from pipeline.core.prompts import Message
from pipeline.core.protocol import Request
from pipeline.core.step_format import Turn


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


async def test_a_judge_tokenizes_in_the_thread_of_its_tokenizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has read before is taken off what it reads, and not counted on the event loop."""

    async def next_token(*_: Any) -> dict[int, float]:
        return {7: 0.0}

    monkeypatch.setattr(vllm_calls, "next_token", next_token)
    letters, tokenizing = Letters(), Tokenizing()
    running = Running(None, tokenizing, 1_000)

    def ids(turns: Any, begun: str) -> list[int]:
        return letters.encode("".join(turn.content for turn in turns) + begun)

    judge = Judge(ask="{question}{solution}")
    writer = VllmWriter(running, judge, ids, {"Yes": 7})
    told = await writer.weigh([Turn("user", "1+1")], "so: Yes", known="so:", request_id="r")

    assert told == Weighed({"Yes": 0.0}, read=len(" Yes"))
    assert letters.threads
    assert letters.elsewhere == []
