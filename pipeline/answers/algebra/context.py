"""What one reading carries: its work limit, its manner, and the constants it knows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pipeline.answers.algebra.polynomial import ONE, Atom, Kind, Polynomial, Work
from pipeline.answers.verdict import TooLarge

MAX_ATOM_CHARS = 5_000
"""Longest canonical text of one function value: nesting can double it at each level."""

PI = Atom(Kind.CONSTANT, "pi")
EULER = Atom(Kind.CONSTANT, "e")
IMAGINARY = Atom(Kind.IMAGINARY, "i")
UNIT: Polynomial = {ONE: Fraction(1)}


@dataclass(frozen=True, slots=True)
class Context:
    """Charged to one `Work`; `positive` takes variables as positive (a leniency)."""

    work: Work
    positive: bool = False

    def atom(
        self,
        kind: Kind,
        text: str,
        name: str = "",
        arguments: tuple[Any, ...] = (),
    ) -> Atom:
        """An atom whose text is built from its arguments.

        Raises:
            TooLarge: if the text is longer than `MAX_ATOM_CHARS`.
        """
        if len(text) > MAX_ATOM_CHARS:
            raise TooLarge(f"a function value must be written in {MAX_ATOM_CHARS} characters")
        self.work.spend(1 + len(text) // 16)
        return Atom(kind, text, name, arguments)
