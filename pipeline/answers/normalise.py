"""*clean*: normalises the spelling of LaTeX and plain text before parsing."""

from __future__ import annotations

import re
import unicodedata

from pipeline.answers.algebra.tokens import GREEK
from pipeline.answers.units import is_unit
from pipeline.answers.verdict import TooLarge

_WRAPPINGS = 12
MAX_CHARS = 20_000
"""Longest answer that is read; longer ones are only compared as text."""

_UNICODE = {
    **dict.fromkeys("−–—‐‑‒―﹣－˗", "-"), **dict.fromkeys("×✕✖⨯", r"\times "),
    **dict.fromkeys("·⋅∙•‧・", r"\cdot "), **dict.fromkeys("∕⁄", "/"), **dict.fromkeys("、،", ","),
    **dict.fromkeys("∗＊", "*"), **dict.fromkeys("≤⩽≦", r"\le "), **dict.fromkeys("≥⩾≧", r"\ge "),
    **dict.fromkeys("…⋯", r"\ldots "), **dict.fromkeys("’‘′", "'"), **dict.fromkeys("“”″", '"'),
    **dict.fromkeys("°º˚", r"^\circ "), "∶": ":", "。": ".", "；": ";", "٫": ".", "٬": ",",
    "٪": "%", "÷": r"\div ", "π": r"\pi ", "∞": r"\infty ", "≠": r"\ne ", "±": r"\pm ",
    "∓": r"\mp ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R} ", "ℤ": r"\mathbb{Z} ", "ℕ": r"\mathbb{N} ", "ℚ": r"\mathbb{Q} ",
    "ℂ": r"\mathbb{C} ", "⟨": r"\langle ", "⟩": r"\rangle ", "≈": r"\approx ", "≡": r"\equiv ",
    "→": r"\to ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    "€": r"\text{euro}", "£": r"\text{gbp}", "¥": r"\text{yensign}", "￥": r"\text{yensign}",
    "₹": r"\text{rupee}", "ℏ": r"\hbar ", "ℓ": "l",
    "Å": r"\text{angstrom}",
    "¢": r"\text{cent}", **dict.fromkeys("™℠®©", ""),
}  # fmt: skip
_TRANSLATION = str.maketrans(_UNICODE)
_ESCAPES = tuple(
    (re.compile(f"{control}(?={rest})"), "\\\\" + letter)
    for control, letter, rest in (  # what an escape in a string makes of a command
        ("\x07", "a", "[a-z]"), ("\x08", "b", "[a-z]"), ("\x0b", "v", "[a-z]"),
        ("\x0c", "f", "[a-z]"), ("\t", "t", "(?:ext|imes|heta|an|au|frac|riangle|o\\b)"),
        ("\r", "r", "(?:ight|ho\\b|angle|floor|ceil|brace|m\\b)"),
        ("\n", "n", "(?:eq\\b|abla|ot\\b|u\\b)"),
    )
)  # fmt: skip
_COMPASS = {"N": "north", "S": "south", "E": "east", "W": "west"}
_SCRIPTS = {"<super>": "^{", "<sub>": "_{"}
_ROOT = re.compile(r"([\u2070-\u209c\xb2\xb3\xb9]*)([√∛∜])\s*(\d+(?:\.\d+)?|[A-Za-z](?![A-Za-z]))?")
_CIRCLED = re.compile(
    r"\\textcircled\s*\{?\s*(\d+)\s*\}?|[\u2460-\u2473\u2776-\u2793\u24eb-\u24ff]"
)
_VULGAR = re.compile(r"(\d?)([¼½¾⅐-⅞])")
_SPACES = re.compile(
    r"(?P<row>\\\\)|\\(?:[,;:!> ]|quad\b|qquad\b|displaystyle\b|textstyle\b|limits\b"
    r"|nolimits\b|hfill\b|thinspace\b|enspace\b|phantom\{[^{}]*\}|hspace\*?\{[^{}]*\}|blacksquare\b|(?:small|[lL]arge|huge)\b)|~"
)
_SIZES = re.compile(r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s*(\.(?!\d))?")
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathtt|mathcal|boldsymbol|bm|rm|bf|it|operatorname\*?"
    r"|mathop|emph)(?![A-Za-z])"
)
_OPERATOR = re.compile(r"\\operatorname\*?\s?\{\s?([A-Za-z]{2,4})\s?\}(?=\s?[(\[])")
_VECTOR = re.compile(
    r"\\(?:mathbf|boldsymbol|bm|pmb|vec|overrightarrow)(?![A-Za-z])\s?"
    r"(?:\{\s?(\\[a-z]+|[A-Za-z])(\s?'|_\w)?\s?\}|(\\[a-z]+(?![A-Za-z])|[A-Za-z]))"
)
_FONT_LETTER = re.compile(_FONTS.pattern + r"\s*\{\s*([A-Za-z])\s*\}")
_UPRIGHT = re.compile(
    r"(?<=[\w)}/.\-])(\s*)\\(?:mathrm|rm|operatorname)\s*\{((?:[^{}]|\{[^{}]*\})+)\}(?!\s*[_(])"
)
_TEXTS = re.compile(
    r"\\(?:mbox|hbox|textbf|textit|textrm|textsf|texttt|textnormal|textup)(?=\s*\{)"
)
_FRACTIONS = re.compile(r"\\[dtc](frac|binom)(?![A-Za-z])")
_RENAMED = (
    (re.compile(r"\\leq(?:slant)?(?![A-Za-z])|<\s*=|=\s*<"), r"\\le "),
    (re.compile(r"\\geq(?:slant)?(?![A-Za-z])|>\s*=|=\s*>"), r"\\ge "),
    (re.compile(r"\\neq(?![A-Za-z])|\\not\s*=|(?<![\d)}!])!\s*="), r"\\ne "),
    (re.compile(r"\\lt(?![A-Za-z])|&lt;"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])|&gt;"), ">"),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb|dotso)(?![A-Za-z])|\.\.\.+"), r"\\ldots "),
    (re.compile(r"\\ell(?![A-Za-z])"), "l"),
    (re.compile(r"\^\s?\{?\s?\\(?:top|intercal)(?![A-Za-z])\s?\}?"), "^T"),
    (
        re.compile(r"\\text\s?\{\s?\\(?:AA|angstrom)\s?\}|\\(?:AA|angstrom)(?![A-Za-z])"),
        r"\\text{angstrom}",
    ),
    (re.compile(r"\\varnothing(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"(?<=[\w)\]}])( ?)\*\*\1(?=[\w(\-+.{\\])"), "^"),
    (re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)"), r"\\times "),
    (re.compile(r"(?<=\d)\.(?=\s*[/*+\-^)}])"), ""),
    (re.compile(r"_\s*\{\s*(?:\\text\s*)?\{\s*([A-Za-z0-9]{1,20})\s*\}\s*\}"), r"_{\1}"),
    (re.compile(r"(\\\\)\s*\[-?[\d.]+\s*(?:pt|em|ex|mm|cm)\]"), r"\1"),
    (re.compile(r"\^\s*\{?\s*\\prime\s*\}?"), "'"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\(?:lbrace|rbrace)(?![A-Za-z])"), lambda m: r"\{" if "l" in m[0][:2] else r"\}"),
    (re.compile(r"\\(?:vert|lvert|rvert|mid)(?![A-Za-z])"), "|"),
    (re.compile(r"\^\s*\{\s*\\circ\s*\}|\\degrees?(?![A-Za-z])"), r"^\\circ "),
    (re.compile(r"(?<=\d)\{,\}(?=\d{1,2}(?!\d)|\d{4})"), "."),
    (re.compile(r"^\s*\\text\s?\{[^{}]{1,80}\b(?:is|are|equals)\s?:?\s?\}(?=\s*[\d\\$-])"), ""),
    (re.compile(r"(\\text\{[^{}]{1,20}\})(?:,\s?\1)+$"), r"\1"),
    (re.compile(r"^Rs\.?\s?(?=\d)"), r"\\text{rupee} "),
    (re.compile(r"(?<![A-Za-z.])([A-Z])\.([A-Z])\.(?![A-Za-z])"), r"\1\2"),
    (re.compile(r"\{([,:;])\}"), r"\1"),
    (re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3}),(\d{1,2})(?![\d.,])"), r"\1\2.\3"),
    (re.compile(r"\{\s*\}(?=\s*[\^_])"), ""),
    (re.compile(r"(?<=\d)\s+(?=10\s*\^)"), r"\\times "),
    (re.compile(r"^(\d{1,9})-([a-z]{3,20})$"), r"\1 \2"),
    (re.compile(r"(?<=\d) by (?=\d)"), r" \\times "),
    (re.compile(r"\s?或\s?"), " or "),
    (re.compile(r"\\langle(?![A-Za-z])|^\s*\$?<(?=[^<>]*,[^<>]*>\$?\s*$)"), "("),
    (re.compile(r"\\rangle(?![A-Za-z])|(?<=[\d)}\w ])>(?=\$?\s*$)"), ")"),
    (re.compile(r"\(\s*(?:\\text\s*\{)?\s*mod\s*\}?\s*(\d{1,9})\s*\)"), r"\\pmod{\1}"),
    (re.compile(r"\\(?:hat|vec)\s*\{?\s*\\?([ijk])(?:math)?(?![A-Za-z])\s*\}?"), r" \\vec{\1} "),
    (re.compile(r"\\pmod\s*(\d{1,9})(?!\d)"), r"\\pmod{\1}"),
    (re.compile(r"(?<=[A-Z])\s*(?://|∥|\|\|)\s*(?=[A-Z])"), r"\\parallel "),
    (re.compile(r"\{\s*(Var|Cov|Corr)\s*\}(?=\s*\()"), r" \1"),
    (
        re.compile(
            r"^\\mathbb\s?\{\s?(?:N\s?\}\s?\^\s?\{?\s?[*+]|Z\s?\}\s?[_^]\s?\{?\s?\+)\s?\}?$"
        ),
        r"\\text{all positive integers}",
    ),
    (
        re.compile(r"^(?:\[[A-Z][a-z]\] ?)?(?:[1-7][spdf] ?\^ ?\{? ?\d{1,2} ?\}? ?){2,19}$"),
        lambda m: rf"\text{{{re.sub('[{} ]', '', m[0])}}}",
    ),
    (
        re.compile(
            r"^\[\s*(-?[\d./]+(?:[ ,]+-?[\d./]+)*(?:\s*;\s*-?[\d./]+(?:[ ,]+-?[\d./]+)*)+)\s*\]$"
        ),
        lambda m: _matrix_of_program(m[1]),
    ),
    (re.compile(r"^\|\s*([a-z])\s*\|\s*(>|\\ge)\s*([\d./]+)$"), r"\1 \2 \3 or -\1 \2 \3"),
    (re.compile(r"^\|\s*([a-z])\s*\|\s*(<|\\le)\s*([\d./]+)$"), r"-\3 \2 \1 \2 \3"),
    (re.compile(r"\(\s*([a-z])\s*\\circ\s*([a-z])\s*\)\s*\(\s*([a-z])\s*\)"), r"\1(\2(\3))"),
    (re.compile(r"(?:\\mathbb\s*\{?\s*E\s*\}?|(?<![A-Za-z\\])E)\s*\[([^\[\]]*)\]"), r"E(\1)"),
    (re.compile(r"(充分|必要)条件$|(?<=[^\W\d_])です$"), r"\1"),
    (re.compile(r"(?<=[+-])\s*j(\d{1,9})$"), r"\1j"),
    (re.compile(r"^(?:it )?(?:converges|tends) to (?=[\d\\$(-])"), ""),
    (
        re.compile(r",? (?:for (?:some|any|all|every)|where|with) (?:an )?integers? ([a-z])$"),
        r", \1\\in\\mathbb{Z}",
    ),
    (re.compile(r"(?<=\d) /\s?(m|cm|mm|nm|s)$"), r" \\text{\1}^{-1}"),
    (
        re.compile(r"(?<=\d )(km|m|mi|miles|ft|feet|meters|metres) ([NSEW])$"),
        lambda m: f"{m[1]} {_COMPASS[m[2]]}",
    ),
    (re.compile(r"\{([^{}]+)\\over(?![A-Za-z])([^{}]+)\}"), r"\\frac{\1}{\2}"),
    (re.compile(r"^\s*(\d{1,9}) to (\d{1,9})\s*$"), r"\1 : \2"),
    (re.compile(r"(?<!\w)(\d{1,4}) choose (\d{1,4})(?!\w)"), r"\\binom{\1}{\2}"),
    (re.compile(r"^\](?=[^\[\]()]*[,;][^\[\]()]*[\[\]]$)"), "("),
    (re.compile(r"(?<=^[(\[])([^\[\]()]*[,;][^\[\]()]*)\[$"), r"\1)"),
)
_ABOUT = re.compile(
    r"^\s*(?:\\approx|\\sim|~|\\bullet|="
    r"|(?:about|approximately|approx\.?|roughly|around) (?=[\d$\\]))\s*"
)
_WRAPPERS = re.compile(r"\\(?:boxed|fbox|underline|(?:text)?color\s*\{\w+\})\s*\{")
_DOUBLED = re.compile(r"(?<!\\)\\{2,}+(?=[A-Za-z{}%$,!;])")
_GROUPED_DIGITS = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}(?:(?:,\d{3}){1,9}+(?!\d|,\d)|(?: \d{3}){1,9}+(?! ?[\d,])"
    r"|(?:\.\d{3}){2,9}+(?![\d.])|(?:'\d{3}){1,9}+(?!\d))|(?<![\d.,])[1-9]\d?(?:,\d\d){1,9},\d{3}(?![\d,])",
    re.ASCII,
)
_NUMERAL = r"\s{0,4}(?:\{\s{0,4}(\d{1,5})\s{0,4}\}|(\d))\s{0,4}"
_COUNTINGS = (  # {}_5C_2, 5C2; C_5^2 is left to the parser
    re.compile(
        rf"(?<![\w)\]}}])(?:\{{\s{{0,4}}\}})?\s{{0,4}}[_^]{_NUMERAL}\{{?(?P<letter>[CP])\}}?\s*_{_NUMERAL}"
    ),
    re.compile(r"(?<![\w^_{.])(\d{1,4})(?P<letter>[CP])(\d{1,4})(?!\w)"),
    re.compile(r"(?<![\w\\])(?P<letter>C)\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)"),
    re.compile(r"\{(?P<above>[^{}]{1,40})\\choose(?P<below>[^{}]{1,40})\}"),
)
_MIXED = re.compile(
    rf"(?<![\w.^_}}/])(\d{{1,30}})(?:\s*\\frac{_NUMERAL}{_NUMERAL}|\s+(\d{{1,30}})/(\d{{1,30}})(?![\d/.]))",
    re.ASCII,
)
_REPEATING = re.compile(
    r"(?<!\d)(\d{0,100}+)\.(?:(\d{0,100}+)(?:\\(?:overline|bar)\s*\{?(\d{1,100})\}?|\((\d{1,100})\)"
    r"|\\dot\s*\{?(\d)\}?(?:(\d{0,100}+)\\dot\s*\{?(\d)\}?)?)"
    r"|(\d{0,8}?)(\d{1,6}?)\9{2,8}\d{0,6}\s*\\ldots)",
    re.ASCII,
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
    text = _printable(answer)
    if len(text) > 2 * MAX_CHARS:
        raise TooLarge(f"an answer must have at most {2 * MAX_CHARS} characters, written out")
    text = _undoubled(text)
    text = _SPACED_SEPARATOR.sub(",", text)
    text = _SIZES.sub(" ", text)
    text = _UPRIGHT.sub(_unit_or_letters, _SPACES.sub(lambda m: m["row"] or " ", text))
    text = _TEXTS.sub(r"\\text", text)
    text = _OPERATOR.sub(r" \1", text)
    text = _VECTOR.sub(lambda m: rf" \vec{{{m[1] or m[3]}}}{m[2] or ''}", text)
    text = _FONTS.sub(" ", _FONT_LETTER.sub(r" \1", text))
    text = _one_letter_form(text)
    text = _FRACTIONS.sub(r"\\\1", text)
    text = _MIXED.sub(_mixed, text)
    for counting in _COUNTINGS:
        text = counting.sub(_counted, text)
    for pattern, replacement in _RENAMED:
        text = pattern.sub(replacement, text)
    return _unwrapped(text)


def _one_letter_form(text: str) -> str:
    """A letter's variant as the letter, unless the text has both."""
    for name in ("epsilon", "phi", "theta", "rho", "sigma", "kappa", "pi"):
        if f"\\var{name}" in text and not re.search(rf"\\{name}(?![A-Za-z])", text):
            text = text.replace(f"\\var{name}", f"\\{name}")
    return text


def _printable(text: str) -> str:
    """Without control, format and private characters; compatibility forms made plain."""
    text = re.sub(r"^(?:(rac)|(ext|heta))(?=\s*\{|$)", _without_escape, text)
    for pattern, command in _ESCAPES:
        text = pattern.sub(command, text)
    text = _CIRCLED.sub(lambda m: f"({m[1] or int(unicodedata.numeric(m[0]))})", text)
    if text.isascii() and text.isprintable():
        return text
    text = re.sub("([0-9])\u0307", r"\\dot{\1}", text)
    text = re.sub("([0-9])[\u0304\u0305]", r"\\overline{\1}", text)
    text = re.sub("([²³¹⁰-⁹]+)[⁄/]([₀-₉]+)", _plain_fraction, text)
    text = _ROOT.sub(_plain_root, text)
    text = _VULGAR.sub(lambda m: f"{m[1]} {unicodedata.normalize('NFKC', m[2])} ", text)
    pieces, level = [], ""
    for c in text:
        form, _, codes = unicodedata.decomposition(c).partition(" ")
        plain = "".join(chr(int(code, 16)) for code in codes.split()) if form[:1] == "<" else c
        form = _SCRIPTS.get(form, "") if c not in _UNICODE and len(plain) == 1 else ""
        if form != level:
            pieces.append(("}" if level else "") + form)
            level = form
        if form:
            c = plain
        pieces.append(_printable(plain) if "²" in plain or "³" in plain else _plain_character(c))
    return "".join(pieces) + ("}" if level else "")


def _without_escape(match: re.Match[str]) -> str:
    """A command at the start that lost the control character its escape became."""
    return f"\\f{match[1]}" if match[1] else f"\\t{match[2]}"


def _plain_character(c: str) -> str:
    if c.isspace():
        return " "
    if c in _UNICODE:
        return _UNICODE[c]
    if c.isdigit():
        return str(unicodedata.digit(c))
    if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Cn"):
        return ""
    kind, _, letter = unicodedata.name(c, "").replace("LAMDA", "LAMBDA").rpartition(" LETTER ")
    greek = letter.lower() if kind == "GREEK SMALL" else letter.capitalize()
    if kind in ("GREEK SMALL", "GREEK CAPITAL") and greek in GREEK:
        return f"\\{greek} "
    return unicodedata.normalize("NFKC", c).translate(_TRANSLATION)


def _plain_fraction(match: re.Match[str]) -> str:
    """Raised digits over lowered ones."""
    above, below = (unicodedata.normalize("NFKC", group) for group in match.groups())
    return f"\\frac{{{above}}}{{{below}}}"


def _plain_root(match: re.Match[str]) -> str:
    """A root sign with its degree and what stands under it: the number or letter that follows."""
    degree = {"∛": "3", "∜": "4"}.get(match[2]) or unicodedata.normalize("NFKC", match[1])
    below = f"{{{match[3]}}}" if match[3] else " "
    return f"\\sqrt{f'[{degree}]' if degree else ''}{below}"


def _mixed(match: re.Match[str]) -> str:
    """A whole number and a proper fraction behind it as their sum: 1\\frac{4}{5}, 1 4/5."""
    whole, above, below = (group for group in match.groups() if group)
    proper = int(above) < int(below)
    return f"({whole}+\\frac{{{above}}}{{{below}}})" if proper else match[0]


def _matrix_of_program(rows: str) -> str:
    """A matrix as programs write it, 1 2; 3 4, in LaTeX."""
    lines = (re.sub(r"[ ,]+", " & ", row.strip()) for row in rows.split(";"))
    return "\\begin{pmatrix}" + "\\\\".join(lines) + "\\end{pmatrix}"


def _counted(match: re.Match[str]) -> str:
    """A number of combinations or arrangements in LaTeX's usual form."""
    named = match.groupdict()
    if "above" in named:
        return f"\\binom{{{named['above']}}}{{{named['below']}}}"
    letter = named["letter"]
    above, below = (g for g in match.groups() if g is not None and g.isdigit())
    term_symbol = letter == "P" and "^" in match[0][:4] and int(above) < 9
    if int(above) < int(below) or term_symbol:
        return match[0]
    return f"\\binom{{{above}}}{{{below}}}" if letter == "C" else f"perm({above},{below})"


def _unit_or_letters(match: re.Match[str]) -> str:
    """Upright letters behind a value are a unit where the table has it, else only a font."""
    name = re.sub("[{}]", "", match[2]).strip()
    return f"{match[1]}\\text{{{name}}}" if is_unit(name) else match[0]


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
        text = re.sub(r"^\\[(\[](.*)\\[)\]]$|^\{([A-Za-z ]+)\}$", r"\1\2", text)
        if text.count("$") - text.count(r"\$") > 0 and _math_dollars(text):
            text = re.sub(r"(?<!\\)\$+", " ", text)
        for mark in ("**", "__", "*", "`", '"', "'", "''"):
            if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
                text = text[len(mark) : -len(mark)]
        text = _ABOUT.sub("", text)
        box = _WRAPPERS.match(text)
        if box and _closes_at_end(text, box.end() - 1):
            text = text[box.end() : -1]
        text = text.rstrip(".,;:?।")
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
    return _GROUPED_DIGITS.sub(lambda m: re.sub(r"[,.' ]", "", m[0]), text)


def without_repeating(text: str) -> str:
    """Repeating decimals as fractions: 0.1\\overline{6}, 0.1(6) and 0.1666... are 15/90."""

    def fraction(match: re.Match[str]) -> str:
        whole, fixed = match[1] or "0", match[2] or match[8] or ""
        period = match[3] or match[4] or match[9]
        period = period or match[5] + (match[6] or "") + (match[7] or "")
        above = int(whole + fixed + period) - int(whole + fixed)
        return f"\\frac{{{above}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"

    return _REPEATING.sub(fraction, text)
