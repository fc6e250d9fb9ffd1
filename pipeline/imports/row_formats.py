"""*Row formats*: reads logs of lm-evaluation-harness, NeMo-Skills, OpenAI's batches and the
evaluation of Qwen2.5-Math, with a row a question or completion.

Each reader takes the files of one model and returns its samples; rows of several files (seeds,
repeated runs) are samples of the same questions.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.errors import DataError
from pipeline.core.protocol import Pool
from pipeline.imports.entries import (
    Entry,
    Log,
    content_of,
    count_of,
    label_of,
    last_user_turn,
    number_of,
    renumbered,
    text_of,
)
from pipeline.store.log_files import LogFile

Row = Mapping[str, Any]

_QUESTIONS = ("question", "problem", "prompt", "input", "query", "Question", "Problem")
_LENIENT = ("flexible-extract", "flexible_extract")
_SAMPLES_FILE = re.compile(r"samples_(.+?)(?:_\d{4}-\d{2}-\d{2}T[\d.:-]+)?\.jsonl")
_PER_FILE = re.compile(r"(?:_t(?P<temperature>[\d.]+))?(?:_s\d+)?(?:_e-?\d+)?\.jsonl$")


def read_lm_eval(files: Sequence[LogFile], *, filter_name: str | None = None) -> Log:
    """``samples_TASK_DATE.jsonl`` of lm-evaluation-harness with ``--log_samples``.

    ``resps`` are the replies, one a repeat. A question has a row a filter, with the same replies;
    one of them is kept. A label is that of the first reply after the filter, so it is only taken
    where there is one reply.

    Args:
        filter_name: whose label and answer are taken; None takes a lenient one where there is any.
    """
    log = Log()
    found = []
    for file in files:
        task = _SAMPLES_FILE.fullmatch(file.name)
        folder = posixpath.basename(file.folder)
        model = folder.replace("__", "/") if "__" in folder else None
        kept: dict[str, tuple[str, Row]] = {}
        for where, row in log.rows_of(file):
            if "doc_id" not in row or not isinstance(row.get("resps"), list):
                _refuse(log, where, "doc_id and resps", row)
                continue
            key = str(row["doc_id"])
            if key not in kept or _preferred(row, kept[key][1], filter_name):
                kept[key] = (where, row)
        for key, (where, row) in kept.items():
            replies = [one for resp in row["resps"] for one in _listed(resp)]
            if any(not isinstance(reply, str) for reply in replies):
                log.refused.append(
                    f"resps must be replies, got log-likelihoods (a task without samples) in "
                    f"{where}"
                )
                continue
            log.decode_with(where, **_sampling(_argument(row, 1)))
            single = len(replies) == 1
            named = row.get("metrics")
            metrics = (*(named if isinstance(named, list) else ()), "exact_match", "acc")
            for number, text in enumerate(replies):
                found.append(
                    Entry(
                        where=where,
                        question_id=key,
                        pool=Pool.PARALLEL,
                        place=number,
                        benchmark=task[1] if task else None,
                        model=model,
                        question=_asked(row),
                        gold=_gold(row.get("target")),
                        text=text,
                        answer=_filtered(row) if single else None,
                        right=_first_label(row, metrics) if single else None,
                    )
                )
    log.entries = renumbered(found)
    return log


def _preferred(row: Row, kept: Row, wanted: str | None) -> bool:
    names = (wanted,) if wanted is not None else _LENIENT
    return row.get("filter") in names and kept.get("filter") not in names


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _argument(row: Row, number: int) -> Any:
    """The prompt (0) or the generation arguments (1) of the first request."""
    arguments = row.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = [list(one.values()) for one in arguments.values() if isinstance(one, Mapping)]
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    return first[number] if isinstance(first, list) and len(first) > number else None


def _sampling(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {}
    return {
        "temperature": given.get("temperature"),
        "top_p": given.get("top_p"),
        "max_tokens": given.get("max_gen_toks"),
    }


def _asked(row: Row) -> str | None:
    document = row.get("doc")
    if isinstance(document, Mapping) and (question := _first_text(document)) is not None:
        return question
    prompt = _argument(row, 0)
    prompt = prompt[0] if isinstance(prompt, list) and prompt else prompt
    if isinstance(prompt, str) and prompt.startswith("["):  # a chat, written as JSON
        try:
            return last_user_turn(json.loads(prompt))
        except ValueError:
            return prompt
    return prompt if isinstance(prompt, str) else None


def _filtered(row: Row) -> str | None:
    filtered = row.get("filtered_resps")
    first = filtered[0] if isinstance(filtered, list) and filtered else filtered
    while isinstance(first, list) and first:
        first = first[0]
    text = text_of(first) if isinstance(first, str | int | float) else None
    return None if text in (None, "[invalid]", "") else text


def read_nemo_skills(files: Sequence[LogFile]) -> Log:
    """``output-rs*.jsonl`` of NeMo-Skills: a file a seed, a row a question.

    A question is known by its text (its order differs from file to file). Labels are
    ``symbolic_correct`` (``is_correct`` before) or, where it was judged, ``judgement``.
    """
    log = Log()
    found: list[Entry] = []
    ids: dict[tuple[str, str], str] = {}
    for file in files:
        benchmark = posixpath.basename(file.folder)
        for where, row in log.rows_of(file):
            question = _first_text(row)
            if "generation" not in row or (question is None and row.get("id") is None):
                _refuse(log, where, "generation, and problem or id", row)
                continue
            key = question if question is not None else f"id {row['id']}"
            name = ids.setdefault((benchmark, key), text_of(row.get("id")) or str(len(ids)))
            text = row["generation"]
            found.append(
                Entry(
                    where=where,
                    question_id=name,
                    pool=Pool.PARALLEL,
                    place=0,
                    benchmark=benchmark or None,
                    model=text_of(row.get("model")),
                    question=question,
                    gold=_gold(row.get("expected_answer")),
                    level=text_of(row.get("level")),
                    text=text if isinstance(text, str) else None,
                    answer=text_of(row.get("predicted_answer")),
                    right=_judged(row),
                    tokens=count_of(row.get("num_generated_tokens")),
                    prompt_tokens=count_of(row.get("num_input_tokens")),
                    thinking_tokens=count_of(row.get("num_reasoning_tokens")),
                    finish_reason=_finish(row.get("finish_reason")),
                    error=text_of(row.get("error")),
                )
            )
    names = {(benchmark, name) for (benchmark, _), name in ids.items()}
    if len(names) < len(ids):  # one id for two questions: ids of several sets
        raise DataError(
            f"an id must be of one question, {len(ids)} questions have {len(names)} ids: import "
            "the files of one benchmark"
        )
    log.entries = renumbered(found)
    return log


def _judged(row: Row) -> bool | None:
    right = _first_label(row, ("symbolic_correct", "is_correct"))
    judgement = re.search(r"Judgement:\s*(Yes|No)\b", text_of(row.get("judgement")) or "", re.I)
    return right if right is not None or judgement is None else judgement[1].lower() == "yes"


def read_openai_batch(
    files: Sequence[LogFile], *, question_of_id: re.Pattern[str] | None = None
) -> Log:
    """Output files of OpenAI's batch API, which vLLM's ``run-batch`` writes too.

    With the input file among `files` a question is a prompt, and each request with that prompt a
    sample. Without it a question is a ``custom_id``, or what `question_of_id` finds in it. A
    completion of n choices has a share of the tokens of all.

    Args:
        files: outputs, errors and inputs, in any order.
        question_of_id: its first group is the question's id.
    """
    log = Log()
    requests: dict[str, Row] = {}
    answered: list[tuple[str, Row]] = []
    for file in files:
        for where, row in log.rows_of(file):
            if row.get("custom_id") is None:
                _refuse(log, where, "custom_id", row)
            elif isinstance(row.get("body"), Mapping) and "response" not in row:
                requests[str(row["custom_id"])] = row["body"]
            else:
                answered.append((where, row))
    found: list[Entry] = []
    for where, row in answered:
        custom_id = str(row["custom_id"])
        request = requests.get(custom_id, {})
        prompt = last_user_turn(request.get("messages", request.get("input")))
        matched = question_of_id.search(custom_id) if question_of_id is not None else None
        if question_of_id is not None and matched is None:
            log.refused.append(
                f"custom_id must fit {question_of_id.pattern!r}, got {custom_id!r} in {where}"
            )
            continue
        name = matched[1] if matched is not None else custom_id
        if prompt is not None and matched is None:
            name = hashlib.sha256(_canonical(request).encode()).hexdigest()[:16]
        log.decode_with(
            where,
            temperature=request.get("temperature"),
            top_p=request.get("top_p"),
            max_tokens=request.get("max_completion_tokens", request.get("max_tokens")),
        )
        found += _of_response(row, where, name, prompt)
    log.entries = renumbered(found)
    return log


def _canonical(request: Row) -> str:
    return json.dumps(request.get("messages", request.get("input")), sort_keys=True)


def _of_response(row: Row, where: str, name: str, prompt: str | None) -> Iterator[Entry]:
    response = row.get("response") or {}
    body = response.get("body") or {}
    usage = body.get("usage") or {}
    choices = _choices(body)
    error = row.get("error") or body.get("error")
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or "an error"
    if not error and not choices:
        error = f"status {response.get('status_code')}"
    total = count_of(usage.get("completion_tokens", usage.get("output_tokens")))
    details = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
    several = len(choices) > 1
    for text, finish in choices or [(None, "stop")]:
        yield Entry(
            where=where,
            question_id=name,
            pool=Pool.PARALLEL,
            place=0,
            model=text_of(body.get("model")),
            question=prompt,
            text=text,
            tokens=None if total is None else round(total / max(1, len(choices))),
            tokens_estimated=several,
            prompt_tokens=count_of(usage.get("prompt_tokens", usage.get("input_tokens"))),
            thinking_tokens=None if several else count_of(details.get("reasoning_tokens")),
            finish_reason=finish,
            error=None if not error else str(error),
        )


def _choices(body: Row) -> list[tuple[str | None, str]]:
    """(text, why it ended) of chat completions, completions and responses."""
    if isinstance(body.get("output"), list):
        texts = [content_of(part.get("content")) for part in body["output"] if "content" in part]
        said = "".join(text for text in texts if text)
        return [(said, "length" if body.get("status") == "incomplete" else "stop")]
    return [
        (
            content_of((choice.get("message") or {}).get("content", choice.get("text"))) or "",
            _finish(choice.get("finish_reason")),
        )
        for choice in body.get("choices") or ()
    ]


def read_qwen_math(files: Sequence[LogFile]) -> Log:
    """Results of Qwen2.5-Math's ``math_eval.py``, and of the harness that it comes from.

    A row a question: ``code`` (replies), ``pred`` (answers), ``score`` (labels) and, where a reward
    model judged them, ``pred_score``, its raw value.
    """
    log = Log(scores="pred_score")
    found: list[Entry] = []
    for file in files:
        named = _PER_FILE.search(file.name)
        log.decode_with(file.path, temperature=number_of(named["temperature"]) if named else None)
        for where, row in log.rows_of(file):
            texts = row.get("code", row.get("response", row.get("completion")))
            texts = [texts] if isinstance(texts, str) else texts
            if "idx" not in row or not isinstance(texts, list):
                _refuse(log, where, "idx and code", row)
                continue
            scores = [_flat(one) for one in row.get("pred_score") or ()]
            for number, text in enumerate(texts):
                found.append(
                    Entry(
                        where=where,
                        question_id=str(row["idx"]),
                        pool=Pool.PARALLEL,
                        place=number,
                        benchmark=text_of(row.get("data_source"))
                        or posixpath.basename(file.folder)
                        or None,
                        question=_first_text(row),
                        gold=_gold(row.get("gt", row.get("answer"))),
                        level=text_of(row.get("level")),
                        text=text_of(text),
                        answer=_at(row.get("pred"), number, text_of),
                        right=_at(row.get("score"), number, label_of),
                        score=number_of(scores[number]) if number < len(scores) else None,
                    )
                )
    known = [entry.score for entry in found if entry.score is not None]
    log.score_map = "identity" if all(0 <= score <= 1 for score in known) else "sigmoid"
    log.entries = renumbered(found)
    return log


def _flat(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _at(values: Any, number: int, read: Callable[[Any], Any]) -> Any:
    listed = values if isinstance(values, list) else [values]
    return read(listed[number]) if number < len(listed) else None


def _first_text(row: Row) -> str | None:
    return next((row[name] for name in _QUESTIONS if isinstance(row.get(name), str)), None)


def _first_label(row: Row, names: Iterable[str]) -> bool | None:
    labels = (label_of(row.get(name)) for name in names)
    return next((label for label in labels if label is not None), None)


def _gold(value: Any) -> tuple[str, ...]:
    text = text_of(value) if not isinstance(value, list | dict) else None
    return () if text is None else (text,)


def _finish(reason: Any) -> str:
    return "length" if reason in ("length", "max_tokens") else "stop"


def _refuse(log: Log, where: str, needed: str, row: Row) -> None:
    names = ", ".join(sorted(map(str, row))[:12])
    log.refused.append(f"a row must have {needed}, got {names} in {where}")
