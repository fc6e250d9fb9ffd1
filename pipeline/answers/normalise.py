"""One spelling for what LaTeX and plain text spell in many ways; no mathematics yet."""

from __future__ import annotations

import re
import unicodedata

from pipeline.answers.verdict import TooLarge

_WRAPPINGS = 12
MAX_CHARS = 20_000
"""Longest answer that is read; longer ones are only compared as text."""

_UNICODE = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*",
    "÷": r"\div ", "π": r"\pi ", "√": r"\sqrt ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ",
    "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp ", "°": r"^\circ ", "∪": r"\cup ", "∩": r"\cap ",
    "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R} ", "…": r"\ldots ", "⋯": r"\ldots ",
    "’": "'", "‘": "'", "“": '"', "”": '"', "⟨": r"\langle ", "⟩": r"\rangle ", "′": "'",
    "⁰": "^{0}", "¹": "^{1}", "²": "^{2}", "³": "^{3}", "⁴": "^{4}", "⁵": "^{5}", "⁶": "^{6}",
    "⁷": "^{7}", "⁸": "^{8}", "⁹": "^{9}", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "θ": r"\theta ", "λ": r"\lambda ", "φ": r"\phi ", "⌊": r"\lfloor ", "⌋": r"\rfloor ",
    "⌈": r"\lceil ", "⌉": r"\rceil ", "€": r"\text{euro}", "£": r"\text{pound sterling}",
}  # fmt: skip
_TRANSLATION = str.maketrans(_UNICODE)
_VULGAR = re.compile(r"(\d?)([¼½¾⅐-⅞])")
_SPACES = re.compile(
    r"(?P<row>\\\\)|\\(?:[,;:!> ]|quad\b|qquad\b|displaystyle\b|textstyle\b|limits\b"
    r"|nolimits\b|hfill\b|thinspace\b|enspace\b|phantom\{[^{}]*\}|hspace\*?\{[^{}]*\})|~"
)
_SIZES = re.compile(r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s*(\.(?!\d))?")
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathtt|mathcal|boldsymbol|bm|rm|bf|it|operatorname\*?"
    r"|mathop|emph|pmb)(?![A-Za-z])"
)
_TEXTS = re.compile(
    r"\\(?:mbox|hbox|textbf|textit|textrm|textsf|texttt|textnormal|textup)(?=\s*\{)"
)
_FRACTIONS = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_RENAMED = (
    (re.compile(r"\\leq(?:slant)?(?![A-Za-z])"), r"\\le "),
    (re.compile(r"\\geq(?:slant)?(?![A-Za-z])"), r"\\ge "),
    (re.compile(r"\\(?:neq|not\s*=)(?![A-Za-z])|\\not\s*="), r"\\ne "),
    (re.compile(r"\\lt(?![A-Za-z])|&lt;"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])|&gt;"), ">"),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb|dotso)(?![A-Za-z])|\.\.\.+"), r"\\ldots "),
    (re.compile(r"\\varnothing(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"\\(?:lbrace|rbrace)(?![A-Za-z])"), lambda m: r"\{" if "l" in m[0][:2] else r"\}"),
    (re.compile(r"\\lbrack(?![A-Za-z])"), "["),
    (re.compile(r"\\rbrack(?![A-Za-z])"), "]"),
    (re.compile(r"\\(?:vert|lvert|rvert|mid)(?![A-Za-z])"), "|"),
    (re.compile(r"\^\s*\{\s*\\circ\s*\}|\\degrees?(?![A-Za-z])"), r"^\\circ "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\(?:ne|lnot)g(?![A-Za-z])"), r"\\neg "),
)
_WRAPPERS = re.compile(r"\\(?:boxed|fbox)\s*\{")
_DOUBLED = re.compile(r"(?<!\\)\\{2,}+(?=[A-Za-z{}%$,!;])")
_GROUPED_DIGITS = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}(?:(?:,\d{3}){1,9}+(?!\d|,\d)|(?: \d{3}){1,9}+(?! ?[\d,]))", re.ASCII
)
_REPEATING = re.compile(
    r"(?<!\d)(\d{0,100}+)\.(\d{0,100}+)\\overline\s*\{?(\d{1,100})\}?", re.ASCII
)
_SPACED_SEPARATOR = re.compile(r"(?<=\d),\\!\s*(?=\d{3}(?!\d))")


def clean(answer: str) -> str:
    """`answer` in one spelling of spaces, signs, fonts, delimiters and wrappers.

    Applying it again changes nothing.

    Raises:
        TooLarge: if it is longer than `MAX_CHARS`.
    """
    if len(answer) > MAX_CHARS:
        raise TooLarge(f"an answer must have at most {MAX_CHARS} characters, got {len(answer)}")
    text = _printable(answer).translate(_TRANSLATION)
    if len(text) > 2 * MAX_CHARS:
        raise TooLarge(f"an answer must have at most {2 * MAX_CHARS} characters, written out")
    text = _undoubled(text)
    text = _SPACED_SEPARATOR.sub(",", text)
    text = _SIZES.sub(" ", text)
    text = _SPACES.sub(lambda m: m["row"] or " ", text)
    text = _TEXTS.sub(r"\\text", text)
    text = _FONTS.sub(" ", text)
    text = _FRACTIONS.sub(r"\\frac", text)
    for pattern, replacement in _RENAMED:
        text = pattern.sub(replacement, text)
    return _unwrapped(text)


def _printable(text: str) -> str:
    """Without control, format and private characters; compatibility forms made plain."""
    text = _VULGAR.sub(lambda m: f"{m[1]} {unicodedata.normalize('NFKC', m[2])} ", text)
    text = text.replace("\u2044", "/")
    text = "".join(
        " " if c.isspace() else c
        for c in text
        if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn")
    )
    kept = [c if c in _UNICODE else unicodedata.normalize("NFKC", c) for c in text]
    return "".join(kept).replace("\u2044", "/")


def _undoubled(text: str) -> str:
    """Backslashes that were escaped once too often made single; row ends of matrices kept."""
    if r"\begin" in text:
        return text.replace("\\\\", "\\") if r"\\begin" in text else text
    return _DOUBLED.sub(r"\\", text)


def _unwrapped(text: str) -> str:
    """Without math delimiters, boxes, quotes, emphasis and final punctuation around the whole."""
    for _ in range(_WRAPPINGS):
        before = text
        text = re.sub(r"\s+", " ", text).strip()
        text = re.sub(r"^\\[(\[](.*)\\[)\]]$", r"\1", text)
        if text.count("$") - text.count(r"\$") > 0 and _math_dollars(text):
            text = re.sub(r"(?<!\\)\$+", " ", text)
        for mark in ("**", "__", "*", "`", '"', "'", "''"):
            if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
                text = text[len(mark) : -len(mark)]
        box = _WRAPPERS.match(text)
        if box and _closes_at_end(text, box.end() - 1):
            text = text[box.end() : -1]
        text = text.rstrip(".,;:?")
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        if text == before:
            break
    return text


def _math_dollars(text: str) -> bool:
    """Whether unescaped dollars delimit math (they come in pairs) and are not currency."""
    return len(re.findall(r"(?<!\\)\$", text)) % 2 == 0


def _closes_at_end(text: str, opening: int) -> bool:
    depth = 0
    for match in re.finditer(r"\\[\\{}]|[{}]", text[opening:]):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0 and match[0] == "}":
            return opening + match.start() == len(text) - 1
    return False


def without_separators(text: str) -> str:
    """Thousands separators taken out where the grouping is strict: 1,234,567 but not 1,2345."""
    return _GROUPED_DIGITS.sub(lambda m: re.sub(r"[, ]", "", m[0]), text)


def without_repeating(text: str) -> str:
    """Repeating decimals as fractions: 0.1\\overline{6} is 15/90."""

    def fraction(match: re.Match[str]) -> str:
        whole, fixed, period = match[1] or "0", match[2], match[3]
        above = int(whole + fixed + period) - int(whole + fixed)
        return f"\\frac{{{above}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"

    return _REPEATING.sub(fraction, text)


def as_words(text: str) -> str:
    """Comparable words: case, punctuation, articles and LaTeX dressing off."""
    text = re.sub(r"[{}$\\\\]", " ", re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)).casefold()
    for _ in range(4):  # an article may stand in quotes, quotes behind an article
        text = re.sub(r"\s+", " ", text).strip(" .,;:!?'\"()")
        text = re.sub(r"^(?:(?:the|a|an) )+(?=\S)", "", text)
    return text
