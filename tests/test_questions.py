"""Questions with seeds, priors and limits."""

import json

import pytest

from pipeline.benchmarks import Item
from pipeline.config.science import PriorsConfig
from pipeline.core.decoding import Decoding
from pipeline.core.errors import DataError
from pipeline.records.questions import question_of, questions_table
from pipeline.strategies import STRATEGIES
from tests.generators import first_requests

ITEMS = [
    Item(benchmark="aime24", question_id="1", text="one?", gold="1"),
    Item(benchmark="gsm8k", question_id="1", text="two?", gold="2"),
]


def questions(priors=None, **more):
    table = questions_table(ITEMS, 3, priors or PriorsConfig(), **more)
    return [question_of(row) for row in table.to_pylist()]


def test_seeds_depend_on_benchmark_and_question():
    """The same id in two benchmarks is two questions; the same run seed gives the same seeds."""
    first, second = questions()

    assert first.seed != second.seed
    assert [q.seed for q in questions()] == [first.seed, second.seed]


def test_a_priors_file_of_the_whole_data_set_gives_a_and_b_but_no_p0(tmp_path):
    """One p0 for all questions would gate all of them at once, so it is left out."""
    path = tmp_path / "priors.json"
    path.write_text(json.dumps({"a": 0.1, "b": 0.3, "p0": 0.7}))
    (first, _) = questions(PriorsConfig(file=str(path)))

    assert (first.priors.a, first.priors.b, first.priors.p0) == (0.1, 0.3, None)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_priors_table_gives_each_question_its_own(tmp_path, suffix):
    """Rows are found by benchmark and id; a and b of the configuration win over the file's."""
    path = tmp_path / f"priors.{suffix}"
    rows = [{"benchmark": "gsm8k", "question_id": "1", "p0": 0.9, "a": 0.5, "b": 0.5}]
    if suffix == "csv":
        path.write_text("benchmark,question_id,p0,a,b\ngsm8k,1,0.9,0.5,0.5\n")
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))
    first, second = questions(PriorsConfig(file=str(path), a=0.1, b=0.2))

    assert (first.priors.p0, first.priors.a) == (None, 0.1)
    assert (second.priors.p0, second.priors.p0_source) == (0.9, "priors_file")
    assert (second.priors.a, second.priors.b) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.json", "{", "priors must be JSON"),
        ("p.json", "[1]", "priors must be an object, got list"),
        ("p.json", '{"a": 2, "b": 0}', r"a must be in \[0, 1\], got 2 in"),
        ("p.jsonl", '{"p0": 1}', "a priors row must have a question_id"),
        ("p.jsonl", '{"question_id": 1}\n{"question_id": "1"}', "must have one priors row"),
        ("p.jsonl", '{"question_id": 1, "p0": "x"}', "p0 must be in .* line 1"),
        ("p.txt", "", "must be .jsonl, .json, .csv, .tsv, .parquet, got '.txt'"),
    ],
)
def test_a_wrong_priors_file_is_named(tmp_path, name, text, message):
    """The error names file and row, what must hold and what came."""
    path = tmp_path / name
    path.write_text(text)

    with pytest.raises(DataError, match=message):
        questions(PriorsConfig(file=str(path)))


@pytest.mark.parametrize("kind", sorted(set(STRATEGIES) - {"markovscale_0", "dsc"}))
def test_a_benchmarks_own_limit_reaches_the_requests(kind):
    """A question is asked with the limit of its benchmark, else with the strategy's decoding.

    Left out are the two that need statistics first; they ask through the same functions.
    """
    strategy = STRATEGIES[kind](decoding=Decoding(max_tokens=80))
    asked = []
    for question in questions(PriorsConfig(a=0.1, b=0.2), max_tokens={"aime24": 160}):
        asked.append({request.max_tokens for request in first_requests(strategy, question)})

    answer = 20 if kind == "budget_forcing" else 0  # a quarter is kept for the answer
    assert asked == [{160 - answer}, {80 - answer}]
