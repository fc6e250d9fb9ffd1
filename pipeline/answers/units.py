"""Units, currencies and counted nouns that stand behind (or before) a number."""

from __future__ import annotations

import re

from pipeline.answers.tokens import FUNCTIONS, Token, Type

_SYNONYMS = {
    "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm",
    "meter": "m", "metre": "m", "kilometer": "km", "kilometre": "km", "inche": "inch",
    "in": "inch", "feet": "foot", "ft": "foot", "mile": "mi", "yard": "yd", "gram": "g",
    "gm": "g", "kilogram": "kg", "pound": "lb", "ounce": "oz", "liter": "l", "litre": "l",
    "milliliter": "ml", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h",
    "cent": "cent", "usd": "dollar", "percentage": "percent", "deg": "degree", "sq": "square",
    "radian": "rad", "miles per hour": "mph", "euro": "euro", "inchs": "inch",
}  # fmt: skip


def split_unit(tokens: list[Token]) -> tuple[list[Token], str | None, bool]:
    """(tokens without their unit, the unit, whether a percent sign stood there).

    A unit is what ``\\text{}`` or plain words say behind a value, with powers (``cm^2``); a degree
    sign; or a currency sign before the value.
    """
    for place, token in enumerate(tokens[:3]):
        if token.type is Type.SIGN and token.text in ("$", r"\$") and place + 1 < len(tokens):
            rest, unit, percent = split_unit(tokens[:place] + tokens[place + 1 :])
            return rest, "dollar" if unit is None else unit, percent
    if len(tokens) > 1 and tokens[-1].type is Type.SIGN and tokens[-1].text in ("%", r"\%"):
        return tokens[:-1], None, True
    function = any(t.type is Type.COMMAND and t.text in FUNCTIONS for t in tokens)
    if len(tokens) > 2 and not function and [t.text for t in tokens[-2:]] == ["^", "circ"]:
        return tokens[:-2], "degree", False
    start = len(tokens)
    while start > 1 and _continues_unit(tokens, start - 1):
        start -= 1
    while start < len(tokens) and tokens[start].type is not Type.TEXT:
        start += 1
    if start == len(tokens):
        return tokens, None, False
    unit = unit_name(" ".join(t.text for t in tokens[start:] if t.text not in ("{", "}")))
    if unit == "percent":
        return tokens[:start], None, True
    return tokens[:start], unit or None, False


def _continues_unit(tokens: list[Token], place: int) -> bool:
    token = tokens[place]
    if token.type is Type.TEXT:
        return True
    if token.type is Type.NUMBER or (token.type is Type.SIGN and token.text in "{}^/"):
        return any(t.type is Type.TEXT for t in tokens[max(0, place - 5) : place])
    return False


def unit_name(words: str) -> str:
    """One name for a unit however it is spelt: plural off, common names to their symbols."""
    text = re.sub(r"[().,$]", " ", words.casefold())
    text = re.sub(r"\s*\^\s*", "^", " ".join(text.split())).strip()
    text = re.sub(r"^(?:square|sq) (.+)$", r"\1^2", text)
    text = re.sub(r"^(?:cubic|cu) (.+)$", r"\1^3", text)
    stem, power, exponent = text.partition("^")
    if stem in _SYNONYMS:
        return _SYNONYMS[stem] + power + exponent
    if len(stem) > 3 and stem.endswith("s") and not stem.endswith("ss"):
        stem = stem[:-1]
    return _SYNONYMS.get(stem, stem) + power + exponent
