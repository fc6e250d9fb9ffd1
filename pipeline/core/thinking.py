"""Splits the thinking of a reply from its answer, in every form in which models write it.

Most models put their thinking between two tags (`TAGS`). gpt-oss writes messages into channels
("harmony"): analysis and commentary are thinking, final is the answer; where an engine dropped the
special tokens, ``analysis...assistantfinal...`` is left of it. Any other pair is named by the user
(`Reasoning`), and replies are stored with ``<think>`` and ``</think>`` in its place.

A tag in quotation marks or code, or one that is spoken of ("the tag <think>"), is text. Some chat
templates write the opening tag themselves; engines put it back in front of the text (`opened_by`),
so that a stored reply whose thinking was cut is known by an opening tag without a closing one.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

OPEN, CLOSE = "<think>", "</think>"
TAGS: tuple[tuple[str, str], ...] = (
    (OPEN, CLOSE),  # DeepSeek, Qwen, GLM, Phi, Nemotron, Kimi, Olmo, ERNIE, ...
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),  # EXAONE
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<mm:think>", "</mm:think>"),  # MiniMax-M3
    ("<longcat_think>", "</longcat_think>"),
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<|channel>", "<channel|>"),  # Gemma 4, which writes <|channel>thought
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker, Sky-T1
    ("◁think▷", "◁/think▷"),  # Kimi-VL
)
"""Opening and closing tag of each family."""
MARKS = (*(tag for pair in TAGS for tag in pair), "<|channel|>", "<|message|>")
"""All that a tokenizer may hold as a special token and that must not be dropped from a reply."""

_FAMILY = {tag.lower(): family for family, pair in enumerate(TAGS) for tag in pair}
_CLOSING = frozenset(close.lower() for _, close in TAGS)
_TAG = re.compile(  # begins with a set of characters, which is quick to look for
    r"[<\[◁](?:" + "|".join(sorted({re.escape(tag[1:]) for tag in _FAMILY})) + ")", re.IGNORECASE
)
_PAIRED = (("'", "'"), ("‘", "’"), ("«", "»"), ("„", "“"), ("{", "}"), ("(", ")"))
_OPENS = re.compile(r'(?:^|[\s(\[{:=,])"$')
_CLOSES = re.compile(r'"(?:$|[\s.,;:!?)\]}])')
_SPEAKS_BEFORE = re.compile(r"\b(?:the|tags?|tokens?|markers?)[ \t]$", re.IGNORECASE)
_SPEAKS_AFTER = re.compile(r"[ \t](?:tags?|tokens?|markers?)\b", re.IGNORECASE)
_WORD_BEFORE = re.compile(r"[^\W\d_],?[ \t]\Z")
_WORD_AFTER = re.compile(r"[ \t,.;:)]|\Z")
_TAGS_READ = 100
_REACH = 100  # characters of its line on each side of a tag that tell whether it is quoted
_OPENED = re.compile(
    r"(?:<\|channel\|>analysis<\|message\|>|<\|channel>(?:thought)?|"
    + "|".join(re.escape(opening) for opening, _ in TAGS)
    + r")\Z"
)
_CHANNELS = re.compile(r"\A\s*<\|(?:channel|start)\|>|<\|start\|>assistant<\|channel\|>")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^\n]{0,200}?<\|message\|>")
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_BARE_START = re.compile(r"\A\s*(?:analysis|commentary)(?=[^\W_]|[\\$])")
_BARE_CHANNEL = re.compile(r"assistant(final|analysis|commentary)")


class Parts(NamedTuple):
    """A reply, taken apart."""

    thinking: str
    """All up to the answer, closing mark included; ``""`` where nothing was thought."""
    answer: str
    """What follows the thinking; ``""`` in a thought that never ends."""
    open: bool
    """Whether the reply ends inside a thought."""
    mark: str
    """What closes `thinking`; ``""`` where nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """The pair of marks between which a model thinks, where it is none of the usual ones."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    open: str
    close: str

    def __post_init__(self) -> None:
        if not self.open.strip() or not self.close.strip() or self.open == self.close:
            raise ValueError(
                "reasoning must have an open and a close that differ and are not empty, "
                f"got {self.open!r} and {self.close!r}"
            )

    def usual(self, text: str) -> str:
        """`text` of the model with ``<think>`` and ``</think>`` in place of its own marks."""
        return _exchanged(text, {self.open: OPEN, self.close: CLOSE})

    def own(self, text: str) -> str:
        """`text` with the model's own marks in place of ``<think>`` and ``</think>``."""
        return _exchanged(text, {OPEN: self.open, CLOSE: self.close})


def parts(text: str) -> Parts:
    """Take a reply apart.

    The answer follows the last closing tag of the family that was opened, or of any where none
    was: then the template opened it. A thought inside a thought must end before the outer one does.
    Of a reply that repeats its tags without end the last hundred are read.
    """
    if "<|" in text and _CHANNELS.search(text):
        return _of_channels(text)
    if _BARE_START.match(text) or "assistantfinal" in text:
        return _of_bare_channels(text)
    depth, family, opened, end, mark = 0, -1, -1, 0, ""
    tags = [
        found
        for found in deque(_TAG.finditer(text), maxlen=_TAGS_READ)
        if found[0].lower() in _FAMILY and not _is_quoted(text, found)
    ]
    last_close = {
        _FAMILY[found[0].lower()]: found.start() for found in tags if found[0].lower() in _CLOSING
    }
    for found in tags:
        tag = found[0].lower()
        if tag not in _CLOSING:
            closes = last_close.get(_FAMILY[tag], -1) > found.start()
            if (depth or not closes) and _is_in_a_sentence(text, found):
                continue
            if depth == 0:
                depth, family = 1, _FAMILY[tag]
            elif _FAMILY[tag] == family and text[opened : found.start()].strip():
                depth += 1  # not where the template and the model both wrote the tag
            opened = found.end()
        elif depth == 0 or _FAMILY[tag] == family:
            depth = max(0, depth - 1)
            if depth == 0:
                end, mark = found.end(), found[0]
    if depth:
        return Parts(text, "", open=True, mark="")
    return Parts(text[:end], text[end:], open=False, mark=mark)


def is_open(text: str) -> bool:
    """Whether a reply ends inside a thought."""
    return parts(text).open


def after_thinking(text: str) -> str:
    """What follows the thinking; all of `text` where there is none, ``""`` in an open one."""
    return parts(text).answer


def opened_by(prompt: str, reasoning: Reasoning | None = None) -> str:
    """The opening mark, with the white space after it, at the very end of `prompt`; else ``""``."""
    end = prompt.rstrip()
    if reasoning is not None and end.endswith(reasoning.open.rstrip()):
        return prompt[len(end) - len(reasoning.open.rstrip()) :]
    found = _OPENED.search(end[-100:])
    return prompt[len(end) - len(found[0]) :] if found else ""


def _of_channels(text: str) -> Parts:
    headers = list(_CHANNEL.finditer(text))
    if not headers or headers[-1][1] != "final":
        return Parts(text, "", open=True, mark="")
    start = headers[-1].end()
    ending = _MESSAGE_END.search(text, start)
    thought = any(header[1] != "final" for header in headers)
    answer = text[start : ending.start() if ending else len(text)]
    return Parts(text[:start] if thought else "", answer, open=False, mark="<|message|>")


def _of_bare_channels(text: str) -> Parts:
    channels = list(_BARE_CHANNEL.finditer(text))
    if not channels or channels[-1][1] != "final":
        return Parts(text, "", open=True, mark="")
    end = channels[-1].end()
    return Parts(text[:end], text[end:], open=False, mark="assistantfinal")


def _is_in_a_sentence(text: str, tag: re.Match[str]) -> bool:
    """Whether a word and a blank precede a tag, and a blank or a stop follows it."""
    return bool(_WORD_BEFORE.search(text, max(0, tag.start() - 3), tag.start())) and bool(
        _WORD_AFTER.match(text, tag.end())
    )


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    """Whether a tag stands within quotation marks or code on its line, or beside "tag"."""
    before = text[max(0, tag.start() - _REACH) : tag.start()].rpartition("\n")[2]
    after = text[tag.end() : tag.end() + _REACH].partition("\n")[0]
    left, right = before[-1:], after[:1]
    opens = left == '"' and _OPENS.search(before) and (not after or '"' in after)
    closes = right == '"' and _CLOSES.match(after)
    return bool(
        ("`" in before and len(re.findall("`+", before)) % 2 and ("`" in after or not after))
        or ((opens or closes) and before.count('"') % 2)
        or ("”" in after and before.rfind("“") > before.rfind("”"))
        or (left, right) in _PAIRED
        or (left in (" ", "\t") and _SPEAKS_BEFORE.search(before[-12:]))
        or (right in (" ", "\t") and _SPEAKS_AFTER.match(after))
    )


def _exchanged(text: str, by: dict[str, str]) -> str:
    pattern = "|".join(map(re.escape, sorted(by, key=len, reverse=True)))
    return re.sub(pattern, lambda found: by[found[0]], text)
