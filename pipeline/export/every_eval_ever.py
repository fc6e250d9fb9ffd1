"""A run in the schema of Every Eval Ever: accuracies with their intervals, and a line a question.

``data/BENCHMARK/DEVELOPER/MODEL/UUID.json`` holds one strategy on one benchmark, with a result an
answer rule; ``UUID_samples.jsonl`` beside it the questions under the headline rule. Schema 0.3.0
(https://github.com/evaleval/every_eval_ever).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from pipeline.answers.answer_rules import Rule
from pipeline.export.samples import Sample, samples
from pipeline.export.source import LIBRARY, Cell, Source, hub_dataset, packed
from pipeline.records.outcome import has_failed
from pipeline.replay.sweep import settings_of
from pipeline.store.storage import Folder
from pipeline.store.streams import Lines, writing

SCHEMA_VERSION = "0.3.0"

Json = dict[str, Any]


def write_every_eval_ever(source: Source, folder: Folder) -> None:
    """Write a pair of files a strategy and benchmark; one question is in memory as JSON."""
    for cell, found in samples(source):
        name = _path(source, cell)
        if cell.rule not in cell.rules():  # nothing is graded, so there would be no line
            folder.write_json(f"{name}.json", _aggregate(source, cell))
            continue
        with writing(folder, f"{name}_samples.jsonl") as stream:
            lines = Lines(stream)
            for sample in found:
                line = _instance(source, cell, sample)
                if line is not None:
                    lines.add(packed(line))
        detailed = {
            "format": "jsonl",
            "file_path": f"{name}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": lines.sha256,
            "total_rows": lines.count,
            "additional_details": {"answer_rule": cell.rule.value},
        }
        told = {**_aggregate(source, cell), "detailed_evaluation_results": detailed}
        folder.write_json(f"{name}.json", told)


def _aggregate(source: Source, cell: Cell) -> Json:
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": _evaluation_id(source, cell),
        "evaluation_timestamp": str(int(source.times[1])),
        "retrieved_timestamp": str(int(source.exported)),
        "source_metadata": {
            "source_name": f"{LIBRARY} run {source.run.run_id}",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {"synthetic": str(source.synthetic).lower()},
        },
        "eval_library": {"name": LIBRARY, "version": source.versions.get(LIBRARY, "unknown")},
        "model_info": _model(source),
        "evaluation_results": [_result(source, cell, rule) for rule in cell.rules()],
    }


def _model(source: Source) -> Json:
    generator, verifier = source.config.science.generator, source.config.science.verifier
    own = source.config.runtime.generator.endpoint is None and not source.synthetic
    engines = [name for name in source.versions if own and name.startswith("vllm")]
    details = {
        "deployment_type": "self_deployed" if own else "unknown",
        "model_availability": "open_weights" if own else "unknown",
        "revision": generator.revision or "not pinned",
        "verifier": verifier.model if verifier else "none",
    }
    info: Json = {"name": generator.model, "id": _model_id(source), "additional_details": details}
    if engines:
        info["inference_engine"] = {"name": "vllm", "version": source.versions[engines[0]]}
    return info


def _result(source: Source, cell: Cell, rule: Rule) -> Json:
    accuracy, decoding = cell.entry["accuracy"][rule.value], source.config.science.decoding
    return {
        "evaluation_result_id": _result_id(cell, rule),
        "evaluation_name": f"{cell.benchmark.name} {cell.label} {rule.value}",
        "source_data": _data(source, cell),
        "metric_config": {
            "metric_id": "accuracy",
            "metric_name": "Accuracy",
            "metric_kind": "accuracy",
            "metric_unit": "proportion",
            "metric_parameters": {"answer_rule": rule.value, "n": cell.entry["n"]},
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": accuracy["accuracy"],
            "details": {
                "headline": str(rule == cell.rule).lower(),
                "right": str(accuracy["right"]),
                "graded": str(accuracy["graded"]),
                "ungraded": str(accuracy["ungraded"]),
                "failed": str(cell.entry["failed"]),
                "not_run": str(source.not_run(cell)),
                "completion_tokens_per_question": repr(cell.entry["tokens_per_question"]),
            },
            "uncertainty": {
                "confidence_interval": {
                    "lower": accuracy["low"],
                    "upper": accuracy["high"],
                    "confidence_level": 0.95,
                    "method": "Wilson",
                },
                "num_samples": accuracy["graded"],
            },
        },
        "generation_config": {
            "generation_args": {
                "temperature": decoding.temperature,
                "top_p": decoding.top_p,
                "max_tokens": cell.benchmark.max_tokens or decoding.max_tokens,
            },
            "additional_details": {
                "strategy": cell.strategy.kind,
                **{
                    name: json.dumps(value)
                    for name, value in settings_of(cell.strategy).items()
                    if value is not None
                },
            },
        },
    }


def _data(source: Source, cell: Cell) -> Json:
    hub, name = hub_dataset(cell.benchmark), cell.benchmark.name
    if hub is None:
        return {"dataset_name": name, "source_type": "other"}
    dataset, config, split, revision = hub
    known = {"hf_config": config, "hf_revision": revision}
    return {
        "dataset_name": name,
        "source_type": "hf_dataset",
        "hf_repo": dataset,
        "samples_number": source.asked(name),
        **({"hf_split": split} if split else {}),
        "additional_details": {key: value for key, value in known.items() if value},
    }


def _instance(source: Source, cell: Cell, sample: Sample) -> Json | None:
    """A question under the headline rule; None where it does not count in its accuracy."""
    question, outcome, rule = sample.question, sample.outcome, cell.rule
    right = cell.right(outcome, question, rule)
    if right is None:
        return None
    answer = outcome[f"answer_{rule.value}"]
    at = [i for i in outcome["stop_rounds"] if outcome["round_answers"][i] == answer]
    turns = [{"turn_idx": 0, "role": "user", "content": question["text"]}] + [
        {"turn_idx": number, "role": "assistant", "content": row["text"]}
        for number, row in enumerate(sample.rounds, 1)
    ]
    told = {name: question[name] for name in ("level", "subject") if question[name] is not None}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": _evaluation_id(source, cell),
        "model_id": _model_id(source),
        "evaluation_name": f"{cell.benchmark.name} {cell.label} {rule.value}",
        "evaluation_result_id": _result_id(cell, rule),
        "sample_id": question["question_id"],
        "sample_hash": hashlib.sha256((question["text"] + question["gold"]).encode()).hexdigest(),
        "interaction_type": "multi_turn",
        "input": {"raw": question["text"], "reference": [question["gold"]]},
        "output": None,
        "messages": turns,
        "answer_attribution": [
            {
                "turn_idx": number + 1,
                "source": f"messages[{number + 1}].content",
                "extracted_value": answer,
                "extraction_method": "custom",
                "is_terminal": True,
            }
            for number in at[-1:]
            if answer is not None
        ],
        "evaluation": {
            "score": float(right),
            "is_correct": right,
            "num_turns": max(1, len(sample.rounds)),
        },
        "token_usage": {
            "input_tokens": outcome["prompt_tokens"],
            "output_tokens": outcome["completion_tokens"],
            "total_tokens": outcome["prompt_tokens"] + outcome["completion_tokens"],
            "input_tokens_cache_read": outcome["cached_prompt_tokens"],
            "reasoning_tokens": outcome["thinking_tokens"],
        },
        "error": (outcome["error"] or "failed") if has_failed(outcome) else None,
        "metadata": {**told, "stop_reason": outcome["stop_reason"]},
    }


def _path(source: Source, cell: Cell) -> str:
    """``data/BENCHMARK/DEVELOPER/MODEL/UUID``; the same at every export of a run."""
    developer, _, model = _model_id(source).rpartition("/")
    digest = hashlib.sha256(f"{source.run.run_id}\x1f{cell.name}".encode()).digest()
    number = uuid.UUID(bytes=digest[:16], version=4)
    return f"data/{cell.benchmark.name}/{developer or 'unknown'}/{model}/{number}"


def _model_id(source: Source) -> str:
    """``developer/model``, as the last two parts of an id or a folder."""
    return "/".join(source.config.science.generator.model.rstrip("/").split("/")[-2:])


def _evaluation_id(source: Source, cell: Cell) -> str:
    return f"{cell.name}/{_model_id(source)}/{source.run.run_id}/{int(source.times[1])}"


def _result_id(cell: Cell, rule: Rule) -> str:
    return f"{cell.name}-{rule.value}"
