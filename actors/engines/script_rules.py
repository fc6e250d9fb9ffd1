"""The rules of scripted engines: what they answer, how long it takes, what goes wrong. Pure.

Replies depend on prompt and seed alone. What they make is no measurement of any model: a run with
them is marked synthetic.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from pipeline.benchmarks import builtin
from pipeline.config.errors import described
from pipeline.config.schema import Section
from pipeline.core import prm
from pipeline.core.confidence import Confidence
from pipeline.core.errors import ConfigError, DataError

Fault = Literal[
    "bad_request", "error", "crash", "dead", "hang", "freeze", "nan", "range", "count", "empty"
]
"""What a text may provoke: ``crash`` ends the process; ``dead`` reports a dead engine; ``hang``
waits until deadline or abort; ``freeze`` does not even keep its deadline; the last four are answers
that a verifier must never give."""

_EXPRESSION = re.compile(r"\d+(?:[*+-]\d+)+\?|[a-z]=\d+;\S*;\?[a-z]")
_WORKING = (
    "First we write the total as $x^2 + 3x = 40$, where $x$ is the number of boxes. Then "
    "$\\frac{12}{5}$ of them are left, which is 2.4 or 240% of one.\n\nSo the value of what is "
    "left comes to 1,250 dollars, and each of the 5 friends has 250 of them.\n\n"
)
_ANSWER = re.compile(r"(?:\\boxed\{|was )(-?\d+)")


class Script(Section):
    """Settings of scripted engines (``runtime.scripted``)."""

    in_process: bool = False
    """Whether each controller has engines of its own, without Ray in between."""
    p0: float = Field(0.6, ge=0, le=1)
    """P(the first answer is right)."""
    a: float = Field(0.05, ge=0, le=1)
    """P(right -> wrong) of a revision."""
    b: float = Field(0.3, ge=0, le=1)
    """P(wrong -> right) of a revision."""
    tokens: int = Field(55, ge=1)
    """Median completion tokens; a completion has between half and twice as many."""
    reply_chars: int = Field(0, ge=0, le=1_000_000)
    """Characters of made-up working in front of each answer."""
    tokens_per_s: float | None = Field(None, gt=0)
    """Speed of one sequence; None answers at once."""
    score_s: float = Field(0.0, ge=0)
    """Seconds of one score."""
    slots: int = Field(256, ge=1)
    """Requests served at once; others wait, lowest priority value first."""
    kv_tokens: int = Field(16_384, ge=0)
    """KV cache that an engine says it has a slot; 0 says nothing."""
    preempts_above: int | None = Field(None, ge=1)
    """Requests in a generator beyond which it counts a preemption for each that comes."""
    faults: dict[str, Fault] = Field(default_factory=dict)
    """What a generator does when the prompt holds a text."""
    score_faults: dict[str, Fault] = Field(default_factory=dict)
    """What a verifier does when question or reply holds a text."""
    witness: str | None = None
    """Folder in which each generator writes down what it made, a line a completion: what it says of
    itself even after it was killed."""
    logprobs: bool = False
    """Whether completions have a made-up confidence, as ``science.generator.logprobs`` asks for."""
    fault_times: int | None = Field(None, ge=1)
    """How often, in one process, each piece of text provokes its fault; None is always."""


def script_of(settings: Mapping[str, Any]) -> Script:
    """Check the settings of scripted engines.

    Raises:
        ConfigError: naming the field, what must hold and what came.
    """
    try:
        return Script.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(described(error, "runtime.scripted")) from error


def gold(text: str) -> str:
    """The answer that scripted engines hold to be right, for a question or a prompt with it.

    The value of the expression for a question of a generated benchmark, otherwise a number that the
    first line decides.
    """
    found = _EXPRESSION.search(text)
    if found:
        with contextlib.suppress(DataError):
            return builtin.gold(found[0])
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
