"""*Spellings*: parses numerals in a base, choices, labels, dates, times and words."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from fractions import Fraction

from pipeline.answers.algebra import expression as ex
from pipeline.answers.algebra.tokens import Token, Type
from pipeline.answers.normalise import without_separators
from pipeline.answers.values import BaseNumeral, Scalar, Unread, Value, Words

PLAIN = re.compile(r"([-+]?)(\d{1,300})(?:\.(\d{1,300})|/(\d{1,300}))?", re.ASCII)
_PREFIX_BASES = {"x": 16, "b": 2, "o": 8}
_BASE = re.compile(
    r"[{(]?(-?)\s*([0-9A-Fa-f]+(?:\.[0-9A-Fa-f]+)?)\)?\s*(?:_\s*\{?\s*(?:\\text\s*\{)?\s*(?:base\s*)?|\\?(?:text\s*\{)?\s*base\}?\s*)"
    r"(-?\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen)[\s}]*",
    re.ASCII,
)
_CHOICE = re.compile(
    r"(?:(?:[Tt]he )?(?:[Cc]orrect )?(?:[Oo]ption|[Cc]hoice|[Aa]nswer|选项?|選項?)\s*:?\s*)?"
    r"(?:[(\[]\s*([A-K])\s*[)\]]?|([A-K])\s*[).:]?|([a-k])\s*\))"
)
_CHOICE_WITH = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice)\s+)?(?:\(\s*([A-K])\s*\)|([A-Ka-k])\s*\)"
    r"|([A-K])(?:\s*(?:[:](?=\s)|[.])|\s+-(?=[^\\]*[A-Za-z]{4}[^\\]*$)))\s*(?:[:.]\s*)?(\S.*)"
)
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORD_VALUES = {word: n for n, word in enumerate(_ONES)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_WORD_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_CJK_SCALES = {"十": 10, "拾": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8}
_CJK_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
CJK_NUMERAL = re.compile("[零〇一二两兩三四五六七八九十百千万萬亿]{1,12}")
_CJK_FRACTION = re.compile(f"({CJK_NUMERAL.pattern})分之({CJK_NUMERAL.pattern})")
_PARTS_OF_ONE = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
                 "eighth": 8, "tenth": 10}  # fmt: skip


def number_in_words(text: str) -> Fraction | None:
    """The number that English words or Chinese signs name: one hundred and five, two thirds, 十二.

    A lone ordinal, "third", is none.
    """
    if CJK_NUMERAL.fullmatch(text):
        return _scaled([_CJK_DIGITS.get(c) for c in text], [_CJK_SCALES.get(c) for c in text])
    if fraction := _CJK_FRACTION.fullmatch(text):
        below, above = (number_in_words(part) for part in fraction.groups())
        return above / below if above is not None and below else None
    words = re.sub(r"-| and (?=a |one )", " ", text).replace(" and ", " ").split()
    if not 0 < len(words) <= 12:
        return None
    whole, part = (
        Fraction(0),
        _PARTS_OF_ONE.get(words[-1].removesuffix("s").replace("halve", "half")),
    )
    if part is not None and (len(words) > 1 or words[-1] in ("half", "quarter")):
        count = words[-2] if len(words) > 1 else "one"
        times = 1 if count in ("a", "one") else _WORD_VALUES.get(count)
        words = words[:-2]
        if times is None:
            return None
        whole = Fraction(times, part)
    elif part is not None:
        return None
    if words[:1] == ["a"] and len(words) > 1:
        words[0] = "one"
    value = _scaled([_WORD_VALUES.get(w) for w in words], [_WORD_SCALES.get(w) for w in words])
    return None if value is None else value + whole


def _scaled(values: list[int | None], scales: list[int | None]) -> Fraction | None:
    """The sum of values, each times the scales behind it: five thousand, two hundred, six."""
    total, group, last = 0, 0, 0
    for value, scale in zip(values, scales, strict=True):
        if scale is not None and scale >= 1000:
            total, group = total + (group or 1) * scale, 0
        elif scale is not None:
            group += ((last or 1) * scale) - last
        elif value is not None and (not last or (last >= 20 and 0 < value < 10)):
            group += value
        else:
            return None
        last = value or 0
    return Fraction(total + group)


SYMBOLS = {
    "infinity": r"\infty", "positive infinity": r"\infty", "negative infinity": r"-\infty",
    "empty set": r"\emptyset",
    **dict.fromkeys((
        "all real numbers", "all reals", "real numbers", "any real number", "every real number",
        "all real number", "set of all real numbers", "set of real numbers", "all real values",
    ), r"\mathbb{R}"),
}  # fmt: skip
"""Words that are the names of values."""
_SAME_WORDS = {
    "dne": "does not exist", "true": "yes", "false": "no", "correct": "yes", "incorrect": "no",
    **dict.fromkeys(("正确", "正確", "对", "對", "是"), "yes"),
    **dict.fromkeys(("错误", "錯誤", "错", "不正确", "否"), "no"),
    **dict.fromkeys((
        "no solution", "no solutions", "no real solution", "no real solutions", "none", "no such",
        "无解", "nothing",
    ), "no solution"),
}  # fmt: skip
_NO_SUCH = re.compile(
    r"(?:there (?:is|are) )?no such \w+(?: exists?)?"
    r"|there (?:is|are) (?:no(?: real)? solutions?|none)"
    r"|none exists?|no(?: real)? solutions? exists?"
)
_ORDINALS = {
    word: {1: "1st", 2: "2nd", 3: "3rd"}.get(n, f"{n}th")
    for n, word in enumerate((
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
        "tenth", "eleventh", "twelfth",
    ), 1)
}  # fmt: skip
_DAYS = {
    day[:3]: day
    for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
}
_AROUND_WORDS = re.compile(
    r"^(?:(?:it|he|she|they|this|that|the \w+) (?:is|are|was|were) |on (?=\w+day)|in (?=the )"
    r"|the (?:series|sequence|integral|limit|function|statement|claim|answer) (?=\w+$))"
    r"|(?<=st|nd|rd|th) place$"
)
_LABELS = re.compile(r"(?:\(\s*\d{1,2}\s*\)(?:\s|,|;|\\cdot|and|\\text\s*\{\s*and\s*\})*){2,12}")
_SEPARATOR_WORDS = re.compile(r"\s{0,4},?\s{0,4}(?:and|or|,|和|或|y|e|и|et|und)\s{0,4},?\s{0,4}")
_CLOCK = re.compile(
    r"\d{1,2}(?:(?::[0-5]\d){1,2}|(?=.*m))(?:\s*(?:\\text\s*\{)?\s*[ap]\.?\s*m\.?\s*\}?)?",
    re.IGNORECASE,
)
_REMAINDER = re.compile(
    r"(\d{1,9})[\s,(]*(?:\\text\s*\{\s*)?(?:with )?(?:a )?(?:[Rr]|remainder)(?: of)?"
    r"\s*\}?\s*(\d{1,9})\)?"
)
_STATED = re.compile(
    r"(?:the |its |so |hence |thus |therefore,? )?(?:[^\W\d_]+ ){0,5}(?:is|are|equals)"
    r"\s*:?\s*((?:[-+\\\[({$.]|\d).*)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|no|never|less|more|least|most|than|between|if|when|where|there)\b", re.IGNORECASE
)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"((?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6})\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_NAMED_DATE = re.compile(
    rf"(?:(?:on )?{_DAY}(?: of)? {_MONTH}|(?:on )?{_MONTH} {_DAY})(?:,? (?:in )?(\d{{4}}))?"
)
_ISO_DATE = re.compile(r"(\d{4})[-年/](\d{1,2})[-月/](\d{1,2})日?", re.ASCII)
_SLASH_DATE = re.compile(r"(\d{1,2})[/.](\d{1,2})[/.](\d{4})", re.ASCII)
_END = r"\d(?:[\d,]{0,20}\d)?(?:\.\d{1,20})?(?: ?\\?%)?"
_MONEY_SIGN = r"(?:\\?\$|\\text\{(?:euro|gbp|yen|rupee)\} ?)?"
_SPAN = re.compile(
    rf"(?P<between>between )?(?:from )?(?P<low>{_MONEY_SIGN}{_END})"
    r"(?P<after> ?(?:(?!or\b|and\b)[A-Za-z]{2,12}|\\text ?\{[^{}]{1,20}\}))??"
    r"\$? ?(?P<sign>--?|to|and|~|\\sim|\\text ?\{ ?(?:to|-|--) ?\})\$? ?"
    rf"(?P<high>{_MONEY_SIGN}{_END})"
    r"(?P<unit> ?(?:[A-Za-z]{2,12}(?:[ /][a-z]{1,12}){0,3}|\\text ?\{[^{}]{1,20}\}))?"
)
_SEVERAL_LETTERS = re.compile(
    r"(?:(?:[Oo]ptions?|[Cc]hoices?|[Aa]nswers?|[Ss]tatements?)\s*:?\s*)?"
    r"([A-K](?:(?:\s*(?:[,;/&、，;]|\band\b|\bor\b|或|和|与|及)\s*|\s+){1,2}[A-K]){1,9})"
    r"(?: (?:are|is) (?:correct|right|true))?"
)
_PART_LABEL = re.compile(
    r"(?:(?<=[\s,;.])|^)\(?(?:([a-h]|[ivx]{1,4})\)|(?<=\()([1-9])\))(?=\s|[-\d$\\\w])"
)
_PART_ORDERS = (
    ("a", "b", "c", "d", "e", "f", "g", "h"), ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii"),
    tuple("123456789"),
)  # fmt: skip
_NAMED_PART = re.compile(
    r"([A-Za-z]{3,12})(?:\s*[=:]\s*|\s+(?:is |of )?)(-?[\d\\$.][^,;]{0,80})", re.ASCII
)
_SHORT_NAMES = {"maximum": "max", "minimum": "min"}
_BOUNDS = (
    (
        re.compile(
            r"(?:at least|no (?:less|fewer) than|minimum(?: of)?) (.+)|(.+) or (?:more|greater)"
        ),
        r"\ge ",
    ),
    (
        re.compile(r"(?:at most|no more than|up to|maximum(?: of)?) (.+)|(.+) or (?:less|fewer)"),
        r"\le ",
    ),
    (re.compile(r"(?:more|greater|larger) than (.+)"), "> "),
    (re.compile(r"(?:less|fewer|smaller) than (.+)"), "< "),
)
_EXCEPT = re.compile(
    r"(?:all )?(?:the )?real (?:numbers|values)(?: of \w)? (?:except|other than|but)(?: for)? (.+)"
)
_BEARING = re.compile(r"([NS]) ?(\d{1,3}(?:\.\d+)?) ?\^\\circ ?([EW])")


_ELEMENTS = (
    "A[cglmrstu]|B[aehikr]?|C[adeflmorsu]?|D[by]|E[rsu]|F[elmr]?|G[ade]|H[efgos]?|I[nr]?|Kr?|L[airu]"
    "|M[dgnot]|N[abdeip]?|O[s]?|P[abdmortu]?|R[abefghnu]|S[bcegimnr]?|T[abcehilm]|U|V|W|Xe|Yb?|Z[nr]"
)
_FORMULA = re.compile(
    rf"(?:\d{{0,2}}(?:(?:{_ELEMENTS})\d{{0,3}}|\((?:(?:{_ELEMENTS})\d{{0,3}}){{1,6}}\)\d{{0,2}}){{1,12}}"
    r"(?:\^\d?[+-]|[+-])?|\^\d{1,3}(?:_\d{1,3})?[A-Z][a-z]?(?:[_^][\d/]{1,4}){0,2})"
)
_NO_FORMULA = re.compile(r"[=*<>,;|!?&~%]|\\(?!text|mathrm|ce|rm|\s)")
_CHOICE_LETTER = re.compile(r"\W{0,3}(?:\\[a-z]{2,6}\s?\{\s?)?\([A-K]\)")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SCRIPTS_FIRST = re.compile(r"_(\d{1,3})\^(\d{1,3})(?=[A-Z])")


def formula(text: str) -> tuple[str, bool] | None:
    """(one spelling, whether it is nothing else) of a chemical formula, isotope or term symbol."""
    if len(text) > 60 or _NO_FORMULA.search(text) or _CHOICE_LETTER.match(text):
        return None
    plain = unicodedata.normalize("NFKC", text.translate(_SUBSCRIPTS))
    plain = re.sub(r"\\(?:text|mathrm|ce|rm)(?![A-Za-z])|[{}\s$\\]", "", plain)
    plain = _SCRIPTS_FIRST.sub(r"^\2_\1", plain)
    bare = plain if plain.startswith("^") else plain.replace("_", "")
    if not _FORMULA.fullmatch(bare):
        return None
    sure = bare.startswith("^") or re.search(r"[A-Za-z)]\d(?!.*_)|\^\d?[+-]$", plain) is not None
    mixed = re.fullmatch(rf"(?:{_ELEMENTS}){{2,4}}", plain) is not None and not plain.isupper()
    return bare, sure or mixed


def _atoms(text: str) -> str:
    """The letters of a formula and how often each element occurs, in no order."""
    counts: dict[str, int] = {}
    for name, times in re.findall(r"([A-Z][a-z]?)(\d*)", text):
        counts[name] = counts.get(name, 0) + int(times or 1)
    return repr(sorted(counts.items()))


def same_formula(gold: str, predicted: str) -> tuple[bool | None] | None:
    """The decision on two formulas, of which one can be nothing else; None where they are none."""
    sides = [formula(text) for text in (gold, predicted)]
    if sides[0] is None or sides[1] is None or not (sides[0][1] or sides[1][1]):
        return None
    if sides[0][0] == sides[1][0]:
        return (True,)
    plain = "(" not in sides[0][0] + sides[1][0]
    return (False if plain and _atoms(sides[0][0]) != _atoms(sides[1][0]) else None,)


_PIECE = r"(\d+(?:\.\d+)?) ?(?:\\text\{ ?)?([A-Za-z]{1,12}|小时|分钟|时|分|秒|\^\\circ)\.?(?: ?\})?"
_COMPOUND = re.compile(rf"{_PIECE}(?:,? (?:and )?|,)?{_PIECE}(?:(?:,? (?:and )?|,)?{_PIECE})?")
_FEET = re.compile(r"(\d{1,4}) ?' ?(\d{1,2}(?:\.\d+)?) ?(?:\"|'')")
_ARC = re.compile(
    r"(\d{1,3}) ?\^ ?\\circ ?(\d{1,2}(?:\.\d+)?) ?'(?: ?(\d{1,2}(?:\.\d+)?) ?(?:\"|''))?"
)
_CJK_UNITS = {"小时": "h", "时": "h", "分钟": "min", "分": "min", "秒": "s"}


def compound(text: str) -> list[tuple[str, str]] | None:
    """The numbers and units of a quantity in several units: 5 ft 3 in, 2 h 30 min."""
    if found := _FEET.fullmatch(text):
        return [(found[1], "ft"), (found[2], "in")]
    if found := _ARC.fullmatch(text):
        names = ("degree", "arcminute", "arcsecond")
        return [(n, name) for n, name in zip(found.groups(), names, strict=True) if n]
    found = _COMPOUND.fullmatch(text)
    if found is None:
        return None
    groups = [group for group in found.groups() if group is not None]
    units = [_CJK_UNITS.get(name, name) for name in groups[1::2]]
    return list(zip(groups[::2], units, strict=True))


def bearing(text: str) -> Words | None:
    """A direction, which is no product: N 30^\\circ E."""
    found = _BEARING.fullmatch(text)
    return Words(" ".join(("bearing", *found.groups()))) if found else None


def in_signs(text: str) -> str | None:
    """What words say of a number, in signs: at least 5; all real numbers except 1."""
    for pattern, sign in _BOUNDS:
        if found := pattern.fullmatch(text):
            return f"{sign}{next(filter(None, found.groups()))}"
    if found := _EXCEPT.fullmatch(text):
        return rf"\mathbb{{R}} \setminus \{{{found[1]}\}}"
    return None


def base_numeral(text: str) -> BaseNumeral | None:
    """A numeral whose base is stated: 413_5, 413_{\\text{five}}, 413 base 5."""
    prefix = re.fullmatch(r"0([xbo])([0-9A-Fa-f]{1,60})", text)
    if prefix is not None:
        text = f"{prefix[2]}_{_PREFIX_BASES[prefix[1]]}"
    text = re.sub(r"\\text\s?\{\s?([0-9A-Fa-f]+)\s?\}", r"\1", text)
    match = _BASE.fullmatch(text)
    if match is None or not re.search(r"\d", match[2]):
        return None
    base = int(number_in_words(match[3]) or match[3])
    digits = match[2].upper().lstrip("0") or "0"
    digits = f"0{digits}" if digits.startswith(".") else digits
    if not 2 <= abs(base) <= 36 or any(
        int(digit, 36) >= abs(base) for digit in digits.replace(".", "")
    ):
        return None
    return BaseNumeral(match[1] + digits, base)


def clock(text: str) -> Words | None:
    """A time of day, which is no ratio: 12:00, 6:30 p.m., noon."""
    plain = re.sub(r"\\text|[^0-9a-z:]", "", text.lower())
    named = {"noon": "12:00", "12noon": "12:00", "midnight": "0:00"}.get(plain)
    if named is not None:
        return Words(named)
    if not _CLOCK.fullmatch(text):
        return None
    hour, _, minutes = re.sub(r"^(\d+)(?=[ap])", r"\1:00", plain).partition(":")
    if minutes[-2:] in ("am", "pm") and int(hour) <= 12:
        hour = str(int(hour) % 12 + 12 * (minutes[-2:] == "pm"))
        minutes = minutes[:-2]
    return Words(f"{hour}:{minutes}")


def date(text: str) -> Words | None:
    """A day: 21 October 1805, Oct. 21, 1805, 1805-10-21, 10/21/1805 (the month first, unless it
    is above 12), 1805年10月21日."""
    plain = re.sub(r"\\text|[{}]", " ", text).strip()
    found = _ISO_DATE.fullmatch(plain)
    if found is not None:
        year, month, day = (int(part) for part in found.groups())
    elif (found := _SLASH_DATE.fullmatch(plain)) is not None:
        month, day, year = (int(part) for part in found.groups())
        if month > 12:
            month, day = day, month
    else:
        found = _NAMED_DATE.fullmatch(plain.lower())
        if found is None:
            return None
        day = int(found[1] or found[4])
        month = _MONTHS.index((found[2] or found[3])[:3]) + 1
        year = int(found[5] or 0)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return Words(f"date {year:04d}-{month:02d}-{day:02d}" if year else f"date {month}-{day}")


def span(text: str) -> tuple[str, str] | None:
    """The two ends of a range or a score, which is no difference: 10-15, 3 to 4 hours, $10-$20."""
    found = _SPAN.fullmatch(text)
    if found is None or (found["between"] and found["sign"] != "and"):
        return None
    if not found["between"] and found["sign"] == "and":
        return None
    return f"{found['low']}{found['after'] or ''}", f"{found['high']}{found['unit'] or ''}"


def letters(text: str) -> Words | None:
    """Several choices by their letters: A, B and D; (A)(C); options A/C; A C D; a hedge, "A or B",
    is no list."""
    if len(text) > 120 or "=" in text:
        return None
    plain = re.sub(r"\\(?:text|&)|[{}$*\[\]()\\]", " ", text).strip(" .")
    found = _SEVERAL_LETTERS.fullmatch(plain)
    if found is None:
        return None
    names = re.findall(r"\b[A-K]\b", found[1])
    if re.search(r"\bor\b|或", plain):
        return Words(" or ".join(name.lower() for name in names))
    if len(set(names)) < len(names):
        return None
    return Words("".join(sorted(names)).lower(), tuple(sorted(names)))


def parts(text: str) -> list[tuple[str, str]] | None:
    """Parts by their labels: (a) 12 (b) 7; maximum 5, minimum -3; None where they are none."""
    if not any(sign in text for sign in (")", ",", ";", "and")):
        return None
    plain = re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
    marks = list(_PART_LABEL.finditer(plain))
    names = [mark[1] or mark[2] for mark in marks]
    for order in _PART_ORDERS:
        if len(names) > 1 and sorted(names) == sorted(order[: len(names)]):
            break
    else:
        return _named_parts(plain)
    if plain[: marks[0].start()].strip():
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(plain)]
    pieces = [plain[m.end() : end].strip(" ,;.") for m, end in zip(marks, ends, strict=True)]
    if not all(pieces):
        return None
    found = sorted((order.index(name), piece) for name, piece in zip(names, pieces, strict=True))
    return [(str(place + 1), piece) for place, piece in found]


def _named_parts(text: str) -> list[tuple[str, str]] | None:
    found = [_NAMED_PART.fullmatch(piece.strip()) for piece in re.split(r"[,;]|\band\b", text)]
    if len(found) < 2 or None in found:
        return None
    named = [(_SHORT_NAMES.get(m[1].lower(), m[1].lower()), m[2]) for m in found if m]
    return named if len({name for name, _ in named}) == len(named) else None


def remainder(text: str) -> Words | None:
    """A quotient with its remainder, which is no product: 9 R2, 9 remainder 2."""
    match = _REMAINDER.fullmatch(text)
    return Words(f"{match[1]} remainder {match[2]}") if match else None


def labels(text: str) -> Words | None:
    """Numbers of statements: (1)(3), (1), (3), or circled digits."""
    if not _LABELS.fullmatch(text):
        return None
    numbers = sorted(set(re.findall(r"\d+", text)), key=int)
    return Words("".join(f"({number})" for number in numbers), tuple(numbers))


def choice(text: str, small: bool = False) -> tuple[str, str | None] | None:
    """The letter of a multiple choice and what stands behind it: C, (C), Option C, C. 45, c) 45.

    Args:
        text: a cleaned answer.
        small: whether a small letter in parentheses is one too.
    """
    plain = re.sub(r"\\text\s*\{([^{}]*)\}|^\{ *(\([A-K]\)) *\}", r" \1\2 ", text).strip()
    if small and re.fullmatch(r"\(\s*[a-k]\s*\)", plain):
        plain = plain.upper()
    if letter := _CHOICE.fullmatch(plain):
        return (letter[1] or letter[2] or letter[3]).upper(), None
    match = _CHOICE_WITH.fullmatch(plain)
    return None if match is None else ((match[1] or match[2] or match[3]).upper(), match[4])


def stated(text: str) -> str | None:
    """The value of a sentence that states one: "The mode is 1/3" is 1/3."""
    match = _STATED.fullmatch(text)
    return match[1] if match and not _NEGATED.search(text) else None


def as_words(text: str) -> str:
    """Comparable words: case, punctuation, articles and LaTeX dressing off."""
    text = re.sub(r"[{}$\\\\]", " ", re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)).casefold()
    text = re.sub(r"(?<=[^\W\d])\.(?=[\s\w])", "", text)
    for _ in range(4):  # an article may stand in quotes, quotes behind an article
        text = re.sub(r"\s+", " ", text).strip(" .,;:!?'\"()")
        text = _AROUND_WORDS.sub("", text)
        text = re.sub(r"^(?:(?:the|a|an) )+(?=\S)", "", text)
    text = re.sub(r"^all (\w+) ([a-z])$", r"\2 \1", re.sub(r"^([a-z]) is (?=\w)", r"\1 ", text))
    text = _ORDINALS.get(text) or _DAYS.get(text) or text
    if _NO_SUCH.fullmatch(text):
        return "no solution"
    return _SAME_WORDS.get(text, text)


def is_separator(token: Token) -> bool:
    """Whether a token stands between the items of a list: a comma, a semicolon, and, or."""
    if token.type is Type.TEXT:
        return _SEPARATOR_WORDS.fullmatch(token.text) is not None
    return token.type is Type.SIGN and token.text in ",;"


def ungrouped(text: str) -> str:
    """`text` without thousands separators; in brackets a comma always separates."""
    pieces = re.split(r"((?:\\\{|[(\[]).*)", text, maxsplit=1)
    return without_separators(pieces[0]) + "".join(pieces[1:])


def plain_number(match: re.Match[str]) -> Value:
    """A plain integer, decimal or fraction, without the way through tokens and parser."""
    sign, whole, decimals, below = match.groups()
    factor = -1 if sign == "-" else 1
    if below is not None:
        if not below.strip("0"):
            return Unread(match[0], malformed=True)
        return Scalar(ex.number(Fraction(factor * int(whole), int(below))))
    if decimals is None:
        return Scalar(ex.number(factor * int(whole)))
    value = Fraction(factor * int(whole + decimals), 10 ** len(decimals))
    digits = len((whole + decimals).lstrip("0"))
    return Scalar(ex.number(value), places=len(decimals), digits=digits)


def with_places(value: Scalar, tokens: list[Token]) -> Scalar:
    """`value`, its decimal places noted where it is a plain decimal numeral."""
    unsigned = tokens[1:] if tokens[0].text in ("-", "+") else tokens
    if len(unsigned) != 1 or "." not in unsigned[0].text or "e" in unsigned[0].text.lower():
        return value
    whole, _, decimals = unsigned[0].text.partition(".")
    digits = len((whole + decimals).lstrip("0"))
    return replace(value, places=len(decimals), digits=digits)
