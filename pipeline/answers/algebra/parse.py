"""Tokens of one expression to an exact `Expression`, by recursive descent.

    sum      = [sign] term {sign term}
    term     = factor {[* or /] factor}
    factor   = [sign] primary {^ exponent | ! | % | degrees}
    primary  = number | mixed number | symbol | group | \\frac | \\sqrt | function | |sum|

Division is left-associative and as strong as an implied product: 1/2x is x/2.
"""

from __future__ import annotations

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

    def whole(self) -> Expression:
        """The expression.

        Raises:
            Malformed: if something is missing.
            Unreadable: if something is not known here.
            TooLarge: beyond the limits of one answer.
        """
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
        if sign is False:
            total = ex.negative(total, self.context.work)
        while (sign := self._sign()) is not None:
            term = self.term()
            total = (ex.plus if sign else ex.minus)(total, term, self.context.work)
        self.depth -= 1
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
        value = self._factor()
        while True:
            if self.cursor.at(Type.SIGN, "*") or self.cursor.at(Type.COMMAND, *_PRODUCTS):
                self.cursor.take()
                value = ex.times(value, self._factor(), self.context.work)
            elif self.cursor.at(Type.SIGN, "/") or self.cursor.at(Type.COMMAND, *_DIVISIONS):
                self.cursor.take()
                value = ex.over(value, self._factor(), self.context.work)
            elif self._starts_primary():
                value = ex.times(value, self._factor(), self.context.work)
            else:
                return value

    def _starts_primary(self) -> bool:
        token = self.cursor.peek()
        if token is None:
            return False
        if token.type is Type.NUMBER and self.cursor.before().type is Type.NUMBER:
            return False  # 0 3 is no product
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
                    self.cursor.take()
                    value = power(value, self._exponent(), self.context)
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

    def _exponent(self) -> Expression:
        sign = self._sign()
        value = self.primary()
        if self.cursor.at(Type.SIGN, "!", "^"):  # a tower is worked out from its top
            value = self._postfixed(value)
        return ex.negative(value, self.context.work) if sign is False else value

    def primary(self) -> Expression:
        token = self.cursor.take()
        match token.type:
            case Type.NUMBER:
                return number(numeral(token.text))
            case Type.SYMBOL:
                counted = self._counted(token)
                if counted is not None:
                    return counted
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
        taken = self._exponent().rational
        if taken is None or taken.denominator != 1 or not 0 <= taken <= int(below[:9]):
            self.cursor.place = start
            return None
        arguments = (number(int(below[:9])), number(taken))
        return call("binom" if letter == "C" else "perm", self.context, *arguments)

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
            above = self.argument()
            return ex.over(above, self.argument(), self.context.work)
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
