"""*StepFormat*: formats a question and its steps for a verifier that scores steps.

Such a verifier (process reward model) reads a solution with a tag after every step, and its score
of a step stands at the tag, or just before it. `StepFormat` says how; what is made here is text,
cut where the tags are, so that no text of a question or reply can forge a tag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from pipeline.core.prm import Split, without

MARK = "\ue000"
"""Stands for a tag until the tags' places are known; a private character that no text may hold."""
_NUMBERED = re.compile(r"\A[\s#*]*step\s+\d+\s*[:.][*\s]*", re.IGNORECASE)
_FIELD = re.compile(r"\{(question|step|number|tag)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFormat:
    """The prompt of a verifier that scores every step.

    `question` and `step` are texts with ``{question}``, ``{step}`` (a step's text), ``{number}``
    (from 1) and ``{tag}`` in them.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    layout: Literal["chat", "turns", "text"] = "chat"
    """``chat``: the chat template with the steps as the assistant's one reply. ``turns``: each step
    a user's turn, its tag the assistant's reply to it. ``text``: no chat template; question and
    steps one after the other, and the special tokens that the tokenizer adds."""
    tag: str
    """What stands after every step, and the text that the model was trained to be read at."""
    read: Literal["at", "before"] = "at"
    """Where a step's score stands: at the tag's token, or at the token before it, which predicts
    it."""
    system: str | None = None
    """System message; None for none."""
    question: str = "{question}"
    """How the question is written; in ``turns``, at the start of the first step's turn."""
    step: str = "{step}{tag}"
    """How a step is written; ``{tag}`` once. In ``turns`` without it. Where a number is written, a
    "Step 3:" of the step's own is taken away."""
    split: Split = "blank_lines"
    """Where one step of a reply ends and the next begins; ``whole`` takes the reply as one step."""
    pieces: bool = False
    """Whether the texts between the tags are tokenized each for itself, rather than as one."""
    bos: bool = False
    """In ``text``: whether the tokenizer's BOS token comes first where it does not put it there."""
    one_by_one: bool = False
    """Whether each step has a prompt of its own, which ends with its tag: for models that must not
    see the tags of earlier steps."""
    good: str | None = None
    """The token that says "right" (``token_pair``)."""
    bad: str | None = None
    """The token that says "wrong" (``token_pair``)."""
    column: int = 0
    """Which column of the head is the score (``one_column``)."""
    temperature: float = 1.0
    """Logits are divided by it before they become a probability."""

    def __post_init__(self) -> None:
        if not self.tag:
            raise ValueError("tag must not be empty, got ''")
        if self.step.count("{tag}") != (self.layout != "turns"):
            raise ValueError(
                f"step must hold {{tag}} {'not at all' if self.layout == 'turns' else 'once'} "
                f"in the layout {self.layout}, got {self.step!r}"
            )
        if "{tag}" in self.question:
            raise ValueError(f"question must not hold {{tag}}, got {self.question!r}")
        if self.bos and self.layout != "text":
            raise ValueError("bos must be false but in the layout text, got true")
        if self.layout == "turns" and self.one_by_one:
            raise ValueError("one_by_one must be false in the layout turns, got true")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be > 0, got {self.temperature!r}")
        if self.column < 0:
            raise ValueError(f"column must be >= 0, got {self.column!r}")


class Turn(NamedTuple):
    """One turn of a conversation."""

    role: str
    content: str


def turns_of(form: StepFormat, question: str, steps: Sequence[str]) -> list[Turn]:
    """The conversation of the layouts ``chat`` and ``turns``, with `MARK` in place of each tag."""
    asked = _filled(form.question, question=clean(form, question))
    written = _steps(form, steps)
    system = [] if form.system is None else [Turn("system", form.system)]
    if form.layout == "chat":
        return [*system, Turn("user", asked), Turn("assistant", "".join(written))]
    if not written:
        return [*system, Turn("user", asked)]
    first, *later = written
    replied = [(Turn("user", text), Turn("assistant", MARK)) for text in (asked + first, *later)]
    return [*system, *(turn for pair in replied for turn in pair)]


def text_of(form: StepFormat, question: str, steps: Sequence[str]) -> str:
    """The prompt of the layout ``text``, with `MARK` in place of each tag."""
    return _filled(form.question, question=clean(form, question)) + "".join(_steps(form, steps))


def cut_at_tags(form: StepFormat, text: str, n_steps: int) -> list[str]:
    """What stands between the tags of a prompt: ``n_steps + 1`` texts.

    Raises:
        ValueError: where the chat template lost tags.
    """
    pieces = text.split(MARK)
    if len(pieces) != n_steps + 1:
        raise ValueError(
            f"the chat template must keep {n_steps} separators {form.tag!r}, kept {len(pieces) - 1}"
        )
    return pieces


def clean(form: StepFormat, text: str) -> str:
    """`text` without what could be taken for a tag; a tag of white space or one sign is text."""
    text = text.replace(MARK, "")
    return without(text, form.tag) if len(form.tag.strip()) > 1 else text


def unnumbered(step: str) -> str:
    """A step without a "Step 3:" of its own at its start."""
    return _NUMBERED.sub("", step)


def _steps(form: StepFormat, steps: Sequence[str]) -> list[str]:
    numbered = "{number}" in form.step
    return [
        _filled(
            form.step,
            step=clean(form, unnumbered(step) if numbered else step),
            number=str(number),
            tag="" if form.one_by_one and number < len(steps) else MARK,
        )
        for number, step in enumerate(steps, start=1)
    ]


def _filled(text: str, **values: str) -> str:
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), text)
