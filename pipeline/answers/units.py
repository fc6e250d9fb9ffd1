"""*Units*: parses the unit, percent sign or counted things with a number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from pipeline.answers.algebra.tokens import FUNCTIONS, Token, Type, depths

_TABLE = """
m 1 m* meter* metre*|m 0.0254 in inch inche|m 0.3048 ft foot feet|m 0.9144 yd yard
m 1609.344 mi mile|g 1 g* gram* gramme* gm|g 453.59237 lb pound|g 28.349523125 oz ounce
g 1000000 t tonne|ton 1 ton|s 1 s* sec second*|s 60 min minute|s 3600 h hr hour|s 86400 d day
s 604800 wk week|month 1 mo month|month 12 yr y year annum|month 120 decade|month 1200 century
m3 0.001 L* l* liter* litre*|m3 0.003785411784 gal gallon|m3 0.000946352946 qt quart
m3 0.000473176473 pt pint|m3 0.0002365882365 cup|m2 10000 ha hectare|m2 4046.8564224 acre
m.s-1 0.44704 mph|m.s-1 5/18 kph kmh kmph|m.s-1 463/900 knot kn
g.m.s-2 1000 N* newton*|g.m2.s-2 1000 J* joule*|g.m2.s-2 4184 cal* calorie*|eV 1 eV* electronvolt*
m3 1/1000000 cc|g.m2.s-2 1/10000 erg|g.m.s-2 1/100 dyn dyne
g.m2.s-2 1000 Nm|g.m2.s-2 3600000 Wh* watthour*
g.m2.s-3 1000 W* watt*|g.m2.s-3 745700 hp horsepower|g.m-1.s-2 1000 Pa* pascal*
g.m-1.s-2 100000000 bar* |g.m-1.s-2 101325000 atm atmosphere|s-1 1 Hz* hertz*|rpm 1 rpm
A 1 A* amp* ampere*|A.s 1 C* coulomb*|g.m2.s-3.A-1 1000 V* volt*|g.m2.s-3.A-2 1000 ohm* Ω*
A2.s4.g-1.m-2 1/1000 F* farad*|g.s-2.A-1 1000 T tesla|g.m2.s-2.A-2 1000 H henry|K 1 K* kelvin
m 1/10000000000 angstrom|m 1/1000000 micron|m2 1/10000000000000000000000000000 b* barn*
mol 1 mol* mole*|mol.m-3 1000 M molar|cd 1 cd candela|db 1 dB decibel|s-1 37000000000 Ci* curie*
s-1 1 Bq* becquerel*|g.m-1.s-2 2533125/19 mmHg torr Torr
degree 1/60 arcminute arcmin|degree 1/3600 arcsecond arcsec
bit 1 bit*|bit 8 B* byte*|celsius 1 celsius|fahrenheit 1 fahrenheit
degree 1 degree deg|rad 1 rad radian|dollar 1 dollar usd buck 美元 dólar доллар डॉलर ドル
dollar 0.01 cent
euro 1 euro eur 欧元|gbp 1 gbp|yen 1 yen jpy JPY 円 日元|yensign 1 yensign
yuan 1 yuan rmb cny 元 块|rupee 1 rupee rs inr
m 1000 km 千米 公里|m 1/100 cm 厘米|m 1 m 米|g 1000 kg 千克 公斤|g 1 g 克|s 3600 h 小时
s 60 min 分钟|s 1 s 秒|s 86400 d 天|month 12 yr 年|degree 1 degree 度|m3 0.001 L 升
"""
_SYMBOLS = {"Y": 24, "Z": 21, "E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "K": 3, "h": 2,
            "d": -1, "c": -2, "m": -3, "u": -6, "μ": -6, "n": -9, "p": -12, "f": -15}  # fmt: skip
_MONEY = ("dollar", "euro", "gbp", "yen", "rupee", "yuan", "yensign")
_LONGEST = 24
"""Most tokens of a unit."""
_SPELT = {
    "cup": "cup",
    "cdot": "*",
    "circ": "°",
    "times": "*",
    "in": "in",
    "min": "min",
    "degrees": "degree",
}
_VALUE_ENDS = frozenset(("}", ")", "]", "|", "!", "pi", "infty", "rfloor", "rceil"))
_PREFIXES = {"tera": 12, "giga": 9, "mega": 6, "kilo": 3, "hecto": 2, "deci": -1, "centi": -2,
             "milli": -3, "micro": -6, "nano": -9, "pico": -12}  # fmt: skip
_PERCENT = Fraction(1, 100)
MULTIPLES = {
    "bps": Fraction(1, 10_000), "bp": Fraction(1, 10_000), "basis points": Fraction(1, 10_000),
    "万": Fraction(10**4), "萬": Fraction(10**4), "亿": Fraction(10**8), "千": Fraction(1000),
    "тысяч": Fraction(1000), "тыс": Fraction(1000), "mil": Fraction(1000), "млн": Fraction(10**6),
    "%": _PERCENT, "percent": _PERCENT, "percentage": _PERCENT, "pct": _PERCENT,
    "hundred": Fraction(100), "thousand": Fraction(1000), "million": Fraction(10**6),
    "billion": Fraction(10**9), "trillion": Fraction(10**12), "lakh": Fraction(10**5),
    "crore": Fraction(10**7), "dozen": Fraction(12), "half": Fraction(1, 2),
    "halves": Fraction(1, 2), "third": Fraction(1, 3), "quarter": Fraction(1, 4),
    "fourth": Fraction(1, 4), "fifth": Fraction(1, 5), "sixth": Fraction(1, 6),
    "eighth": Fraction(1, 8), "tenth": Fraction(1, 10), "hundredth": Fraction(1, 100),
    "thousandth": Fraction(1, 1000),
}  # fmt: skip
"""Number words that multiply what stands before them."""
_STATEMENTS = """
    a about above after all almost always am an and any approx approximately are as at base be
    because below between billions both but by can cannot case complex crores cubed does doesn't
    dozens eighths else equals every exactly except exists extra extraneous factorial fails false
    few fewer fifths for fourths from given greater halves has have holds hundreds hundredths if
    imaginary impossible in infinite infinitely integer invalid irrational is it its lakhs larger
    least left less lower maximum maybe millions minimum minus mod modulo more most must negative
    never no non none nor not of off on once one only or original other otherwise over per
    percentile perhaps plus positive possible power prime quarters raised rational real rejected
    remainder remains right satisfies should since sixths smaller some sometimes squared tenths than
    that the then there these they thirds this thousands thousandths through thus times to too
    trillions true twice two undefined unique unknown unless until up upper valid was were when
    where which while with without works wrong yes
"""
_NO_THINGS = frozenset(_STATEMENTS.split())
"""Words that say something about a number; no counted thing is called so."""
_THING = re.compile(r"[^\W\d_](?:[^\W\d_]|['.-])*")
_PLURALS = frozenset((
    "people", "children", "men", "women", "fish", "sheep", "deer", "mice", "geese", "teeth", "dice",
    "oxen", "个", "人", "只", "本", "支", "名", "岁", "件", "块", "次", "张", "棵", "辆", "条",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """What stood behind a number."""

    name: str
    """One spelling a unit."""
    dimension: tuple[tuple[str, int], ...] = ()
    """Base units with exponents; empty for counted things."""
    factor: Fraction = Fraction(1)
    """How many base units it is."""

    @property
    def text(self) -> str:
        return f"\\text{{{self.name}}}" if self.dimension else f"({self.name})"

    def may_be(self, other: Unit) -> bool:
        """Whether two counted things may be the same: the words of one are among the other's."""
        words, others = ({_stem(w) for w in u.name.split()} for u in (self, other))
        return words <= others or others <= words or {"unit"} in (words, others)


DEGREE = Unit("degree", (("degree", 1),))


def split_unit(
    tokens: list[Token], letters: bool
) -> tuple[list[Token], Unit | None, Fraction | None]:
    """(tokens without their unit, the unit, what the value is multiplied by or None).

    A unit is a name of the table behind a value, with powers, products and quotients; a currency
    before it; a degree sign. A percent sign multiplies by a hundredth, "million" by a million.
    Other words are taken for counted things where they can only be that.

    Args:
        tokens: those of one value.
        letters: whether letters that are no upright ones may be a unit.
    """
    for place, token in enumerate(tokens[:2]):
        money = _unit("dollar" if token.text in ("$", r"\$") else token.text)
        if money is not None and money.name in _MONEY and place + 1 < len(tokens):
            rest, unit, times = split_unit(tokens[:place] + tokens[place + 1 :], letters)
            return rest, unit or money, times
    at = depths(tokens)
    opens = [n for n in range(1, len(tokens)) if not at[n] and tokens[n].text == "("]
    if (
        opens
        and tokens[-1].text == ")"
        and (tokens[opens[-1] - 1].type is Type.NUMBER or tokens[opens[-1] - 1].text in ")}")
    ):
        words = _spelling(tokens[opens[-1] + 1 : -1]).strip()
        if words == "%":
            return tokens[: opens[-1]], None, _PERCENT
        unit = unit_of(words) if len(words) > 1 else None
        if unit is not None:
            return tokens[: opens[-1]], unit, None
    for place in range(max(1, len(tokens) - _LONGEST), len(tokens)):
        if at[place] or not _opens_unit(tokens, place):
            continue
        found = (
            _measure(_spelling(tokens[place:])) if letters or _is_upright(tokens, place) else None
        )
        if found is not None:
            return tokens[:place], *found
    return tokens, None, None


def _measure(words: str) -> tuple[Unit | None, Fraction | None] | None:
    """What the words behind a value mean: (unit, factor)."""
    words = words.replace("basis point", "bp")
    words = re.sub(r"^units?\s*(?:\^\s*2|squared)$|^sq\.? units?$", "square units", words.strip())
    words = re.sub(r"^units?\s*(?:\^\s*3|cubed)$", "cubic units", words)
    words = re.sub(r" (?:old|tall|long|wide|high|deep)$", "", words)
    first, _, rest = words.replace("per cent", "percent").partition(" ")
    multiple = MULTIPLES.get(first.lower()) or MULTIPLES.get(first.lower().removesuffix("s"))
    if multiple is not None:
        behind = _measure(rest.removeprefix("of ").removeprefix("a ")) if rest else (None, None)
        return None if behind is None else (behind[0], multiple * (behind[1] or 1))
    unit = _unit(words) or _unit(words.partition(" of ")[0])
    if unit is None and is_things(words):
        unit = Unit(things(words))
    return None if unit is None else (unit, None)


def _opens_unit(tokens: list[Token], place: int) -> bool:
    """Whether a unit may start here: behind a value, with a name, a degree or a percent sign."""
    token, before = tokens[place], tokens[place - 1]
    value = before.type in (Type.NUMBER, Type.SYMBOL, Type.TEXT) or before.text in _VALUE_ENDS
    if token.type is Type.SIGN:
        following = tokens[place + 1].text if place + 1 < len(tokens) else ""
        return value and (token.text == "%" or (token.text == "^" and following == "circ"))
    return value and token.type is not Type.NUMBER


def _spelling(tokens: list[Token]) -> str:
    """The tokens as they stood, where they may be a unit; else something that is none."""
    text = ""
    for token in tokens:
        separate = token.spaced or (token.type is Type.TEXT and not token.plain)
        piece = _SPELT.get(token.text, "?") if token.type is Type.COMMAND else token.text
        known = token.type is not Type.SIGN or piece in "{}()^/-.%*'"
        text += (" " if separate else "") + (re.sub("[{}()]", "", piece) if known else "?")
    text = re.sub(r"\\mu ?", "μ", text).replace("\\Omega", "Ω")
    return text.replace("^°", "°").replace("^ °", "°")


def _is_upright(tokens: list[Token], place: int) -> bool:
    """Whether it is plain that no variables are meant: words, a degree or percent sign."""
    tail = tokens[place:]
    if any(t.text == "circ" for t in tail):  # of a number, not of the argument of a function
        return not any(t.type is Type.COMMAND and t.text in FUNCTIONS for t in tokens[:place])
    single = len(tail) == 1 and tail[0].type is Type.COMMAND
    return single or any(t.type is Type.TEXT or t.text == "%" for t in tail)


def unit_of(remark: str) -> Unit | None:
    """The unit, or the things, that brackets behind a number name: 9 (apples)."""
    found = _unit(remark) or _unit(remark.partition(" of ")[0])
    things_ = is_things(remark) or is_things(remark, remark=True)
    return (Unit(things(remark)) if things_ else None) if found is None else found


def is_unit(words: str) -> bool:
    """Whether the table has it."""
    return _unit(words) is not None


def is_things(words: str, remark: bool = False) -> bool:
    """Whether the words name things that are counted: plurals, unless in a remark in brackets."""
    names = re.sub(r"(?<=[a-z])(?:/| per )(?=[a-z])", " ", things(words)).split()
    if not 0 < len(names) <= 6 or not all(_THING.fullmatch(n) and n not in "kmbt" for n in names):
        return False
    if remark:
        kept = [n for n in names if n not in ("of", "per", "a", "the", "in", "for", "and", "one")]
        return bool(kept) and not _NO_THINGS & set(kept) and len(max(kept, key=len)) > 3
    head = names[: names.index("of", 1)] if "of" in names[1:] else names
    last = head[0] if (len(names) > 1 and "/" in words) or " per " in words else head[-1]
    plural = last in _PLURALS or (len(last) > 3 and last[-1] == "s" and last[-2] not in "su")
    return plural and not _NO_THINGS & (set(names) - {"of"})


def things(words: str) -> str:
    """One spelling of counted things."""
    return " ".join(words.lower().split()).rstrip(".")


def _stem(word: str) -> str:
    word = word.strip(".")
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word


@lru_cache
def _names() -> dict[str, tuple[str, str, Fraction, bool]]:
    """Name: (its symbol, dimension, factor, whether it takes prefixes)."""
    found: dict[str, tuple[str, str, Fraction, bool]] = {}
    for row in _TABLE.replace("\n", "|").strip("|").split("|"):
        dimension, factor, *names = row.split()
        for name in names:
            symbol, number = names[0].rstrip("*"), Fraction(factor)
            prefixed = name[-1] == "*"
            found.setdefault(name.rstrip("*"), (symbol, dimension, number, prefixed))
    return found


def _known(word: str) -> tuple[str, str, Fraction] | None:
    """(symbol, dimension, factor) of one name, prefix and plural off."""
    names = _names()
    for spelled in (word, word.lower()) if len(word) > 1 else (word,):
        for name in (spelled, spelled[:-1] if len(spelled) > 2 and spelled[-1] == "s" else ""):
            if name in names:
                return names[name][:3]
            for prefix, power in (*_PREFIXES.items(), *_SYMBOLS.items()):
                stem = name.removeprefix(prefix)
                base = names.get(stem) if stem != name else None
                word_stem = len(stem) > 3 or stem in ("gram", "bit")
                if base and base[3] and (prefix in _PREFIXES) is word_stem:
                    symbol = next(s for s, p in _SYMBOLS.items() if p == power)
                    return symbol + base[0], base[1], base[2] * Fraction(10) ** power
    return None


@lru_cache(maxsize=4096)
def _unit(words: str) -> Unit | None:
    """The unit that words, or symbols with powers and quotients, name."""
    text = re.sub(r"[{}()$~]|\\text|\\cdot|\\,|(?<=[a-z])\.", " ", words.strip())
    text = re.sub(r"\s*°\s*|\bdegrees?\s+(?=[CF]|[Cc]els|[Ff]ahr)", " °", text)
    text = re.sub(r"°\s*(?:C\b|[Cc]elsius)", "celsius", text)
    text = re.sub(r"°\s*(?:F\b|[Ff]ahrenheit)", "fahrenheit", text).replace("°", "degree")
    text = re.sub(r"\bpounds? sterling\b", "gbp", text).replace("US dollar", "dollar")
    text = re.sub(r"\b(?:square|sq) +([A-Za-z]+)", r"\1^2", re.sub(r"\bper\b", "/", text))
    text = re.sub(r"\b(?:cubic|cu) +([A-Za-z]+)", r"\1^3", text)
    text = re.sub(r"立方(\w+)", r"\1^3", re.sub(r"平方(\w+)", r"\1^2", text))
    text = text.replace(" squared", "^2").replace(" cubed", "^3")
    text = re.sub(r"\s*\^\s*", "^", text)
    exponents: dict[str, int] = {}
    dimension: dict[str, int] = {}
    factor = Fraction(1)
    for number, part in enumerate(text.split("/")):
        pieces = [piece for piece in re.split(r"[\s*]+|(?<=[A-Za-z])-(?=[A-Za-z])", part) if piece]
        if not pieces and (number or "/" not in text):
            return None
        for piece in pieces:
            match = re.fullmatch(r"([^\W\d_]+)(?:\^(-?\d)|(\d))?", piece)
            known = _known(match[1]) if match else None
            if (
                match is None
                or known is None
                or len(pieces) > 4
                or (known[1] in _MONEY and len(pieces) > 1)
            ):
                return None
            times = int(match[2] or match[3] or 1) * (-1 if number else 1)
            exponents[known[0]] = exponents.get(known[0], 0) + times
            factor *= known[2] ** times
            for base, power in re.findall(r"([A-Za-z]+?)(-?\d+)?(?:\.|$)", known[1]):
                dimension[base] = dimension.get(base, 0) + int(power or 1) * times
    if not any(dimension.values()):
        return None
    name = " ".join(f"{s}^{e}" if e != 1 else s for s, e in sorted(exponents.items()) if e)
    return Unit(name, tuple(sorted((b, e) for b, e in dimension.items() if e)), factor)
