"""*Parser*: parses tokens as one exact `Expression`, by recursive descent.

    sum      = [sign] term {sign term}
    term     = factor {[* or /] factor}
    factor   = [sign] primary {^ exponent | ! | % | degrees}
    primary  = number | mixed number | symbol | group | \\frac | \\sqrt | function | |sum|

Division is left-associative and as strong as an implied product: 1/2x is x/2.
"""

from __future__ import annotations

import re
from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.expression import (
    Expression,
    absolute,
    number,
    of_atom,
    power,
    rational_power,
    symbol,
)
from pipeline.answers.algebra.functions import call, integral, over_a_range
from pipeline.answers.algebra.polynomial import EULER, IMAGINARY, PI, Atom, Context, Kind
from pipeline.answers.algebra.tokens import FUNCTIONS, OPENING, Cursor, Token, Type, numeral
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

_APPLIED = frozenset((
    "f", "g", "h", "F", "G", "H", "\\Gamma", "\\zeta", "\\delta", "\\Phi", "\\phi", "\\psi",
    "\\Psi",
))  # fmt: skip
"""Letters that name a function wherever brackets follow them."""
_INDEX = re.compile(r"[nkm](?:[+-]\d{1,3})?|\d{1,3}[+-][nkm]")
_REPEATED = re.compile(  # x y x^{-1}, P^{-1} D P, A^{-1} B, AB - BA: of matrices, or of a group
    r"(?<![A-Za-z])(?:([A-Za-z])(?:[A-Za-z](?:\^\{?-1\}?)?){1,4}(?<=\1\^\{-1\})"
    r"|([A-Za-z])\^\{-1\}(?:[A-Za-z](?:\^\{-1\})?){0,3}\2(?!\^)"
    r"|[ABCDPQSUX]\^\{-1\}[A-Z]|[A-Z][ABCDPQSUX]\^\{-1\}|([A-Z])([A-Z])[+-]\4\3(?![A-Za-z]))"
)
_PRODUCTS = frozenset(("cdot", "times", "ast"))
_DIVISIONS = frozenset(("div",))
_GROUPS = {"(": ")", "[": "]", "{": "}"}
_COMMAND_GROUPS = {
    "lfloor": ("rfloor", "floor"),
    "lceil": ("rceil", "ceil"),
    "langle": ("rangle", ""),
}


class Parser:
    """Reads all of `tokens` as one expression.

    Args:
        tokens: those of the expression alone.
        context: does the arithmetic.
        upper: whether ``\\pm`` is read as plus (and ``\\mp`` as minus) or the other way round.
    """

    def __init__(self, tokens: list[Token], context: Context, upper: bool = True) -> None:
        self.cursor = Cursor(tokens)
        self.context = context
        self.upper = upper
        self.depth = 0
        self.bars = 0
        self.vector = False
        """Whether what was read last has a direction."""

    def whole(self) -> Expression:
        """The expression.

        Raises:
            Malformed: if something is missing.
            Unreadable: if something is not known here.
            TooLarge: beyond the limits of one answer.
        """
        texts = "".join(token.text for token in self.cursor.tokens)
        if len(texts) < 200 and _REPEATED.search(texts.replace("^-1", "^{-1}")):
            raise Unreadable("a product of matrices depends on its order")
        value = self.sum()
        rest = self.cursor.peek()
        if rest is not None and self.cursor.before().type is rest.type is Type.NUMBER:
            raise Malformed(f"two numbers must have a sign between them, got {rest.text!r}")
        if rest is not None:
            raise Unreadable(f"an expression must end before {rest.text!r}")
        return value

    def sum(self) -> Expression:
        self.depth += 1
        if self.depth > 60:
            raise TooLarge("an expression must be nested at most 60 deep")
        sign = self._sign()
        total = self.term()
        vector = self.vector
        if sign is False:
            total = ex.negative(total, self.context.work)
        while (sign := self._sign()) is not None:
            term = self.term()
            vector = vector or self.vector
            total = (ex.plus if sign else ex.minus)(total, term, self.context.work)
        self.depth -= 1
        self.vector = vector
        return total

    def _sign(self) -> bool | None:
        """Take any signs that stand here: whether they amount to plus, None if there is none."""
        result: bool | None = None
        while True:
            if self.cursor.at(Type.SIGN, "+", "-"):
                plus = self.cursor.take().text == "+"
            elif self.cursor.at(Type.COMMAND, "pm", "mp"):
                plus = (self.cursor.take().text == "pm") == self.upper
            else:
                return result
            result = plus if result is None else result == plus

    def term(self) -> Expression:
        work = self.context.work
        value: Expression | None = None  # of the numbers that have been multiplied
        vector: Expression | None = None
        sign = ""
        while True:
            factor = self._factor()
            if sign == "/":
                value = ex.over(number(1) if value is None else value, factor, work)
            elif not self.vector:
                value = factor if value is None else ex.times(value, factor, work)
            elif vector is None:
                vector = factor
            else:
                value, vector = self._vector_product(sign, value or number(1), vector, factor)
            if self.cursor.at(Type.SIGN, "*", "/") or self.cursor.at(Type.COMMAND, *_PRODUCTS):
                sign = self.cursor.take().text
            elif self.cursor.at(Type.COMMAND, *_DIVISIONS):
                self.cursor.take()
                sign = "/"
            elif self._starts_primary():
                sign = ""
            else:
                break
        self.vector = vector is not None
        if vector is None or value is None:
            return vector or value or number(1)
        return ex.times(value, vector, work)

    def _vector_product(
        self, sign: str, value: Expression, left: Expression, right: Expression
    ) -> tuple[Expression, Expression | None]:
        """``value`` times the cross or dot product of two vectors."""
        if sign not in ("times", "cdot"):
            raise Unreadable("a product of vectors or operators must be a cross or dot product")
        first, second = sorted((left, right), key=lambda e: e.text)
        text = f"(\\vec{{{first.text}}}\\{sign} \\vec{{{second.text}}})"
        product = of_atom(self.context.atom(Kind.FUNCTION, text, sign, (first, second)))
        if sign == "cdot":
            return ex.times(value, product, self.context.work), None
        if first.text == second.text:
            return number(0), None
        return value, product if first is left else ex.negative(product, self.context.work)

    def _starts_primary(self) -> bool:
        token = self.cursor.peek()
        if token is None:
            return False
        if token.type is Type.NUMBER and self.cursor.before().type is Type.NUMBER:
            return False  # 0 3 is no product
        before = self.cursor.before()
        if token.type is Type.NUMBER and before.type is Type.SYMBOL and not token.spaced:
            following = self.cursor.peek(1)
            if following is None or following.text != "^":  # n2^n is one
                raise Unreadable("a letter in front of a number is a name, as in CO2 and B3")
        if token.type in (Type.NUMBER, Type.SYMBOL):
            return True
        if token.type is Type.SIGN:
            return token.text in _GROUPS or (token.text == "|" and self.bars == 0)
        if token.type is Type.COMMAND:
            known = ("frac", "pi", "int", "infty")
            return token.text in known or token.text in FUNCTIONS or token.text in _COMMAND_GROUPS
        return False

    def _factor(self) -> Expression:
        sign = self._sign()
        value = self._postfixed(self.primary())
        return ex.negative(value, self.context.work) if sign is False else value

    def _postfixed(self, value: Expression) -> Expression:
        work = self.context.work
        while True:
            if self.cursor.at(Type.SIGN, "^"):
                if self.cursor.at(Type.COMMAND, "circ", ahead=1):
                    self.cursor.take()
                    self.cursor.take()
                    value = ex.times(value, ex.over(of_atom(PI), number(180), work), work)
                else:
                    before = self.cursor.before()
                    self.cursor.take()
                    self._refuse_label(before)
                    vector = self.vector
                    value = power(value, self._exponent(), self.context)
                    self.vector = vector
            elif self.cursor.at(Type.SIGN, "!"):
                self.cursor.take()
                if self.cursor.at(Type.SIGN, "!"):
                    raise Unreadable("double factorials are not read")
                value = call("factorial", self.context, value)
            elif self.cursor.at(Type.SIGN, "%", r"\%"):
                self.cursor.take()
                value = ex.over(value, number(100), work)
            else:
                return value

    def _refuse_label(self, base: Token) -> None:
        """Raises `Unreadable` where what stands above a letter is no exponent: A^T, psi^{(0)}."""
        texts = [t.text for t in self.cursor.tokens[self.cursor.place : self.cursor.place + 5]]
        if base.type is not Type.SYMBOL or base.text == "e":
            return
        label = len(texts) == 5 and texts[:2] == ["{", "("] and texts[3:] == [")", "}"]
        if label or texts[:1] == ["T"] or texts[:3] == ["{", "T", "}"] or texts[:1] == ["dagger"]:
            raise Unreadable("a letter must have an exponent, not a label")

    def _exponent(self) -> Expression:
        sign = self._sign()
        value = self.primary()
        if self.cursor.at(Type.SIGN, "!", "^"):  # a tower is worked out from its top
            value = self._postfixed(value)
        return ex.negative(value, self.context.work) if sign is False else value

    def primary(self) -> Expression:
        token = self.cursor.take()
        self.vector = token.vector
        match token.type:
            case Type.NUMBER:
                return number(numeral(token.text))
            case Type.SYMBOL:
                special = self._counted(token) or self._applied(token) or self._quotient_of_d(token)
                if special is not None:
                    return special
                if token.text == "\\hbar":
                    return ex.over(
                        symbol("h"),
                        ex.times(number(2), of_atom(PI), self.context.work),
                        self.context.work,
                    )
                return {"e": of_atom(EULER), "i": of_atom(IMAGINARY)}.get(token.text) or symbol(
                    token.text
                )
            case Type.SIGN:
                if token.text in _GROUPS:
                    return self.group(_GROUPS[token.text])
                if token.text == "|":
                    self.bars += 1
                    inner = self.sum()
                    self.cursor.expect("|")
                    self.bars -= 1
                    self.vector = False
                    return absolute(inner, self.context)
                raise Malformed(f"a value must stand here, got {token.text!r}")
            case Type.COMMAND:
                return self._command(token)
            case Type.TEXT:
                if len(token.text) == 1 and token.text.isalpha():
                    return symbol(token.text)
                if token.text.isdigit():
                    return number(ex.integer_of(token.text))
                raise Unreadable(f"an expression must hold no words, got {token.text!r}")

    def _counted(self, token: Token) -> Expression | None:
        """C_5^2 as the number of combinations and A_5^2 of arrangements, taken if it is one."""
        letter, _, below = token.text.partition("_")
        below = below.strip("{}")
        start = self.cursor.place
        if letter not in ("C", "A") or not below.isdigit() or not self.cursor.at(Type.SIGN, "^"):
            return None
        self.cursor.take()
        exponent = self._exponent().rational
        if exponent is None or exponent.denominator != 1 or not 0 <= exponent <= int(below[:9]):
            self.cursor.place = start
            return None
        arguments = (number(int(below[:9])), number(exponent))
        return call("binom" if letter == "C" else "perm", self.context, *arguments)

    def _applied(self, token: Token) -> Expression | None:
        """A letter with arguments as a variable of its own: f(x + y), T(n - 1), mu(0)."""
        cursor, start = self.cursor, self.cursor.place
        name = token.text
        letter = name.partition("_")[0].rstrip("'")
        inverse = [t.text for t in cursor.tokens[start : start + 5]] == ["^", "{", "-", "1", "}"]
        if letter in _APPLIED and inverse and cursor.at(Type.SIGN, "(", ahead=5):
            name, cursor.place = f"{name}^{{-1}}", start + 5
        if not cursor.at(Type.SIGN, "(", "[") or name in ("e", "i") or token.vector:
            return None
        closing = _GROUPS[cursor.peek().text]  # type: ignore[union-attr]
        end = _closing(cursor.tokens, cursor.place)
        inner = cursor.tokens[cursor.place + 1 : end]
        if end == len(cursor.tokens) or not _names_function(letter, name, inner):
            return None
        if closing == "]" and letter not in ("f", "g", "h", "F", "G", "H"):
            return None
        cursor.place += 1
        arguments = [self.sum()]
        while cursor.at(Type.SIGN, ","):
            cursor.take()
            arguments.append(self.sum())
        cursor.expect(closing)
        self.vector = False
        texts = ",".join(argument.text for argument in arguments)
        if name == "\\Gamma" and len(arguments) == 1:
            less = ex.minus(arguments[0], number(1), self.context.work)
            return call("factorial", self.context, less)
        if "'" in name and texts in ("x", "t"):
            return symbol(name)
        known = all(ex.independent(atom) for a in arguments for atom in a.atoms)
        kind = Kind.SYMBOL if known else Kind.FUNCTION
        return of_atom(self.context.atom(kind, f"{name}({texts})", name, tuple(arguments)))

    def _quotient_of_d(self, token: Token) -> Expression | None:
        """dy/dx as a variable of its own."""
        texts = [t.text for t in self.cursor.tokens[self.cursor.place : self.cursor.place + 4]]
        if token.text != "d" or len(texts) < 4 or texts[1:3] != ["/", "d"]:
            return None
        value = _derivative(f"d{texts[0]}", f"d{texts[3]}")
        if value is not None:
            self.cursor.place += 4
        return value

    def _derivative_in_fraction(self) -> Expression | None:
        """\\frac{dy}{dx} likewise; the cursor stands behind ``frac``.

        Raises:
            Unreadable: for an operator, \\frac{d}{dx}, and for what it is applied to.
        """
        cursor = self.cursor
        if not cursor.at(Type.SIGN, "{") or not cursor.at(Type.SYMBOL, "d", ahead=1):
            return None
        middle = _closing(cursor.tokens, cursor.place)
        end = _closing(cursor.tokens, middle + 1)
        below = cursor.tokens[middle + 2 : end]
        by_d = re.fullmatch(r"d\\?[A-Za-z]\w{0,9}(?:\^\d)?", _script(below)) is not None
        if end >= len(cursor.tokens) or not by_d:
            return None
        above = cursor.tokens[cursor.place + 1 : middle]
        value = _derivative(*(_script(side) for side in (above, below)))
        if value is None:
            raise Unreadable("an operator must be applied")
        cursor.place = end + 1
        return value

    def group(self, closing: str) -> Expression:
        bars, self.bars = self.bars, 0
        inner = self.sum()
        self.cursor.expect(closing)
        self.bars = bars
        return inner

    def argument(self) -> Expression:
        """A LaTeX argument: a group, one digit, one symbol or one command."""
        if self.cursor.at(Type.SIGN, "{"):
            self.cursor.take()
            return self.group("}")
        token = self.cursor.peek()
        if token is None:
            raise Malformed("a command must have its arguments")
        if token.type is Type.NUMBER and token.text.isdigit():
            return number(int(self.cursor.digit()))
        return self.primary()

    def _command(self, token: Token) -> Expression:
        name = token.text
        if name == "frac":
            derivative = self._derivative_in_fraction()
            if derivative is not None:
                return derivative
            above = self.argument()
            vector = self.vector
            below = self.argument()
            self.vector = vector
            return ex.over(above, below, self.context.work)
        if name == "pi":
            return of_atom(PI)
        if name == "sqrt":
            degree = 2
            if self.cursor.at(Type.SIGN, "["):
                self.cursor.take()
                rational = self.group("]").rational
                if rational is None or rational.denominator != 1 or rational < 2:
                    raise Unreadable("the degree of a root must be an integer from 2 on")
                degree = int(rational)
            return rational_power(self.argument(), Fraction(1, degree), self.context)
        if name == "binom" and not self.cursor.at(Type.SIGN, "("):
            above = self.argument()
            return call("binom", self.context, above, self.argument())
        if name in _COMMAND_GROUPS:
            closing, function = _COMMAND_GROUPS[name]
            inner = self.group(closing)
            return call(function, self.context, inner) if function else inner
        if name == "infty":
            return of_atom(Atom(Kind.FUNCTION, "infty", "infty"))
        if name in ("sum", "prod", "lim") and self.cursor.at(Type.SIGN, "_"):
            return over_a_range(self, name)
        if name == "int":
            return integral(self)
        if name in FUNCTIONS:
            return self._function(name)
        raise Unreadable(f"a known command must stand here, got {name!r}")

    def _function(self, name: str) -> Expression:
        arguments: list[Expression] = []
        exponent: Expression | None = None
        if name == "log" and self.cursor.at(Type.SIGN, "_"):
            self.cursor.take()
            arguments.append(self.argument())
        if self.cursor.at(Type.SIGN, "^"):
            self.cursor.take()
            exponent = self._exponent()
            if exponent.rational == -1:
                name, exponent = f"arc{name}", None
        if self.cursor.at(Type.SIGN, *_GROUPS):
            closing = _GROUPS[self.cursor.take().text]
            bars, self.bars = self.bars, 0
            arguments.append(self.sum())
            while self.cursor.at(Type.SIGN, ","):
                self.cursor.take()
                arguments.append(self.sum())
            self.cursor.expect(closing)
            self.bars = bars
        else:
            arguments.append(self._function_argument())
        self.vector = False
        value = call(name, self.context, *arguments)
        return value if exponent is None else power(value, exponent, self.context)

    def _function_argument(self) -> Expression:
        """Without parentheses a function takes the product behind it: sin 2x, cos 3 pi t."""
        if self.cursor.at(Type.SIGN, "+", "-"):
            return self._factor()
        value = self._postfixed(self.primary())
        while self._starts_primary() and not self.cursor.at(Type.COMMAND, *FUNCTIONS):
            if self.cursor.at(Type.SIGN, *OPENING):
                break
            value = ex.times(value, self._postfixed(self.primary()), self.context.work)
        return value


def _closing(tokens: list[Token], place: int) -> int:
    """The place of the bracket that closes the one at `place`, else the number of tokens."""
    depth = 0
    for end in range(place, len(tokens)):
        if tokens[end].type is Type.SIGN:
            depth += (tokens[end].text in "([{") - (tokens[end].text in ")]}")
        if depth == 0:
            return end
    return len(tokens)


def _names_function(letter: str, name: str, inner: list[Token]) -> bool:
    """Whether a letter in front of brackets is a function's name and no factor."""
    texts = [token.text for token in inner]
    if letter in _APPLIED or "'" in name or "," in texts:
        return True
    if len(texts) == 1:
        return True
    above = letter[-1:].isupper() or "_" in name or letter.startswith("\\")
    signed = any(token.text in "+-" for token in inner)
    return above and (not signed or _INDEX.fullmatch("".join(texts)) is not None)


def _script(tokens: list[Token]) -> str:
    """``d^2y`` of the tokens of d^{2}y."""
    text = "".join(token.text for token in tokens)
    return re.sub(r"\^\{?(\d)\}?", r"^\1", text)


def _derivative(above: str, below: str) -> Expression | None:
    """The variable that stands for d(above)/d(below): y' by x, \\dot{x} by t."""
    up = re.fullmatch(r"d(?:\^(\d))?(\\?[A-Za-z]\w{0,9}(?:_\S{1,9})?)", above)
    down = re.fullmatch(r"d(\\?[A-Za-z]\w{0,9})(?:\^(\d))?", below)
    if up is None or down is None or up[1] != down[2] or up[2] == "d":
        return None
    times = int(up[1] or 1)
    if down[1] == "x" and times < 4:
        return symbol(up[2] + "'" * times)
    if down[1] == "t" and times < 3 and len(up[2]) == 1:
        return symbol(f"\\{'d' * times if times == 2 else 'd'}ot{{{up[2]}}}")
    return symbol(f"d^{{{times}}}{up[2]}/d{down[1]}" if times > 1 else f"d{up[2]}/d{down[1]}")
