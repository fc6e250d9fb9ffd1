"""*Inspect export*: writes logs of inspect_ai, an ``.eval`` file per strategy and benchmark.

Its reader and viewer (``inspect view``) open them. The format is inspect_ai's log version 2: a ZIP
file of JSON members. A sample has the question, a message a completion, and a score a rule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pipeline.answers.answer_rules import Rule
from pipeline.core.prices import Prices
from pipeline.core.thinking import parts
from pipeline.export.samples import Sample, prompts_of, samples
from pipeline.export.source import LIBRARY, Cell, Source, packed
from pipeline.records.outcome import TOKEN_KINDS, has_failed
from pipeline.records.trajectory import Row
from pipeline.replay.sweep import settings_of
from pipeline.report.questions import chosen_position
from pipeline.store.storage import Folder
from pipeline.store.streams import archive

_VERSION = 2
_SHOWN = 1_000  # characters of a question in the list of samples

Json = dict[str, Any]


def write_inspect(source: Source, folder: Folder) -> None:
    """Write the logs; one sample is in memory as JSON, and a line of the list for each."""
    for cell, found in samples(source):
        with archive(folder, f"{cell.file}.eval") as log:
            spec = _spec(source, cell)
            log.add("_journal/start.json", packed({"version": _VERSION, "eval": spec, "plan": {}}))
            lines = list(_add_samples(source, cell, found, log))
            log.add("summaries.json", b"[" + b",".join(lines) + b"]")
            log.add("header.json", packed(_header(source, cell, spec)))


def _add_samples(source: Source, cell: Cell, found: Iterator[Sample], log: Any) -> Iterator[bytes]:
    for sample in found:
        content = _sample(source, cell, sample)
        log.add(f"samples/{content['id']}_epoch_1.json", packed(content))
        summary = {name: content[name] for name in _LISTED if name in content}
        if "error" in content:
            summary["error"] = content["error"]["message"]
        yield packed(
            {
                **summary,
                "input": content["input"][:_SHOWN],
                "completed": True,
                "message_count": len(content["messages"]),
            }
        )


_LISTED = ("id", "epoch", "target", "metadata", "scores", "model_usage", "total_time", "uuid")


def _sample(source: Source, cell: Cell, sample: Sample) -> Json:
    question, outcome = sample.question, sample.outcome
    model = source.config.science.generator.model
    uid = _uid(source, cell, question["question_id"])
    replies = [_reply(uid, number, row, model) for number, row in enumerate(sample.rounds)]
    prompts = [
        [
            {"id": f"{uid}-{number}-{place}", "role": turn.role, "content": turn.content}
            for place, turn in enumerate(messages)
        ]
        for number, messages in enumerate(prompts_of(cell, sample))
    ]
    prompts = prompts or [[{"id": f"{uid}-question", "role": "user", "content": question["text"]}]]
    turns_of_rounds = [*prompts, *([] for _ in replies[len(prompts) :])][: len(replies)]
    talk = [
        turn
        for turns, reply in zip(turns_of_rounds, replies, strict=True)
        for turn in (*turns, reply)
    ]
    content: Json = {
        "id": question["question_id"].replace("\0", "\\0"),  # where a ZIP's names end
        "epoch": 1,
        "uuid": uid,
        "input": question["text"],
        "target": question["gold"] or "",
        "messages": talk or prompts[0],
        "events": [
            _call(source, turns_of_rounds[number], replies[number], row)
            for number, row in enumerate(sample.rounds)
        ],
        "output": _output(cell, sample, replies, model),
        "scores": {
            rule.value: {
                "value": "C" if right else "I",
                "answer": outcome[f"answer_{rule.value}"],
            }
            for rule in cell.applied()
            if (right := cell.right(outcome, question, rule)) is not None
        },
        "metadata": {
            name: value
            for name, value in (
                *((name, question[name]) for name in ("level", "subject")),
                *((name, outcome[name]) for name in _TOLD),
            )
            if value is not None
        },
        "model_usage": {model: _usage(outcome, source.config.runtime.prices())},
    }
    if outcome["seconds"] is not None:
        content["total_time"] = outcome["seconds"]
    if has_failed(outcome):
        message = outcome["error"] or "failed"
        content["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    return content


_TOLD = (
    *("stop_reason", "stop_rounds", "completions", "p0", "p0_source", "a", "b", "posterior_path"),
    *("verifier_tokens", "wasted_tokens", "attempt"),
)


def _reply(uid: str, number: int, row: Row, model: str) -> Json:
    """A completion; a failed request is an empty message that says so."""
    reply = parts(row["text"] or "")
    content: list[Json] = []
    if reply.thinking:
        thought = reply.thinking.removesuffix(reply.mark)
        content.append({"type": "reasoning", "reasoning": thought})
    content.append({"type": "text", "text": reply.answer})
    metadata = {name: row[name] for name in _ROUND if row[name] is not None}
    return {
        "id": f"{uid}-{number}",
        "role": "assistant",
        "source": "generate",
        "model": model,
        "content": content,
        "metadata": metadata,
    }


def _call(source: Source, asked: list[Json], reply: Json, row: Row) -> Json:
    """The model call behind a completion; inspect's data frames of messages are made of these."""
    tokens = {kind: row.get(kind) or 0 for kind in TOKEN_KINDS}
    output = {
        **_chosen(reply["model"], reply, row),
        "usage": _usage(tokens),
        "time": row["seconds"],
    }
    if row["error"] is not None:
        output |= {"choices": [], "error": row["error"]}
    return {
        "event": "model",
        "timestamp": _time(source.times[0]),
        "working_start": 0.0,
        "model": reply["model"],
        "input": asked,
        "tools": [],
        "tool_choice": "none",
        "config": {},
        "output": output,
    }


def _chosen(model: str, reply: Json, row: Row) -> Json:
    ended = "stop" if row["finish_reason"] == "stop" else "max_tokens"
    return {"model": model, "choices": [{"message": reply, "stop_reason": ended}]}


_ROUND = (
    *("pool", "chain", "round", "sample", "answer", "score", "step_scores", "verdict", "error"),
    *("finish_reason", "prompt_tokens", "cached_prompt_tokens", "completion_tokens"),
    *("thinking_tokens", "verifier_tokens", "seconds"),
)


def _output(cell: Cell, sample: Sample, replies: list[Json], model: str) -> Json:
    """The completion that the answer is taken from."""
    place = chosen_position(cell, sample.outcome)
    if place is None:
        return {"model": model, "choices": []}
    return _chosen(model, replies[place], sample.rounds[place])


def _usage(tokens: Row, prices: Prices | None = None) -> Json:
    return {
        **({} if prices is None else {"total_cost": prices.usd(tokens)}),
        "input_tokens": tokens["prompt_tokens"],
        "output_tokens": tokens["completion_tokens"],
        "total_tokens": tokens["prompt_tokens"] + tokens["completion_tokens"],
        "input_tokens_cache_read": tokens["cached_prompt_tokens"],
        "reasoning_tokens": tokens["thinking_tokens"],
    }


def _spec(source: Source, cell: Cell) -> Json:
    science, decoding = source.config.science, source.config.science.decoding
    benchmark = source.benchmarks[cell.benchmark]
    return {
        "eval_id": _uid(source, cell, ""),
        "run_id": source.run.run_id,
        "task_id": _uid(source, cell, "task"),
        "created": _time(source.times[0]),
        "task": f"{cell.benchmark}-{cell.label}",
        "task_args": {"strategy": cell.label, "kind": cell.strategy.kind, "n": cell.entry["n"]},
        "solver": cell.strategy.kind,
        "solver_args": _settings(cell),
        "dataset": {
            "name": cell.benchmark,
            "location": benchmark.hf_dataset or benchmark.path,
            "samples": cell.total,
        },
        "model": science.generator.model,
        "model_generate_config": {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": benchmark.max_tokens or decoding.max_tokens,
            "seed": science.seed,
        },
        "config": {"epochs": 1},
        "packages": dict(source.versions),
        "scorers": [{"name": rule.value} for rule in _headline_first(cell)],
        "metadata": {
            "run": source.run.run_id,
            "synthetic": source.synthetic,
            "headline_rule": cell.rule.value,
            "verifier": science.verifier and science.verifier.model,
            "grader": science.grader,
        },
        "tags": [LIBRARY, *(["synthetic"] if source.synthetic else [])],
    }


def _settings(cell: Cell) -> Json:
    """As JSON has them: what is not finite is a text, as in the viewer's language."""
    settings: Json = json.loads(json.dumps(settings_of(cell.strategy)), parse_constant=str)
    return settings


def _header(source: Source, cell: Cell, spec: Json) -> Json:
    total, done = cell.total, cell.entry["questions"]
    headline = {"scorer": cell.rule.value, "metric": "accuracy"}
    return {
        "version": _VERSION,
        "status": "cancelled" if cell.not_run else "success",
        "eval": spec,
        "results": {
            "total_samples": total,
            "completed_samples": done - cell.entry["failed"],
            "scores": [_score(cell, rule) for rule in _headline_first(cell)],
            **({"headline": headline} if cell.rule in cell.applied() else {}),
        },
        "stats": {
            "started_at": _time(source.times[0]),
            "completed_at": _time(source.times[1]),
            "model_usage": {
                source.config.science.generator.model: _usage(
                    cell.entry["tokens"], source.config.runtime.prices()
                )
            },
        },
    }


def _headline_first(cell: Cell) -> list[Rule]:
    """Rules in the order in which a viewer shows them."""
    return sorted(cell.applied(), key=lambda rule: rule != cell.rule)


def _score(cell: Cell, rule: Rule) -> Json:
    accuracy = cell.entry["accuracy"][rule.value]
    metrics = {"accuracy": "accuracy", "wilson_low": "low", "wilson_high": "high"}
    return {
        "name": rule.value,
        "scorer": rule.value,
        "scored_samples": accuracy["graded"],
        "unscored_samples": cell.entry["questions"] - accuracy["graded"],
        "metrics": {
            name: {"name": name, "value": accuracy[field]} for name, field in metrics.items()
        },
    }


def _uid(source: Source, cell: Cell, what: str) -> str:
    """22 characters that tell one thing of a run from another, the same at every export."""
    text = "\x1f".join((source.run.run_id, cell.file, what))
    return hashlib.sha256(text.encode()).hexdigest()[:22]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
