"""Sums, products, limits and integrals, read whole and worked out elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.functions import call
from pipeline.answers.algebra.tokens import Type
from pipeline.answers.verdict import Unreadable

if TYPE_CHECKING:
    from pipeline.answers.algebra.parse import Parser


def over_a_range(parser: Parser, name: str) -> Expression:
    """A sum, product or limit: of the term behind it, over the variable below it."""
    cursor = parser.cursor
    cursor.take()
    cursor.expect("{")
    variable = parser.primary()
    if not (cursor.at(Type.SIGN, "=") or cursor.at(Type.COMMAND, "to", "rightarrow")):
        raise Unreadable("a variable must run from a value on, or to one")
    cursor.take()
    ends = [parser.group("}")]
    if name != "lim":
        cursor.expect("^")
        ends.append(parser.argument())
    return call(name, parser.context, parser.term(), variable, *ends)


def integral(parser: Parser) -> Expression:
    """An integral up to its differential, with or without limits."""
    cursor = parser.cursor
    ends: dict[str, Expression] = {}
    while cursor.at(Type.SIGN, "_", "^") and len(ends) < 2:
        sign = cursor.take().text
        ends[sign] = parser.argument()
    kinds = [(token.type, token.text) for token in cursor.tokens]
    stops = (n for n in range(cursor.place + 1, len(kinds) - 1) if kinds[n] == (Type.SYMBOL, "d"))
    stop = next((n for n in stops if kinds[n + 1][0] is Type.SYMBOL), None)
    if stop is None or set(ends) not in (set(), {"_", "^"}):
        raise Unreadable("an integral must have a differential, and both limits or none")
    body = type(parser)(cursor.tokens[cursor.place : stop], parser.context, parser.upper).whole()
    cursor.place = stop + 1
    limits = [ends[sign] for sign in ("_", "^") if ends]
    return call("integral", parser.context, body, parser.primary(), *limits)
