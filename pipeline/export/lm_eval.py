"""*lm_eval export*: writes logs of lm-evaluation-harness: ``results_*.json``, ``samples_*.jsonl``.

A task is a benchmark under a strategy, a filter an answer rule, and the metric ``exact_match`` its
verdict; what is not graded has no line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pipeline.export.samples import Sample, prompts_of, samples
from pipeline.export.source import LIBRARY, Cell, Source, packed
from pipeline.store.storage import Folder
from pipeline.store.streams import writing

_METRIC = "exact_match"


def write_lm_eval(source: Source, folder: Folder) -> None:
    """Write the results, and a file of samples a task; one question is in memory at a time."""
    time = datetime.fromtimestamp(source.times[1], UTC).strftime("%Y-%m-%dT%H-%M-%S")
    model = source.config.science.generator.model
    place = folder.child("".join(c if c.isalnum() or c in "._-" else "_" for c in model) or "model")
    place.write(f"results_{time}.json", json.dumps(_results(source), indent=2).encode())
    for cell, found in samples(source):
        with writing(place, f"samples_{cell.file}_{time}.jsonl") as stream:
            for number, sample in enumerate(found):
                for line in _lines(source, cell, sample, number):
                    stream.write(packed(line) + b"\n")


def _results(source: Source) -> dict[str, Any]:
    science, started = source.config.science, source.times
    tasks = {cell.file: cell for cell in source.cells}
    return {
        "results": {name: _result(cell) for name, cell in tasks.items()},
        "group_subtasks": {name: [] for name in tasks},
        "configs": {
            name: {
                "task": name,
                "output_type": "generate_until",
                "repeats": cell.entry["n"],
                "metric_list": [{"metric": _METRIC}],
                "filter_list": [{"name": rule.value} for rule in cell.applied()],
                "metadata": {"version": 1.0, "strategy": cell.label, "usd": cell.entry.get("usd")},
            }
            for name, cell in tasks.items()
        },
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {name: {_METRIC: True} for name in tasks},
        "n-samples": {
            name: {
                "original": cell.total,
                "effective": cell.entry["questions"],
            }
            for name, cell in tasks.items()
        },
        "config": {
            "model": LIBRARY,
            "model_args": f"pretrained={science.generator.model}",
            "limit": None,
            "random_seed": science.seed,
        },
        "model_source": LIBRARY,
        "model_name": science.generator.model,
        "date": started[1],
        "start_time": started[0],
        "end_time": started[1],
        "total_evaluation_time_seconds": str(started[1] - started[0]),
        "synthetic": source.synthetic,
    }


def _result(cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = {"alias": cell.file}
    for rule in cell.applied():
        counts = cell.entry["accuracy"][rule.value]
        share, graded = counts["accuracy"], counts["graded"]
        error = (share * (1 - share) / (graded - 1)) ** 0.5 if graded > 1 else "N/A"
        found |= {f"{_METRIC},{rule}": share, f"{_METRIC}_stderr,{rule}": error}
    return found


def _lines(source: Source, cell: Cell, sample: Sample, number: int) -> Iterator[dict[str, Any]]:
    question, outcome = sample.question, sample.outcome
    decoding = source.config.science.decoding
    prompts = prompts_of(cell, sample)
    prompt = prompts[0][-1].content if prompts else question["text"]
    document = {name: question[name] for name in ("question_id", "level", "subject")}
    doc = {"question": question["text"], "answer": question["gold"], **document}
    settings = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "max_gen_toks": question["max_tokens"] or decoding.max_tokens,
        "do_sample": decoding.temperature > 0,
    }
    texts = [row["text"] or "" for row in sample.rounds]
    for rule in cell.applied():
        right = cell.right(outcome, question, rule)
        if right is None:
            continue
        yield {
            "doc_id": number,
            "doc": doc,
            "target": question["gold"],
            "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": settings}},
            "resps": [texts],
            "filtered_resps": [outcome[f"answer_{rule}"] or "[invalid]"],
            "filter": rule.value,
            "metrics": [_METRIC],
            "doc_hash": _hash(json.dumps(doc)),
            "prompt_hash": _hash(prompt),
            "target_hash": _hash(str(question["gold"])),
            _METRIC: float(right),
        }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
