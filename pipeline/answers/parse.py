"""Tokens of one expression to an exact `Expression`, by recursive descent.

    sum      = [sign] term {sign term}
    term     = factor {[* or /] factor}
    factor   = [sign] primary {^ exponent | ! | % | degrees}
    primary  = number | mixed number | symbol | group | \\frac | \\sqrt | function | |sum|

Division is left-associative and as strong as an implied product: 1/2x is x/2.
"""

from __future__ import annotations

from fractions import Fraction

from pipeline.answers import expression as ex
from pipeline.answers.context import EULER, IMAGINARY, PI, Context
from pipeline.answers.expression import Expression, number, of_atom, symbol
from pipeline.answers.functions import call
from pipeline.answers.polynomial import Atom, Kind
from pipeline.answers.powers import power
from pipeline.answers.roots import absolute, root
from pipeline.answers.tokens import FUNCTIONS, OPENING, Token, Type
from pipeline.answers.verdict import Malformed, TooLarge, Unreadable

_PRODUCTS = frozenset(("cdot", "times", "ast"))
_DIVISIONS = frozenset(("div",))
_GROUPS = {"(": ")", "[": "]", "{": "}"}
_COMMAND_GROUPS = {
    "lfloor": ("rfloor", "floor"),
    "lceil": ("rceil", "ceil"),
    "langle": ("rangle", ""),
}
_MAX_NUMERAL = 18_000


class Parser:
    """Reads all of `tokens` as one expression.

    Args:
        tokens: those of the expression alone.
        context: does the arithmetic.
        upper: whether ``\\pm`` is read as plus (and ``\\mp`` as minus) or the other way round.
    """

    def __init__(self, tokens: list[Token], context: Context, upper: bool = True) -> None:
        self.tokens = tokens
        self.context = context
        self.upper = upper
        self.at = 0
        self.depth = 0
        self.bars = 0

    def whole(self) -> Expression:
        """The expression.

        Raises:
            Malformed: if something is missing.
            Unreadable: if something is not known here.
            TooLarge: beyond the limits of one answer.
        """
        value = self._sum()
        if self.at < len(self.tokens):
            raise Unreadable(f"an expression must end before {self.tokens[self.at].text!r}")
        return value

    # what stands next

    def _peek(self, ahead: int = 0) -> Token | None:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def _is(self, type_: Type, *texts: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token is not None and token.type is type_ and (not texts or token.text in texts)

    def _take(self) -> Token:
        token = self._peek()
        if token is None:
            raise Malformed("an expression must not end here")
        self.at += 1
        return token

    def _expect(self, text: str) -> None:
        token = self._take()
        if token.text != text:
            raise Malformed(f"{text!r} must stand here, got {token.text!r}")

    # grammar

    def _sum(self) -> Expression:
        self.depth += 1
        if self.depth > 60:
            raise TooLarge("an expression must be nested at most 60 deep")
        sign = self._sign()
        total = self._term()
        if sign is False:
            total = ex.negative(total, self.context.work)
        while (sign := self._sign()) is not None:
            term = self._term()
            total = (ex.plus if sign else ex.minus)(total, term, self.context.work)
        self.depth -= 1
        return total

    def _sign(self) -> bool | None:
        """Take any signs that stand here: whether they amount to plus, None if there is none."""
        result: bool | None = None
        while True:
            if self._is(Type.SIGN, "+", "-"):
                plus = self._take().text == "+"
            elif self._is(Type.COMMAND, "pm", "mp"):
                plus = (self._take().text == "pm") == self.upper
            else:
                return result
            result = plus if result is None else result == plus

    def _term(self) -> Expression:
        value = self._factor()
        while True:
            if self._is(Type.SIGN, "*") or self._is(Type.COMMAND, *_PRODUCTS):
                self._take()
                if self._is(Type.SIGN, "*"):  # ** is a power in plain notation
                    self._take()
                    value = power(value, self._exponent(), self.context)
                    continue
                value = ex.times(value, self._factor(), self.context.work)
            elif self._is(Type.SIGN, "/") or self._is(Type.COMMAND, *_DIVISIONS):
                self._take()
                value = ex.over(value, self._factor(), self.context.work)
            elif self._starts_primary():
                value = ex.times(value, self._factor(), self.context.work)
            else:
                return value

    def _starts_primary(self) -> bool:
        token = self._peek()
        if token is None:
            return False
        if token.type is Type.NUMBER and self.tokens[self.at - 1].type is Type.NUMBER:
            return False  # 0 3 is no product
        if token.type in (Type.NUMBER, Type.SYMBOL):
            return True
        if token.type is Type.SIGN:
            return token.text in _GROUPS or (token.text == "|" and self.bars == 0)
        if token.type is Type.COMMAND:
            return token.text in ("frac", "pi", "binom", "sum", "prod", "int") or (
                token.text in FUNCTIONS or token.text in _COMMAND_GROUPS
            )
        return False

    def _factor(self) -> Expression:
        sign = self._sign()
        value = self._postfixed(self._primary())
        return ex.negative(value, self.context.work) if sign is False else value

    def _postfixed(self, value: Expression) -> Expression:
        work = self.context.work
        while True:
            if self._is(Type.SIGN, "^"):
                if self._is(Type.COMMAND, "circ", ahead=1):
                    self.at += 2
                    value = ex.times(value, ex.over(of_atom(PI), number(180), work), work)
                else:
                    self._take()
                    value = power(value, self._exponent(), self.context)
            elif self._is(Type.SIGN, "!"):
                self._take()
                if self._is(Type.SIGN, "!"):
                    raise Unreadable("double factorials are not read")
                value = call("factorial", self.context, value)
            elif self._is(Type.SIGN, "%", r"\%"):
                self._take()
                value = ex.over(value, number(100), work)
            else:
                return value

    def _exponent(self) -> Expression:
        sign = self._sign()
        value = self._primary()
        if self._is(Type.SIGN, "!"):
            value = self._postfixed(value)
        return ex.negative(value, self.context.work) if sign is False else value

    def _primary(self) -> Expression:
        token = self._take()
        match token.type:
            case Type.NUMBER:
                return self._number(token)
            case Type.SYMBOL:
                return {"e": of_atom(EULER), "i": of_atom(IMAGINARY)}.get(token.text) or symbol(
                    token.text
                )
            case Type.SIGN:
                if token.text in _GROUPS:
                    return self._group(_GROUPS[token.text])
                if token.text == "|":
                    self.bars += 1
                    inner = self._sum()
                    self._expect("|")
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

    def _group(self, closing: str) -> Expression:
        bars, self.bars = self.bars, 0
        inner = self._sum()
        self._expect(closing)
        self.bars = bars
        return inner

    def _number(self, token: Token) -> Expression:
        value = numeral(token.text)
        if not token.text.isdigit():
            return number(value)
        mixed = self._fraction_behind()
        return number(value + mixed) if mixed is not None else number(value)

    def _fraction_behind(self) -> Fraction | None:
        """The fraction of a mixed number (1\\frac{4}{5}, 1 4/5), taken if it stands here."""
        if self._is(Type.COMMAND, "frac"):
            start = self.at
            self._take()
            above, below = self._plain_integer(), self._plain_integer()
            if above is not None and below and above < below:
                return Fraction(above, below)
            self.at = start
            return None
        spaced = self._peek()
        if (
            spaced is not None
            and spaced.spaced
            and self._is(Type.NUMBER)
            and self._is(Type.SIGN, "/", ahead=1)
            and self._is(Type.NUMBER, ahead=2)
        ):
            over, under = self.tokens[self.at].text, self.tokens[self.at + 2].text
            if over.isdigit() and under.isdigit() and (len(over), over) < (len(under), under):
                self.at += 3
                return Fraction(ex.integer_of(over), ex.integer_of(under))
        return None

    def _plain_integer(self) -> int | None:
        """A positive integer in braces or alone, as an argument of a mixed number's fraction."""
        if (
            self._is(Type.SIGN, "{")
            and self._is(Type.NUMBER, ahead=1)
            and self._is(Type.SIGN, "}", ahead=2)
        ):
            text = self.tokens[self.at + 1].text
            self.at += 3
            return ex.integer_of(text) if text.isdigit() else None
        if self._is(Type.NUMBER):
            token = self.tokens[self.at]
            if not token.text.isdigit():
                return None
            first = self._digit()
            return int(first)
        return None

    def _digit(self) -> str:
        """Take one digit of the number that stands here: \\frac43 is 4/3."""
        token = self.tokens[self.at]
        if len(token.text) == 1:
            self.at += 1
            return token.text
        self.tokens = [*self.tokens]
        self.tokens[self.at] = Token(Type.NUMBER, token.text[1:])
        return token.text[0]

    def _argument(self) -> Expression:
        """A LaTeX argument: a group, one digit, one symbol or one command."""
        if self._is(Type.SIGN, "{"):
            self._take()
            return self._group("}")
        token = self._peek()
        if token is None:
            raise Malformed("a command must have its arguments")
        if token.type is Type.NUMBER and token.text.isdigit():
            return number(int(self._digit()))
        return self._primary()

    def _command(self, token: Token) -> Expression:
        name = token.text
        if name == "frac":
            above = self._argument()
            return ex.over(above, self._argument(), self.context.work)
        if name == "pi":
            return of_atom(PI)
        if name == "sqrt":
            degree = 2
            if self._is(Type.SIGN, "["):
                self._take()
                rational = self._group("]").rational
                if rational is None or rational.denominator != 1 or rational < 2:
                    raise Unreadable("the degree of a root must be an integer from 2 on")
                degree = int(rational)
            return root(self._argument(), degree, self.context)
        if name == "binom" and not self._is(Type.SIGN, "("):
            above = self._argument()
            return call("binom", self.context, above, self._argument())
        if name in _COMMAND_GROUPS:
            closing, function = _COMMAND_GROUPS[name]
            inner = self._group(closing)
            return call(function, self.context, inner) if function else inner
        if name in FUNCTIONS:
            return self._function(name)
        if name == "overline":
            return self._overline()
        raise Unreadable(f"a known command must stand here, got {name!r}")

    def _overline(self) -> Expression:
        """The name of a segment, compared by its letters."""
        self._expect("{")
        letters = ""
        while self._is(Type.SYMBOL):
            letters += self._take().text
        self._expect("}")
        if len(letters) != 2:
            raise Unreadable("an overline must stand over two letters")
        return of_atom(Atom(Kind.FUNCTION, f"\\overline{{{''.join(sorted(letters))}}}", "overline"))

    def _function(self, name: str) -> Expression:
        arguments: list[Expression] = []
        exponent: Expression | None = None
        if name == "log" and self._is(Type.SIGN, "_"):
            self._take()
            arguments.append(self._argument())
        if self._is(Type.SIGN, "^"):
            self._take()
            exponent = self._exponent()
            if exponent.rational == -1:
                name, exponent = f"arc{name}", None
        if self._is(Type.SIGN, *_GROUPS):
            closing = _GROUPS[self._take().text]
            bars, self.bars = self.bars, 0
            arguments.append(self._sum())
            while self._is(Type.SIGN, ","):
                self._take()
                arguments.append(self._sum())
            self._expect(closing)
            self.bars = bars
        else:
            arguments.append(self._function_argument())
        value = call(name, self.context, *arguments)
        return value if exponent is None else power(value, exponent, self.context)

    def _function_argument(self) -> Expression:
        """Without parentheses a function takes the product behind it: sin 2x, cos 3 pi t."""
        if self._is(Type.SIGN, "+", "-"):
            return self._factor()
        value = self._postfixed(self._primary())
        while self._starts_primary() and not self._is(Type.COMMAND, *FUNCTIONS):
            if self._is(Type.SIGN, *OPENING):
                break
            value = ex.times(value, self._postfixed(self._primary()), self.context.work)
        return value


def numeral(text: str) -> Fraction:
    """The exact value of an unsigned decimal numeral, ``6.72e-5`` included."""
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    whole, _, decimals = mantissa.partition(".")
    if len(mantissa) > _MAX_NUMERAL or abs(int(exponent or 0)) > _MAX_NUMERAL:
        raise TooLarge(f"a numeral must have at most {_MAX_NUMERAL} digits")
    value = Fraction(ex.integer_of(whole + decimals))
    scale = int(exponent or 0) - len(decimals)
    return value * Fraction(10) ** scale
