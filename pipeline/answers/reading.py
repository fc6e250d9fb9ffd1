"""A cleaned answer to a typed `Value`: which kind of thing it is, and its parts."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from pipeline.answers import expression as ex
from pipeline.answers.context import Context
from pipeline.answers.normalise import as_words, clean, without_repeating, without_separators
from pipeline.answers.parse import Parser
from pipeline.answers.polynomial import Work
from pipeline.answers.regions import either_region, interval_of, relation, union_of
from pipeline.answers.tokens import OPENING, Token, Type, depths, tokenise
from pipeline.answers.units import split_unit
from pipeline.answers.values import (
    BaseNumeral,
    Choice,
    Ellipsis_,
    Equation,
    Infinity,
    ListOf,
    Matrix,
    Ratio,
    Scalar,
    Sequence,
    SetOf,
    Unread,
    Value,
    Words,
    reduced_ratio,
    set_of,
)
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

_BASE = re.compile(
    r"(-?)\s*([0-9A-F]+(?:\.[0-9A-F]+)?)\s*(?:_\s*\{?\s*(?:\\text\s*\{)?\s*(?:base\s*)?|\\?(?:text\s*\{)?\s*base\}?\s*)"
    r"(\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen)[\s}]*",
    re.ASCII,
)
_BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_CHOICE = re.compile(r"\(?\s*([A-J])\s*(?:\)|[.:]|\))?")
_CHOICE_WITH = re.compile(r"(?:\(\s*([A-J])\s*\)|([A-J])\s*[):.](?=\s))\s*(?:[:.]\s*)?(\S.*)")
_COUNT_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
_COUNTS = {word: value for value, word in enumerate(_COUNT_WORDS)}
_SEPARATOR_WORDS = re.compile(r"\s*,?\s*(?:and|or|,)\s*,?\s*")
_CLOCK = re.compile(
    r"\d{1,2}:[0-5]\d(?::[0-5]\d)?(?:\s*(?:\\text\s*\{)?\s*[ap]\.?\s*m\.?\s*\}?)?", re.IGNORECASE
)
_CAPITALS = re.compile(r"[A-Z]{2,5}")
_PLAIN = re.compile(r"[-+]?\d{1,300}(?:\.\d{1,300})?")


class Manner(StrEnum):
    """How an answer is read; all but the first serve leniencies."""

    STRICT = "strict"
    POSITIVE = "positive"
    """Variables are positive, so sqrt(x^2) is x."""
    COMMAS_SEPARATE = "commas_separate"
    """A comma never groups digits."""


def read(answer: str, manner: Manner = Manner.STRICT) -> Value:
    """The typed value of an answer as a reply or a data set spells it; `Unread` if it has none."""
    return _cached(answer, manner) if len(answer) <= 300 else _read(answer, manner)


@lru_cache(maxsize=8192)
def _cached(answer: str, manner: Manner) -> Value:
    return _read(answer, manner)


def _read(answer: str, manner: Manner) -> Value:
    try:
        text = clean(answer)
    except TooLarge:
        return Unread(answer, too_large=True)
    context = Context(Work(), positive=manner is Manner.POSITIVE)
    try:
        return _Reading(context, grouping=manner is not Manner.COMMAS_SEPARATE).of_text(text)
    except TooLarge:
        return Unread(text, too_large=True)
    except Malformed:
        return Unread(text, malformed=True)
    except Unreadable:
        return Unread(text)
    except RecursionError:
        return Unread(text, too_large=True)


class _Reading:
    """One answer being read; `nesting` bounds texts within texts."""

    def __init__(self, context: Context, grouping: bool) -> None:
        self.context = context
        self.grouping = grouping
        self.nesting = 0

    def of_text(self, text: str) -> Value:
        """The value of a cleaned answer."""
        if _PLAIN.fullmatch(text):
            return self._scalar(tokenise(text))
        special = _base_numeral(text) or self._choice(text) or _clock(text)
        if special is not None:
            return special
        if _CAPITALS.fullmatch(text):
            return Words(as_words(text))
        text = without_repeating(text)
        return self.value(tokenise(_outside_brackets(text) if self.grouping else text))

    def _choice(self, text: str) -> Value | None:
        plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).strip()
        if letter := _CHOICE.fullmatch(plain):
            return Choice(letter[1])
        match = _CHOICE_WITH.fullmatch(plain)
        if match is None:
            return None
        content = match[3]
        try:
            return Choice(match[1] or match[2], self.of_text(clean(content)))
        except Unreadable:
            return Choice(match[1] or match[2], Words(as_words(content)))

    def value(self, tokens: list[Token]) -> Value:
        """The value of a run of tokens.

        Raises:
            Unreadable: where it has none.
        """
        if not tokens:
            raise Malformed("an answer must not be empty")
        if len(tokens) == 1 and tokens[0].type is Type.TEXT:
            return self._text(tokens[0].text)
        parts = _split(tokens, _is_separator)
        if len(parts) > 1:
            return self._list([part for part in parts if part], tokens)
        related = relation(tokens, self.value, self.context)
        if related is not None:
            return related
        if any(
            t.type is Type.COMMAND and t.text in ("cup", "setminus", "backslash") for t in tokens
        ):
            joined = union_of(tokens, self.value)
            if joined is not None:
                return joined
        bracketed = self._bracketed(tokens)
        if bracketed is not None:
            return bracketed
        if tokens[0].type is Type.COMMAND and tokens[0].text == "begin":
            return self._matrix(tokens)
        if tokens[0].type is Type.TEXT and not any(
            t.type is Type.SIGN and t.text == "^" for t in tokens
        ):
            return Words(as_words(" ".join(token.text for token in tokens)))
        ratio = _split(tokens, lambda token: token.type is Type.SIGN and token.text == ":")
        if len(ratio) > 1:
            return self._ratio(ratio)
        return self._scalar(tokens)

    def _text(self, content: str) -> Value:
        """The whole answer is in words, or is a value that only was put into ``\\text``."""
        word = as_words(content)
        if word in _COUNTS:
            return Scalar(ex.number(_COUNTS[word]))
        if self.nesting < 2 and not re.fullmatch(r"[A-Za-z .'-]{2,}", content):
            self.nesting += 1
            try:
                return self.of_text(clean(content))
            except Unreadable:
                pass
            finally:
                self.nesting -= 1
        if len(content.strip()) == 1:
            return self._scalar(tokenise(content))
        if not word:
            raise Malformed("an answer must not be empty")
        return Words(word)

    def _list(self, parts: list[list[Token]], tokens: list[Token]) -> Value:
        if not parts:
            raise Malformed("an answer must not be empty")
        items: list[Value] = []
        for part in parts:
            value = self.value(part)
            items.extend(value.items if isinstance(value, ListOf) else (value,))
        if len(items) == 1:
            return items[0]
        first = items[0]
        if any(t.type is Type.TEXT and "or" in t.text.split() for t in tokens):
            either = either_region(items)
            if either is not None:
                return either
        if isinstance(first, Equation) and first.name is not None:
            others = items[1:]
            if all(isinstance(item, Scalar | Ellipsis_) for item in others):
                return Equation(None, first.name, ListOf((first.value, *others)))
            if all(isinstance(i, Equation) and i.name == first.name for i in others):
                values = tuple(i.value for i in items if isinstance(i, Equation))
                return Equation(None, first.name, ListOf(values))
        return ListOf(tuple(items))

    def _bracketed(self, tokens: list[Token]) -> Value | None:
        """A set, tuple, interval or parenthesised value, if one pair of brackets holds it all."""
        opening, closing = tokens[0], tokens[-1]
        if opening.type is not Type.SIGN or opening.text not in OPENING or len(tokens) < 2:
            if tokens[0].type is Type.COMMAND and tokens[0].text == "emptyset" and len(tokens) == 1:
                return SetOf(())
            return None
        at = depths(tokens)
        if closing.type is not Type.SIGN or at[-1] != 0 or 0 in at[1:-1]:
            return None
        inner = tokens[1:-1]
        parts = _split(inner, lambda t: t.type is Type.SIGN and t.text in ",;")
        pair = (opening.text, closing.text)
        if pair == (r"\{", r"\}") or (pair == ("{", "}") and len(parts) > 1):
            return self._set(inner, parts)
        if opening.text not in "([" or closing.text not in ")]":
            return self.value(inner) if pair == ("{", "}") else None
        if len(parts) == 1:
            return self.value(inner) if pair == ("(", ")") else self._singleton(inner)
        items = self._items(parts)
        interval = interval_of(opening.text, items, closing.text)
        if interval is not None:
            return interval
        if opening.text == "[" and all(isinstance(i, Sequence) and i.opening == "[" for i in items):
            rows = tuple(item.items for item in items if isinstance(item, Sequence))
            if len({len(row) for row in rows}) == 1:
                return Matrix(rows)
        return Sequence(opening.text, tuple(items), closing.text)

    def _singleton(self, inner: list[Token]) -> Value:
        return Sequence("[", (self.value(inner),), "]")

    def _items(self, parts: list[list[Token]]) -> list[Value]:
        items: list[Value] = []
        for part in parts:
            value = self.value(part)
            if isinstance(value, ListOf):
                raise Unreadable("an item in brackets must be one value")
            items.append(value)
        return items

    def _set(self, inner: list[Token], parts: list[list[Token]]) -> Value:
        bar = [n for n, t in enumerate(inner) if t.type is Type.SIGN and t.text in "|:"]
        if bar and bar[0] in (1, 3) and inner[0].type is Type.SYMBOL:
            built = self.value(inner[bar[0] + 1 :])
            values = getattr(built, "values", None)
            if values is None or getattr(built, "name", None) != inner[0].text:
                raise Unreadable("a set must be given by a condition on its variable")
            return values  # type: ignore[no-any-return]  # Region.values is a Value
        if not inner:
            return SetOf(())
        items: list[Value] = []
        for part in parts:
            value = self.value(part)
            items.extend(value.items if isinstance(value, ListOf) else (value,))
        return set_of(tuple(items))

    def _matrix(self, tokens: list[Token]) -> Value:
        def environment(place: int) -> str:
            if [t.text for t in tokens[place : place + 1]] != ["{"]:
                raise Malformed("an environment must have a name")
            name = ""
            for token in tokens[place + 1 :]:
                if token.text == "}":
                    return name
                name += token.text
            raise Malformed("an environment must have a name")

        name = environment(1)
        if name not in ("pmatrix", "bmatrix", "matrix", "vmatrix", "array", "Bmatrix"):
            raise Unreadable(f"an environment must be a matrix, got {name!r}")
        ends = [n for n, t in enumerate(tokens) if t.type is Type.COMMAND and t.text == "end"]
        if not ends or environment(ends[-1] + 1) != name or len(ends) > 1:
            raise Malformed("a matrix must end")
        start = next(n for n, t in enumerate(tokens) if t.text == "}") + 1
        body = [
            t for t in tokens[start : ends[0]] if not (t.type is Type.COMMAND and t.text == "hline")
        ]
        if name == "array" and body and body[0].text == "{":
            body = body[next(n for n, t in enumerate(body) if t.text == "}") + 1 :]
        rows = []
        for line in _split(body, lambda t: t.type is Type.SIGN and t.text == "\\\\"):
            if line:
                cells = _split(line, lambda t: t.type is Type.SIGN and t.text == "&")
                rows.append(tuple(self._items(cells)))
        if not rows or len({len(row) for row in rows}) != 1:
            raise Malformed("the rows of a matrix must be of one length")
        return Matrix(tuple(rows), bars=name == "vmatrix")

    def _ratio(self, parts: list[list[Token]]) -> Value:
        items = self._items(parts)
        rationals = [i.expression.rational if isinstance(i, Scalar) else None for i in items]
        numbers = tuple(value for value in rationals if value is not None)
        if len(numbers) == len(items):
            return Ratio(tuple(self._scalar(tokenise(t)) for t in reduced_ratio(numbers)))
        if not all(isinstance(item, Scalar | Ellipsis_) for item in items):
            raise Unreadable("the terms of a ratio must be numbers")
        return Ratio(tuple(items))

    def _scalar(self, tokens: list[Token]) -> Value:
        simple = _constant(tokens)
        if simple is not None:
            return simple
        tokens, unit, percent = split_unit(tokens)
        if any(t.type is Type.COMMAND and t.text in ("pm", "mp") for t in tokens):
            both = (self._expression(tokens, upper) for upper in (True, False))
            found = {e.text: e for e in both}
            values = tuple(self._quantity(e, unit, percent) for e in found.values())
            return values[0] if len(values) == 1 else ListOf(values)
        value = self._quantity(self._expression(tokens), unit, percent)
        return _with_places(value, tokens)

    def _expression(self, tokens: list[Token], upper: bool = True) -> ex.Expression:
        return Parser(tokens, self.context, upper).whole()

    def _quantity(self, value: ex.Expression, unit: str | None, percent: bool) -> Scalar:
        if percent:
            value = ex.over(value, ex.number(100), self.context.work)
        return Scalar(value, unit, percent)


def _constant(tokens: list[Token]) -> Value | None:
    texts = [token.text for token in tokens]
    if texts == ["ldots"]:
        return Ellipsis_()
    if texts in (["infty"], ["+", "infty"]):
        return Infinity(True)
    if texts == ["-", "infty"]:
        return Infinity(False)
    if texts in (["mathbb", "{", "R", "}"], ["mathbb", "R"], ["Reals"]):
        return interval_of("(", [Infinity(False), Infinity(True)], ")")
    return None


def _with_places(value: Scalar, tokens: list[Token]) -> Scalar:
    """`value`, its decimal places noted where it is a plain decimal numeral."""
    unsigned = tokens[1:] if tokens[0].text in ("-", "+") else tokens
    if len(unsigned) != 1 or "." not in unsigned[0].text or "e" in unsigned[0].text.lower():
        return value
    whole, _, decimals = unsigned[0].text.partition(".")
    digits = len((whole + decimals).lstrip("0"))
    return Scalar(value.expression, value.unit, value.percent, len(decimals), digits)


def _is_separator(token: Token) -> bool:
    if token.type is Type.TEXT:
        return _SEPARATOR_WORDS.fullmatch(token.text) is not None
    return token.type is Type.SIGN and token.text in ",;"


def _split(tokens: list[Token], at: object) -> list[list[Token]]:
    """Split at the tokens outside all brackets for which `at` holds."""
    assert callable(at)
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, depths(tokens), strict=True):
        if depth == 0 and at(token):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _outside_brackets(text: str) -> str:
    """`text` without thousands separators; in brackets a comma always separates."""
    pieces = re.split(r"((?:\\\{|[(\[]).*)", text, maxsplit=1)
    return without_separators(pieces[0]) + "".join(pieces[1:])


def _base_numeral(text: str) -> Value | None:
    match = _BASE.fullmatch(text)
    if match is None or not re.search(r"\d", match[2]):
        return None
    base = _BASE_NAMES.get(match[3]) or int(match[3])
    digits = match[2].lstrip("0") or "0"
    digits = f"0{digits}" if digits.startswith(".") else digits
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits.replace(".", "")):
        return None
    return BaseNumeral(match[1] + digits, base)


def _clock(text: str) -> Value | None:
    if not _CLOCK.fullmatch(text):
        return None
    letters = re.sub(r"\\text|[^0-9a-z:]", "", text.lower())
    return Words(letters)
