"""Generative verifiers: a language model says whether a solution, or each of its steps, is right.

What it is asked, where its reply is cut, and how its words or their probabilities become scores in
[0, 1] (GenPRM, arXiv:2504.00891; ThinkPRM, arXiv:2504.16828; any instruction-tuned model as judge).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pipeline.core.errors import VerifierError
from pipeline.core.step_format import Turn, unnumbered
from pipeline.core.thinking import after_thinking

_MOST_SAMPLES = 1_000
_FIELD = re.compile(r"\{(question|solution|step|number)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What a generative verifier is asked, and how its verdict is read.

    Texts may hold ``{question}``, ``{solution}`` (all steps that are judged so far, one below the
    other), ``{step}`` (the newest of them) and ``{number}`` (of it, from 1).
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    ask: str
    """What the user's turn says."""
    ask_next: str | None = None
    """What it says for the second step and later ones, in one conversation with the judgements so
    far; None asks about each step in a conversation of its own."""
    system: str | None = None
    """System message; None for none."""
    per: Literal["solution", "step"] = "solution"
    """Whether the solution gets one score, or each step, judged with those before it, its own."""
    numbered: bool = False
    """Whether ``{solution}`` has "Step 1: " and so on before its steps, in place of their own."""
    begin: str = ""
    """How the judge's reply begins: given, not generated."""
    think: bool = True
    """Whether it writes before its verdict; without, `begin` and `conclude` lead to it at once."""
    until: tuple[str, ...] = ()
    """Texts that end its writing; they are cut off."""
    conclude: str = ""
    """Put after its writing, right before the verdict (``probability``)."""
    close: str = ""
    """Put after the verdict, in a conversation that goes on (`ask_next`)."""
    read: Literal["probability", "verdicts"] = "probability"
    """``probability``: P(right) among the words of `right` and `wrong`, each one token, as the next
    token. ``verdicts``: the last such word in each of `samples` replies, and the share of right."""
    right: tuple[str, ...] = ("Yes",)
    """Words for "it is right"; a blank before them counts in ``probability``."""
    wrong: tuple[str, ...] = ("No",)
    """Words for "it is wrong"."""
    samples: int = 1
    """Judgements that are averaged, >= 1."""
    max_tokens: int = 2048
    """Longest writing, in tokens."""
    temperature: float = 0.0
    """Of the writing; must be above 0 for several samples."""
    top_p: float = 1.0
    """Of the writing."""
    calibration_temperature: float = 1.0
    """Divides the log-probabilities of right and wrong."""
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    """Variables that the chat template knows, such as ``enable_thinking: false``."""

    def __post_init__(self) -> None:
        if not self.right or not self.wrong or {*self.right} & {*self.wrong}:
            raise ValueError(f"right and wrong must differ, got {self.right} and {self.wrong}")
        if self.samples < 1 or self.max_tokens < 1:
            raise ValueError(
                f"samples and max_tokens must be >= 1, got {self.samples} and {self.max_tokens}"
            )
        if self.samples > _MOST_SAMPLES:
            raise ValueError(f"samples must be at most {_MOST_SAMPLES}, got {self.samples}")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                "temperature must be >= 0 and top_p in (0, 1], "
                f"got {self.temperature!r} and {self.top_p!r}"
            )
        if self.samples > 1 and not (self.think and self.temperature > 0):
            raise ValueError(
                "several samples must come of thinking with a temperature above 0, or all are the "
                f"same, got think {str(self.think).lower()} and temperature {self.temperature:g}"
            )
        if self.read == "verdicts" and not self.think:
            raise ValueError("verdicts must be written, so think must be true, got false")
        if self.ask_next is not None and (self.per != "step" or self.read != "probability"):
            raise ValueError("ask_next must go with per: step and read: probability")
        if self.ask_next is not None and self.samples > 1:
            raise ValueError(f"samples must be 1 in one conversation, got {self.samples}")
        if self.calibration_temperature <= 0:
            raise ValueError(
                f"calibration_temperature must be > 0, got {self.calibration_temperature!r}"
            )


def verdict_reply(judge: Judge, written: str, score: float) -> str:
    """The judge's whole reply about a step, for a conversation that goes on.

    Args:
        written: what it wrote, with how it began.
        score: P(right).
    """
    said = (judge.right if score >= 0.5 else judge.wrong)[0]
    return written + judge.conclude + said + judge.close


def judged_parts(judge: Judge, steps: Sequence[str]) -> list[Sequence[str]]:
    """The steps that each judgement is about: one judgement a score."""
    if judge.per == "solution":
        return [steps]
    return [steps[:count] for count in range(1, len(steps) + 1)]


def question_turns(
    judge: Judge, question: str, steps: Sequence[str], replies: Sequence[str] = ()
) -> list[Turn]:
    """The conversation up to the judge's reply about the last of `steps`.

    Args:
        replies: what it replied about each step before, in a conversation that goes on.
    """
    system = [] if judge.system is None else [Turn("system", judge.system)]
    if judge.ask_next is None:
        return [*system, Turn("user", filled(judge, judge.ask, question, steps))]
    turns = system
    for number in range(1, len(steps) + 1):
        text = judge.ask if number == 1 else judge.ask_next
        turns.append(Turn("user", filled(judge, text, question, steps[:number])))
        if number <= len(replies):
            turns.append(Turn("assistant", replies[number - 1]))
    return turns


def filled(judge: Judge, text: str, question: str, steps: Sequence[str]) -> str:
    """A text of the judge with its fields filled in, each once: what a reply says is no field."""
    shown = steps
    if judge.numbered:
        shown = [f"Step {n}: {unnumbered(step)}" for n, step in enumerate(steps, 1)]
    values = {
        "question": question,
        "solution": ("\n" if judge.numbered else "\n\n").join(shown),
        "step": steps[-1] if steps else "",
        "number": str(len(steps)),
    }
    return _FIELD.sub(lambda found: values[found[1]], text)


def probability_of_right(judge: Judge, logprobs: Mapping[str, float]) -> float:
    """P(right) among the words of right and wrong.

    Args:
        logprobs: by word; a word that is missing has probability 0.

    Raises:
        VerifierError: where none of them has a probability.
    """
    told = {word: value for word, value in logprobs.items() if value > -math.inf}
    if not told or any(math.isnan(value) for value in told.values()):
        raise VerifierError(
            f"nan: one of {', '.join(map(repr, (*judge.right, *judge.wrong)))} must have a "
            f"probability, got {dict(logprobs)}"
        )
    top = max(told.values())
    weights = {
        word: math.exp((value - top) / judge.calibration_temperature)
        for word, value in told.items()
    }
    yes = math.fsum(weights.get(word, 0.0) for word in judge.right)
    return yes / (yes + math.fsum(weights.get(word, 0.0) for word in judge.wrong))


def share_of_right(judge: Judge, replies: Sequence[str]) -> float:
    """The share of right ones among the verdicts of replies; those without a verdict do not count.

    Raises:
        VerifierError: where none has a verdict.
    """
    verdicts = [said for reply in replies if (said := _verdict(judge, reply)) is not None]
    if not verdicts:
        raise VerifierError(
            f"verdict: one of {len(replies)} replies must say "
            f"{' or '.join(map(repr, (*judge.right, *judge.wrong)))}, the last ends with "
            f"{replies[-1][-60:]!r}"
        )
    return sum(verdicts) / len(verdicts)


def _verdict(judge: Judge, reply: str) -> bool | None:
    """The last word of right or wrong after the thinking; None where there is none.

    One on a line of its own, or at the very end, comes before one that is spelt as it was asked
    for, and that before others: "Yes, there is no error" says yes.
    """
    yes = {word.strip().lower() for word in judge.right}
    words = sorted({word.strip() for word in (*judge.right, *judge.wrong)}, key=len, reverse=True)
    word = r"(?<!\w)(" + "|".join(map(re.escape, words)) + r")(?!\w)"
    said = after_thinking(reply)
    for pattern, flags in (
        (rf"^[^\w\n]*{word}[^\w\n]*$|{word}[\W_]*\Z", re.IGNORECASE | re.MULTILINE),
        (word, re.NOFLAG),
        (word, re.IGNORECASE),
    ):
        found = list(re.finditer(pattern, said, flags))
        if found:
            return found[-1][found[-1].lastindex or 0].lower() in yes
    return None
