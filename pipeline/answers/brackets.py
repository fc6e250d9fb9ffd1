"""What one pair of brackets, or one matrix environment, holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.answers import values as va
from pipeline.answers.algebra.tokens import OPENING, Token, Type, depths, is_command, is_sign, split
from pipeline.answers.intervals import interval
from pipeline.answers.verdict import Malformed, Unreadable

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
    if len(parts) == 1 and pair in (("{", "}"), ("(", ")")):
        return read(inner)
    if opening.text not in "([" or closing.text not in ")]":
        return None
    values = items(parts, read)
    sequence = va.Sequence(opening.text, tuple(values), closing.text)
    if sequence.is_interval:
        return interval(opening.text, values[0], values[1], closing.text)
    rows = tuple(v.items for v in values if isinstance(v, va.Sequence) and v.opening == "[")
    if opening.text == "[" and len(rows) == len(values) and len(set(map(len, rows))) == 1:
        return va.Matrix(rows)
    return sequence


def items(parts: list[list[Token]], read: Read) -> list[va.Value]:
    """The items of a tuple or row, each one value."""
    values = [read(part) for part in parts]
    if any(isinstance(value, va.ListOf) for value in values):
        raise Unreadable("an item in brackets must be one value")
    return values


def _set(inner: list[Token], parts: list[list[Token]], read: Read) -> va.Value:
    if not inner:
        return va.SetOf(())
    bar = next((n for n, token in enumerate(inner) if is_sign(token, "|", ":")), None)
    if bar == 1 and inner[0].type is Type.SYMBOL:
        built = read(inner[bar + 1 :])
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
        tuple(items(split(line, lambda token: is_sign(token, "&")), read)) for line in lines if line
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
