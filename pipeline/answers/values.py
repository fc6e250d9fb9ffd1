"""*Values*: the types of a parsed answer, with one canonical text per value."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.answers.algebra.expression import Expression
from pipeline.answers.units import DEGREE, Unit


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number or expression, perhaps with a unit."""

    expression: Expression
    unit: Unit | None = None
    percent: bool = False
    """Whether a percent sign was there; `expression` is the value, a hundredth of what stood."""
    places: int | None = None
    """Decimal places, where the answer is a plain decimal numeral."""
    digits: int = 0
    """Its significant digits."""

    @property
    def text(self) -> str:
        inner = self.expression.text
        if self.unit is None:
            return inner
        if self.unit == DEGREE:
            return f"{inner if inner.isdigit() else f'({inner})'}^\\circ"
        return f"{inner} {self.unit.text}"


@dataclass(frozen=True, slots=True)
class Sign:
    """Infinity of either sign, or the dots of a sequence."""

    text: str


INFINITY, MINUS_INFINITY, DOTS = Sign("infty"), Sign("-infty"), Sign("\\ldots")


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, case and punctuation off."""

    words: str
    members: tuple[str, ...] = ()
    """What it names side by side: the letters of several choices, the numbers of statements."""

    @property
    def text(self) -> str:
        return self.words if "(" in self.words else f"\\text{{{self.words}}}"


@dataclass(frozen=True, slots=True)
class Row:
    """Values with signs between them that are not worked out: a ratio a : b, lengths 10 ft x 18 ft,
    a chain of inequalities with the smallest first, a congruence."""

    items: tuple[Value, ...]
    signs: tuple[str, ...]

    @property
    def text(self) -> str:
        pairs = zip(self.signs, self.items[1:], strict=True)
        return self.items[0].text + "".join(f"{sign}{item.text}" for sign, item in pairs)


@dataclass(frozen=True, slots=True)
class Parts:
    """Answers to the parts of a question, in the order of their labels."""

    labels: tuple[str, ...]
    """Numbers from 1 on for (a), (i) and (1); else names."""
    items: tuple[Value, ...]

    @property
    def text(self) -> str:
        numbered = self.labels[0].isdigit()
        pairs = zip(self.labels, self.items, strict=True)
        return "; ".join(f"({n}) {i.text}" if numbered else f"{n}: {i.text}" for n, i in pairs)


@dataclass(frozen=True, slots=True)
class Choice:
    """The letter of a multiple choice, A to J, with what may stand behind it."""

    letter: str
    content: Value | None = None

    @property
    def text(self) -> str:
        return self.letter if self.content is None else f"({self.letter}) {self.content.text}"


@dataclass(frozen=True, slots=True)
class BaseNumeral:
    """A numeral in a stated base: the question wants its digits, not its value."""

    digits: str
    base: int

    @property
    def text(self) -> str:
        return f"{self.digits}_{{{self.base}}}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Ordered items in brackets: a point, a tuple or an interval (where both ends are finite and
    the brackets of one kind, no answer says by itself which it is)."""

    opening: str
    items: tuple[Value, ...]
    closing: str

    @property
    def text(self) -> str:
        return f"{self.opening}{','.join(item.text for item in self.items)}{self.closing}"

    @property
    def is_interval(self) -> bool:
        """Whether it can be nothing but an interval."""
        infinite = any(isinstance(item, Sign) for item in self.items)
        return len(self.items) == 2 and (infinite or self.opening + self.closing in ("(]", "[)"))


@dataclass(frozen=True, slots=True)
class Union:
    """Disjoint intervals in rising order."""

    intervals: tuple[Sequence, ...]

    @property
    def text(self) -> str:
        return "\\cup".join(interval.text for interval in self.intervals)


@dataclass(frozen=True, slots=True)
class SetOf:
    """A finite set: sorted, no member twice."""

    items: tuple[Value, ...]

    @property
    def text(self) -> str:
        if not self.items:
            return "\\emptyset"
        return f"\\{{{', '.join(item.text for item in self.items)}\\}}"


@dataclass(frozen=True, slots=True)
class ListOf:
    """Values without brackets. Unordered (the text is sorted), but for a sequence with dots."""

    items: tuple[Value, ...]
    """In the order in which they stood, values of x, y, z (and the like) in that of the names."""

    @property
    def ordered(self) -> bool:
        return DOTS in self.items

    @property
    def text(self) -> str:
        texts = [item.text for item in self.items]
        return ", ".join(texts if self.ordered else sorted(texts))


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of equal length; `bars` for a determinant."""

    rows: tuple[tuple[Value, ...], ...]
    bars: bool = False

    @property
    def text(self) -> str:
        name = "vmatrix" if self.bars else "pmatrix"
        rows = " \\\\ ".join(" & ".join(item.text for item in row) for row in self.rows)
        return f"\\begin{{{name}}} {rows} \\end{{{name}}}"


RATIO, SIDES, CONGRUENT, MODULO = " : ", " \\times ", "\\equiv ", " \\pmod "
RANGE, IF = "-", " \\text{ if } "
"""Signs of a `Row`."""


@dataclass(frozen=True, slots=True)
class Equation:
    """left = right as a polynomial that is 0, up to a factor; a name where one side is one."""

    difference: Expression | None
    """None where a side is no expression."""
    name: str | None
    value: Value
    """The right-hand side, or the end of a chain of equalities."""
    chain: bool = False
    """Whether there was more than one equals sign, or nothing to solve for."""
    left: str = ""
    """The canonical left-hand side, where it is no name."""
    divided: bool = False
    """Whether a side had a variable in a denominator; `difference` may have more roots then."""
    states: bool = False
    """Whether it says what an expression of several variables comes to: m + n = 204."""

    @property
    def text(self) -> str:
        if self.difference is not None:
            return f"{self.difference.text}=0"
        return f"{self.name or self.left}={self.value.text}"


@dataclass(frozen=True, slots=True)
class Inequality:
    """expression op 0, scaled by a positive number to one form."""

    expression: Expression
    sign: str
    """`>`, `\\ge` or `\\ne`."""

    @property
    def text(self) -> str:
        return f"{self.expression.text}{self.sign}0"


@dataclass(frozen=True, slots=True)
class Region:
    """A variable and the set that it lies in."""

    name: str
    values: Value

    @property
    def text(self) -> str:
        return f"{self.name}\\in {self.values.text}"


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer that has no reading here; `text` is its cleaned spelling."""

    text: str
    malformed: bool = False
    too_large: bool = False


Value = (
    Scalar | Sign | Words | Choice | BaseNumeral | Sequence | Union
    | SetOf | ListOf | Matrix | Row | Parts | Equation | Inequality | Region | Unread
)  # fmt: skip


def set_of(items: tuple[Value, ...]) -> SetOf:
    """The set with these members."""
    members = {item.text: item for item in items}
    return SetOf(tuple(members[text] for text in sorted(members)))
