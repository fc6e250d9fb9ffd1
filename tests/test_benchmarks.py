"""Every form of a benchmark file becomes the same items; every fault is named with its line."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter, ValidationError

from pipeline.answers.graders import GraderSettings
from pipeline.benchmarks import BenchmarkSource, Item, describe_rows, load
from pipeline.benchmarks.rows import gold_text
from pipeline.benchmarks.source import known
from pipeline.core.errors import DataError

FORMS = Path(__file__).parent / "data" / "benchmarks"
ROWS = [
    {"id": 3, "problem": "One and one?", "answer": 2.0, "level": 1, "subject": "Sums"},
    {"id": 4, "problem": "Half of one?", "answer": "\\frac12", "level": 2, "subject": "Parts"},
]
ITEMS = (
    Item(
        benchmark="mine", question_id="3", text="One and one?", gold="2", level="1", subject="Sums"
    ),
    Item(
        benchmark="mine",
        question_id="4",
        text="Half of one?",
        gold="\\frac12",
        level="2",
        subject="Parts",
    ),
)


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    match file.suffix:
        case ".jsonl":
            file.write_text("\ufeff" + lines(*rows), encoding="utf-8")
        case ".json":
            file.write_text(json.dumps({"version": 1, "rows": rows}), encoding="utf-8")
        case ".csv" | ".tsv":
            sign = "\t" if file.suffix == ".tsv" else ";" if name == "semicolons.csv" else ","
            text = [sign.join(rows[0])] + [sign.join(str(v) for v in row.values()) for row in rows]
            file.write_text("\n".join(text), encoding="utf-8")
        case ".arrow":  # as save_to_disk of datasets writes it
            table = pa.Table.from_pylist([{**row, "answer": str(row["answer"])} for row in rows])
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
                out.write_table(table)
            (file.parent / "state.json").write_text("{}")
            if name.startswith("splits/"):
                (folder / "splits" / "dataset_dict.json").write_text("{}")
        case ".parquet":
            table = pa.Table.from_pylist([{**row, "answer": str(row["answer"])} for row in rows])
            pq.write_table(table, file)
    return file


@pytest.mark.parametrize(
    "name",
    [
        "q.jsonl",
        "q.json",
        "q.csv",
        "q.tsv",
        "semicolons.csv",
        "q.parquet",
        "clone/data/test-00000-of-00001.parquet",
        "clone/main/test.csv",
        "saved/data-00000-of-00001.arrow",
        "splits/test/data-00000-of-00001.arrow",
    ],
)
def test_formats_agree(tmp_path: Path, name: str) -> None:
    """The same rows give the same items whatever the format of the file."""
    file = write(tmp_path, name, ROWS)
    path = tmp_path / name.partition("/")[0] if "/" in name else file

    loaded = load(BenchmarkSource(name="mine", path=str(path)))

    assert loaded.items == ITEMS
    assert loaded.skipped == loaded.warnings == ()


def test_a_folder_of_several_sets_is_not_guessed_at(tmp_path: Path) -> None:
    """A cloned data set with two configurations, and a saved one without the split, are refused."""
    for folder in ("main", "socratic"):
        write(tmp_path, f"{folder}/test-00000-of-00001.parquet", ROWS)
    with pytest.raises(DataError, match=r"none or several are in .*: name the file"):
        load(BenchmarkSource(name="mine", path=str(tmp_path)))
    for split in ("train", "validation"):
        write(tmp_path, f"saved/{split}/data-00000-of-00001.arrow", ROWS)
    (tmp_path / "saved" / "dataset_dict.json").write_text("{}")
    with pytest.raises(DataError, match="must have the split test, got train, validation"):
        load(BenchmarkSource(name="mine", path=str(tmp_path / "saved")))


def test_a_file_without_gold_answers_is_not_graded(tmp_path: Path) -> None:
    """Its questions have no gold answer, with a warning that names the cure; a later row with one
    is refused."""
    file = tmp_path / "q.csv"
    file.write_text("question,loesung\n1+1?,2\n")
    loaded = load(BenchmarkSource(name="mine", path=str(file)))

    assert [item.gold for item in loaded.items] == [None]
    assert "fields: {answer: COLUMN}" in loaded.warnings[0]
    jsonl = write(tmp_path, "q.jsonl", [{"problem": "1+1?"}, {"problem": "1+2?", "answer": 3}])
    with pytest.raises(DataError, match="all rows must have gold answers or none"):
        load(BenchmarkSource(name="mine", path=str(jsonl)))


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (27.0, "27"),
        (-1.0, "-1"),
        (70, "70"),
        ("27.0", "27"),
        (0.25, "0.25"),
        (1e-7, "0.0000001"),
        ("025", "025"),
        ("5 + 6 = <<5+6=11>>11\n#### 1,234", "1234"),
        ("1,2", "1,2"),
        ("0,125", "0,125"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        (["204"], "204"),
    ],
)
def test_gold_answers(answer: object, gold: str) -> None:
    """Numbers, worked solutions and boxes give the plain answer."""
    assert gold_text(answer) == gold


@pytest.mark.parametrize("answer", ["", "  ", "so\n####", True, float("nan"), [1, 2], {"a": 1}])
def test_refuses_what_is_no_answer(answer: object) -> None:
    """What cannot be an answer is refused with what came."""
    with pytest.raises(DataError, match="an answer must"):
        gold_text(answer)


BAD_LINES = [
    ('{"id": 9, "problem": "x"', "a line must be one JSON object"),
    ("[1, 2]", "a row must be a JSON object, got list"),
    ("[" * 1_999, "a line must be one JSON object"),
    ({"id": 9, "answer": 1}, "a row must have the question in problem or question or prompt"),
    ({"id": 9, "problem": "x"}, "a row must have the answer in answer"),
    ({"id": 9, "problem": " ", "answer": 1}, "a question must be text that is not empty"),
    ({"id": 9, "problem": "x", "answer": ""}, "an answer must not be empty"),
    ({"id": 3, "problem": "x", "answer": 1}, "an id must be unique, got '3'"),
    ({"problem": "x", "answer": 1}, "a row must have the id"),
    ({"id": True, "problem": "x", "answer": 1}, "an id must be a number or text"),
    ({"id": 9, "problem": "x" * 3_000, "answer": 1}, "a row must have at most 2000 bytes"),
]


@pytest.mark.parametrize(("row", "reason"), BAD_LINES)
def test_bad_rows_name_file_and_line(tmp_path: Path, row: object, reason: str) -> None:
    """A bad row is an error with its place, or a listed skip, and the rest is read."""
    file = tmp_path / "q.jsonl"
    file.write_text(lines(ROWS[0], row, ROWS[1]))
    source = {"name": "mine", "path": str(file), "max_row_bytes": 2_000}

    with pytest.raises(DataError) as caught:
        load(BenchmarkSource(**source))
    loaded = load(BenchmarkSource(**source, skip_bad_rows=True))

    assert reason in str(caught.value)
    assert f"{file}, line 2" in str(caught.value)
    assert loaded.items == ITEMS
    assert [(skip.benchmark, skip.where) for skip in loaded.skipped] == [
        ("mine", f"{file}, line 2")
    ]
    assert loaded.skipped[0].reason in str(caught.value)


def test_wrong_encoding_names_file_and_line(tmp_path: Path) -> None:
    """JSON lines and CSV files that are not UTF-8 are refused where they stand."""
    jsonl, csv = tmp_path / "q.jsonl", tmp_path / "q.csv"
    jsonl.write_bytes(lines(ROWS[0]).encode() + '{"id": 5, "problem": "café?"}'.encode("latin-1"))
    csv.write_bytes("problem,answer\n1+1?,2\ncafé?,3\n".encode("latin-1"))

    for file, line in ((jsonl, 2), (csv, 3)):
        with pytest.raises(DataError, match=rf"must be UTF-8.*{file.name}, line {line}"):
            load(BenchmarkSource(name="mine", path=str(file)))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("q.csv", "problem,answer\n1+1?,2,3\n", "a row must have 2 cells, got 3 in .*line 2"),
        ("q.csv", 'problem,answer\n"1+1?,2\n', "a CSV file must be well formed"),
        ("q.csv", "answer,answer\n1,2\n", "columns of a CSV file must differ"),
        ("q.json", "{", "must be JSON"),
        ("q.json", '{"a": 1}', "must hold a list of rows"),
        ("q.json", "[1]", "a row must be an object, got int in .*row 1"),
        ("q.parquet", "PAR1", "must be a Parquet file"),
        ("q.jsonl", "\n\n", "must have at least one question"),
        ("q.txt", "", "must end in .jsonl"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, text: str, reason: str) -> None:
    """A file that is not what its name says is refused by name."""
    (tmp_path / name).write_text(text)

    with pytest.raises(DataError, match=reason):
        load(BenchmarkSource(name="mine", path=str(tmp_path / name)))


def test_a_file_of_bad_rows_says_what_is_wrong_with_them(tmp_path: Path) -> None:
    """Where every row is left out, the reason of the first stands in the error."""
    file = write(tmp_path, "q.jsonl", [{"problem": "1+1?", "answer": ""}] * 2)

    with pytest.raises(DataError, match=r"got none of 2 rows: .*answer.* in .*line 1"):
        load(BenchmarkSource(name="mine", path=str(file), skip_bad_rows=True))


def test_finds_the_file_in_a_folder(tmp_path: Path) -> None:
    """A folder may hold the benchmark's file among others, or one file alone."""
    write(tmp_path, "other.jsonl", ROWS)
    alone = load(BenchmarkSource(name="mine", path=str(tmp_path)))
    write(tmp_path, "mine_test.jsonl", ROWS[:1])
    named = load(BenchmarkSource(name="mine", path=str(tmp_path)))

    assert alone.items == ITEMS
    assert named.items == ITEMS[:1]
    with pytest.raises(DataError, match="none or several are in"):
        load(BenchmarkSource(name="third", path=str(tmp_path)))
    with pytest.raises(DataError, match="must be a file or folder"):
        load(BenchmarkSource(name="mine", path=str(tmp_path / "none")))


def test_row_counts_of_the_five_are_checked(tmp_path: Path) -> None:
    """A known benchmark with another number of rows is refused, unless a limit is set."""
    file = write(tmp_path, "aime24.jsonl", ROWS)

    with pytest.raises(DataError, match="'aime24' must have 30 rows, got 2"):
        load(BenchmarkSource(name="aime24", path=str(file)))
    assert len(load(BenchmarkSource(name="aime24", path=str(file), limit=1)).items) == 1


def test_describes_what_is_left_out_in_its_place(tmp_path: Path) -> None:
    """A look at the rows shows a bad one where it stands, with the reason to leave it out."""
    file = write(tmp_path, "q.jsonl", [ROWS[0], {"problem": "What?"}, ROWS[1]])
    source = BenchmarkSource(name="mine", path=str(file), skip_bad_rows=True)

    _, (raw, left_out), _ = describe_rows(source)

    assert raw == {"problem": "What?"}
    assert left_out == load(source).skipped[0]


SUM = {"question": "What is 2+2?", "answer": 4}


def test_copies_of_a_question_with_contradicting_golds_are_refused(tmp_path: Path) -> None:
    """Golds 4, 4 and 5 for one text: the error names ids and golds; where bad rows are skipped the
    contradicting row is left out, and the copy that agrees is warned about."""
    file = write(tmp_path, "q.jsonl", [SUM, SUM, SUM | {"answer": 5}])
    with pytest.raises(DataError) as refused:
        load(BenchmarkSource(name="mine", path=str(file)))
    loaded = load(BenchmarkSource(name="mine", path=str(file), skip_bad_rows=True))
    (warning,) = loaded.warnings
    (skip,) = loaded.skipped

    assert "'4' for id 0 and '5' for id 2 of 'What is 2+2?'" in str(refused.value)
    assert f"{file}, line 3" in str(refused.value)
    assert [item.question_id for item in loaded.items] == ["0", "1"]
    assert skip.where == f"{file}, line 3"
    assert "1 of 2 questions of mine repeat the text of another" in warning
    assert "ids 0, 1" in warning


@pytest.mark.parametrize(
    ("grader", "first", "second", "agree"),
    [
        ("math", "\\frac12", "0.5", True),
        ("math", "1/2", "0.6", False),
        ("text", ["Paris", "Paris, France"], ["paris"], True),
        ("text", "Paris", "Rome", False),
        ("command", "assert f(1) == 1", "assert f(2) == 4", True),
    ],
)
def test_golds_of_copies_are_compared_by_what_they_mean(
    tmp_path: Path, grader: str, first: object, second: object, agree: bool
) -> None:
    """White space does not tell questions apart; two spellings of one answer do not contradict."""
    rows = [
        {"question": "What  is\nit?", "answer": first},
        {"question": "What is it?", "answer": second},
    ]
    file = write(tmp_path, "q.jsonl", rows)
    settings = GraderSettings(kind=grader)
    loaded = load(BenchmarkSource(name="mine", path=str(file), grader=settings, skip_bad_rows=True))

    assert len(loaded.items) == (2 if agree else 1)
    assert len(loaded.warnings) == (1 if agree else 0)
    assert len(loaded.skipped) == (0 if agree else 1)


def test_arithmetic_is_generated() -> None:
    """The built-in benchmark needs no file, and its seed decides its questions."""
    loaded = load(BenchmarkSource(name="arithmetic", size=3, split="validation", seed=1))
    again = load(BenchmarkSource(name="arithmetic", size=3, split="validation", seed=1))
    other = load(BenchmarkSource(name="arithmetic", size=3, split="validation", seed=2))

    assert len(loaded.items) == 3
    assert loaded == again
    assert loaded.items != other.items


def test_known_benchmarks_come_from_a_pinned_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name alone the pinned commit of the known data set is read."""
    calls: list[tuple[object, ...]] = []

    def load_dataset(
        name: str, config: str | None, *, split: str, revision: str | None
    ) -> list[dict[str, Any]]:
        calls.append((name, config, split, revision))
        return [{"question": f"{n}?", "answer": f"so #### {n}"} for n in range(1319)]

    fake = types.ModuleType("datasets")
    fake.load_dataset = load_dataset  # type: ignore[attr-defined]  # a module made here
    errors = types.ModuleType("datasets.exceptions")
    errors.DatasetsError = OSError  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, "datasets", fake)
    monkeypatch.setitem(sys.modules, "datasets.exceptions", errors)
    loaded = load(BenchmarkSource(name="gsm8k"))
    load(BenchmarkSource(name="mine", hf_dataset="some/set", revision="abc", hf_split="train"))

    assert loaded.items[5] == Item(benchmark="gsm8k", question_id="5", text="5?", gold="5")
    assert calls == [
        ("openai/gsm8k", "main", "test", known()["gsm8k"].revision),
        ("some/set", None, "train", "abc"),
    ]
    pinned = [each.revision for each in known().values() if each.revision]
    assert [len(revision) for revision in pinned] == [40] * 5


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"name": "mine"}, "must be one of math500"),
        ({"name": "../x", "path": "a"}, "name must be"),
        ({"name": "aime24", "limit": 0}, "limit must be >= 1, got 0"),
        ({"name": "aime24", "size": 3}, "size and split must be of arithmetic"),
        ({"name": "arithmetic", "revision": "x"}, "arithmetic is generated"),
        ({"name": "sums", "path": "x", "size": 3}, "size and split must be of"),
        ({"name": "mine", "path": "x", "hf_dataset": "y"}, "got path, hf_dataset"),
        ({"name": "mine", "loader": "x:y", "revision": "z"}, "got loader, revision"),
        ({"name": "mine", "path": "x", "fields": {"qestion": "q"}}, "qestion"),
        ({"name": "mine", "pth": "x"}, "pth"),
    ],
)
def test_sources_that_cannot_be(values: dict[str, Any], reason: str) -> None:
    """A source is checked where it is written, and no unknown field passes."""
    with pytest.raises(ValidationError, match=reason):
        TypeAdapter(BenchmarkSource).validate_python(values)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "math500",
            [
                ("test/algebra/9001.json", "x^2-1", "2", "Algebra"),
                ("test/precalculus/9002.json", "\\left( 2, 0 \\right)", "5", "Precalculus"),
            ],
        ),
        ("gsm8k", [("0", "48", None, None), ("1", "1260", None, None)]),
        ("aime24", [("901", "023", None, None), ("902", "24", None, None)]),
        ("aime25", [("0", "400", None, None), ("1", "101", None, None)]),
        ("amc23", [("0", "120", None, None), ("1", "0.375", None, None)]),
    ],
)
def test_each_of_the_five_loads_in_the_form_in_which_it_circulates(
    name: str, expected: list[tuple[str, str, str | None, str | None]]
) -> None:
    """Made-up rows with each benchmark's fields, in a folder of all: ids, gold, level, subject;
    a number stays the number, a worked solution gives its last line, and no row is skipped."""
    loaded = load(BenchmarkSource(name=name, path=str(FORMS), limit=2))
    found = [(item.question_id, item.gold, item.level, item.subject) for item in loaded.items]

    assert found == expected
    assert loaded.skipped == ()
    assert all(item.text.endswith(("?", ".")) for item in loaded.items)
