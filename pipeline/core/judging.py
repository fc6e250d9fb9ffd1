"""*Judge*: a language model says whether a solution is right.

What it is asked, and how its words or their probabilities become a score in [0, 1].
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pipeline.core.errors import ConfigError, VerifierError
from pipeline.core.step_format import Turn, unnumbered
from pipeline.core.thinking import after_thinking

_MOST_SAMPLES = 1_000
_FIELD = re.compile(r"\{(question|solution|step|number)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What a generative verifier is asked, and how its verdict is read.

    `ask` may hold ``{question}``, ``{solution}`` (all steps, one below the other), ``{step}`` (the
    last of them) and ``{number}`` (of it, from 1).
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    ask: str
    """What the user's turn says."""
    system: str | None = None
    """System message; None for none."""
    numbered: bool = False
    """Whether ``{solution}`` has "Step 1: " and so on before its steps, in place of their own."""
    think: bool = True
    """Whether it writes before its verdict, as it must for ``verdicts`` and must not for
    ``probability``."""
    read: Literal["probability", "verdicts"] = "probability"
    """``probability``: P(right) among the words of `right` and `wrong`, each one token, as the next
    token. ``verdicts``: the last such word in each of `samples` replies, and the share of right."""
    right: tuple[str, ...] = ("Yes",)
    """Words for "it is right"; a blank before them counts in ``probability``."""
    wrong: tuple[str, ...] = ("No",)
    """Words for "it is wrong"."""
    samples: int = 1
    """Replies whose verdicts are averaged, >= 1."""
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
    ask_next: str | None = None
    per: Literal["solution", "step"] = "solution"
    begin: str = ""
    until: tuple[str, ...] = ()
    conclude: str = ""
    close: str = ""
    """Of earlier versions, whose judges took several requests (`require_one_request`)."""

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
        if self.calibration_temperature <= 0:
            raise ValueError(
                f"calibration_temperature must be > 0, got {self.calibration_temperature!r}"
            )


def require_one_request(judge: Judge) -> None:
    """Refuse a judge of an earlier version that takes several requests a solution: it can be read
    from the configuration of a run, and not be asked any more.

    Raises:
        ConfigError: naming the fields.
    """
    more = {
        "per": judge.per != "solution",
        "begin": bool(judge.begin),
        "conclude": bool(judge.conclude),
        "think": judge.think and judge.read == "probability",
        "until": bool(judge.until),
    }
    if found := [name for name, is_more in more.items() if is_more]:
        raise ConfigError(
            "science.verifier.profile must need one request a solution, such as judge or "
            f"judge_votes, got {', '.join(found)}"
        )


def question_turns(judge: Judge, question: str, steps: Sequence[str]) -> list[Turn]:
    """The conversation up to the judge's reply about `steps`."""
    system = [] if judge.system is None else [Turn("system", judge.system)]
    return [*system, Turn("user", filled(judge, judge.ask, question, steps))]


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
    known = {word: value for word, value in logprobs.items() if value > -math.inf}
    if not known or any(math.isnan(value) for value in known.values()):
        raise VerifierError(
            f"nan: one of {', '.join(map(repr, (*judge.right, *judge.wrong)))} must have a "
            f"probability, got {dict(logprobs)}"
        )
    top = max(known.values())
    weights = {
        word: math.exp((value - top) / judge.calibration_temperature)
        for word, value in known.items()
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
    answer = after_thinking(reply)
    for pattern, flags in (
        (rf"^[^\w\n]*{word}[^\w\n]*$|{word}[\W_]*\Z", re.IGNORECASE | re.MULTILINE),
        (word, re.NOFLAG),
        (word, re.IGNORECASE),
    ):
        found = list(re.finditer(pattern, answer, flags))
        if found:
            return found[-1][found[-1].lastindex or 0].lower() in yes
    return None
