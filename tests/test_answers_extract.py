"""Extraction: what counts as the final answer of a reply, and what as none."""

from __future__ import annotations

import time

import pytest

from pipeline.answers import extract
from pipeline.answers.extract import last_box

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
    # run-on
    ("#### 18\n\nQuestion: 6 pens, 7 boxes?\nAnswer: 6*7=42\n#### 42", "18"),
    ("\\boxed{1}\n\n**Problem 2:** Another one. \\boxed{2}", "1"),
    ("\\boxed{1}<|im_end|>\n<|im_start|>user \\boxed{2}", "1"),
    ("Question: what is 1+1? Well, the answer is 2.", "2"),
    # last number, bare replies
    ("The total is 48 cards, altogether.", "48"),
    ("The delivery order costs $29.00.", "$29.00"),
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
    ],
)
def test_is_linear_in_the_length(piece: str) -> None:
    """A long reply made of one repeated piece takes about as long a character as a short one."""
    start = time.process_time()
    extract(piece * (200_000 // len(piece)))
    seconds = time.process_time() - start

    assert seconds < 4
