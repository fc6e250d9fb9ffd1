"""*extract*: finds the final answer of a reply: the last box, else weaker signs.

Order: text after the thinking (an open thinking block has no answer); cut where the model goes on
to a question of its own; the last complete box (boxes joined in one sentence form a list); a box
that lost its backslash; an ``<answer>`` block; a "Final Answer" line; a ``####`` line; an "answer
is" phrase; a reply that is nothing but an answer; the last number. A final box that never closes
means that there is no answer: falling back to an earlier guess would grade what the model dropped.

Everything here is linear in the length of the reply. A controller reads every reply whole, so that
plain searches for a word (`str.find`) come before regular expressions, which take a hundred times
as long to find nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pipeline.core.thinking import after_thinking

_ADVERBS = (
    "therefore|thus|hence|then|so|simply|clearly|obviously|just|still|exactly|precisely|about|around"
    "|approximately|roughly|actually|also|only|now|always|indeed|again|finally|equal to|given by"
    r"|(?:found|calculated|determined) to be|(?:a|the) total of|(?:the )?number|that"
)
_SUBJECT = (
    r"(?:he|she|it|they|we|you|there|(?-i:[A-Z][a-z]+)) (?:now )?(?:will )?(?:has|have|had|is|are"
    "|was|were|be|needs?|gets?|got|pays?|paid|earns?|earned|makes?|made|spends?|spent|sold|bought)"
)
_BEFORE = re.compile(
    rf"\A[,:]?[ \t]{{0,9}}(?:\b(?:(?:{_ADVERBS})|{_SUBJECT})\b[,:]?[ \t]+"
    r"|(?:[a-z]+[ \t]){0,3}[a-z]{2,}:[ \t]+)+(?=[$\\(]|[-+]?\.?\d)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-*•]|1[.)])[ \t]+(?=\S)")
_CLOSING = re.compile(r"(?<=\w)\*\*(?=[\s.,;:]|$)")


def without_fillers(clause: str) -> str:
    """A clause from its value on, where nothing before that changes it: "at least 12" stays."""
    found = _BEFORE.match(clause)
    return clause[found.end() :] if found else clause


def without_bullet(line: str) -> str:
    """The only line of a list."""
    return line if "\n" in line else _BULLET.sub("", line, count=1)


def without_closing(text: str) -> str:
    """Text whose opening ``**`` was read already."""
    return _CLOSING.sub("", text, count=1) if text.count("**") == 1 else text


_BOX = re.compile(r"(?:\\(?:boxed|fbox)|\x08oxed|(?<![\\A-Za-z])boxed)(?=[ \t]{0,4}(\{)?)")
_BRACE = re.compile(r"\\[\\{}]|[{}]")
_BARE_BOX = re.compile(r"[ \t]{1,4}(\d[\d.,]{0,40}|[A-Za-z])(?![A-Za-z])")
_BOX_LABEL = re.compile(r"[ \t*#-]{0,4}(?:\(([a-h1-9]|[ivx]{1,4})\)|([a-h1-9])[.)])[ \t*]")
_BOX_NAME = re.compile(r"(?:^|[\s$&,;(])([A-Za-z](?:_\{?\w\}?)?)[ \t]?&?=[ \t$&]{0,4}$")
_JOINT = re.compile(
    r"(?:[\s$,;]|\\[()\[\],;]|\\q?quad\b|\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b"
    r"|\b[A-Za-z](?:_\{?\w\}?)?\s*=)*"
)


@dataclass(frozen=True, slots=True)
class Box:
    """One box, from its backslash to its closing brace."""

    start: int
    end: int | None  # None where the box never closes
    content: str


def last_box(text: str) -> str | None:
    """The content of the last complete box of `text`, whatever stands around it."""
    complete = [box for box in boxes(text) if box.end is not None]
    return complete[-1].content if complete else None


def boxes(text: str) -> list[Box]:
    """The outermost boxes of `text` in order; a box that never closes has no end."""
    first = min((at for at in map(text.find, ("oxed", "fbox")) if at >= 0), default=None)
    if first is None:
        return []
    first = max(0, first - len("\\b"))
    closing = _matching_braces(text, first)
    found: list[Box] = []
    reach = 0
    for match in _BOX.finditer(text, first):
        if match.start() < reach:
            continue  # inside the box before
        if match[1] is not None:
            opening = match.start(1)
            end = closing.get(opening)
            if end is None and _BOX.search(text, opening):
                continue  # never closed, but the reply goes on to another box
            content = text[opening + 1 : end]
            found.append(Box(match.start(), end, content))
            reach = len(text) if end is None else end
        elif bare := _BARE_BOX.match(text, match.end()):
            found.append(Box(match.start(), bare.end(), bare[1].rstrip(".,")))
            reach = bare.end()
    return found


def _matching_braces(text: str, first: int) -> dict[int, int]:
    """Position of the closing brace for each opening one from `first` on that has it."""
    stack: list[int] = []
    closing: dict[int, int] = {}
    for match in _BRACE.finditer(text, first):
        if match[0] == "{":
            stack.append(match.start())
        elif match[0] == "}" and stack:
            closing[stack.pop()] = match.start()
    return closing


def boxed_answer(reply: str, found: list[Box]) -> str | None:
    """The content of the last box, with those before it as a list where they are one sentence, or
    parts by label or name; None where the last one never closes."""
    if found[-1].end is None:
        return None
    filled = [box for box in found if box.content.strip()][-_MOST_BOXES:]
    joined = [filled[-1].content.strip(" \n")]
    labels = [
        _label(reply, box, before) for box, before in zip(filled, [None, *filled], strict=False)
    ]
    for place in range(len(filled) - 1, 0, -1):
        earlier, later = filled[place - 1], filled[place]
        content = earlier.content.strip(" \n")
        parts = labels[place - 1 :]
        if None not in parts and len(set(parts)) == len(parts):
            joined.insert(0, content)
            continue
        between = reply[(earlier.end or 0) + 1 : later.start]
        if len(between) > 40 or not re.search(r"[,;]|and|or", between):
            break
        if not _JOINT.fullmatch(between):
            break
        if content not in joined:
            joined.insert(0, content)
    return ", ".join(joined)


def _label(reply: str, box: Box, before: Box | None) -> str | None:
    """What a box is the answer to: its part, (a) or 1., or the name in front of its sign."""
    start = max(reply.rfind("\n", 0, box.start) + 1, box.start - 300)
    if before is not None:
        start = max(start, (before.end or 0) + 1)
    found = _BOX_LABEL.match(reply[start : box.start])
    if found is None:
        named = _BOX_NAME.search(reply[max(start, box.start - 40) : box.start])
        return named[1] if named else None
    return found[1] or found[2]


_MOST_BOXES = 20
_TAIL_CHARS = 1_000_000
_WINDOW = 1_000
_NEXT_TURN = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|end_of_text)\|>|<｜(?:User|end▁of▁sentence)｜>"
    r"|</s>|<end_of_turn>"
)
_HEADS = (
    "Question|Problem|Exercise|Input|Human|User|Q|问题|問題|题目|Pregunta|Frage|Aufgabe|Domanda"
    "|Pergunta|Вопрос|Задача|प्रश्न|প্রশ্ন|문제|질문|سؤال|Câu hỏi|Soru|Pertanyaan|Soal|Vraag"
    "|Pytanie|Zadanie"
    "|Swali|คำถาม|ప్రశ్న|Питання|Ερώτηση|שאלה|پرسش|سوال"
)
_NEXT_QUESTION = re.compile(
    rf"^[ \t*#]{{0,8}}(?:{_HEADS})[ \t]?(?:\d{{1,4}})?[ \t*]{{0,4}}[:：]"
    r"|^#{1,6}[ \t](?:Question|Problem|Exercise)[ \t]\d{1,4}"
    r"|^(?:assistant|user)[ \t]{0,40}$",
    re.MULTILINE | re.IGNORECASE,
)
_REASON = re.compile(
    r"(?<![ \t,;])[,;]?[ \t]{1,4}(?:because|since|which|whose|where)\b"
    r"|,[ \t]{1,4}(?:not|so|I think)\b",
    re.IGNORECASE,
)
_STRONG = re.compile(r"(?<![\w)\]}*])\*\*(?=[^\s*])([^*\n]{1,400})(?<=\S)\*\*(?![\w(\[{*])")
_VALUE = r"\$|\\|\(?[-+]?\.?\d|\(?(?-i:[A-K])(?![A-Za-z])"
_FINAL_LINE = re.compile(  # not: to find the final answer, add 2 and 3
    r"final answer\b[ \t*_]{0,6}(?:(?:is|equals)\b|[:：=→–—]|-(?!\w)|[ \t]?$"
    rf"|(?:(?:must|should|would|will|has to) be[ \t*]{{1,4}})?(?={_VALUE}))[ \t]?:?[ \t*_]{{0,6}}",
    re.IGNORECASE | re.MULTILINE,
)
_SIGN_WORDS = ("answer", "oxed", "fbox", "####")
_MORE_NOUNS = (  # Korean, Vietnamese, Italian, Turkish, Indonesian, Dutch, Polish, Greek, ...
    "정답|답|đáp án|đáp số|câu trả lời|kết quả|risposta|risultato|soluzione|cevap|yanıt|sonuç"
    "|jawabannya|jawaban|hasilnya|antwoord|uitkomst|odpowiedź|odpowiedzią|wynik|απάντηση|αποτέλεσμα"
    "|התשובה|תשובה|پاسخ|відповідь|результат|jibu|సమాధానం|คำตอบ|svaret|svar|odpověď|răspunsul"
    "|răspuns|válasz|vastaus"
)
_PHRASE_NOUNS = ("answer", "result", "solution", "value", "option", "choice")
_RIGHT_NOUNS = ("answer", "option", "choice")
_HASHES = re.compile(r"^####[ \t]*([-+$(\\{\[.\d][^\n]*)$", re.MULTILINE)
_PHRASE = re.compile(  # not: Solution: Each of 3 boxes ...; the solution is simple
    r"\b(?:answer|result|value|option|choice"
    r"|solution(?=[ \t*]{0,4}(?:is|:|=|equals)[ \t*:]{0,6}"
    rf"(?:$|{_VALUE}|[a-zA-Z]\w?[ \t]?=|[(\[{{<])))[ \t*]{{0,4}}(?:is|:|=|equals"
    rf"|(?:must|should|would|will|has to) be(?=[ \t*]{{1,4}}(?:{_VALUE})))[ \t*]{{0,4}}:?"
    r"(?![ \t*]{0,4}(?:indeed[ \t])?(?:in)?correct\b)",
    re.IGNORECASE | re.MULTILINE,
)
_NAMED_RIGHT = re.compile(  # option C is correct
    r"\b(?:option|choice|answer)[ \t*]{1,4}(\(?(?-i:[A-K])(?![A-Za-z])\)?)[ \t*]{0,4}"
    r"is[ \t](?:the[ \t])?(?:correct|right|best)\b",
    re.IGNORECASE,
)
_NOUNS = (  # Chinese and Japanese; Hindi, Bengali, Urdu, Arabic; Romance; Russian, German
    "答案|正确选项|正確選項|结果|結果|(?:故|应|應|所以|因此|本题|本題)?选(?:择|項|项)?|答え|答|正解"
    "|उत्तर|जवाब|विकल्प|উত্তরটি|উত্তর|জবাব|جواب|الجواب|الإجابة|الاجابة|الناتج|الحل"
    "|respuesta|resultado|solución|opción|réponse|résultat|resposta|solução|opção"
    "|ответ[а-я]{0,2}|результат|вариант|antwort|ergebnis|lösung"
)
_NOUNS = f"{_NOUNS}|{_MORE_NOUNS}"
_ROOTS = re.sub(r"\(\?:[^)]*\)\?|\[[^]]*\]\{[^}]*\}", "", _NOUNS).split("|")
_SAYS = (
    "(?:is|est?|é|ist|lautet|será?|равен|равна|равно|это|हैं?|là|è|adalah|ialah|to|jest|είναι|היא|הוא"
    "|ni|er|är|je|este|on|дорівнює)(?![^\\W\\d_])|هو|هي|ہے|হল|হলো|হচ্ছে|คือ|은|는|이"
    "|是|为|為|は|が|[:：=—–】]|-(?=\\s)"
)
_ABROAD = re.compile(
    rf"(?:(?<![^\W\d_])|(?<=[\u0e00-\u0e7f\u3040-\u9fff]))(?:{_NOUNS})"
    r"(?:[ \t]{1,4}(?:correct[ae]?|finale?|النهائية|الصحيحة|النهائي|الصحيح|نهایی|cuối cùng|đúng"
    r"|akhir|akhirnya|końcowa|ostateczna|corretta|sahihi|yake|الصحيحه))?[ \t*]{0,4}"
    rf"(?:(?:(?:{_SAYS})[ \t*]{{0,4}}){{1,2}}|(?=[(（]?[A-K]{{1,6}}(?![A-Za-z])|[-+\d$\\]))",
    re.IGNORECASE,
)
_GROUPING_POINT = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:\.\d{3}){1,4}(?![\d.])")
_EXPLAINED = re.compile(  # what may stand between a number and what explains it
    r"[^\s\d(（,.=+*/^%-]{0,12}(?:[ \t]{1,2}[^\s\d(（,.=+*/^%-]{1,14}){0,2}[.,]?[ \t]?[(（]"
    r"|(?:[ \t]{1,2}[^\W\d_]{1,14}){0,2},[ \t]{1,2}[^\W\d_]{2}"
)
_DECIMAL_COMMA = re.compile(r"(?<![\d,.])(\d+),(\d{1,2}|\d{4,})(?![\d,.])")
_LETTER = re.compile(r"(?<![A-Za-z])[(（]?([A-K])[)）]?(?![A-Za-z])")
_WORDS = re.compile(  # of letters that stand for no quantities
    r"(?<![\\A-Za-z])[A-Za-z]{2,}|[^\W\d_A-Za-z\u00aa-\u00ba\u0370-\u03ff\u2070-\u214f\u1d00-\u1dbf]+"
)
_SET_UPRIGHT = re.compile(r"\\(?:text|mbox|mathrm)\{[^{}]*\}")
_PROSE = re.compile(r"(?<!\S)[a-z]{2,}(?![^\s,.;:])")
_MATH = re.compile(  # $5 for one and $7 for two is money
    r"(?<!\\)\$\$?(?!\d[^$]*(?:\$\d|(?:=|[ \t][a-z]{2,})[ \t]\$))((?:[^$\\]|\\[\s\S]){1,2000})\$\$?"
    r"|\\\(((?:[^$\\]|\\[^(\[$)]){1,2000}?)\\\)|\\\[((?:[^$\\]|\\[^(\[$\]]){1,2000}?)\\\]"
)
_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])[-+])?\$?(?:\d{1,3}(?:,\d{3}){1,9}(?![\d,])|\d+)(?:\.\d+)?(?:/\d+)?(?:\\?%)?"
    r"|(?<![\w.])[-+]?\$?\.\d+"
)
_BROKEN_OFF = re.compile(r"\b(?:is|are|was|the|an?|of|and|or|to|than|by|with|equals?)\s{0,3}$")
_DIGIT = re.compile(r"\d")
_IN_NUMBERS = frozenset("+-$,./\\%")
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)|[。।۔！？؟]")


_WINDOW_CHARS = 8_000
"""How much of a reply is read: an event loop waits for it."""
_LAST_CHARS = 4_000
"""How much of a reply's end is read for signs that anything may be."""
_BLANKS = re.compile(r"[ \t]{40,}+")
_GROUP_SPACE = re.compile(r"(?<=\d)[\u202f\u00a0\u2009](?=\d{3}(?!\d))")
_KEY_VALUE = re.compile(r"(?:final[_ ])?answer=([^|\n]{1,200})\|", re.IGNORECASE)
_JSON_ANSWER = re.compile(
    r'"(?:final|correct)?[_ ]?answer"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){0,2000}"|\[[^\[\]]{0,500}\]'
    r"|-?\d[\d.eE+-]{0,60}|true|false)",
    re.IGNORECASE,
)
_ANSWER_LINE = re.compile(
    r"[ \t*_#>]{0,8}(?:the )?(?:final |correct )?answer[ \t*_]{0,4}[:：][ \t*_]{0,6}(\S.{0,300})$",
    re.IGNORECASE,
)
_ANSWERS_HEAD = re.compile(
    r"[#* ]{0,6}(?:final )?(?:answers?|solutions?|results?)[*: ]{0,5}", re.IGNORECASE
)
_ITEM = re.compile(
    r"(?:\d[.)]|[-*•]|\([a-h]\))[ \t]\$?([A-Za-z](?:_\w)?)[ \t]?=[ \t]?([^=$]{1,60})\$?\.?"
)
_LETTER_FIRST = re.compile(
    r"\W{0,3}(?:(?:[Oo]ption|[Cc]hoice)[ \t])?"
    r"\(?([A-K])(?:\)|[.:](?=\s)|,[ \t]|(?=[ \t]?\n|[ \t]{0,9}$)|[ \t]\()"
    r"|\s{0,3}\(?([a-k])\)?\s{0,3}$"
)
_LETTER_SAID = re.compile(
    r"\b(?:[Ii]t|[Aa]nswer|[Ll]etter|[Oo]ption|[Cc]hoice) (?:is|(?:must|should|would) be)[ \t]"
    r"\(?([A-K])\b(?![ \t][a-z])|\b(?:must|should|would|can only) be[ \t]\(?([A-K])\b"
    r"|\b(?:choose|pick|select|go with)[ \t](?:option[ \t])?\(?([A-K])\b"
    r"|\b([A-K])\)?[ \t]is[ \t](?:the[ \t])?(?:correct|right|best)\b"
    r"|\b(?:[Ll]etter|[Oo]ption|[Cc]hoice|[Aa]nswer)[ \t]?:?\s{1,3}\(?([A-K])\b"
)
_BOLD_LETTERS = re.compile(
    r"\*\*\(?[A-K]\)?\*\*(?:(?:\s|,|-|•|and|;){1,8}\*\*\(?[A-K]\)?\*\*){1,9}"
)
_MARKED = re.compile(r"\*\*([^*\n]{1,80})\*\*|`([^`\n]{1,80})`")
_COURTESY = re.compile(
    r"(?:let me know|i hope|hope this|feel free|if you|would you)\b", re.IGNORECASE
)
_YES_NO = re.compile(r"\W{0,4}(Yes|No|True|False)\b[.,!:;*]")


def extract(text: str, *, choices: bool = False, cut: bool = False) -> str | None:
    """The final answer that a reply gives, as it is spelt there; None where it gives none.

    Args:
        text: the whole reply, thinking included (where the chat template opened the thinking
            block, with the opening tag put back).
        choices: whether the question has lettered choices, so that a letter alone is an answer.
        cut: whether the reply was cut off by a limit of tokens: only an answer that it states is
            one then.
    """
    reply = after_thinking(text)[-_TAIL_CHARS:]
    if "<|begin_of_box|>" in reply:  # GLM
        reply = reply.replace("<|begin_of_box|>", "\\boxed{").replace("<|end_of_box|>", "}")
    reply = _GROUP_SPACE.sub(",", _window(_BLANKS.sub(" ", _own_part(reply))))
    if (keyed := _keyed(reply)) is not None:
        return keyed
    found = boxes(reply)
    if any(box.end is None or box.content.strip() for box in found):
        labelled = _last_line(reply[(found[-1].end or len(reply)) + 1 :])
        return labelled if labelled is not None else boxed_answer(reply, found)
    if found:  # an empty box quotes the instruction, so the answer is behind it
        reply = reply[(found[-1].end or 0) + 1 :]
    cut = cut or _BROKEN_OFF.search(reply[-40:]) is not None
    stated = (_last_line, _block, _final_line, _hashes, _listed, _phrase)
    guessed = (_letter, _bare, _letters, _concluded, _last_number, _yes_no)
    for reading in stated if cut else (*stated, *guessed):
        if reading is _letter and not choices:
            continue
        answer = reading(reply)
        if answer is not None:
            letters = _LETTER.findall(answer) if choices and len(answer) < 30 else []
            return letters[0] if len(letters) == 1 and "or" not in answer.split() else answer
    return None


def _window(reply: str) -> str:
    """The end of a long reply, or what surrounds its last box where that is no part of the end."""
    tail = reply[-_WINDOW_CHARS:]
    at = -1 if "oxed" in tail else reply.rfind("oxed")
    half = _WINDOW_CHARS // 2
    return tail if at < 0 else reply[max(0, at - half) : at + half]


def _own_part(reply: str) -> str:
    """The reply up to where the model starts a turn or a question of its own."""
    turn = _NEXT_TURN.search(reply)
    if turn:
        reply = reply[: turn.start()]
    folded = _folded(reply)
    places = [at for at in map(folded.find, (*_SIGN_WORDS, *_ROOTS)) if at >= 0]
    if not places:
        return reply
    question = _NEXT_QUESTION.search(reply, min(places))
    while question and not reply[: question.start()].strip():
        question = _NEXT_QUESTION.search(reply, question.end())
    return reply[: question.start()] if question else reply


def _keyed(reply: str) -> str | None:
    """The answer of a reply in JSON, or in ``answer=5 | confidence=90``, by its key."""
    plain = reply.strip().removeprefix("```json").removeprefix("```").strip()
    if found := _KEY_VALUE.match(plain[:500]):
        return found[1].strip()
    if not plain.startswith(("{", "[{")):
        return None
    last = next(reversed(list(_JSON_ANSWER.finditer(plain[-8000:]))), None)
    if last is None:
        return None
    try:
        value = json.loads(last[1])
    except ValueError:
        return None
    if isinstance(value, str):
        return last_box(value) or value.strip() or None
    return ", ".join(map(str, value)) if isinstance(value, list) else last[1]


def _last_line(reply: str) -> str | None:
    """What the last line states behind ``ANSWER:``."""
    line = reply.rstrip().rpartition("\n")[2]
    found = _ANSWER_LINE.match(line) if len(line) < 400 else None
    return _clause(found[1]) if found else None


def _listed(reply: str) -> str | None:
    """The values of the lines below a head such as **Answers**: 1. x = 4, 2. y = -1."""
    lines = [line for line in reply[-_LAST_CHARS:].split("\n") if line.strip()]
    items: list[tuple[str, str]] = []
    while lines and len(items) < 9 and (found := _ITEM.fullmatch(lines[-1].strip()[:200])):
        items.insert(0, (found[1], found[2]))
        lines.pop()
    named = len(items) > 1 and len({name for name, _ in items}) == len(items)
    if not named or not lines or not _ANSWERS_HEAD.fullmatch(lines[-1].strip()[:80]):
        return None
    return ", ".join(value.strip() for _, value in items)


def _letter(reply: str) -> str | None:
    """The letter of a choice that a reply starts with or says to be right."""
    text = _STRONG.sub(r"\1", reply[:_LAST_CHARS].strip())
    if found := _LETTER_FIRST.match(text):
        return (found[1] or found[2]).upper()
    last = list(_LETTER_SAID.finditer(_STRONG.sub(r"\1", reply[-_LAST_CHARS:])))
    return next(filter(None, last[-1].groups())) if last else None


def _letters(reply: str) -> str | None:
    """Several bold letters at the end of a reply, in a list or a sentence."""
    tail = reply.rstrip()[-400:]
    found = list(_BOLD_LETTERS.finditer(tail))
    if not found or len(tail) - found[-1].end() > 60:
        return None
    return ", ".join(re.findall(r"\*\*\(?([A-K])\)?\*\*", found[-1][0]))


def _concluded(reply: str) -> str | None:
    """A short bold, or coded, conclusion in the last line that says something."""
    lines = [line.strip() for line in reply[-_LAST_CHARS:].split("\n") if line.strip()]
    if lines and lines[-1].startswith("```"):
        block = lines[:-1]
        length = next((n for n, line in enumerate(reversed(block)) if line.startswith("```")), 9)
        return block[-1].strip() if length == 1 else None
    while len(lines) > 1 and (set(lines[-1]) <= set("-*_ ") or _COURTESY.match(lines[-1])):
        lines.pop()
    marked = list(_MARKED.finditer(lines[-1][:1000])) if lines else []
    if not marked:
        return None
    inside = (marked[-1][1] or marked[-1][2]).strip()
    behind = lines[-1][marked[-1].end() :]
    before = lines[-1][: marked[-1].start()].strip(" -*•")
    if inside.endswith(":") or behind.lstrip().startswith(":") or len(inside.split()) > 6:
        return None
    if re.search(r"\d", re.sub(r"\([^()]*\)", "", behind)) or before.endswith("="):
        return None
    if not before and behind.strip(" .!"):
        return None
    return _clause(inside) if re.match(r"[\d$\\-]", inside) else inside.rstrip(".")


def _yes_no(reply: str) -> str | None:
    found = _YES_NO.match(reply)
    return found[1] if found else None


def _folded(text: str) -> str:
    """`text` in lower case, each character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower()[0] for c in text)


def _last(
    pattern: re.Pattern[str], words: tuple[str, ...], text: str, folded: str
) -> re.Match[str] | None:
    """The last match of a pattern that begins with one of `words` and holds none further on."""
    at = {word: folded.rfind(word) for word in words}
    while (place := max(at.values())) >= 0:
        found = pattern.match(text, place)
        if found:
            return found
        for word in words:
            if at[word] == place:
                at[word] = folded.rfind(word, 0, place + len(word) - 1)
    return None


def _block(reply: str) -> str | None:
    before, closed, _ = reply.rpartition("</answer>")
    _, opened, inside = before.rpartition("<answer>")
    return _clause(inside) if closed and opened else None


def _final_line(reply: str) -> str | None:
    found = _last(_FINAL_LINE, ("final answer",), reply, _folded(reply))
    if found is None:
        return None
    rest = reply[found.end() :].lstrip(" \t\r\n*_:")
    return _clause(rest.partition("\n")[0])


def _hashes(reply: str) -> str | None:
    lines: list[str] = _HASHES.findall(reply) if "####" in reply else []
    return lines[-1].strip() if lines else None


def _phrase(reply: str) -> str | None:
    """What stands behind the last "the answer is", in English or another language."""
    folded = _folded(reply)
    abroad = _ABROAD.finditer(reply) if any(root in folded for root in _ROOTS) else ()
    signs: list[re.Match[str]] = [*abroad]
    for pattern, words in ((_PHRASE, _PHRASE_NOUNS), (_NAMED_RIGHT, _RIGHT_NOUNS)):
        found = _last(pattern, words, reply, folded)
        if found:
            signs.append(found)
    if not signs:
        return None
    last = max(signs, key=lambda sign: sign.start())
    if last.re is _NAMED_RIGHT:
        return last[1]
    if last.re is _ABROAD:
        return _clause_abroad(reply[last.end() :].lstrip(" \t\r\n*_:：").partition("\n")[0])
    line, _, below = reply[last.end() :].lstrip(" \t*").partition("\n")
    if line.strip():
        return _clause(line)
    paragraph = without_bullet(below.strip().partition("\n\n")[0])  # alone, on a line of its own
    return _clause(paragraph) if _bare(paragraph) else None


def _clause_abroad(text: str) -> str | None:
    """As `_clause`: of a sentence that starts with a number, or has one letter of a choice, just
    that; a comma is a decimal sign in a number with one or two places, a point groups digits."""
    clause = _clause(text)
    if clause is None or "\\" in clause or _MATH.search(text):
        return clause
    clause = _DECIMAL_COMMA.sub(r"\1.\2", _GROUPING_POINT.sub(_ungrouped, clause))
    first = _NUMBER.match(clause)
    behind = clause[first.end() :] if first else ""
    if first and _EXPLAINED.match(behind):
        return first[0]
    numbers = list(_NUMBER.finditer(clause))
    if len(numbers) == 1 and not re.search(
        r"[=^*/%°<>√]|\b[a-zA-Z]\b", clause.replace(numbers[0][0], "")
    ):
        return numbers[0][0]
    letters = _LETTER.findall(clause)
    return letters[0] if len(letters) == 1 and not numbers else clause


def _ungrouped(match: re.Match[str]) -> str:
    return match[0].replace(".", "")


def _clause(text: str) -> str | None:
    """The answer in what follows "the answer is"."""
    text = text[:_LAST_CHARS]
    text = without_closing(_STRONG.sub(r"\1", text.strip()).strip("*_ "))
    text = without_fillers(text)
    if not text:
        return None
    reason = _REASON.search(text)
    if reason and _says_something(text[: reason.start()]):
        text = text[: reason.start()]
    math = _MATH.search(text)
    if math and not (text[0] == "$" and text[1:2].isdigit() and text.count("$") % 2):
        return next(part for part in math.groups() if part is not None).strip()
    end = _SENTENCE_END.search(text)
    clause = (text[: end.start()] if end else text).strip().strip("*_ ").rstrip(".,;:")
    if len(re.findall(r"(?<!\\)\b[A-Za-z]{2,}", clause)) <= 3:
        return clause or None
    return _last_number(clause) or clause


def _says_something(text: str) -> bool:
    """Whether what stands before a reason may be the answer: a number, a formula, one word."""
    return bool(re.search(r"[\d$\\]", text) or _LETTER.search(text)) or len(text.split()) == 1


def _bare(reply: str) -> str | None:
    """The whole reply, where it is one short line that says nothing else."""
    line = reply.strip().lstrip("#").strip()
    if "\n" in line or len(line) > 400:  # without its marks it is a fifth as long at least
        return None
    line = _STRONG.sub(r"\1", line)
    if not line or len(line) > 80:
        return None
    words = _WORDS.findall(_SET_UPRIGHT.sub("", line))
    if words and re.search(r"\d", line):
        return None
    return (line.rstrip(".") or None) if len(words) <= 3 else None


def _last_number(reply: str) -> str | None:
    digit = _last_digit(reply)
    if digit is None:
        return None
    start = digit
    while start and (reply[start - 1] in _IN_NUMBERS or reply[start - 1].isdecimal()):
        start -= 1
    last = list(_NUMBER.finditer(reply, start))[-1]
    for math in reversed(list(_MATH.finditer(reply, max(0, last.start() - 4000)))):
        if math.start() <= last.start() < math.end():
            inside = next(part for part in math.groups() if part is not None)
            if len(_PROSE.findall(_SET_UPRIGHT.sub("", inside))) < 2:  # not between two formulas
                return inside.rpartition("=")[2].strip() or None
    return last[0]


def _last_digit(text: str) -> int | None:
    for end in range(len(text), 0, -_WINDOW):
        start = max(0, end - _WINDOW)
        digits = [match.start() for match in _DIGIT.finditer(text, start, end)]
        if digits:
            return digits[-1]
    return None
