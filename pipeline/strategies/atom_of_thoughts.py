"""Atom of Thoughts: solve, decompose, contract to a shorter question, solve that, and combine
(arXiv 2502.12018). Model output is never evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from pipeline.answers import canonical
from pipeline.core.prompts import Message
from pipeline.core.protocol import (
    Completion,
    Decisions,
    Generate,
    Observation,
    PhaseStats,
    Question,
    Request,
    Stop,
    StopReason,
    Strategy,
)
from pipeline.core.thinking import after_thinking

STAGES = ("direct", "decompose", "label", "contract", "solve_contracted", "ensemble")
"""The calls in their order; the position of a stage is the round of its requests."""
MAX_JSON_CHARS = 20_000
"""Longest JSON that is read from a reply."""
MAX_SUB_QUESTIONS = 50


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomOfThoughts(Strategy):
    """Six calls, each tried again up to `retries` times where its reply cannot be used.

    The answer is that of the first candidate (direct, decompose, contract) that equals the
    ensemble's by canonical form; where none does, that of the direct solution. A stage whose tries
    are spent goes on with what there is: a solution without an answer, no sub-questions, the
    original question as the contracted one. It fails only where a solution could not be had at all.

    The method's own code computes a depth and never uses it; there is one contraction here as
    there. It tries again where an answer is not a plain number, which fractions and intervals
    never are; here, where there is no answer. The stop rests on the chosen candidate; only the
    three candidates are scored.
    """

    kind: ClassVar[str] = "atom_of_thoughts"

    retries: int = 5
    """Further tries of a stage, >= 0; all are paid for."""
    shown_chars: int = 4_000
    """How much of the end of a solution later prompts are shown, >= 1, in characters."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries must be >= 0, got {self.retries!r}")
        if self.shown_chars < 1:
            raise ValueError(f"shown_chars must be >= 1, got {self.shown_chars!r}")

    @property
    def n(self) -> int:
        """Completions a question at most; the method has no budget of samples or rounds."""
        return len(STAGES) * (self.retries + 1)

    def decide(self, question: Question, statistics: PhaseStats | None = None) -> Decisions:
        """Run the six stages; a stage whose tries are spent goes on with what there is."""
        calls = _Calls(question, self)
        ask = self.prompts_of(question).ask(question.text)
        candidates: list[Solution] = []
        for stage in ("direct", "decompose"):
            solution = yield from calls.solve(stage, ask)
            if solution is None:
                return _failed(candidates)
            candidates.append(solution)
        solved = candidates[1].text
        labels = yield from calls.read("label", label_prompt(question.text, solved), parse_labels)
        contract = contract_prompt(question.text, solved, labels or ())
        shorter = yield from calls.read("contract", contract, parse_contracted)
        solution = yield from calls.solve(
            "solve_contracted", self.prompts.ask(shorter or question.text)
        )
        if solution is None:
            return _failed(candidates)
        candidates.append(solution)
        texts = [candidate.text for candidate in candidates]
        combined = yield from calls.solve("ensemble", ensemble_prompt(question.text, texts))
        if combined is None:
            return _failed(candidates)
        chosen = choose(candidates, combined.answer)
        return Stop(reason=StopReason.FINISHED, rounds=(chosen.position,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A reply that may be returned."""

    position: int
    """Of its completion, in request order."""
    answer: str | None
    text: str
    """What later prompts show of it."""


class _Calls:
    """The calls of one question, numbered in request order."""

    def __init__(self, question: Question, strategy: AtomOfThoughts) -> None:
        self._question, self._strategy = question, strategy
        self._drawn = 0

    def solve(
        self, stage: str, messages: tuple[Message, ...]
    ) -> Generator[Generate, Sequence[Observation], Solution | None]:
        """The first reply with an answer, else the last one; None where all tries failed."""
        newest: Solution | None = None
        for request in self._tries(stage, messages, score=stage != "ensemble"):
            (seen,) = yield Generate((request,))
            self._drawn += 1
            if isinstance(seen, Completion):
                text = shown(seen.text, self._strategy.shown_chars)
                newest = Solution(position=self._drawn - 1, answer=seen.answer, text=text)
                if seen.answer is not None:
                    break
        return newest

    def read(
        self, stage: str, messages: tuple[Message, ...], parse: Callable[[str], T | None]
    ) -> Generator[Generate, Sequence[Observation], T | None]:
        """What `parse` reads from the first reply that it can read; None where it reads none."""
        for request in self._tries(stage, messages, score=False):
            (seen,) = yield Generate((request,))
            self._drawn += 1
            found = parse(seen.text) if isinstance(seen, Completion) else None
            if found is not None:
                return found
        return None

    def _tries(self, stage: str, messages: tuple[Message, ...], *, score: bool) -> list[Request]:
        strategy = self._strategy
        return [
            strategy.request(
                self._question,
                messages,
                round=STAGES.index(stage),
                sample=attempt,
                score=score and strategy.score,
            )
            for attempt in range(strategy.retries + 1)
        ]


def choose(candidates: Sequence[Solution], ensemble: str | None) -> Solution:
    """The first candidate whose answer equals the ensemble's, else the first one."""
    if ensemble is not None:
        wanted = canonical(ensemble)
        for candidate in candidates:
            if candidate.answer is not None and canonical(candidate.answer) == wanted:
                return candidate
    return candidates[0]


def _failed(candidates: Sequence[Solution]) -> Stop:
    rounds = tuple(candidate.position for candidate in candidates)
    return Stop(reason=StopReason.FAILED, rounds=rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubQuestion:
    """One step of a solution, put as a question."""

    description: str
    answer: str
    depends: tuple[int, ...]
    """Indices of the sub-questions whose answers it needs."""


def label_prompt(question: str, solution: str) -> tuple[Message, ...]:
    """Ask for the sub-questions of a solution and what each depends on, as JSON."""
    return _user(
        "Split a worked solution into the sub-questions that it answers, in order.\n\n"
        f"Problem:\n{question}\n\nSolution:\n{solution}\n\n"
        "For each sub-question give its text, its answer, and the indices (from 0) of the earlier "
        "sub-questions whose answers it needs; what the problem itself states is no dependency. "
        "Reply with one JSON object and nothing else, in this form:\n"
        '{"sub-questions": [{"description": "...", "answer": "...", "depend": []}]}'
    )


def contract_prompt(
    question: str, solution: str, sub_questions: Sequence[SubQuestion]
) -> tuple[Message, ...]:
    """Ask for one shorter question in which the independent sub-questions are known conditions."""
    known = [f"- {sub.description} {sub.answer}" for sub in sub_questions if not sub.depends]
    open_ = [f"- {sub.description}" for sub in sub_questions if sub.depends]
    parts = [
        "Rewrite a problem as a simpler one that has the same final answer.",
        f"Problem:\n{question}",
        f"A worked solution:\n{solution}",
    ]
    if known:
        parts.append("Take these results as given conditions:\n" + "\n".join(known))
    if open_:
        parts.append("These questions remain to be covered:\n" + "\n".join(open_))
    parts.append(
        "The new problem must be complete in itself and need fewer steps than the original. "
        "Put it between <question> and </question>."
    )
    return _user("\n\n".join(parts))


def ensemble_prompt(question: str, solutions: Sequence[str]) -> tuple[Message, ...]:
    """Ask for the best answer in view of several solutions."""
    listed = "\n\n".join(f"Solution {i}:\n{text}" for i, text in enumerate(solutions, start=1))
    return _user(
        f"Problem:\n{question}\n\n{listed}\n\n"
        "Compare the solutions, correct what is wrong in them, and solve the problem. Please "
        "reason step by step, and put your final answer within \\boxed{}."
    )


def shown(text: str, max_chars: int) -> str:
    """What later prompts are shown of a reply: the end of what follows its thinking."""
    return after_thinking(text).strip()[-max_chars:]


def parse_labels(text: str) -> tuple[SubQuestion, ...] | None:
    """The sub-questions in a reply; None where it holds no such JSON object.

    Descriptions and answers must be text or numbers; dependencies must point to earlier ones.
    """
    reply = after_thinking(text)
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0 or not 0 < end - start < MAX_JSON_CHARS:
        return None
    try:
        content = json.loads(reply[start : end + 1])
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return None
    items = content.get("sub-questions") if isinstance(content, dict) else None
    if not isinstance(items, list) or not 0 < len(items) <= MAX_SUB_QUESTIONS:
        return None
    labels = [_sub_question(item, index) for index, item in enumerate(items)]
    found = tuple(label for label in labels if label is not None)
    return found if len(found) == len(labels) else None


def parse_contracted(text: str) -> str | None:
    """The last <question> in a reply; None where there is none or it is empty."""
    found = re.findall(r"<question>([^<]*)</question>", after_thinking(text))
    return found[-1].strip() or None if found else None


def _sub_question(item: object, index: int) -> SubQuestion | None:
    if not isinstance(item, dict):
        return None
    description, answer, depends = (item.get(key) for key in ("description", "answer", "depend"))
    is_answer = isinstance(answer, str | int | float)
    if not isinstance(description, str) or not is_answer or not isinstance(depends, list):
        return None
    if not all(isinstance(other, int) and 0 <= other < index for other in depends):
        return None
    return SubQuestion(description=description, answer=str(answer), depends=tuple(depends))


def _user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)
