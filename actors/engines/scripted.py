"""Scripted engines: stand-ins that answer by rules, behind the same interface as the real ones.

Replies depend on prompt and seed alone. What they make is no measurement of any model: a run with
them is marked synthetic.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.cluster.concurrency_limit import Limit
from actors.engines.engine_stats import EngineStats, Meter
from actors.routing.calls import Call, GenerateCall, Generated, ScoreCall, Scored
from pipeline.benchmarks import generated
from pipeline.config.runtime import Fault, Script
from pipeline.core import prm
from pipeline.core.confidence import Confidence
from pipeline.core.errors import DataError, EngineDeadError, ErrorKind, VerifierError
from pipeline.core.protocol import Failure

_EXPRESSION = re.compile(r"\d+(?:[*+-]\d+)+\?|[a-z]=\d+;\S*;\?[a-z]")
_WORKING = (
    "First we write the total as $x^2 + 3x = 40$, where $x$ is the number of boxes. Then "
    "$\\frac{12}{5}$ of them are left, which is 2.4 or 240% of one.\n\nSo the value of what is "
    "left comes to 1,250 dollars, and each of the 5 friends has 250 of them.\n\n"
)
_JUDGED = re.compile(r"Reference answer:\n(.*?)\n\nAnswer to grade:\n(.*?)\n\n", re.DOTALL)
_JUDGED_TOKENS = 4
_ANSWER = re.compile(r"(?:\\boxed\{|was )(-?\d+)")


def gold(text: str) -> str:
    """The answer that scripted engines hold to be right, for a question or a prompt with it.

    The value of the expression for a question of a generated benchmark, otherwise a number that the
    first line decides.
    """
    found = _EXPRESSION.search(text)
    if found:
        with contextlib.suppress(DataError):
            return generated.gold(found[0])
    return str(1 + int(_uniform("gold", text.strip().partition("\n")[0]) * 999))


def reply(prompt: str, seed: int, script: Script) -> tuple[str, int]:
    """A reply to `prompt`, and the completion tokens that it is said to have."""
    right = gold(prompt)
    previous = _ANSWER.findall(prompt)
    if not previous:
        p_right = script.p0
    elif previous[-1] == right:
        p_right = 1 - script.a
    else:
        p_right = script.b
    is_right = _uniform("right", prompt, seed) < p_right
    answer = int(right) + (0 if is_right else 1 + int(_uniform("slip", prompt, seed) * 99))
    tokens = max(1, round(script.tokens * 2 ** (2 * _uniform("length", prompt, seed) - 1)))
    working = _WORKING * (1 + script.reply_chars // len(_WORKING))
    start = f"The question asks for a number.\n\n{working[: script.reply_chars]}"
    return f"{start}It is \\boxed{{{answer}}}.", tokens


def confidence(text: str, prompt: str, seed: int) -> Confidence:
    """What a scripted model is sure of: more often of right answers than of wrong ones."""
    found = _ANSWER.findall(text)
    is_right = bool(found) and found[-1] == gold(prompt)
    mean = (9.0 if is_right else 8.0) + 3 * _uniform("confidence", prompt, seed)
    return Confidence(
        token_confidence=mean, least_token_confidence=mean / 4, token_entropy=2.0 / mean
    )


def rows(question: str, text: str, fault: Fault | None) -> list[list[float]]:
    """What a verifier would answer: (wrong, right) of each step, or something it must not."""
    answers = _ANSWER.findall(text)
    is_right = bool(answers) and answers[-1] == gold(question)
    steps = prm.split_steps(text, separator="<extra_0>")
    scores = []
    for step in steps:
        noise = _uniform("score", question, step)
        right = 0.8 + 0.2 * noise if is_right else 0.4 * noise
        scores.append([1 - right, right])
    match fault:
        case "nan":
            return [[math.nan, math.nan] for _ in scores]
        case "range":
            return [[-0.5, 1.5] for _ in scores]
        case "count":
            return scores[1:] or [*scores, *scores]
        case "empty":
            return []
    return scores


def _uniform(*parts: object) -> float:
    """A number in [0, 1) that the parts decide."""
    text = "\x1f".join(str(part) for part in parts)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


class GenerationLog:
    """What a generator made, written down as it is made: ``seed tokens`` a line."""

    def __init__(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.txt"
        self._file = path.open("ab", buffering=0)  # a line is in the kernel once it is written

    def note(self, seed: int, tokens: int) -> None:
        """Write down a completion, or the part of one that was made."""
        self._file.write(f"{seed} {tokens}\n".encode())


class Held:
    """A request that a scripted engine works on."""

    def __init__(
        self, tokens: int, tokens_per_s: float | None, noted: Callable[[int], None] | None = None
    ) -> None:
        self.tokens, self._tokens_per_s = tokens, tokens_per_s
        self.noted = noted or (lambda tokens: None)
        self.started: float | None = None
        self.task: asyncio.Task[None]

    def made(self) -> int:
        """Completion tokens so far."""
        if self.started is None:
            return 0
        if self._tokens_per_s is None:
            return self.tokens
        return min(self.tokens, int((time.monotonic() - self.started) * self._tokens_per_s))


class ScriptedEngine:
    """What both scripted engines share: places, deadlines, aborts, faults and counts."""

    kind = ""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.script = Script.model_validate(settings)
        self._meter = Meter(self.script.slots)
        self._slots = Limit(self.script.slots)
        self._held: dict[str, Held] = {}
        self._provoked: Counter[str] = Counter()

    async def abort(self, request_id: str) -> int | None:
        """Stop a request; tokens that it had made, None where it does not run here."""
        held = self._held.pop(request_id, None)
        if held is None or held.task.done():
            return None
        tokens = held.made()
        held.task.cancel()
        await asyncio.wait({held.task})
        self._meter.aborted += 1
        self._meter.aborted_tokens += tokens
        self._meter.completion_tokens += tokens
        held.noted(tokens)
        return tokens

    async def warm_up(self) -> None:
        """A scripted engine has nothing to load."""

    async def health(self, stall_s: float = 120.0) -> None:
        """A scripted engine is always well until it dies."""

    def stats(self, replica: str = "") -> EngineStats:
        """What the engine counted so far."""
        return self._meter.stats(replica, self.kind, self.script.slots * self.script.kv_tokens)

    def _fault(self, text: str, faults: dict[str, Fault]) -> Fault | None:
        """What the first known piece of text in `text` provokes."""
        for piece, fault in faults.items():
            if piece in text:
                self._provoked[piece] += 1
                times = self.script.fault_times
                return fault if times is None or self._provoked[piece] <= times else None
        return None

    async def _hold(
        self, call: Call[Any], held: Held, seconds: float, fault: Fault | None
    ) -> Failure | None:
        """Hold a call for as long as it takes; None when it is done."""
        request_id, deadline_s = call.request_id, call.deadline_s
        if fault == "bad_request":
            return Failure.of(ErrorKind.BAD_REQUEST, "scripted", completion_tokens=0)
        held.task = asyncio.create_task(self._work(held, seconds, fault, call.priority))
        self._held[request_id] = held
        try:
            await asyncio.wait({held.task}, timeout=None if fault == "freeze" else deadline_s)
        except asyncio.CancelledError:
            await self.abort(request_id)
            raise
        if held.task.cancelled():
            return Failure.of(ErrorKind.ABORTED, "scripted", completion_tokens=held.made())
        if not held.task.done():
            tokens = await self.abort(request_id)
            return Failure.of(
                ErrorKind.DEADLINE, f"not within {deadline_s:g} s", completion_tokens=tokens
            )
        del self._held[request_id]
        held.task.result()
        self._meter.completion_tokens += held.tokens
        held.noted(held.tokens)
        if fault == "error":
            return Failure.of(ErrorKind.ENGINE, "scripted", completion_tokens=held.tokens)
        return None

    async def _work(self, held: Held, seconds: float, fault: Fault | None, priority: float) -> None:
        await self._slots.take(-priority)
        try:
            self._note()
            held.started = time.monotonic()
            if fault in ("hang", "freeze"):
                await asyncio.get_running_loop().create_future()
            if fault == "crash":
                os._exit(1)
            if fault == "dead":
                raise EngineDeadError("scripted")
            if seconds:
                await asyncio.sleep(seconds)
        finally:
            self._slots.give_back()
            self._note()

    def _note(self) -> None:
        """Tell the meter how full the batch is."""
        slots = self._slots
        self._meter.batch(slots.taken, slots.waiting, slots.taken / slots.most)


class ScriptedGenerator(ScriptedEngine):
    """Answers by the chain of `Script`; same surface as `GeneratorEngine`."""

    kind = "generator"

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._witness = None if self.script.witness is None else GenerationLog(self.script.witness)

    def _noting(self, seed: int) -> Callable[[int], None] | None:
        witness = self._witness
        return None if witness is None else lambda tokens: witness.note(seed, tokens)

    async def serve(self, call: GenerateCall) -> Generated | Failure:
        """See `Engine.serve`."""
        request = call.request
        with self._meter.request():
            if self._meter.in_flight > (self.script.preempts_above or math.inf):
                self._meter.preemptions += 1
            prompt = "\n".join(turn.content for turn in request.messages)
            text, wanted = reply(prompt, request.seed, self.script)
            tokens = min(wanted, request.max_tokens)
            self._meter.prompt_tokens += len(prompt)
            speed = self.script.tokens_per_s
            failure = await self._hold(
                call,
                Held(tokens, speed, self._noting(request.seed)),
                0.0 if speed is None else tokens / speed,
                self._fault(prompt, self.script.faults),
            )
            return failure or Generated(
                text=text if tokens == wanted else text[: text.index("\\boxed")],
                finish_reason="stop" if tokens == wanted else "length",
                prompt_tokens=len(prompt),
                cached_prompt_tokens=0,
                completion_tokens=tokens,
                thinking_tokens=0,
                confidence=(
                    confidence(text, prompt, request.seed) if self.script.logprobs else None
                ),
            )


class ScriptedVerifier(ScriptedEngine):
    """High scores for right answers; same surface as `actors.engines.verifier.VerifierEngine`."""

    kind = "verifier"

    async def serve(self, call: ScoreCall) -> Scored | Failure:
        """See `Engine.serve`."""
        question, reply = call.question, call.reply
        with self._meter.request():
            both = f"{question}\n{reply}"
            self._meter.prompt_tokens += len(both)
            fault = self._fault(both, self.script.score_faults)
            failure = await self._hold(call, Held(0, None), self.script.score_s, fault)
            if failure is not None:
                return failure
            expected = len(rows(question, reply, None))
            try:
                scores = prm.step_scores(rows(question, reply, fault), expected)
            except VerifierError as error:
                return Failure.of(ErrorKind.VERIFIER, error)
            return Scored(
                step_scores=scores,
                score=prm.aggregate(scores, "mean"),
                tokens=len(both) if scores else 0,
                truncated=False,
            )


class ScriptedJudge(ScriptedEngine):
    """Says that an answer is right where it is the reference answer in its prompt, letter by
    letter, and remarks on all others alike (`pipeline.config.models.JudgeModel`)."""

    kind = "judge"

    async def serve(self, call: GenerateCall) -> Generated | Failure:
        """See `Engine.serve`."""
        prompt = "\n".join(turn.content for turn in call.request.messages)
        with self._meter.request():
            self._meter.prompt_tokens += len(prompt)
            held = Held(_JUDGED_TOKENS, None)
            failure = await self._hold(
                call, held, self.script.score_s, self._fault(prompt, self.script.score_faults)
            )
            found = _JUDGED.search(prompt)
            text = "Check it again."
            if found:
                text = "CORRECT" if found[1].strip() == found[2].strip() else "INCORRECT"
            return failure or Generated(
                text=text,
                finish_reason="stop",
                prompt_tokens=len(prompt),
                cached_prompt_tokens=0,
                completion_tokens=_JUDGED_TOKENS,
                thinking_tokens=0,
            )
