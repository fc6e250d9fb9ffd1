"""*Graders*: extract the answer of a reply and decide whether it is right, one a kind.

`GraderSettings` is what a benchmark's ``grader:`` says. Kinds that only read text are decided here
(`GraderSettings.settled`); a program, a function and proofs are the business of
`actors.controllers.grading`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from pipeline.answers.extract import extract
from pipeline.answers.grading import Finding, canonical, find
from pipeline.answers.spellings import as_words, letters
from pipeline.answers.verdict import Verdict
from pipeline.core.errors import ConfigError
from pipeline.core.plugins import is_import_path, load_object
from pipeline.core.thinking import after_thinking

KINDS = ("math", "choices", "text", "judge", "command")
ASKS_FOR_A_LETTER = "Answer with the letter of the right choice."
"""How a question with choices ends; its answer is read as a letter."""
_FREE_CHARS = 300
"""Longest reply that is its own answer in free text."""
_DECIMAL_COMMA = re.compile(r"(?<![\d,.])(\d{1,3}(?:\.\d{3})+|\d+)(?:\{?,\}?(\d+))?(?![\d,.]*\d)")
_JUDGED_CHARS = 2_000
"""What a judge is shown of a reply that states no answer: its end."""
_JUDGED = re.compile(r"\b(?:(not)\s+)?(?:(correct|right|yes)|(incorrect|wrong|no)|unsure)\b", re.I)
_FENCE = re.compile(r"^```[\w+-]*[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LETTER = re.compile(
    r"\W{0,4}(?:(?:option|choice)\W{1,4})?([A-K])(?:\W{0,4}|[).:]\s.*)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderSettings:
    """How the answers of a benchmark are graded: ``grader: {kind: text}``."""

    kind: str = "math"
    """``math`` (typed comparison and proofs), ``choices`` (letters), ``text`` (words, any of
    several golds), ``judge`` (the model of ``science.judge``), ``command`` (a program, such as unit
    tests of code), or your own
    ``package.module:function``: given gold and answer, it returns True, False, or None where it
    cannot say."""
    decimal: Literal[".", ","] = "."
    """The decimal sign of ``math`` in gold answers and replies alike; the other one groups."""
    ordered: bool = False
    """Whether a bare list of ``math`` answers is in order, as the parts of a question are."""
    command: tuple[str, ...] = ()
    """Of ``command``: the program and its arguments, in which ``{answer}``, ``{gold}`` and
    ``{program}`` are paths of files; status 0 is right, 1 wrong, others ungraded. Without one,
    Python runs the answer followed by the gold, and right is what reaches its end."""
    check: tuple[str, ...] = ()
    """A program and its arguments, in which ``{answer}`` and ``{question}`` are paths of files:
    what it prints is the ``{feedback}`` of ``prompts.revise``. Without one, ``command`` runs the
    tests that the question shows, and ``judge`` asks for a remark."""
    timeout_s: float = 10.0
    """Wall time of a command or function; an overrun is wrong for code, else ungraded."""
    memory_mb: int = 1024
    """Address space of a command."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.kind not in KINDS and not is_import_path(self.kind):
            raise ValueError(
                f"grader.kind must be one of {', '.join(KINDS)} or package.module:function, "
                f"got {self.kind!r}"
            )
        if self.kind != "math" and (self.decimal != "." or self.ordered):
            raise ValueError(f"decimal and ordered must be of the math grader, got {self.kind!r}")
        if self.command and self.kind != "command":
            raise ValueError(f"command must be of the command grader, got {self.kind!r}")
        if not 0 < self.timeout_s <= 600 or not 64 <= self.memory_mb <= 1 << 16:
            raise ValueError(
                "timeout_s must be in (0, 600] and memory_mb in [64, 65536], "
                f"got {self.timeout_s!r} and {self.memory_mb!r}"
            )

    @property
    def gives_feedback(self) -> bool:
        """Whether something can say, without the gold answer, what is wrong with an answer."""
        return bool(self.check) or self.kind == "judge" or self.runs_public_tests

    @property
    def runs_public_tests(self) -> bool:
        """Whether feedback comes from the tests that a question shows."""
        return self.kind == "command" and not self.command and not self.check

    @property
    def reads_rows_as_they_are(self) -> bool:
        """Whether gold answers are texts, which are not looked through for boxes and numbers."""
        return self.kind not in ("math", "choices")

    def answer_of(self, text: str, question: str = "", *, cut: bool = False) -> str | None:
        """The answer of a reply.

        Args:
            text: the whole reply.
            question: as it was asked; one that asks for a letter is answered by one.
            cut: whether a limit of tokens ended the reply.
        """
        if self.kind == "choices" or (self.kind == "math" and asks_for_a_letter(question)):
            return extract(text, choices=True, cut=cut)
        if self.kind == "command":
            return None if cut else code_of(text)
        if self.kind == "judge":
            end = "" if cut else after_thinking(text).strip()[-_JUDGED_CHARS:]
            return extract(text, cut=True) or end or None
        if self.kind == "text":
            free = after_thinking(text).strip()
            short = free if free and len(free) <= _FREE_CHARS and "\n" not in free else None
            return extract(text, cut=True) or (None if cut else short or extract(text))
        answer = extract(text, cut=cut)
        return self.in_points(answer) if answer is not None else None

    def in_points(self, answer: str) -> str:
        """An answer of which the decimal sign is a point."""
        return _DECIMAL_COMMA.sub(_with_point, answer) if self.decimal == "," else answer

    def settled(self, gold: str, answer: str | None) -> Verdict | None:
        """The verdict, where reading decides; None where a proof, program or function must."""
        if answer is None or not answer.strip():
            return Verdict.WRONG
        if self.kind == "choices":
            return Verdict.RIGHT if _letters(gold) == _letters(answer) else Verdict.WRONG
        if self.kind == "text":
            return _text_verdict(golds_of(gold), answer)
        if self.kind == "judge" and as_words(answer) in map(as_words, golds_of(gold)):
            return Verdict.RIGHT
        return None

    def function(self) -> Callable[[str, str], Any]:
        """The function of a kind ``package.module:function``.

        Raises:
            ConfigError: where it cannot be imported or called.
        """
        found = load_object(self.kind, "")
        if not callable(found):
            raise ConfigError(f"a grader must be a function, got {self.kind!r}")
        return found  # type: ignore[no-any-return]  # a user's own


MATH = GraderSettings()
"""The grader of benchmarks that name none."""


def asks_for_a_letter(question: str) -> bool:
    """Whether a question has lettered choices."""
    return question.endswith(ASKS_FOR_A_LETTER)


def golds_of(gold: str) -> list[str]:
    """Every answer that is right: one text, or those of a JSON list."""
    if gold.startswith("["):
        try:
            found = json.loads(gold)
        except ValueError:
            return [gold]
        if isinstance(found, list) and found and all(isinstance(each, str) for each in found):
            return found
    return [gold]


def verdict_of(reply: str) -> Verdict:
    """The verdict of a judge's reply: the word of its last line; UNGRADED where it has none, or
    words that contradict each other."""
    lines = [line for line in after_thinking(reply).splitlines() if line.strip()]
    verdicts = set()
    for negated, right, wrong in _JUDGED.findall(lines[-1] if lines else ""):
        verdicts.add(bool(right) != bool(negated) if right or wrong else None)
    if len(verdicts) != 1 or None in verdicts:
        return Verdict.UNGRADED
    return Verdict.RIGHT if True in verdicts else Verdict.WRONG


class PublicTest(NamedTuple):
    """A test of a program that its question shows."""

    source: str
    """Python: an assertion, or what an example of a docstring calls."""
    expected: str | None
    """What the example shows; None for an assertion, and for an example that shows nothing."""


def public_tests(question: str) -> list[PublicTest]:
    """The tests that a question shows: lines that begin with ``assert``, and examples as docstrings
    write them (``>>> f(2)`` above what it gives)."""
    from doctest import DocTestParser  # it brings a debugger along

    shown = question.replace('"""', "\n\n").replace("'''", "\n\n")
    try:
        examples = DocTestParser().get_examples(shown)
    except ValueError:  # they are no docstring's
        examples = []
    tests = [PublicTest(e.source.strip(), e.want.strip() or None) for e in examples]
    lines = (line.strip() for line in question.splitlines())
    asserted = [PublicTest(line, None) for line in lines if line.startswith("assert ")]
    return [*(tests if any(test.expected for test in tests) else ()), *asserted]


def code_of(text: str) -> str | None:
    """The program of a reply: its last fenced block, else the whole of it."""
    reply = after_thinking(text)
    blocks = _FENCE.findall(reply)
    code = blocks[-1] if blocks else reply
    return code.rstrip() if code.strip() else None


def _with_point(match: re.Match[str]) -> str:
    whole, decimals = match[1], match[2]
    if decimals is None and "." in whole and whole.startswith("0"):
        return whole  # 0.125 groups nothing
    return whole.replace(".", "") + (f".{decimals}" if decimals else "")


def _letters(answer: str) -> str:
    several = letters(re.sub(r"(?<=[A-K])(?=[A-K])", ",", answer.strip()))
    if several is not None:
        return several.words
    single = _LETTER.fullmatch(answer.strip())
    return single[1].lower() if single else answer.strip().casefold()


def _text_verdict(golds: list[str], answer: str) -> Verdict:
    """RIGHT for any of the golds; WRONG for another number or letter; words that differ may mean
    the same, which is UNGRADED."""
    findings = []
    for gold in golds:
        if as_words(gold) == as_words(answer) or canonical(gold) == canonical(answer):
            return Verdict.RIGHT
        findings.append(find(gold, answer, limit=2_000))
    if Finding.RIGHT in findings:
        return Verdict.RIGHT
    worded = any(re.search(r"[^\W\d_]{2}", side) for side in (*golds, answer))
    return Verdict.UNGRADED if worded or set(findings) != {Finding.WRONG} else Verdict.WRONG
