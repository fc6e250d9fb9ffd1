"""*tokenise*: splits a cleaned answer into tokens and checks how its brackets nest."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from pipeline.answers.algebra.expression import integer_of
from pipeline.answers.verdict import Malformed, TooLarge

MAX_TOKENS = 3_000
MAX_DEPTH = 40


class Type(StrEnum):
    """What a token is."""

    NUMBER = "number"
    SYMBOL = "symbol"
    """A variable, its subscript included."""
    COMMAND = "command"
    """A LaTeX command or a plain word that means one (``pi``, ``sqrt``), without backslash."""
    TEXT = "text"
    """The words of a ``\\text{}``, or a plain word that is neither a command nor symbols."""
    SIGN = "sign"
    """Any other single character, and ``\\{``, ``\\}`` and ``\\\\``."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `spaced` says whether white space stood before it, `plain` whether it was a bare
    word and not in ``\\text``, `vector` whether it had an arrow, a hat or bold type."""

    type: Type
    text: str
    spaced: bool = False
    plain: bool = False
    vector: bool = False


_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,6}(?![\w.]))?)"
    r"|\\text\s*\{(?P<text>[^{}]*)\}"
    r"|\\(?P<command>[A-Za-z]+)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<other>[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u064b-\u0655\u0900-\u0e4f])*)"
    r"|(?P<sign>\\[\\{}%$|#&]|\S))"
)
_SUBSCRIPT = re.compile(
    r"\s?_\s?(?:\{([\\A-Za-z0-9+\-,.()*/' ]{1,30})\}|([A-Za-z0-9]|\\[A-Za-z]{1,10}))"
)
_SUM = re.compile(r"\A\w+(?:\+\w+)+", re.ASCII)
_VECTORS = ("\\hat", "\\overrightarrow", "\\vec")
_PRIMES = re.compile(r"\s?'{1,4}")
_ACCENTS = frozenset((
    "bar", "hat", "tilde", "dot", "ddot", "overline", "overrightarrow", "vec",
))  # fmt: skip
_ACCENTED = re.compile(r"\s?(?:\{\s?(\\?[A-Za-z]{1,20})\s?\}|(\\[A-Za-z]{2,10}|[A-Za-z]))")
_PROSE = re.compile(r"\w[\w .,'-]*")
FUNCTIONS = frozenset((
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "arcsec",
    "arccsc", "factorial", "binom", "sinh", "cosh", "tanh", "ln", "log", "exp", "sqrt", "abs",
    "floor", "ceil", "gcd", "lcm", "max", "min", "det", "arg", "perm", "lim", "sum", "prod",
    "integral", "Re", "Im", "Tr", "tr", "Var", "Cov", "sgn", "rank",
))  # fmt: skip
GREEK = frozenset((
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta",
    "vartheta", "iota", "kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon",
    "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi",
    "Sigma", "Phi", "Psi", "Omega", "hbar",
))  # fmt: skip
_PLAIN_COMMANDS = {
    **{name: name for name in FUNCTIONS if len(name) > 2},
    **{name: name.lower() for name in ("Sin", "Cos", "Tan", "Cot", "Log", "Ln", "Exp")},
    **{name: name for name in GREEK if len(name) > 3},
    "ln": "ln", "pi": "pi", "infty": "infty", "infinity": "infty", "inf": "infty", "oo": "infty",
    "arcsin": "arcsin", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "cup": "cup",
    "union": "cup", "in": "in", "and": "and", "or": "or", "pm": "pm", "frac": "frac",
    "degrees": "degrees", "degree": "degrees", "binom": "binom", "theta": "theta",
}  # fmt: skip
_SHORT = """on it no yes the not all odd one two six ten is are up am pm of per sq cu cm mm km kg mg
    ml ft mi lb lbs oz hr hrs yr yrs sec mins mph kph kmh gal mol day rad deg usd rpm gbp eur jpy
    cny inr bps db"""
_SHORT_WORDS = frozenset(_SHORT.split())
_NAMED = frozenset(("Re", "Im", "Tr", "tr", "Var", "Cov", "sgn", "rank"))
"""Names of functions that are read as such in front of brackets only."""
_UNIT_VECTORS = ("i", "j", "k")
_PI_RUN = re.compile(r"(pi|sqrt)(?=[A-Za-z])|(?<=[A-Za-z])(pi|sqrt)")


def tokenise(text: str) -> list[Token]:
    """Tokens of a cleaned answer.

    Raises:
        Malformed: if brackets of LaTeX groups do not match.
        TooLarge: beyond `MAX_TOKENS` tokens or `MAX_DEPTH` levels.
    """
    tokens: list[Token] = []
    position, depth, groups = 0, 0, 0
    text = text.rstrip()
    prose = _PROSE.fullmatch(text) is not None
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        spaced = text[position].isspace()
        position = match.end()
        kind = match.lastgroup
        value = match[kind] if kind else ""
        if kind == "number":
            tokens.append(Token(Type.NUMBER, value, spaced))
        elif kind == "text" and not value.strip():
            continue
        elif kind == "text":
            tokens.append(Token(Type.TEXT, " ".join(value.split()), spaced))
        elif kind == "other":
            tokens.append(Token(Type.TEXT, value, spaced, plain=True))
        elif kind == "command":
            accented = _ACCENTED.match(text, position) if value in _ACCENTS else None
            if accented is not None:
                below = accented[1] or accented[2]
                below = "".join(sorted(below)) if value == "overline" else below  # of a segment
                accent = "bar" if value == "overline" and len(below) == 1 else value
                plain = accent == "vec" and (len(below) == 1 or below[1:] in GREEK)
                plain = plain and below not in _UNIT_VECTORS
                name = below if plain else f"\\{accent}{{{below}}}"
                vector = f"\\{accent}" in _VECTORS
                value, position = _with_subscript(name, text, accented.end())
                tokens.append(Token(Type.SYMBOL, value, spaced, vector=vector))
            elif value in GREEK:
                value, position = _with_subscript("\\" + value, text, position)
                tokens.append(Token(Type.SYMBOL, value, spaced))
            else:
                tokens.append(Token(Type.COMMAND, value, spaced))
        elif kind == "word":
            position = _append_word(tokens, value, spaced, text, position, prose)
        else:
            if value in "{([" or value == r"\{":
                depth += 1
            elif value in "})]" or value == r"\}":
                depth -= 1
            groups += {"{": 1, "}": -1}.get(value, 0)
            if groups < 0:
                raise Malformed("every closing brace must have an opening one")
            if depth > MAX_DEPTH:
                raise TooLarge(f"brackets must be nested at most {MAX_DEPTH} deep")
            tokens.append(Token(Type.SIGN, value, spaced))
        if len(tokens) > MAX_TOKENS:
            raise TooLarge(f"an answer must have at most {MAX_TOKENS} tokens")
    if groups:
        raise Malformed("every opening brace must have a closing one")
    return tokens


def _append_word(
    tokens: list[Token], word: str, spaced: bool, text: str, position: int, prose: bool
) -> int:
    """Append a run of letters as a command, a word or symbols; returns the new position.

    `prose` says that the answer is letters and numbers, where short runs may be words as well.
    """
    command = _PLAIN_COMMANDS.get(word) or _PLAIN_COMMANDS.get(
        word.lower() if len(word) > 3 else ""
    )
    if word in _NAMED and text[position : position + 1] in ("(", "["):
        tokens.append(Token(Type.COMMAND, word, spaced, plain=True))
    elif command in GREEK:
        name, position = _with_subscript("\\" + command, text, position)
        tokens.append(Token(Type.SYMBOL, name, spaced))
    elif command == "degrees":
        tokens.extend((Token(Type.SIGN, "^"), Token(Type.COMMAND, "circ")))
    elif word == "in" and tokens and tokens[-1].type is Type.NUMBER:
        tokens.append(Token(Type.TEXT, word, spaced, plain=True))
    elif command in ("and", "or"):
        tokens.append(Token(Type.TEXT, command, spaced, plain=True))
    elif command:
        tokens.append(Token(Type.COMMAND, command, spaced, plain=True))
    elif len(word) > 3 or word.lower() in _SHORT_WORDS or (prose and _is_word(word)):
        split = _PI_RUN.split(word) if len(word) <= 6 else [word]
        parts = [part for part in split if part]
        if len(parts) > 1 and all(p in ("pi", "sqrt") or len(p) == 1 for p in parts):
            for part in parts:
                position = _append_word(tokens, part, spaced, text, position, prose)
        else:
            tokens.append(Token(Type.TEXT, word, spaced, plain=True))
    else:
        for letter in word[:-1]:
            tokens.append(Token(Type.SYMBOL, letter, spaced))
            spaced = False
        name, position = _with_subscript(word[-1], text, position)
        tokens.append(Token(Type.SYMBOL, name, spaced))
    return position


def _is_word(run: str) -> bool:
    """Whether up to three letters are read as a word: Red, cat, Jo; but not ab, abc or Ah."""
    vowels = [letter in "aeiou" for letter in run.lower()]
    if not any(vowels) or all(vowels):
        return False
    if run[0].isupper():
        return run[1:].islower() and (len(run) > 2 or vowels[1])
    return len(run) == 3 and run.islower() and list(run) != sorted(run)


def _with_subscript(name: str, text: str, position: int) -> tuple[str, int]:
    match = _SUBSCRIPT.match(text, position)
    if match is not None:
        inner, position = _index((match[1] or match[2]).strip()), match.end()
        name = f"{name}_{inner}" if len(inner) == 1 else f"{name}_{{{inner}}}"
    primes = _PRIMES.match(text, position)
    return (name + primes[0].strip(), primes.end()) if primes else (name, position)


def _index(inner: str) -> str:
    """One spelling of a subscript: ``\\max`` is max, 1+n is n+1."""
    inner = re.sub(r"\\([A-Za-z]+) ?", lambda m: m[0].strip() if m[1] in GREEK else m[1], inner)
    inner = inner.replace(" ", "")
    return "+".join(sorted(inner.split("+"), reverse=True)) if _SUM.fullmatch(inner) else inner


OPENING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}
CLOSING = frozenset(OPENING.values())


def depths(tokens: list[Token]) -> list[int]:
    """Bracket depth at which each token stands; brackets stand at the depth outside of them."""
    depth, result = 0, []
    for token in tokens:
        if token.type is Type.SIGN and token.text in CLOSING:
            depth -= 1
        result.append(depth)
        if token.type is Type.SIGN and token.text in OPENING:
            depth += 1
    return result


def split(tokens: list[Token], at: Callable[[Token], bool]) -> list[list[Token]]:
    """Split at the tokens outside all brackets for which `at` holds."""
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, depths(tokens), strict=True):
        if depth == 0 and at(token):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def is_sign(token: Token, *texts: str) -> bool:
    """Whether a token is one of these signs."""
    return token.type is Type.SIGN and token.text in texts


def is_command(token: Token, *texts: str) -> bool:
    """Whether a token is one of these commands."""
    return token.type is Type.COMMAND and token.text in texts


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
