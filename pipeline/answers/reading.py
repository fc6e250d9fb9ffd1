"""A cleaned answer to a typed `Value`: which kind of thing it is, and its parts."""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from pipeline.answers import expression as ex
from pipeline.answers.brackets import bracketed, matrix
from pipeline.answers.brackets import items as items_of
from pipeline.answers.context import Context
from pipeline.answers.intervals import SET_OPERATIONS, either_region, interval_of, union_of
from pipeline.answers.normalise import as_words, clean, without_repeating
from pipeline.answers.parse import Parser
from pipeline.answers.polynomial import Work
from pipeline.answers.relations import relation
from pipeline.answers.spellings import COUNTS, base_numeral, choice, clock, is_separator, ungrouped
from pipeline.answers.tokens import Token, Type, is_command, is_sign, split, tokenise
from pipeline.answers.units import split_unit
from pipeline.answers.values import (
    Choice,
    Ellipsis_,
    Equation,
    Infinity,
    ListOf,
    Ratio,
    Scalar,
    Unread,
    Value,
    Words,
    reduced_ratio,
)
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

_LETTERS = re.compile(r"[A-Z](?:(?:,| and | or )\s*[A-Z])+")
_CAPITALS = re.compile(r"[A-Z]{2,5}")
_PLAIN = re.compile(r"([-+]?)(\d{1,300})(?:\.(\d{1,300})|/(\d{1,300}))?", re.ASCII)


class Manner(StrEnum):
    """How an answer is read; all but the first serve leniencies."""

    STRICT = "strict"
    POSITIVE = "positive"
    """Variables are positive, so sqrt(x^2) is x."""
    COMMAS_SEPARATE = "commas_separate"
    """A comma never groups digits."""


def read(answer: str, manner: Manner = Manner.STRICT) -> Value:
    """The typed value of an answer as a reply or a data set spells it; `Unread` if it has none."""
    plain = _PLAIN.fullmatch(answer)
    if plain is not None:
        return _plain(plain)
    return cached_reading(answer, manner) if len(answer) <= 300 else _read(answer, manner)


@lru_cache(maxsize=8192)
def cached_reading(answer: str, manner: Manner) -> Value:
    """As `read`, remembered: gold answers and votes come again and again."""
    return _read(answer, manner)


def _read(answer: str, manner: Manner) -> Value:
    try:
        text = clean(answer)
    except TooLarge:
        return Unread(answer, too_large=True)
    reading = _Reading(Context(Work(), manner is Manner.POSITIVE), manner)
    try:
        value = reading.of_text(text)
        return reading.of_text(value.text) if isinstance(value, Words) else value
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

    def __init__(self, context: Context, manner: Manner) -> None:
        self.context = context
        self.grouping = manner is not Manner.COMMAS_SEPARATE
        self.nesting = 0

    def of_text(self, text: str) -> Value:
        """The value of a cleaned answer."""
        plain = _PLAIN.fullmatch(text)
        if plain is not None:
            return _plain(plain)
        special = base_numeral(text) or clock(text)
        if special is not None:
            return special
        chosen = choice(text) if self.nesting == 0 else None
        if chosen is not None:
            return self._choice(*chosen)
        if _CAPITALS.fullmatch(text):
            return Words(as_words(text))
        text = without_repeating(text)
        return self.value(tokenise(ungrouped(text) if self.grouping else text))

    def _choice(self, letter: str, content: str | None) -> Value:
        if content is None:
            return Choice(letter)
        self.nesting += 1
        try:
            return Choice(letter, self.of_text(clean(content)))
        except Unreadable:
            return Choice(letter, self._text(as_words(content)))
        finally:
            self.nesting -= 1

    def value(self, tokens: list[Token]) -> Value:
        """The value of a run of tokens.

        Raises:
            Unreadable: where it has none.
        """
        if not tokens:
            raise Malformed("an answer must not be empty")
        if len(tokens) == 1 and tokens[0].type is Type.TEXT:
            return self._text(tokens[0].text)
        parts = split(tokens, is_separator)
        if len(parts) > 1:
            return self._list([part for part in parts if part], tokens)
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
        if is_command(tokens[0], "begin"):
            return matrix(tokens, self.value)
        if tokens[0].type is Type.TEXT and not any(is_sign(token, "^") for token in tokens):
            return self._text(" ".join(token.text for token in tokens))
        terms = split(tokens, lambda token: is_sign(token, ":"))
        return self._ratio(terms) if len(terms) > 1 else self._scalar(tokens)

    def _text(self, content: str) -> Value:
        """The whole answer is in words, or is a value that only was put into ``\\text``."""
        word = as_words(content)
        if word in COUNTS:
            return Scalar(ex.number(COUNTS[word]))
        letters = _LETTERS.fullmatch(content) is not None
        if self.nesting < 2 and (letters or not re.fullmatch(r"[A-Za-z .'-]{2,}", content)):
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

    def _ratio(self, parts: list[list[Token]]) -> Value:
        items = items_of(parts, self.value)
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
        if any(is_command(token, "pm", "mp") for token in tokens):
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


def _plain(match: re.Match[str]) -> Value:
    """A plain integer, decimal or fraction, without the way through tokens and parser."""
    sign, whole, decimals, below = match.groups()
    factor = -1 if sign == "-" else 1
    if below is not None:
        if not below.strip("0"):
            return Unread(match[0])
        return Scalar(ex.number(Fraction(factor * int(whole), int(below))))
    if decimals is None:
        return Scalar(ex.number(factor * int(whole)))
    value = Fraction(factor * int(whole + decimals), 10 ** len(decimals))
    digits = len((whole + decimals).lstrip("0"))
    return Scalar(ex.number(value), places=len(decimals), digits=digits)


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
