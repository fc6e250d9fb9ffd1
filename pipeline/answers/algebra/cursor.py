"""A place in a run of tokens, and the numerals that stand there."""

from __future__ import annotations

from fractions import Fraction

from pipeline.answers.algebra.expression import integer_of
from pipeline.answers.algebra.tokens import Token, Type
from pipeline.answers.verdict import Malformed, TooLarge

_MAX_NUMERAL = 18_000


class Cursor:
    """Tokens and how far they have been read."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one further ahead."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def before(self) -> Token:
        """The token that was read last."""
        return self.tokens[self.place - 1]

    def at(self, type_: Type, *texts: str, ahead: int = 0) -> bool:
        """Whether a token of this type, and one of these texts, stands next."""
        token = self.peek(ahead)
        return token is not None and token.type is type_ and (not texts or token.text in texts)

    def take(self) -> Token:
        """Read the next token.

        Raises:
            Malformed: at the end.
        """
        token = self.peek()
        if token is None:
            raise Malformed("an expression must not end here")
        self.place += 1
        return token

    def expect(self, text: str) -> None:
        """Read a token that must be this one."""
        token = self.take()
        if token.text != text:
            raise Malformed(f"{text!r} must stand here, got {token.text!r}")

    def digit(self) -> str:
        """Take one digit of the number that stands here: \\frac43 is 4/3."""
        token = self.tokens[self.place]
        if len(token.text) == 1:
            self.place += 1
            return token.text
        self.tokens = [*self.tokens]
        self.tokens[self.place] = Token(Type.NUMBER, token.text[1:])
        return token.text[0]


def numeral(text: str) -> Fraction:
    """The exact value of an unsigned decimal numeral, ``6.72e-5`` included."""
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    whole, _, decimals = mantissa.partition(".")
    if len(mantissa) > _MAX_NUMERAL or abs(int(exponent or 0)) > _MAX_NUMERAL:
        raise TooLarge(f"a numeral must have at most {_MAX_NUMERAL} digits")
    value = Fraction(integer_of(whole + decimals))
    scale = int(exponent or 0) - len(decimals)
    return value * Fraction(10) ** scale
