"""Make a small pool of an export of `jobs.collect`, or of what `tools.draw` drew.

    python -m tools.pools --export FOLDER --out FOLDER
    python -m tools.pools --drawn FILE... --generator models/steps-medium --out FOLDER

Scores are kept to three decimals, about what bfloat16 holds, and the mean stands for the scores of
the steps; seeds and seconds are left out. So a pool stays near 1 MB.
Of drawn replies it makes what a collection would have recorded: the strategies of a collection send
their requests, the replies answer, and the product extracts and grades the answers.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.answers.extract import extract
from pipeline.answers.grading import grade
from pipeline.benchmarks import load
from pipeline.config.collection import make_collection
from pipeline.config.run import read_extended
from pipeline.config.science import PriorsConfig, ScienceConfig
from pipeline.core.protocol import Completion, Pool, Question, Request
from pipeline.records.questions import QUESTIONS_FILE, question_of, questions_table
from pipeline.records.trajectory import SCHEMA, Row, row_of, table_of
from pipeline.replay.exact import drive
from pipeline.replay.pool_rows import POOL_TABLE, without_texts
from pipeline.replay.pools import POOL_VERSION, pool_sources
from pipeline.store.storage import Folder, sha256
from tools.draw import grid_questions
from tools.tokens import decode
from tools.train import MOST_NEW, prompt_ids

CONFIG = "configs/pools/steps.yaml"


class Drawn:
    """The replies of the files, rounds before samples, by question and place."""

    def __init__(self, paths: Sequence[Path]) -> None:
        files = [np.load(path) for path in paths]
        shapes = np.array([each["shape"] for each in files])  # rounds, samples, questions, seed
        self.rounds, self.samples = shapes[:, :2].sum(0).tolist()
        self.count, self.seeds = int(shapes[0, 2]), ", ".join(map(str, shapes[:, 3]))
        held = {
            name: np.concatenate([each[name] for each in files])
            for name in ("ids", "lengths", "read", "scores", "steps")
        } | {"sizes": files[0]["sizes"]}
        self.sizes = {int(level): int(size) for level, size in held["sizes"]}
        self.lengths, self.read = held["lengths"], held["read"]
        self.ids = np.split(held["ids"], np.cumsum(self.lengths.astype(int))[:-1])
        self.scores = np.split(held["scores"], np.cumsum(held["steps"].astype(int))[:-1])

    def completion(self, question: int, request: Request) -> Completion:
        """What was drawn where the request asks."""
        rounds = request.pool is Pool.SEQUENTIAL
        place = request.round if rounds else self.rounds + request.sample
        index = place * self.count + question
        text = decode(self.ids[index].tolist())
        length = int(self.lengths[index])
        ended = length < MOST_NEW
        scores = self.scores[index]
        score = round(float(scores.mean()), 3) if len(scores) else 0.0
        return Completion(
            text=text,
            answer=extract(text),
            finish_reason="stop" if ended else "length",
            prompt_tokens=len(prompt_ids(request.messages[-1].content)),
            completion_tokens=length + ended,
            verifier_tokens=int(self.read[index]),
            step_scores=(score,),
            score=score,
        )


def main(argv: list[str] | None = None) -> int:
    """Write the pool and say what it holds."""
    parser = argparse.ArgumentParser(prog="tools.pools", description=__doc__)
    made_of = parser.add_mutually_exclusive_group(required=True)
    made_of.add_argument("--export", metavar="FOLDER", help="of jobs.collect --no-texts")
    made_of.add_argument("--drawn", type=Path, nargs="+")
    parser.add_argument("--generator", help="as the configuration names it, with --drawn")
    parser.add_argument("--out", required=True)
    args = parser.parse_args(argv)
    if args.export:
        written = _thin(Folder(args.export), Folder(args.out))
        print(f"{written:,} completions written to {args.out}")
        return 0
    if args.generator is None:
        parser.error("--drawn needs --generator")
    drawn = Drawn(args.drawn)
    science = _science(args.generator, drawn)
    items = [item for source in science.benchmarks for item in load(source).items]
    asked = grid_questions(drawn.sizes)
    if [(item.benchmark, item.question_id) for item in items] != [pair[:2] for pair in asked]:
        raise ValueError("the drawn questions must be those of the configuration")
    questions = questions_table(items, science.seed, PriorsConfig())
    folder = Folder(args.out)
    folder.write_table(QUESTIONS_FILE, questions)
    tables = list(_tables(science, questions, [item.gold for item in items], drawn))
    table = without_texts(pa.concat_tables(tables))
    facts = {
        "version": POOL_VERSION,
        "run": f"tools.draw, seed {drawn.seeds}",
        "synthetic": False,
        "texts": False,
        "science": science.model_dump(mode="json", exclude={"answer_rules"}),
    }
    _write(folder, table, facts)
    print(f"{len(table):,} completions of {len(items):,} questions written to {args.out}")
    return 0


def _thin(export: Folder, folder: Folder) -> int:
    """Write an exported pool without seeds, seconds and scores of single steps."""
    table = pq.read_table(io.BytesIO(export.read(POOL_TABLE)), use_threads=False).cast(SCHEMA)
    scores = pc.round(table["score"], 3)
    columns = {
        "seed": pa.repeat(0, len(table)),
        "seconds": pa.nulls(len(table)),
        "score": scores,
        "step_scores": [None if score is None else [score] for score in scores.to_pylist()],
    }
    for name, values in columns.items():
        field = SCHEMA.field(name)
        place = table.schema.get_field_index(name)
        table = table.set_column(place, field, pa.chunked_array([pa.array(values, field.type)]))
    folder.write(QUESTIONS_FILE, export.read(QUESTIONS_FILE))
    _write(folder, table, json.loads(export.read("pool.json")))
    return len(table)


def _write(folder: Folder, table: pa.Table, facts: dict[str, Any]) -> None:
    """The table, packed, and then the facts, whose digests vouch for it."""
    order = ("benchmark", "pool", "question_id", "round", "sample")
    table = table.sort_by([(name, "ascending") for name in order])
    packed = io.BytesIO()
    pq.write_table(table.cast(SCHEMA), packed, compression="zstd", compression_level=19)
    folder.write(POOL_TABLE, packed.getvalue())
    facts["sha256"] = {name: sha256(folder.read(name)) for name in (POOL_TABLE, QUESTIONS_FILE)}
    folder.write_json("pool.json", facts)


def _science(generator: str, drawn: Drawn) -> ScienceConfig:
    """The configuration of the collection that asks the same."""
    values: dict[str, Any] = read_extended(CONFIG)
    make_collection(values, drawn.rounds, drawn.samples)
    values["science"]["generator"]["model"] = generator
    for benchmark in values["science"]["benchmarks"]:
        benchmark["size"] = drawn.sizes[int(benchmark["name"].removeprefix("steps-"))]
    return ScienceConfig.model_validate(values["science"])


def _tables(
    science: ScienceConfig, questions: pa.Table, golds: list[str], drawn: Drawn
) -> Iterator[pa.Table]:
    sources = pool_sources(science)
    graded = cache(lambda gold, answer: grade(gold, answer).value)
    for index, facts in enumerate(questions.to_pylist()):
        rows: list[Row] = []
        for source in sources:
            question = question_of(facts)
            answer = partial(_answered, rows, science, source.label, question, drawn, index)
            drive(source.strategy, question, answer)
        for row in rows:
            known = row["answer"] is not None
            row["verdict"] = graded(golds[index], row["answer"]) if known else "wrong"
        yield table_of(rows)


def _answered(
    rows: list[Row],
    science: ScienceConfig,
    label: str,
    question: Question,
    drawn: Drawn,
    index: int,
    request: Request,
) -> Completion:
    """What answers a request, kept as a row of the pool."""
    seen = drawn.completion(index, request)
    row = row_of(
        run="tools.draw",
        attempt=1,
        strategy=label,
        question=question,
        request=request,
        observation=seen,
        generator=science.generator.model,
        verifier=science.verifier and science.verifier.model,
    )
    row["seed"] = 0  # one generator drew all of them, so a request's own seed says nothing
    rows.append(row)
    return seen


if __name__ == "__main__":
    raise SystemExit(main())
