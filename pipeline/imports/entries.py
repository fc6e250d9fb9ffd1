"""*Entry*, *Log*: hold what a log says of its completions, in one form for every format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pipeline.answers.extract import extract
from pipeline.answers.grading import grade
from pipeline.core.errors import DataError
from pipeline.core.prompts import Prompts
from pipeline.core.protocol import Pool
from pipeline.core.text import encodable
from pipeline.store.log_files import LogFile, UnreadableError

Context = Literal["last_answer", "history", "others", "unknown"]
"""What a later round is shown: the answer before it, all rounds before it, others' answers."""

_RIGHT = {"c", "correct", "true", "right", "yes", "1", "1.0", "pass", "passed"}
_WRONG = {"i", "incorrect", "false", "wrong", "no", "0", "0.0", "fail", "failed", "n"}


_LONG_ANSWER = 200
_TEXTS = ("text", "input_text", "output_text", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One completion of a log, as its format records it; None where it does not."""

    where: str
    """File and row, for messages."""
    question_id: str
    pool: Pool
    place: int
    """Round of a chain, or number of a sample, from 0; only the order counts."""
    chain: str = ""
    """What tells several chains of one question apart."""
    uid: str | None = None
    """What the log calls this very completion: a copy of it in another log is left out."""
    benchmark: str | None = None
    model: str | None = None
    question: str | None = None
    gold: tuple[str, ...] = ()
    """Reference answers, any of which is right."""
    level: str | None = None
    text: str | None = None
    """The reply; it is extracted from and graded."""
    answer: str | None = None
    """The answer that the log's own tool extracted."""
    right: bool | None = None
    """The label that the log's own tool gave."""
    score: float | None = None
    """A verifier's score as recorded, on whatever scale."""
    tokens: int | None = None
    tokens_estimated: bool = False
    """Whether `tokens` is a share of a total."""
    prompt_tokens: int | None = None
    thinking_tokens: int | None = None
    finish_reason: str = "stop"
    says_stop: bool | None = None
    """Whether the model said that no further revision is needed."""
    error: str | None = None
    """Why there is no completion."""


@dataclass(slots=True, kw_only=True)
class Log:
    """What the files of a log hold together."""

    entries: list[Entry] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Rows that cannot be read: where, what must hold and what came."""
    bad_files: list[str] = field(default_factory=list)
    """Files that cannot be read, likewise."""
    decoding: dict[str, Any] = field(default_factory=dict)
    """``temperature``, ``top_p`` and ``max_tokens``, as far as the log says."""
    prompts: Prompts | None = None
    """The prompts that were asked, where they are known."""
    context: Context = "unknown"
    scores: str = ""
    """What gave the scores."""
    score_map: str | None = None
    """How scores come to lie in [0, 1] where the user does not say."""

    def rows_of(self, file: LogFile) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Where each row of a file stands, and the row; notes the rows, or the file, that cannot be
        read."""
        try:
            for found in file.rows():
                if found.row is None:
                    self.refused.append(f"{found.problem}, in {found.where}")
                else:
                    yield found.where, found.row
        except UnreadableError as error:
            self.bad_files.append(str(error))

    def decode_with(self, where: str, **values: Any) -> None:
        """Take the sampling parameters of a file.

        Raises:
            DataError: where an earlier file had others: their samples are of two distributions.
        """
        for name, value in values.items():
            if value is None:
                continue
            if self.decoding.setdefault(name, value) != value:
                raise DataError(
                    f"logs of one pool must have one {name}, got {self.decoding[name]!r} and "
                    f"{value!r} in {where}: import them into pools of their own"
                )


def answer_of(recorded: tuple[str | None, str | None, bool]) -> str | None:
    """The answer of a completion: extracted from its text; the recorded one where there is no text,
    or labels are trusted.

    Args:
        recorded: text, recorded answer, whether labels are trusted.
    """
    text, answer, trusted = recorded
    if text is not None and not trusted:
        answer = extract(text)
    elif answer is not None and ("\n" in answer.strip() or len(answer) > _LONG_ANSWER):
        answer = extract(answer)  # some scorers record the whole reply
    if answer is None and text is not None:
        answer = extract(text)
    return None if answer is None or not answer.strip() else encodable(answer.strip())


def verdict_of(pair: tuple[str, str]) -> str:
    """The verdict on a reference answer and an answer."""
    return grade(*pair).value


def text_of(value: Any) -> str | None:
    """A recorded value as text; None where there is nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def label_of(value: Any) -> bool | None:
    """A recorded label as right or wrong; None where it is neither, such as a partial credit."""
    if isinstance(value, bool):
        return value
    text = text_of(value)
    if text is None:
        return None
    text = text.strip().lower()
    return True if text in _RIGHT else False if text in _WRONG else None


def number_of(value: Any) -> float | None:
    """A recorded number; None where there is none."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def count_of(value: Any) -> int | None:
    """A recorded count of tokens; None where there is none, or a negative one stands for that."""
    number = number_of(value)
    return None if number is None or number < 0 else round(number)


def content_of(content: Any) -> str | None:
    """The text of a chat message: a string, or the parts that are text."""
    if isinstance(content, str) or content is None:
        return content
    if isinstance(content, Sequence):
        parts = [part for part in content if isinstance(part, Mapping)]
        texts = [p.get("text") for p in parts if p.get("type") in _TEXTS]
        return "".join(text for text in texts if isinstance(text, str))
    return None


def last_user_turn(messages: Any) -> str | None:
    """The text of the last user message of a chat."""
    if isinstance(messages, str):
        return messages
    if not isinstance(messages, Sequence):
        return None
    turns = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    return content_of(turns[-1].get("content")) if turns else None


def renumbered(entries: Iterable[Entry]) -> list[Entry]:
    """Samples of several files as samples of one pool: each file's follow those before it."""
    counts: dict[tuple[str | None, str], int] = {}
    made = []
    for entry in entries:
        key = (entry.benchmark, entry.question_id)
        place = counts.get(key, 0)
        counts[key] = place + 1
        made.append(replace(entry, place=place))
    return made
