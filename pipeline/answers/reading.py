"""*read*: parses a normalised answer as a typed `Value`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from pipeline.answers import values as va
from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.parse import Parser
from pipeline.answers.algebra.polynomial import FULL, ONE, Context, Work, split_by
from pipeline.answers.algebra.tokens import (
    OPENING,
    Token,
    Type,
    depths,
    is_command,
    is_sign,
    split,
    tokenise,
)
from pipeline.answers.normalise import clean, without_repeating
from pipeline.answers.relations import (
    SET_OPERATIONS,
    alphabetical,
    either_region,
    interval,
    is_relation,
    relation,
    union_of,
)
from pipeline.answers.spellings import (
    CJK_NUMERAL,
    PLAIN,
    SYMBOLS,
    as_words,
    base_numeral,
    bearing,
    choice,
    clock,
    compound,
    date,
    formula,
    in_signs,
    is_separator,
    labels,
    letters,
    number_in_words,
    parts,
    plain_number,
    remainder,
    span,
    stated,
    ungrouped,
    with_places,
)
from pipeline.answers.units import Unit, split_unit, unit_of
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

Read = Callable[[list[Token]], va.Value]
_MATRICES = frozenset(
    prefix + name
    for name in ("matrix", "smallmatrix", "NiceMatrix", "array", "NiceArray")
    for prefix in ("", "p", "b", "B", "v", "V")
)


def bracketed(tokens: list[Token], read: Read) -> va.Value | None:
    """A set, tuple, interval or value in parentheses, if one pair of brackets holds it all."""
    if len(tokens) == 1 and is_command(tokens[0], "emptyset"):
        return va.SetOf(())
    opening, closing = tokens[0], tokens[-1]
    if len(tokens) > 4 and is_command(tokens[1], "begin") and opening.text in ("(", "[", "|"):
        held = matrix(tokens[1:-1], read)
        bars = opening.text == closing.text == "|"
        if closing.text not in (")", "]", "|") or bars is not (opening.text == "|"):
            raise Unreadable("a matrix must stand in a pair of brackets")
        return replace(held, bars=bars)
    at = depths(tokens)
    if len(tokens) < 2 or not is_sign(opening, *OPENING) or at[-1] != 0 or 0 in at[1:-1]:
        return None
    inner = tokens[1:-1]
    pair = (opening.text, closing.text)
    parts = split(inner, lambda token: is_sign(token, ",", ";"))
    builder = len(inner) > 2 and is_sign(inner[1], "|")
    if pair == (r"\{", r"\}") or (pair == ("{", "}") and (len(parts) > 1 or builder)):
        return _set(inner, parts, read)
    if len(parts) > 2 and pair == ("[", "]"):
        pair = ("(", ")")  # a vector, as programs write it
    if len(parts) == 1 and pair in (("{", "}"), ("(", ")")):
        return read(inner)
    if opening.text not in "([" or closing.text not in ")]":
        return None
    values = items_of(parts, read)
    rows = tuple(v.items for v in values if isinstance(v, va.Sequence))
    if opening.text == "[" and len(rows) == len(values) and len(set(map(len, rows))) == 1:
        return va.Matrix(rows)
    sequence = va.Sequence(pair[0], tuple(values), pair[1])
    if sequence.is_interval:
        return interval(opening.text, values[0], values[1], closing.text)
    return sequence


def items_of(parts: list[list[Token]], read: Read) -> list[va.Value]:
    """The items of a tuple or row, each one value."""
    values = [read(part) for part in parts]
    if any(isinstance(value, va.ListOf) for value in values):
        raise Unreadable("an item in brackets must be one value")
    return values


def _set(inner: list[Token], parts: list[list[Token]], read: Read) -> va.Value:
    if not inner:
        return va.SetOf(())
    bar = next((n for n, token in enumerate(inner) if is_sign(token, "|", ":")), None)
    real = (
        [token.text for token in inner[1:bar]] == ["in", "mathbb", "{", "R", "}"] if bar else False
    )
    if bar and (bar == 1 or real) and inner[0].type is Type.SYMBOL:
        built = read(inner[bar + 1 :])
        if isinstance(built, va.ListOf) and isinstance(built.items[0], va.Equation):
            return built  # x = 2k, k an integer
        if not isinstance(built, va.Region) or built.name != inner[0].text:
            raise Unreadable("a set must be given by a condition on its variable")
        return built.values
    members: list[va.Value] = []
    for part in parts:
        value = read(part)
        members.extend(value.items if isinstance(value, va.ListOf) else (value,))
    return va.set_of(tuple(members))


def matrix(tokens: list[Token], read: Read) -> va.Matrix:
    """A matrix environment that is the whole answer.

    Raises:
        Malformed: if it does not end or its rows differ in length.
    """
    name, start = _environment(tokens, 1)
    if name not in _MATRICES:
        raise Unreadable(f"an environment must be a matrix, got {name!r}")
    ends = [place for place, token in enumerate(tokens) if is_command(token, "end")]
    if len(ends) != 1 or _environment(tokens, ends[0] + 1) != (name, len(tokens)):
        raise Malformed("a matrix must end where the answer does")
    body = [token for token in tokens[start : ends[0]] if not is_command(token, "hline")]
    if name.endswith(("array", "Array")) and body and is_sign(body[0], "{"):
        body = body[_environment(body, 0)[1] :]  # its columns
    lines = split(body, lambda token: is_sign(token, r"\\"))
    rows = tuple(
        tuple(items_of(split(line, lambda token: is_sign(token, "&")), read))
        for line in lines
        if line
    )
    if not rows or len(set(map(len, rows))) != 1:
        raise Malformed("the rows of a matrix must be of one length")
    return va.Matrix(rows, bars=name[0] in "vV")


def _environment(tokens: list[Token], place: int) -> tuple[str, int]:
    """What stands in the braces at `place`, and the place behind them."""
    if place >= len(tokens) or not is_sign(tokens[place], "{"):
        raise Malformed("an environment must have a name")
    name = ""
    for end in range(place + 1, len(tokens)):
        if is_sign(tokens[end], "}"):
            return name, end + 1
        name += tokens[end].text
    raise Malformed("an environment must have a name")


_LETTERS = re.compile(r"[A-Z](?:(?:,| and | or )\s*[A-Z])+")
_CAPITALS = re.compile(r"[A-Z]{2,5}")
_PROSE = re.compile(r"(?=.*[^\W\d_]{3})[\w\s.,:;'\"!?()%/-]+")
_AND = re.compile(r"\s{0,4}(?:,|;|\band\b|\bor\b)\s{0,4}")
_DECADE = re.compile(r"(?:the )?\d{3}0'?s")
_ORDINAL = re.compile(r"(?:the )?\d{0,3}(?:1st|2nd|3rd|\dth)(?: place)?")
_YES_NO = re.compile(r"(?:yes|no)[,.;:] .{1,200}$", re.IGNORECASE)
_CJK_COUNTED = re.compile(rf"({CJK_NUMERAL.pattern})([^\W\d]{{1,3}})")
_CONDITION_WORDS = ("if", "for", "when", "where", "is", "if n is", ",", "if n", "n is")
_SPELT_CHARS = 400
"""Longest answer of the kinds that are known by their spelling."""


_UNIT_VECTORS = (r"\vec{i}", r"\vec{j}", r"\vec{k}")


class Manner(StrEnum):
    """How an answer is read; all but the first serve leniencies."""

    STRICT = "strict"
    POSITIVE = "positive"
    """Variables are positive, so sqrt(x^2) is x."""
    COMMAS_SEPARATE = "commas_separate"
    """A comma never groups digits."""
    LETTER_UNITS = "letter_units"
    """Letters behind a number are its unit where the table has it: 5 m."""
    MIXED_NUMBERS = "mixed_numbers"
    """5 and 1/3 is one number."""
    SMALL_CHOICES = "small_choices"
    """(a) is a choice."""


def read(answer: str, manner: Manner = Manner.STRICT, limit: int = FULL) -> va.Value:
    """The typed value of an answer as a reply or a data set spells it; `Unread` if it has none.

    Args:
        answer: as it was extracted.
        manner: how it is read.
        limit: units of work; an answer that takes more is `Unread` and too large.
    """
    plain = PLAIN.fullmatch(answer)
    if plain is not None:
        return plain_number(plain)
    few = len(answer) <= 300
    return cached_reading(answer, manner, limit) if few else _read(answer, manner, limit)


@lru_cache(maxsize=8192)
def cached_reading(answer: str, manner: Manner, limit: int) -> va.Value:
    """As `read`, remembered: gold answers and votes come again and again."""
    return _read(answer, manner, limit)


def _read(answer: str, manner: Manner, limit: int) -> va.Value:
    try:
        text = clean(answer)
    except TooLarge:
        return va.Unread(answer, too_large=True)
    reading = _Reading(Context(Work(limit), manner is Manner.POSITIVE), manner)
    try:
        reading.context.work.spend(len(text) // 4)
        value = reading.of_text(text)
        if isinstance(value, va.Words) and not value.members:
            return reading.of_text(value.text)
        return value
    except (TooLarge, RecursionError):
        return va.Unread(text, too_large=True)
    except Unreadable as error:
        if len(text) <= _SPELT_CHARS and _PROSE.fullmatch(text):
            return va.Words(as_words(text))
        return va.Unread(text, malformed=isinstance(error, Malformed))


class _Reading:
    """One answer being read; `nesting` bounds texts within texts."""

    def __init__(self, context: Context, manner: Manner) -> None:
        self.context = context
        self.manner = manner
        self.nesting = 0

    def of_text(self, text: str) -> va.Value:
        """The value of a cleaned answer."""
        plain = PLAIN.fullmatch(text)
        if plain is not None:
            return plain_number(plain)
        if len(text) <= _SPELT_CHARS:
            spelt = self._spelt(text)
            if spelt is not None:
                return spelt
        text = without_repeating(text)
        if self.manner is Manner.MIXED_NUMBERS:
            text = re.sub(r"^(-?)(\d+) and (\d+/\d+$|\\frac.*)", r"\1(\2+\3)", text)
        if self.manner is not Manner.COMMAS_SEPARATE:
            text = ungrouped(text)
        return self.value(tokenise(text))

    def _spelt(self, text: str) -> va.Value | None:
        """The value of an answer that is known by its spelling."""
        for known in (base_numeral, date, clock, remainder, labels, bearing, letters):
            if (special := known(text)) is not None:
                return special
        formula_ = formula(text)
        if formula_ is not None and formula_[1]:
            raise Unreadable("a chemical formula is no product")
        if _DECADE.fullmatch(text) or _ORDINAL.fullmatch(text) or _YES_NO.match(text):
            return va.Words(as_words(text))
        if (counted := _CJK_COUNTED.fullmatch(text)) is not None:
            return self.of_text(f"{number_in_words(counted[1])}{counted[2]}")
        if (ends := span(text)) is not None:
            return self._span(*ends)
        if self.nesting < 2 and (labelled := parts(text)) is not None:
            items = tuple(self._nested(piece) or va.Unread(piece) for _, piece in labelled)
            return va.Parts(tuple(label for label, _ in labelled), items)
        if (compound := self._compound(text)) is not None:
            return compound
        if re.fullmatch(r"(?:\([A-K]\) ?){2,5}", text):
            text = re.sub("[() ]", "", text)
        if self.nesting == 0:
            chosen = choice(text, self.manner is Manner.SMALL_CHOICES)
            if chosen is not None:
                return self._choice(*chosen)
        if _CAPITALS.fullmatch(text):
            return va.Words(as_words(text), tuple(text))
        words = as_words(text)
        if words in SYMBOLS:
            return self.of_text(SYMBOLS[words])
        number = number_in_words(words)
        if number is not None:
            return va.Scalar(ex.number(number))
        if (signs := in_signs(words)) is not None:
            return self.of_text(clean(signs))
        if (inner := stated(text)) is not None and self.nesting < 2:
            value = self._nested(inner)
            return None if isinstance(value, va.Words | va.Choice) else value
        return None

    def _scaled(self, scale: va.Value, held: va.Value) -> va.Value:
        """A number times a matrix."""
        if not isinstance(held, va.Matrix):
            raise Unreadable("what stands in front of an environment must multiply a matrix")
        rows = (tuple(self._times(scale, cell) for cell in row) for row in held.rows)
        return replace(held, rows=tuple(rows))

    def _times(self, scale: va.Value, cell: va.Value) -> va.Value:
        if not isinstance(scale, va.Scalar) or not isinstance(cell, va.Scalar):
            raise Unreadable("a matrix must be multiplied by a number")
        return va.Scalar(ex.times(scale.expression, cell.expression, self.context.work))

    def _cases(self, tokens: list[Token]) -> va.Value | None:
        """A function by cases: values with their conditions, in any order."""
        texts = [token.text for token in tokens]
        frame = ["{", "cases", "}"]
        begin = texts.index("begin") if "begin" in texts else len(texts)
        if texts[begin + 1 : begin + 4] != frame or texts[-4:] != ["end", *frame]:
            return None
        if begin and texts[begin - 1] != "=":
            raise Unreadable("cases must stand alone or behind an equals sign")
        rows = split(tokens[begin + 4 : -4], lambda t: is_sign(t, r"\\"))
        pairs = []
        for row in filter(None, rows):
            value, *condition = split(row, lambda t: is_sign(t, "&"))
            said = [t for t in (condition or [[]])[0] if t.text not in _CONDITION_WORDS]
            value = value[:-1] if value and is_sign(value[-1], ",") else value
            held = self.value(said) if said else va.Words("otherwise")
            pairs.append(va.Row((self.value(value), held), (va.IF,)))
        found = va.ListOf(tuple(pairs))
        return va.Equation(None, "".join(texts[: begin - 1]), found) if begin else found

    def _span(self, low: str, high: str) -> va.Value:
        """A range: its lower end without a unit has that of the upper one."""
        ends = [self._nested(end) for end in (low, high)]
        first, last = ends
        if not isinstance(first, va.Scalar) or not isinstance(last, va.Scalar):
            raise Unreadable("a range must be between numbers")
        if first.unit is None and not first.percent:
            times = Fraction(1, 100) if last.percent else Fraction(1)
            value = ex.times(first.expression, ex.number(times), self.context.work)
            first = va.Scalar(value, last.unit, last.percent)
        elif last.unit is None:
            last = replace(last, unit=first.unit)
        return va.Row((first, last), (va.RANGE,))

    def _compound(self, text: str) -> va.Value | None:
        """A quantity in several units: 3 hours 20 minutes, 5'3", 64^\\circ 10'."""
        pieces = compound(text)
        if pieces is None:
            return None
        total: va.Scalar | None = None
        for number, name in pieces:
            unit = unit_of(name)
            if unit is None or not unit.dimension:
                return None
            value = ex.number(Fraction(number) * unit.factor)
            if total is None or total.unit is None:
                total = va.Scalar(value, unit)
            elif total.unit.dimension != unit.dimension or unit.factor >= total.unit.factor:
                return None
            else:
                total = replace(
                    total, expression=ex.plus(total.expression, value, self.context.work)
                )
        if total is None or total.unit is None:
            return None
        factor = ex.number(1 / total.unit.factor)
        return va.Scalar(ex.times(total.expression, factor, self.context.work), total.unit)

    def _nested(self, text: str) -> va.Value | None:
        """What a part of the answer says; None where it has no reading."""
        self.nesting += 1
        try:
            return self.of_text(clean(text))
        except (Malformed, Unreadable):
            return None
        finally:
            self.nesting -= 1

    def _choice(self, letter: str, content: str | None) -> va.Value:
        if content is None:
            return va.Choice(letter)
        return va.Choice(letter, self._nested(content) or self._text(as_words(content)))

    def value(self, tokens: list[Token]) -> va.Value:
        """The value of a run of tokens.

        Raises:
            Unreadable: where it has none.
        """
        self.context.work.spend(len(tokens))
        if not tokens:
            raise Malformed("an answer must not be empty")
        if len(tokens) == 1 and tokens[0].type is Type.TEXT:
            return self._text(tokens[0].text)
        cases = self._cases(tokens) if is_sign(tokens[-1], "}") else None
        if cases is not None:
            return cases
        parts = split(tokens, is_separator)
        if len(parts) > 1:
            return self._list([part for part in parts if part], tokens)
        if any(is_relation(token) for token in tokens):
            pieces = split(tokens, lambda token: is_command(token, "cup", "lor", "vee"))
            if len(pieces) > 1 and all(any(map(is_relation, piece)) for piece in pieces):
                either = either_region([self.value(piece) for piece in pieces])
                if either is not None:
                    return either
        related = relation(tokens, self.value, self.context)
        if related is not None:
            return related
        if any(is_command(token, *SET_OPERATIONS) for token in tokens):
            joined = union_of(tokens, self.value)
            if joined is not None:
                return joined
        held = bracketed(tokens, self.value)
        if held is not None:
            return held
        begin = next((n for n, token in enumerate(tokens) if is_command(token, "begin")), 0)
        if begin and is_sign(tokens[begin - 1], "(", "["):
            begin -= 1
        if begin:
            scale, held = self.value(tokens[:begin]), self.value(tokens[begin:])
            return self._scaled(scale, held)
        if is_command(tokens[0], "begin"):
            return matrix(tokens, self.value)
        words = any(token.type is Type.TEXT for token in tokens)
        if words and all(token.type in (Type.TEXT, Type.SYMBOL) for token in tokens):
            spaced = (" " * (t.spaced or t.type is Type.TEXT) + t.text for t in tokens)
            return self._text("".join(spaced).strip())
        sides = split(tokens, lambda token: is_command(token, "times") or token.text == "x")
        if words and len(sides) in (2, 3) and all(sides):
            values = [self._scalar(side) for side in sides]
            if all(isinstance(v, va.Scalar) and v.unit is not None for v in values):
                return va.Row(tuple(values), (va.SIDES,) * (len(values) - 1))
        terms = split(tokens, lambda token: is_sign(token, ":"))
        return self._ratio(terms) if len(terms) > 1 else self._scalar(tokens)

    def _text(self, content: str) -> va.Value:
        """The whole answer is in words, or is a value that only was put into ``\\text``."""
        word = as_words(content)
        named = _LETTERS.fullmatch(content) is not None
        if self.nesting < 2 and (
            named
            or number_in_words(word) is not None
            or not re.fullmatch(r"[A-Za-z .'-]{2,}", content)
        ):
            value = self._nested(content)
            if value is not None:
                return value
        first, _, rest = word.partition(" ")
        if first.isalpha() and rest and (count := number_in_words(first)) is not None:
            unit = self._nested(f"{count} {rest}")
            if isinstance(unit, va.Scalar):
                return unit
        parts = [part for part in _AND.split(content) if part.strip()]
        if len(parts) > 1:
            return va.ListOf(tuple(self._text(part) for part in parts))
        if len(content.strip()) == 1 and content.strip().isascii():
            return self._scalar(tokenise(content))
        if not word:
            raise Malformed("an answer must not be empty")
        return va.Words(word)

    def _list(self, parts: list[list[Token]], tokens: list[Token]) -> va.Value:
        if not parts:
            raise Malformed("an answer must not be empty")
        items: list[va.Value] = []
        for part in parts:
            spread = [token.text for token in part]
            if (
                len(spread) == 3
                and spread[1] == "-"
                and part[0].type is part[2].type is Type.NUMBER
            ):
                items.append(self._span(spread[0], spread[2]))
                continue
            value = self.value(part)
            if isinstance(value, va.Equation) and isinstance(value.value, va.ListOf) and value.name:
                named = (va.Equation(None, value.name, item) for item in value.value.items)
                items.extend(named)
            else:
                items.extend(value.items if isinstance(value, va.ListOf) else (value,))
        if len(items) == 1:
            return items[0]
        first, last = items[0], items[-1]
        if isinstance(last, va.Scalar) and last.unit is not None and last.unit.dimension:
            items = [
                replace(item, unit=last.unit)
                if isinstance(item, va.Scalar) and item.unit is None and not item.percent
                else item
                for item in items
            ]
        words = {word for t in tokens if t.type is Type.TEXT for word in t.text.split()}
        if words & {"or", "或"}:
            either = either_region(items)
            if either is not None:
                return either
            if len({item.text for item in items}) == 1:  # 1/2, or 0.5
                return first
        if isinstance(first, va.Equation) and first.name is not None:
            others = items[1:]
            if all(isinstance(item, va.Scalar | va.Sign) for item in others):
                return va.Equation(None, first.name, va.ListOf((first.value, *others)))
            if all(isinstance(i, va.Equation) and i.name == first.name for i in others):
                values = tuple(i.value for i in items if isinstance(i, va.Equation))
                return va.Equation(None, first.name, va.ListOf(values))
            tuples = _tuples(items)
            if tuples is not None:
                return tuples
            order = alphabetical([getattr(item, "name", None) for item in items])
            items = [items[place] for place in order] if order else items
        return va.ListOf(tuple(items))

    def _ratio(self, parts: list[list[Token]]) -> va.Value:
        items = items_of(parts, self.value)
        rationals = [i.expression.rational if isinstance(i, va.Scalar) else None for i in items]
        numbers = tuple(value for value in rationals if value is not None)
        if len(numbers) == len(items):
            lead = next((value for value in numbers if value), Fraction(1))
            items = [va.Scalar(ex.number(value / lead)) for value in numbers]
        elif not all(isinstance(item, va.Scalar | va.Sign) for item in items):
            raise Unreadable("the terms of a ratio must be numbers")
        return va.Row(tuple(items), (va.RATIO,) * (len(items) - 1))

    def _scalar(self, tokens: list[Token]) -> va.Value:
        simple = _constant(tokens)
        if simple is not None:
            return simple
        tokens, unit, times = split_unit(tokens, self.manner is Manner.LETTER_UNITS)
        if any(is_command(token, "pm", "mp") for token in tokens):
            both = (Parser(tokens, self.context, upper).whole() for upper in (True, False))
            unlike = {e.text: e for e in both}
            values = tuple(self._quantity(e, unit, times) for e in unlike.values())
            return values[0] if len(values) == 1 else va.ListOf(values)
        found = Parser(tokens, self.context).whole()
        if unit is None and times is None and (vector := self._components(found)) is not None:
            return vector
        return with_places(self._quantity(found, unit, times), tokens)

    def _components(self, value: ex.Expression) -> va.Value | None:
        """2i - 3j + k as the vector (2, -3, 1), where letters with arrows or hats say so."""
        texts = [atom.text for atom in value.atoms]
        if not any(text in _UNIT_VECTORS for text in texts):
            return None
        groups = split_by(value.numerator, lambda atom: atom.text in _UNIT_VECTORS)
        unit = {ONE: Fraction(1)}
        found: dict[str, ex.Expression] = {}
        for monomial, rest in groups.items():
            if len(monomial) != 1 or monomial[0][1] != 1:
                raise Unreadable("a vector must be a sum of its components")
            over = ex.Expression(value.denominator, unit)
            found[monomial[0][0].text] = ex.over(ex.Expression(rest, unit), over, self.context.work)
        names = _UNIT_VECTORS if _UNIT_VECTORS[2] in found else _UNIT_VECTORS[:2]
        items = tuple(va.Scalar(found.get(name, ex.number(0))) for name in names)
        return va.Sequence("(", items, ")")

    def _quantity(
        self, value: ex.Expression, unit: Unit | None, times: Fraction | None
    ) -> va.Scalar:
        percent = times == Fraction(1, 100) and unit is None
        if times is not None:
            value = ex.times(value, ex.number(times), self.context.work)
        return va.Scalar(value, unit, percent)


def _tuples(items: list[va.Value]) -> va.Value | None:
    """x = 3, y = -2, x = -3, y = 2 as two pairs of x and y."""
    names = [item.name for item in items if isinstance(item, va.Equation)]
    period = len(set(names))
    rounds = [names[n : n + period] for n in range(0, len(names), period)] if period > 1 else []
    if len(names) < len(items) or len(rounds) < 2 or any(r != rounds[0] for r in rounds):
        return None
    values = [item.value for item in items if isinstance(item, va.Equation)]
    points = (
        va.Sequence("(", tuple(values[n : n + period]), ")") for n in range(0, len(values), period)
    )
    name = f"({','.join(map(str, rounds[0]))})"
    return va.Equation(None, name, va.ListOf(tuple(points)))


def _constant(tokens: list[Token]) -> va.Value | None:
    texts = [token.text for token in tokens]
    sign = {
        "ldots": va.DOTS,
        "infty": va.INFINITY,
        "+infty": va.INFINITY,
        "-infty": va.MINUS_INFINITY,
    }
    if len(texts) < 3 and "".join(texts) in sign:
        return sign["".join(texts)]
    if texts in (["mathbb", "{", "R", "}"], ["mathbb", "R"], ["Reals"]):
        return interval("(", va.MINUS_INFINITY, va.INFINITY, ")")
    if texts[0] == "mathbb" and len(texts) in (2, 4):
        return va.Words("mathbb " + texts[len(texts) // 2])
    return None
