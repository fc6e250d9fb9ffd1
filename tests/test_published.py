"""Benchmarks by name: rows of our own, in the forms in which the published ones are downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.answers import grade
from pipeline.answers.verdict import Verdict
from pipeline.benchmarks import BenchmarkSource, Fields, load
from pipeline.benchmarks.rows import gold_text
from pipeline.core.errors import DataError

ASKED = "\n\nAnswer with the letter of the right choice."
DATA = Path(__file__).parent / "data" / "benchmarks" / "published.jsonl"
FORMS = [tuple(json.loads(line).values()) for line in DATA.read_text("utf-8").splitlines()]
"""(name, row, question, gold answer) of each form."""
GPQA = {
    "Record ID": "rec1", "Question": "Which?\n", "Correct Answer": "the right one\n",
    "Incorrect Answer 1": "wrong 1", "Incorrect Answer 2": "wrong 2",
    "Incorrect Answer 3": "wrong 3", "High-level domain": "Physics",
}  # fmt: skip


def source_of(folder: Path, name: str, *rows: dict[str, Any], **fields: Any) -> BenchmarkSource:
    """A benchmark whose file has these rows."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return BenchmarkSource(name=name, path=str(file), **fields)


@pytest.mark.parametrize(("name", "row", "text", "gold"), FORMS)
def test_rows_are_read_as_they_are_downloaded(
    tmp_path: Path, name: str, row: dict[str, Any], text: str, gold: str
) -> None:
    """Question and gold answer are those that a reader of the row would name."""
    loaded = load(source_of(tmp_path, name, row))
    (item,) = loaded.items

    assert (item.text, item.gold) == (text, gold)
    assert loaded.warnings == ()
    assert grade(item.gold, item.gold) is Verdict.RIGHT


def test_the_right_choice_of_gpqa_is_at_any_place(tmp_path: Path) -> None:
    """The order is random over questions, the same each time, another with another seed."""
    rows = [{**GPQA, "Record ID": f"rec{number}"} for number in range(200)]
    source = source_of(tmp_path, "gpqa", *rows)
    first, again = load(source).items, load(source).items
    other = load(source_of(tmp_path, "gpqa", *rows, seed=1)).items
    letters = [item.gold for item in first]

    assert first == again != other
    assert all(30 <= letters.count(letter) <= 70 for letter in "ABCD")
    assert all(f"{item.gold}) the right one" in item.text for item in first)
    assert all(text in item.text for item in first for text in ("wrong 1", "wrong 2", "wrong 3"))


@pytest.mark.parametrize("reply", ["C", "(C)", "\\text{C}", "C) 2", "C. 2"])
def test_a_letter_is_graded_in_its_usual_dress(tmp_path: Path, reply: str) -> None:
    """With the text of its choice or without."""
    (item,) = load(source_of(tmp_path, "mmlu-stem", FORMS[-2][1])).items

    assert grade(item.gold, reply) is Verdict.RIGHT


OWN: list[tuple[Fields, dict[str, Any], str, str]] = [
    (Fields(question="doc.ask", answer="doc.key.0"), {"doc": {"ask": "1?", "key": [1]}}, "1?", "1"),
    (Fields(question="{a} {b?} {c}"), {"a": "x ", "b": None, "c": "y", "answer": 1}, "x  y", "1"),
    (Fields(), {"Body": "x.", "Question": "y?", "Answer": 1}, "x. y?", "1"),
    (Fields(unit="u"), {"question": "v?", "answer": 5, "u": "cm"}, "v?", "5 cm"),
    (Fields(), {"problem_text": "v?", "answer_number": "5", "unit": " $\\mathrm{cm}$"}, "v?",
     "5 \\mathrm{cm}"),
    (Fields(), {"question": "v?", "answer": "5", "unit": " "}, "v?", "5"),
    (Fields(), {"problem": "v?", "solution": "42"}, "v?", "42"),
    (Fields(choices=("p", "q"), answer="k"), {"question": "v?", "p": "x", "q": "y", "k": "y"},
     "v?\n\nA) x\nB) y" + ASKED, "B"),
    (Fields(), {"question": "v?", "choices": {"text": ["x", "y"], "label": ["1", "2"]},
                "answer": "1"}, "v?\n\nA) x\nB) y" + ASKED, "A"),
    (Fields(), {"question": "v?", "options": {"A": "x", "B": "y"}, "answer": "B"},
     "v?\n\nA) x\nB) y" + ASKED, "B"),
    (Fields(), {"question": "v?", "options": "a ) 38 , b ) 27 , c ) 30", "answer": "C"},
     "v?\n\nA) 38\nB) 27\nC) 30" + ASKED, "C"),
    (Fields(answer_is="number"), {"question": "v?", "choices": ["x", "y"], "answer": 2},
     "v?\n\nA) x\nB) y" + ASKED, "B"),
    (Fields(answer_is="text"), {"question": "v?", "choices": [1, 2, 3], "answer": 2},
     "v?\n\nA) 1\nB) 2\nC) 3" + ASKED, "B"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "row", "text", "gold"), OWN)
def test_ones_own_files_have_the_same_mapping(
    tmp_path: Path, fields: Fields, row: dict[str, Any], text: str, gold: str
) -> None:
    """Nested names, joined fields, units and choices are open to any file."""
    (item,) = load(source_of(tmp_path, "mine", row, fields=fields)).items

    assert (item.text, item.gold) == (text, gold)


def test_fields_of_a_known_benchmark_can_be_changed_one_by_one(tmp_path: Path) -> None:
    """What the user names wins; the rest of the mapping stays."""
    row = {**GPQA, "key": "k9", "Subdomain": "Optics"}
    fields = Fields(id="key", subject="Subdomain")
    (item,) = load(source_of(tmp_path, "gpqa", row, fields=fields)).items

    assert (item.question_id, item.subject) == ("k9", "Optics")
    assert f"{item.gold}) the right one" in item.text


REFUSED: list[tuple[str, Fields, dict[str, Any], str]] = [
    ("mine", Fields(), {"question": "v?", "answer": None}, "got null in answer"),
    ("mine", Fields(question="{a} {b}"), {"a": "x", "b": "", "answer": 1}, "a row must have b for"),
    ("mine", Fields(choices="alternatives"), {"question": "v?", "answer": "A"},
     "a row must have the choices in alternatives"),
    ("mine", Fields(), {"question": "v?", "choices": ["1", "2", "3"], "answer": "1"},
     "an answer must name one choice, got '1', which is the text of one and the place"),
    ("mmlu-stem", Fields(), {"question": "v?", "choices": ["x", "y"], "answer": 2},
     "an answer must name one of the choices"),
    ("mine", Fields(), {"question": "v?", "choices": ["x", "y"], "answer": True},
     "an answer must name one of the choices"),
    ("aqua", Fields(), {"question": "v?", "options": ["A)1", "B)2"], "correct": "E"},
     "as letter, got 'E'"),
    ("gpqa", Fields(), {**GPQA, "Incorrect Answer 2": None}, "choices must be 2 to 26 texts"),
    ("mine", Fields(), {"question": "v?", "answer": "nan"}, "an answer must be given, got 'nan'"),
    ("mine", Fields(), {"question": "v?", "solution": "We see that. " * 20},
     "a worked solution must give its answer"),
    ("olympiadbench", Fields(), {"id": 1, "question": "v?", "final_answer": ["1", "2"]},
     "an answer must be text or a number"),
    ("mawps", Fields(), {"Question": "N_00 and N_01?", "Numbers": "1 1", "Answer": 2.0},
     "a question must have its numbers, got 'N_00"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "row", "says"), REFUSED)
def test_a_row_that_cannot_be_understood_is_refused(
    tmp_path: Path, name: str, fields: Fields, row: dict[str, Any], says: str
) -> None:
    """With its reason, its place, and how to leave such rows out."""
    with pytest.raises(DataError) as refused:
        load(source_of(tmp_path, name, row, fields=fields))

    assert says in str(refused.value)
    assert "rows.jsonl, line 1 (skip_bad_rows: true of" in str(refused.value)


SUSPECT: list[dict[str, Any]] = [
    {"question": "Which?", "answer": 2, "alternatives": ["x", "y", "z"]},
    {"question": "Which?", "answer": "C"},
    {"question": "Which?", "answer": 1, "A": "x", "B": "y", "C": "z"},
    {"question": "Which?", "answer": 0, "option_a": "x", "option_b": "y", "option_c": "z"},
]


@pytest.mark.parametrize("row", SUSPECT)
def test_a_gold_that_looks_like_an_index_is_a_warning(tmp_path: Path, row: dict[str, Any]) -> None:
    """The choices are in the row and not in the prompt, or nowhere."""
    (warning,) = load(source_of(tmp_path, "mine", row)).warnings

    assert warning.startswith("1 of 1 gold answers of mine look like the place of a choice")
    assert "name the field of the choices in fields.choices" in warning


@pytest.mark.parametrize(
    "row",
    [
        {"question": "Which? A) x B) y", "answer": "B"},
        {"question": "How many?", "answer": 3, "tags": ["x", "y"]},
        {"question": "How many?", "answer": 12, "steps": ["x", "y"]},
    ],
)
def test_plain_golds_are_no_warning(tmp_path: Path, row: dict[str, Any]) -> None:
    """Choices within the question, and numbers that no list beside them explains."""
    assert load(source_of(tmp_path, "mine", row)).warnings == ()


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("24,112 ", "24,112"),
        ("1,234,567", "1234567"),
        ("x = \\boxed{3}", "3"),
        ("3/4 (cups)", "3/4 (cups)"),
        ("3/4 (apples)", "3/4"),
        ("f (x)", "f (x)"),
        ("2 (mod 7)", "2 (mod 7)"),
        ("$\\frac12$", "\\frac12"),
        ("$1$ and $2$", "$1$ and $2$"),
    ],
)
def test_gold_answers_in_the_dress_of_their_benchmarks(answer: str, gold: str) -> None:
    """One comma may part two blanks; a remark in brackets goes, unless it is a unit."""
    assert gold_text(answer) == gold
