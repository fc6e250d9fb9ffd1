"""*Relations*: parses equations, inequalities and sets of reals in canonical form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from pipeline.answers import values as va
from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.expression import Expression
from pipeline.answers.algebra.functions import real_value
from pipeline.answers.algebra.parse import Parser
from pipeline.answers.algebra.polynomial import ONE, Context, Kind, Work, leading, order, split_by
from pipeline.answers.algebra.tokens import Token, Type, depths, is_command, split
from pipeline.answers.verdict import Malformed, Unreadable

_END_WORK = 300
SET_OPERATIONS = ("cup", "setminus", "backslash")


def interval(opening: str, low: va.Value, high: va.Value, closing: str) -> va.Sequence:
    """An interval, open at infinity."""
    opening = "(" if low == va.MINUS_INFINITY else opening
    return va.Sequence(opening, (low, high), ")" if high == va.INFINITY else closing)


def as_set(value: va.Value) -> va.Value:
    """What may stand behind "in"."""
    if isinstance(value, va.Sequence | va.Union | va.SetOf):
        return value
    raise Unreadable("a variable must lie in a set")


def union_of(tokens: list[Token], read: Callable[[list[Token]], va.Value]) -> va.Value | None:
    """Intervals and points joined by ``\\cup``, or with points taken out by ``\\setminus``."""
    at = zip(tokens, depths(tokens), strict=True)
    signs = [token.text for token, d in at if d == 0 and is_command(token, *SET_OPERATIONS)]
    if not signs:
        return None
    values = [read(part) for part in split(tokens, lambda t: is_command(t, *SET_OPERATIONS))]
    if signs == ["setminus"] and isinstance(values[1], va.SetOf):
        return _joined(_without(as_intervals(values[0]), values[1]))
    if set(signs) != {"cup"}:
        raise Unreadable("sets must be joined by unions")
    if all(isinstance(value, va.SetOf) for value in values):
        return va.set_of(tuple(item for v in values if isinstance(v, va.SetOf) for item in v.items))
    return _joined([part for value in values for part in as_intervals(value)])


def either_region(items: list[va.Value]) -> va.Value | None:
    """The union of regions of one variable: x < 1 or x > 2."""
    regions = [item for item in items if isinstance(item, va.Region)]
    if len(regions) != len(items) or len({region.name for region in regions}) != 1:
        return None
    intervals = [part for region in regions for part in as_intervals(region.values)]
    return va.Region(regions[0].name, _joined(intervals))


def as_intervals(value: va.Value) -> list[va.Sequence]:
    """A set of reals as intervals; points are closed intervals of length 0."""
    match value:
        case va.Union(intervals=intervals):
            return list(intervals)
        case va.Sequence(items=(va.Scalar() | va.Sign(), va.Scalar() | va.Sign())):
            return [value]
        case va.SetOf(items=items):
            return [interval("[", item, item, "]") for item in items]
        case _:
            raise Unreadable("a union must be of intervals and points")


def _end(value: va.Value) -> float:
    """An end as a number; Unreadable if it has no value."""
    if value in (va.INFINITY, va.MINUS_INFINITY):
        return float("inf") if value == va.INFINITY else float("-inf")
    if not isinstance(value, va.Scalar):
        raise Unreadable("the ends of an interval must be numbers")
    return float(real_value(value.expression, Work(_END_WORK)))


def _ends(value: va.Sequence) -> tuple[float, float]:
    return _end(value.items[0]), _end(value.items[1])


def _joined(intervals: list[va.Sequence]) -> va.Value:
    """Sorted, with what touches or overlaps made one; unsorted where an end has no value."""
    try:
        ordered = sorted(intervals, key=lambda i: (_ends(i)[0], i.opening == "(", _ends(i)[1]))
    except Unreadable:
        return va.Union(tuple(intervals))
    merged: list[va.Sequence] = []
    for other in ordered:
        last = merged[-1] if merged else other
        meets = last.items[1].text == other.items[0].text
        touches = "]" in last.closing or "[" in other.opening
        if not merged or not (touches if meets else _ends(other)[0] < _ends(last)[1]):
            merged.append(other)
        elif last.items[1].text == other.items[1].text:  # "]" comes behind ")"
            merged[-1] = replace(last, closing=max(last.closing, other.closing))
        else:
            longer = max(last, other, key=lambda i: _ends(i)[1])
            items = (last.items[0], longer.items[1])
            merged[-1] = va.Sequence(last.opening, items, longer.closing)
    return merged[0] if len(merged) == 1 else va.Union(tuple(merged))


def _without(intervals: list[va.Sequence], points: va.SetOf) -> list[va.Sequence]:
    for point in points.items:
        cut: list[va.Sequence] = []
        for i in intervals:
            (low, high), place = _ends(i), _end(point)
            if low < place < high:
                cut.append(va.Sequence(i.opening, (i.items[0], point), ")"))
                cut.append(va.Sequence("(", (point, i.items[1]), i.closing))
            else:
                opening, closing = "(" if low == place else "", ")" if high == place else ""
                cut.append(va.Sequence(opening or i.opening, i.items, closing or i.closing))
        intervals = cut
    return intervals


_RELATIONS = {"=": "=", "<": "<", ">": ">", "le": "<=", "ge": ">=", "ne": "!=", "in": "in",
              "equiv": "equiv", "approx": "="}  # fmt: skip
_BOUNDS = {"<": (True, False), "<=": (True, True), ">": (False, False), ">=": (False, True)}
_COEFFICIENTS = (Kind.PRIME, Kind.IMAGINARY, Kind.CONSTANT)
_Read = Callable[[list[Token]], va.Value]


def relation(tokens: list[Token], read: _Read, context: Context) -> va.Value | None:
    """What a chain of relations states; None where there is none.

    Raises:
        Unreadable: if it is none of the forms that have a canonical one.
    """
    at = zip(tokens, depths(tokens), strict=True)
    signs = [_RELATIONS[token.text] for token, depth in at if depth == 0 and is_relation(token)]
    if not signs:
        return None
    sides = split(tokens, is_relation)
    if len(sides) == 2 and not sides[0] and set(signs) <= set(_BOUNDS):
        return _bound(sides[1], signs[0], read)
    if not all(sides):
        raise Malformed("a relation must have both its sides")
    if set(signs) == {"="}:
        return _equation(sides, read, context)
    if signs == ["in"]:
        return va.Region(_name(sides[0]), as_set(read(sides[1])))
    if signs == ["equiv"]:
        return _congruence(sides, read)
    if set(signs) <= {"<", "<="} or set(signs) <= {">", ">="} or signs == ["!="]:
        return _inequality(sides, signs, context)
    raise Unreadable("a chain of relations must run in one direction")


def _bound(side: list[Token], sign: str, read: _Read) -> va.Value:
    """What lies beyond one end, of a variable without a name: at least 5."""
    end = read(side)
    if not isinstance(end, va.Scalar):
        raise Unreadable("a bound must be a number")
    below, closed = _BOUNDS[sign]
    if below:
        return va.Region("", interval("(", va.MINUS_INFINITY, end, "]" if closed else ")"))
    return va.Region("", interval("[" if closed else "(", end, va.INFINITY, ")"))


def is_relation(token: Token) -> bool:
    """Whether a token is the sign of a relation."""
    return token.type in (Type.SIGN, Type.COMMAND) and token.text in _RELATIONS


def _congruence(sides: list[list[Token]], read: _Read) -> va.Value:
    """name = value (mod modulus)."""
    behind = [token for token in sides[1] if token.text not in ("(", ")")]
    place = next((n for n, t in enumerate(behind) if t.text in ("pmod", "bmod", "mod")), 0)
    value, modulus = read(behind[:place]), read(behind[place + 1 :])
    if not place or not isinstance(value, va.Scalar) or not isinstance(modulus, va.Scalar):
        raise Unreadable("a congruence must be between numbers and name its modulus")
    return va.Row((read(sides[0]), value, modulus), (va.CONGRUENT, va.MODULO))


def _name(tokens: list[Token]) -> str:
    """The text of a left-hand side that is a name: a symbol, f(x), (x, y), words."""
    allowed = (Type.SYMBOL, Type.TEXT)
    if all(t.type in allowed or t.text in "(),_'" or t.type is Type.NUMBER for t in tokens) and any(
        t.type in allowed for t in tokens
    ):
        return "".join(f"\\text{{{t.text}}}" if t.type is Type.TEXT else t.text for t in tokens)
    if re.fullmatch(r"\w\^\{?-1\}?\(\w\)", inverse := "".join(t.text for t in tokens)):
        return inverse
    raise Unreadable("a name must stand on the left")


def _is_name(tokens: list[Token]) -> bool:
    product = [token.type is Type.SYMBOL for token in tokens[:2]] == [True, True]
    if product or tokens[0].type is Type.NUMBER:
        return False
    try:
        return bool(_name(tokens))
    except Unreadable:
        return False


def _equation(sides: list[list[Token]], read: _Read, context: Context) -> va.Value:
    if len(sides) == 2 and _is_name(sides[1]) and not _is_name(sides[0]):
        sides = sides[::-1]
    name = _name(sides[0]) if _is_name(sides[0]) else None
    value = read(sides[-1])
    chain = len(sides) > 2
    for side in sides[1:-1]:
        step = read(side)
        if (
            not isinstance(step, va.Scalar)
            or not isinstance(value, va.Scalar)
            or (ex.same(step.expression, value.expression, context.work) is not True)
        ):
            raise Unreadable("the steps of a chain must be of one value")
    try:
        if not isinstance(value, va.Scalar) or value.unit is not None:
            raise Unreadable("both sides must be expressions")
        left = Parser(sides[0], context).whole()
        name = name or _variable(left)
        right = value.expression
        difference = monic(ex.minus(left, right, context.work), context)
    except Unreadable:
        if name is None:
            if chain:
                return va.Equation(None, None, value, chain=True, left=read(sides[0]).text)
            raise
        return va.Equation(None, *_in_alphabet(name, value), chain)
    if name is not None and len(sides[0]) == 1 and name in {a.text for a in right.atoms}:
        name = None
    symbols = any(atom.kind not in _COEFFICIENTS for atom in difference.atoms)
    if not symbols:
        if ex.same(left, right, context.work) is False:
            raise Unreadable("an equation between numbers must hold")
        return va.Equation(None, name, value, chain=True, left=left.text)
    divided = any(len(e.denominator) > 1 for e in (left, right))
    states = name is None and not chain and not _symbols(right) and len(_symbols(left)) > 1
    return va.Equation(difference, name, value, chain, divided=divided, states=states)


def alphabetical(names: Sequence[str | None]) -> list[int] | None:
    """The places of names by name, where they are letters that follow each other, as x, y, z do."""
    letters = [name for name in names if name is not None and re.fullmatch("[A-Za-z]", name)]
    codes = sorted(map(ord, letters))
    if len(letters) != len(names) or codes != list(range(codes[0], codes[0] + len(codes))):
        return None
    return sorted(range(len(names)), key=lambda place: str(names[place]))


def _in_alphabet(name: str, value: va.Value) -> tuple[str, va.Value]:
    """(y, x) = (1, 2) as (x, y) = (2, 1)."""
    names = name.strip("()").split(",")
    order = alphabetical(names) if len(names) > 1 else None
    if order is None or not isinstance(value, va.Sequence) or len(value.items) != len(names):
        return name, value
    items = tuple(value.items[place] for place in order)
    return f"({','.join(names[place] for place in order)})", replace(value, items=items)


def _symbols(value: Expression) -> set[str]:
    """The variables of an expression, those within functions too."""
    found = {atom.text for atom in value.atoms if atom.kind is Kind.SYMBOL}
    return found.union(*(_symbols(inner) for atom in value.atoms for inner in atom.arguments))


def monic(difference: Expression, context: Context) -> Expression:
    """The numerator of `difference` over its first coefficient: one form up to factors."""
    if not difference.numerator:
        return difference
    groups = split_by(difference.numerator, lambda atom: atom.kind not in _COEFFICIENTS)
    first = min(groups, key=order)
    unit = {ONE: Fraction(1)}
    return ex.over(
        Expression(difference.numerator, unit), Expression(groups[first], unit), context.work
    )


def _inequality(sides: list[list[Token]], signs: list[str], context: Context) -> va.Value:
    if any(any(t.text == "infty" for t in side) for side in sides):
        raise Unreadable("an inequality must be between numbers")
    if signs[0].startswith(">"):
        sides, signs = sides[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
    values = [Parser(side, context).whole() for side in sides]
    if len(values) >= 3:
        name = _variable(values[1])
        if name is None or len(values) > 3 or _has_symbols(values[0]) or _has_symbols(values[2]):
            return va.Row(tuple(map(va.Scalar, values)), tuple(signs))
        opening = "[" if signs[0] == "<=" else "("
        closing = "]" if signs[1] == "<=" else ")"
        low, high = va.Scalar(values[0]), va.Scalar(values[2])
        return va.Region(name, interval(opening, low, high, closing))
    difference = ex.minus(values[1], values[0], context.work)  # positive where it holds
    symbols = [a for a in difference.atoms if a.kind not in _COEFFICIENTS]
    if len(symbols) == 1 and symbols[0].kind is Kind.SYMBOL:
        solved = _solved(difference, signs[0], context)
        if solved is not None:
            return solved
    rational = leading(difference.numerator) if difference.numerator else Fraction(1)
    op = {"<": ">", "<=": "\\ge ", "!=": "\\ne "}[signs[0]]
    if signs[0] == "!=":
        return va.Inequality(monic(difference, context), op)
    return va.Inequality(ex.times(difference, ex.number(1 / abs(rational)), context.work), op)


def _solved(difference: Expression, sign: str, context: Context) -> va.Value | None:
    """The half line that a linear inequality in one variable states."""
    atom = next(a for a in difference.atoms if a.kind is Kind.SYMBOL)
    if any(atom in dict(monomial) for monomial in difference.denominator):
        return None
    groups = split_by(difference.numerator, lambda other: other == atom)
    if set(groups) - {(), ((atom, Fraction(1)),)}:
        return None
    slope = ex.quotient(groups[((atom, Fraction(1)),)], difference.denominator, context.work)
    try:
        direction = real_value(slope, context.work)
    except Unreadable:
        return None
    constant_ = ex.quotient(groups.get((), {}), difference.denominator, context.work)
    root = va.Scalar(ex.negative(ex.over(constant_, slope, context.work), context.work))
    below = interval("(", va.MINUS_INFINITY, root, "]" if sign == "<=" else ")")
    above = interval("[" if sign == "<=" else "(", root, va.INFINITY, ")")
    if sign == "!=":
        return va.Region(atom.text, va.Union((below, above)))
    return va.Region(atom.text, above if direction > 0 else below)


def _variable(value: Expression) -> str | None:
    atoms = value.atoms
    if len(atoms) == 1 and atoms[0].kind is Kind.SYMBOL and value.text == atoms[0].text:
        return atoms[0].text
    return None


def _has_symbols(value: Expression) -> bool:
    return any(atom.kind not in _COEFFICIENTS for atom in value.atoms)
