"""First-answer and revision prompts: strings in, messages out.

The defaults are the MR-Thinking prompts of the paper: the question with an instruction, and for
every further round the same again followed by the previous answer. Each round is a single user
turn; the thinking of earlier rounds is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from pipeline.core.thinking import after_thinking

_FEEDBACK = "{feedback}"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str
    content: str


class Feedback(StrEnum):
    """What of the previous reply the next round is shown."""

    FINAL_BOX = "final_box"
    """The extracted final answer."""
    FIRST_BOX_COMPAT = "first_box_compat"
    """From the first box of the whole reply to the last brace ahead of the next box, or to a line
    break before that, as the code behind the paper's tables did. Kept to reproduce its a and b."""
    FINAL_TEXT = "final_text"
    """All text after the thinking, as the first description of MR-Thinking has it."""


class EmptyAnswer(StrEnum):
    """What the next round is asked when the previous reply had no answer."""

    ASK_PLAINLY = "ask_plainly"
    """The first prompt again."""
    EMPTY_BOX = "empty_box"
    """The revision prompt with nothing in it, as the paper's code did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Templates with ``{question}`` and, in `revise`, ``{answer}``; other braces are literal.

    `revise` may hold ``{feedback}`` before or after the answer: what a checker says of it
    (`pipeline.core.protocol.Completion.feedback`).
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    system: str | None = None
    first: str = (
        "{question}\nPlease reason step by step, and put your final answer within \\boxed{}."
    )
    revise: str = (
        "{question}\nPlease reason step by step, and put your final answer within \\boxed{}.\n"
        "The assistant's previous answer is: $\\boxed{{answer}}$, and please re-answer."
    )
    feedback: Feedback = Feedback.FINAL_BOX
    empty_answer: EmptyAnswer = EmptyAnswer.ASK_PLAINLY

    def __post_init__(self) -> None:
        for name, template, fields in (
            ("first", self.first, ("{question}",)),
            ("revise", self.revise, ("{question}", "{answer}")),
        ):
            for field in fields:
                if field not in template:
                    raise ValueError(f"prompts.{name} must contain {field}, got {template!r}")

    @property
    def shows_feedback(self) -> bool:
        """Whether a revision is shown what a checker says of the answer."""
        return _FEEDBACK in self.revise

    def ask(self, question: str) -> tuple[Message, ...]:
        """The prompt of round 0, and of every independent sample."""
        return self._turns(self.first.replace("{question}", question))

    def ask_again(
        self, question: str, previous: str | None, feedback: str | None = None
    ) -> tuple[Message, ...]:
        """The prompt of a later round.

        Args:
            question: its text.
            previous: what `fed_back` kept of the previous reply.
            feedback: what a checker says of the previous answer; None leaves its place empty.
        """
        if previous is None:
            if self.empty_answer is EmptyAnswer.ASK_PLAINLY:
                return self.ask(question)
            previous = ""
        before, _, after = self.revise.rpartition("{answer}")  # {answer} before it is literal
        return self._turns(
            _filled(before, question, feedback) + previous + _filled(after, question, feedback)
        )

    def without_box(self) -> Prompts:
        """Prompts of a question whose replies are JSON or calls of tools: they request no box."""
        again = "{question}\n\nThe previous reply was:\n{answer}\n\nCheck it, and reply again."
        return replace(self, first="{question}", revise=again, feedback=Feedback.FINAL_BOX)

    def fed_back(self, text: str, answer: str | None) -> str | None:
        """What the next round is shown of a reply and its answer; None where it has none."""
        match self.feedback:
            case Feedback.FINAL_BOX:
                return answer
            case Feedback.FIRST_BOX_COMPAT:
                return first_box_compat(text)
            case Feedback.FINAL_TEXT:
                return after_thinking(text).strip() or None

    def _turns(self, user: str) -> tuple[Message, ...]:
        turn = Message("user", user)
        return (turn,) if self.system is None else (Message("system", self.system), turn)


def _filled(template: str, question: str, feedback: str | None) -> str:
    """A template with its fields filled in; what stands in a question or remark is no field."""
    parts = template.split(_FEEDBACK)
    return (feedback or "").join(part.replace("{question}", question) for part in parts)


def in_conversation(turns: tuple[Message, ...], prompt: tuple[Message, ...]) -> tuple[Message, ...]:
    """A prompt after earlier turns; there is one message of the system at most, the first."""
    both = (*prompt[:-1], *turns)
    orders = "\n\n".join(turn.content for turn in both if turn.role == "system")
    talk = tuple(turn for turn in both if turn.role != "system")
    system = (Message("system", orders),) if orders else ()
    return (*system, *talk, prompt[-1]) if turns else prompt


def first_box_compat(text: str) -> str | None:
    """The answer that the paper's code fed back: after the *first* box, thinking included.

    It is what stands before the last closing brace ahead of the next box, or before a line break
    that comes earlier, so "boxed 5, since \\frac{1}{2} ..." gives a broken tail; "" where no brace
    closes. None where there is no box (it fed back an empty one).
    """
    _, box, behind = text.partition("\\boxed{")
    if not box:
        return None
    inside, brace, _ = behind.partition("\\boxed{")[0].rpartition("}")
    return inside.partition("\n")[0] if brace else ""
