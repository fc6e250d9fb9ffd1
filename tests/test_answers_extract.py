"""Extraction: what counts as the final answer of a reply, and what as none."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers import extract
from pipeline.answers.extract import last_box

reading = sys.modules["pipeline.answers.extract"]  # the package's `extract` is the function
SIGNS = ["the answer is", "Answer:", "option C is correct", "choice", "value equals", "solution"]
FURTHER = [
    "result must be $3$",
    "答案是",
    "所以选",
    "Ответ:",
    "la respuesta es",
    "final answer",
    "İ",
]
NUMBERS = ["5", "-3", "1,234", "$7", "50\\%", ".5", "x2", "4)", ",", "/", "+", "\n", " ", "**"]
texts = st.lists(st.sampled_from(SIGNS + FURTHER + NUMBERS), max_size=12).map("".join)

REPLIES = [
    # boxes
    ("So the answer is $\\boxed{42}$.", "42"),
    ("First \\boxed{3}, no, \\boxed{5}", "5"),
    ("\\boxed{35 cm} was wrong. The result is \\boxed{4}", "4"),
    ("The answer is \\boxed{9}. The reason why it is \\boxed{9} is symmetry.", "9"),
    ("\\boxed{\\frac{1}{\\sqrt{2}}}", "\\frac{1}{\\sqrt{2}}"),
    ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
    ("\\boxed{\\left\\{x : x > 1\\right\\}}", "\\left\\{x : x > 1\\right\\}"),
    ("\\boxed{ 7 }\\]", "7"),
    ("$\\boxed 5$", "5"),
    ("\\fbox{8}", "8"),
    ("\\\\boxed{6}", "6"),
    ("therefore boxed{81}\\).</answer>", "81"),
    ("\x08oxed{12}", "12"),
    ("Put it within \\boxed{}. It is \\boxed{3}.", "3"),
    ("It is \\boxed{3}. As asked, in \\boxed{}.", "3"),
    ("\\boxed{12 then \\boxed{9}", "9"),
    ("\\boxed{\\boxed{4}}", "\\boxed{4}"),
    # boxes that form a list
    ("The roots are $\\boxed{3}$ and $\\boxed{-4}$.", "3, -4"),
    ("$x = \\boxed{1}$, $x = \\boxed{2}$, or $x=\\boxed{5}$", "1, 2, 5"),
    ("\\boxed{2}, \\boxed{2}", "2"),
    ("It is not \\boxed{3} but \\boxed{5}.", "5"),
    # an answer that was dropped is none
    ("An early guess was \\boxed{12}, but the final answer is \\boxed{", None),
    ("An early guess was \\boxed{12}, finally \\boxed{\\frac{1}{2", None),
    ("\\boxed{}", None),
    ("I get 5, in \\boxed{}.", None),
    ("I put it in \\boxed{}. The cost is 3 + 2 = 5.", "5"),
    # thinking
    ("<think>Maybe \\boxed{3}. No.</think>\nThe answer is \\boxed{5}.", "5"),
    ("<think>Maybe \\boxed{3}", None),
    ("Maybe \\boxed{3}.</think> It is \\boxed{5}", "5"),
    ("<think>\\boxed{1}</think>\\boxed{2}<think>\\boxed{3}", None),
    ("<think>\\boxed{1}</think><think>\\boxed{2}</think> so \\boxed{3}", "3"),
    ("<think>\\boxed{3}</think>", None),
    ("<THINKING>9</THINKING> It is 8.", "8"),
    # marks
    ("Consistent!\n\n---\n\nFinal Answer: **61**", "61"),
    ("**Final Answer**\n\n61", "61"),
    ("The final answer is: $\\frac{1}{2}$. I hope it is correct.", "\\frac{1}{2}"),
    ("<answer>\n 17 \n</answer>", "17"),
    ("She makes 18.\n#### 18", "18"),
    ("#### 70,000", "70,000"),
    ("#### -3.5", "-3.5"),
    ("#### Step 1\nWe add 2 and 3.\n#### 5", "5"),
    ("The answer is 12.", "12"),
    ("The answer is 12. Check: 3 * 4 = 12, which took 1 step.", "12"),
    ("the correct answer is: (B)", "(B)"),
    ("Thus the answer is x = 3.", "x = 3"),
    ("The answer is $29.00.", "$29.00"),
    ("Answer: 3.14", "3.14"),
    ("Answer: m+n = 256+37 = 293", "m+n = 256+37 = 293"),
    ("The answer is 42 because geometry proves it", "42"),
    ("First compute 6*7.\n42", "42"),
    ("The answer is:\n\n\\[ 12 \\]", "12"),
    ("The correct option is (B).", "(B)"),
    ("### Final Answer\n$$\\boxed{42}$$", "42"),
    ("To get the final answer, we multiply 5 by 3.\n5*3 = 15.", "15"),
    ("We find the final answer step by step.\nFirst, 3+5=8, so there are 8.", "8"),
    ("To get the final answer, multiply 5 by 3.\n\nThe answer is 15.", "15"),
    ("The final answer for part 1 is 7.", "7"),
    ("The final answer should be 12.", "12"),
    ("final answer = 12", "12"),
    ("Solution: Each of 3 boxes has 5 apples. So there are 15 apples.", "15"),
    ("The sum is 12. The solution is straightforward.", "12"),
    ("The solution is x = 5, as 5 < 7.", "x = 5, as 5 < 7"),
    ("The answer is therefore 12.", "12"),
    ("The answer is, therefore, $12$.", "12"),
    ("So the answer is approximately 12 apples.", "12 apples"),
    ("Final answer: He has 12 apples.", "12 apples"),
    ("The answer is a total of 12.", "12"),
    ("Final answer: Total cost: $12", "$12"),
    ("The answer is at least 12.", "at least 12"),
    ("The answer is May 12.", "May 12"),
    ("The answer is 12, I think.", "12"),
    ("The answer is:\n- 12", "12"),
    ("Answer: **12** apples", "12 apples"),
    ("The answer is 12</s>", "12"),
    ("The answer is 12.\n\nassistant\nThe answer is 13", "12"),
    ("assistant\nThe answer is 12", "12"),
    ("The answer is $\\$72$.", "\\$72"),
    ("She pays $\\$72$ in all.", "\\$72"),
    ("It costs \\$5 for one and \\$7 for both.", "$7"),
    ("### 72", "72"),
    ("Final Answer:12", "12"),
    ("Final Answer 12", "12"),
    ("So x = 5.\nCheck: 2*5 = 10. The answer is correct: x is 5.", "5"),
    ("So x = 5, that is, 5 of them. This solution is indeed correct.", "5"),
    # a reason behind the answer, an answer below the sign, a letter that is called right
    ("The answer is C because B is wrong.", "C"),
    ("The answer is C, since $x = 3$.", "C"),
    ("The answer is 12, which is the sum of 5 and 7.", "12"),
    ("The answer is the number of ways, which is 12.", "12"),
    ("The answer is the sum, which is 12.", "12"),
    ("The answer is 12, not 13.", "12"),
    ("Let x = 4.\n\n**Answer:**\n\n(C) 7", "(C) 7"),
    ("Answer:\nC", "C"),
    ("Answer:\nWe have 3 bags.\n\nSo it is 4*3 = 12.", "12"),
    ("So the answer must be C.", "C"),
    ("The answer should be a whole number. We get x = 12", "12"),
    ("The value is 5, so option C is correct.", "C"),
    ("Option C is not correct. The answer is D.", "D"),
    ("5 + 7 = **12**", "5 + 7 = 12"),
    ("2**3", "2**3"),
    # run-on
    ("#### 18\n\nQuestion: 6 pens, 7 boxes?\nAnswer: 6*7=42\n#### 42", "18"),
    ("\\boxed{1}\n\n**Problem 2:** Another one. \\boxed{2}", "1"),
    ("\\boxed{1}<|im_end|>\n<|im_start|>user \\boxed{2}", "1"),
    ("Question: what is 1+1? Well, the answer is 2.", "2"),
    # last number, bare replies
    ("The total is 48 cards, altogether.", "48"),
    ("The delivery order costs $29.00.", "$29.00"),
    ("Sam spent $5.60 on driving and $2.20 on breakfast", "$2.20"),
    ("She pays $2.25 and 3.50 * 1.5 = $5.00. In all, 3.50 * 1.5 = $5.00.", "$5.00"),
    ("The answer is $5 for one and $7 for all of them.", "$7"),
    ("It costs $45 and with tax $x = 50$.", "50"),
    ("For $n$, between $5 and $6$ as the base, it is 10 minus that of $n$", "10"),
    (
        "Hence $v = \\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}$",
        "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}",
    ),
    ("We have 3 + 4 = 7", "7"),
    ("It goes from 10-3 to 1,234,567.", "1,234,567"),
    ("So it falls to -5 degrees in the end", "-5"),
    ("Hence we get $\\frac{3}{4}$ of them.", "\\frac{3}{4}"),
    ("Hence we get $x = \\frac{3}{4}$ of them.", "\\frac{3}{4}"),
    ("Thursday", "Thursday"),
    ("\\text{no}", "\\text{no}"),
    ("(2, 3.5)", "(2, 3.5)"),
    ("", None),
    ("   \n ", None),
    ("I cannot say what this should come to, sorry about that.", None),
]


@pytest.mark.parametrize(("reply", "answer"), REPLIES)
def test_extracts_the_final_answer(reply: str, answer: str | None) -> None:
    """The final answer is found as it is spelt, or there is none."""
    assert extract(reply) == answer


PHRASES = [  # replies without a box, in the languages that are spoken most
    ("故选 C", "C"),
    ("故选：C。", "C"),
    ("因此答案是 12。", "12"),
    ("答案：$\\frac{1}{2}$", "\\frac{1}{2}"),
    ("综上所述，答案为12。", "12"),
    ("所以，正确答案是（B）。", "B"),
    ("小明一共有 12 个苹果，答案是 12 个。", "12"),
    ("故选C", "C"),
    ("本题选 D。", "D"),
    ("因此，选择 B。", "B"),
    ("最终答案：3/4", "3/4"),
    ("结果为 x=3", "x=3"),
    ("Ответ: 12", "12"),
    ("Ответ: 12.", "12"),
    ("**Ответ:** 12", "12"),
    ("Ответ — 12 метров.", "12"),
    ("Ответ: x = 3", "x = 3"),
    ("Правильный ответ: B", "B"),
    ("Ответ: 12,5", "12.5"),
    ("Таким образом, ответ равен 12.", "12"),
    ("Ответ:\n12", "12"),
    ("Ответ: да", "да"),
    ("Правильный вариант ответа — (C).", "C"),
    ("Ответ: 3; 5", "3; 5"),
    ("La respuesta es 12", "12"),
    ("La respuesta correcta es 12.", "12"),
    ("La respuesta final es: **12**", "12"),
    ("Respuesta: 12", "12"),
    ("Por lo tanto, la respuesta es $\\frac{3}{4}$.", "\\frac{3}{4}"),
    ("La respuesta correcta es la opción B.", "B"),
    ("El resultado es 12 metros.", "12"),
    ("La solución es x = 3.", "x = 3"),
    ("La respuesta es sí.", "sí"),
    ("La réponse est 12.", "12"),
    ("La réponse est donc 12.", "12"),
    ("Réponse : 12", "12"),
    ("La bonne réponse est (C).", "C"),
    ("Le résultat est 3,5.", "3.5"),
    ("A resposta é 12.", "12"),
    ("A resposta correta é 12", "12"),
    ("Resposta: 12", "12"),
    ("Resposta final: 12", "12"),
    ("A resposta é a opção D.", "D"),
    ("الجواب هو 12.", "12"),
    ("الإجابة هي 12", "12"),
    ("الإجابة الصحيحة هي (B)", "B"),
    ("الجواب: ١٢", "١٢"),
    ("الإجابة النهائية: 12", "12"),
    ("الناتج هو 12", "12"),
    ("إذن الجواب هو 12 مترا", "12"),
    ("उत्तर: 12", "12"),
    ("उत्तर 12 है।", "12"),
    ("अतः सही उत्तर 12 है।", "12"),
    ("अंतिम उत्तर: १२", "१२"),
    ("सही उत्तर विकल्प B है।", "B"),
    ("इसलिए उत्तर है 12।", "12"),
    ("উত্তর: 12", "12"),
    ("উত্তর হল ১২।", "১২"),
    ("সুতরাং উত্তর হলো 12।", "12"),
    ("সঠিক উত্তর: (B)", "B"),
    ("উত্তরটি হল 12", "12"),
    ("جواب: 12", "12"),
    ("جواب 12 ہے۔", "12"),
    ("لہٰذا جواب ہے 12", "12"),
    ("درست جواب (C) ہے۔", "C"),
    ("Die Antwort ist 12.", "12"),
    ("Die Antwort lautet 12.", "12"),
    ("Antwort: 12", "12"),
    ("Das Ergebnis ist 3,5.", "3.5"),
    ("Die richtige Antwort ist B.", "B"),
    ("Lösung: x = 3", "x = 3"),
    ("答えは12です。", "12"),
    ("答え：12", "12"),
    ("答えは $\\frac{1}{2}$ です。", "\\frac{1}{2}"),
    ("よって、正解は B です。", "B"),
    ("したがって、答えは 12 個です。", "12"),
    ("Alors 3+4=7. La réponse est 7", "7"),
    ("Let me check. The answer is 5.", "5"),
    ("Ответ: 1/3", "1/3"),
    ("Ответ: 50%", "50%"),
    ("Ответ: -5", "-5"),
    ("La respuesta es -5 grados.", "-5"),
    ("Ответ: 12 км/ч", "12 км/ч"),
    ("答案是 (1, 2)", "(1, 2)"),
    ("答案是 1,234", "1,234"),
    ("Ответ: 3 и 5", "3 и 5"),
    ("La réponse est 1 234", "1 234"),
    ("故答案为：12", "12"),
    ("【答案】12", "12"),
    ("【答案】C", "C"),
    ("答：共有 12 个。", "12"),
    ("所以答案就是12", "12"),
    ("So the answer is 12. 答案是 13", "13"),
    ("小明有12个苹果", "12"),
]


@pytest.mark.parametrize(("reply", "answer"), PHRASES)
def test_reads_the_usual_phrases_of_many_languages(reply: str, answer: str) -> None:
    """The answer is found behind what speakers of a language say before it."""
    assert extract(reply) == answer


def test_last_box_reads_everything() -> None:
    """The paper's rule takes the last complete box of all the text, thinking included."""
    assert last_box("<think>\\boxed{3} and \\boxed{4}") == "4"
    assert last_box("<think>\\boxed{3}</think> no \\boxed{") == "3"
    assert last_box("no box") is None


@pytest.mark.parametrize(
    "piece",
    [
        "\\boxed{",
        "<think>",
        "<answer>",
        "$",
        "\\(",
        "the answer is ",
        "Q:\n",
        "1,",
        "####\n",
        "{",
        "\\",
        "\\boxed",
        "Ответ: ",
        "答案是",
        "जवाब है ",
        "answer ",
        "1+",
        "final answer ",
    ],
)
def test_is_linear_in_the_length(piece: str) -> None:
    """A long reply made of one repeated piece takes about as long a character as a short one."""
    start = time.process_time()
    extract(piece * (200_000 // len(piece)))
    seconds = time.process_time() - start

    assert seconds < 4


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_searching_from_the_end_finds_what_comes_last(text: str) -> None:
    """The quick searches agree with the patterns that they stand for, read from the start."""
    folded = reading._folded(text)
    for pattern, words in (
        (reading._PHRASE, reading._PHRASE_NOUNS),
        (reading._NAMED_RIGHT, reading._RIGHT_NOUNS),
        (reading._FINAL_LINE, ("final answer",)),
    ):
        last = reading._last(pattern, words, text, folded)
        spans = [found.span() for found in pattern.finditer(text)]
        assert [last and last.span()] == (spans[-1:] or [None])
    numbers = [found[0] for found in reading._NUMBER.finditer(text)]
    if "$" not in text:
        assert [reading._last_number(text)] == (numbers[-1:] or [None])
    if reading._ABROAD.search(text):
        assert any(root in folded for root in reading._ROOTS)


def test_an_answer_in_any_language_has_a_root_to_look_for() -> None:
    """What is left of each noun is letters alone: it is looked for as it stands."""
    assert all(root.isalpha() or not root.isascii() for root in reading._ROOTS)
    assert all(reading._ABROAD.search(f" {root}: 5") for root in reading._ROOTS)
