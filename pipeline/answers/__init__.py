"""Extracts the answer of a reply, grades it, and groups equal answers into votes.

`extract` finds the final answer of a reply, `canonical` gives one string per value (the only
relation that votes use, so it is an equivalence), `grade` compares a prediction with a gold answer
and may be more lenient (docs/grading.md). All three are pure and bounded in time and memory
on any input. What they leave open is `Verdict.UNGRADED`; `actors.controllers.grading.GradingPool`
takes it to a computer algebra system in a process that can be killed.
"""

from __future__ import annotations

from pipeline.answers.extract import extract
from pipeline.answers.grading import Finding, canonical, find, grade
from pipeline.answers.verdict import Verdict

__all__ = [
    "Finding",
    "Verdict",
    "canonical",
    "extract",
    "find",
    "grade",
]
