"""*read_inspect*: reads Inspect's ``.eval`` archives, JSON logs, and summaries with their header.

An epoch is a sample. Fields are those of ``inspect_ai.log.EvalLog`` and ``EvalSample``; the
package itself is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
    renumbered,
    text_of,
)
from pipeline.store.log_files import LogFile, UnreadableError

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FINISHED = {"max_tokens": "length", "model_length": "length"}
Fields = Mapping[str, Any]


def read_inspect(files: Sequence[LogFile], *, scorer: str | None = None) -> Log:
    """Read logs of one model.

    Args:
        files: ``.eval``, ``.json``, or ``summaries.json`` with ``header.json`` in its folder.
        scorer: whose label and answer are taken; None takes the first that says right or wrong.

    Raises:
        DataError: where two files were sampled in different ways.
    """
    log = Log()
    found: list[Entry] = []
    for file in files:
        if file.name == "header.json" and any(
            other.name == "summaries.json" and other.folder == file.folder for other in files
        ):
            continue
        try:
            header, samples = _opened(file)
        except UnreadableError as error:
            log.bad_files.append(str(error))
            continue
        _decoding(log, header, file.path)
        share = _share_of_total(header, samples)
        of_file = []
        for where, sample in samples:
            entry = _entry(header, sample, where, scorer, share)
            if isinstance(entry, str):
                log.refused.append(entry)
            else:
                of_file.append(entry)
        found += sorted(of_file, key=lambda entry: entry.place)  # an epoch after the other
    log.entries = renumbered(_once(log, found))
    return log


def _once(log: Log, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Without the samples that a retried log copied from the log before it."""
    seen: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        if entry.uid is None:
            yield entry
        elif (key := (entry.question_id, entry.uid)) not in seen:
            seen[key] = entry
            yield entry
        else:
            log.refused.append(f"a copy of {seen[key].where} in {entry.where}")


def _opened(file: LogFile) -> tuple[Fields, list[tuple[str, Fields]]]:
    """Header and samples of a log."""
    if file.name.endswith(".eval"):
        return _archived(file)
    value = file.json()
    header: Any = value
    samples: Any = value.get("samples") if isinstance(value, Mapping) else value
    if isinstance(value, list):
        header = LogFile(f"{file.folder}/header.json").json() if _has_header(file) else {}
    if not isinstance(header, Mapping) or not isinstance(samples, list):
        raise UnreadableError(
            f"an Inspect log must hold eval and samples, or be a list of summaries beside "
            f"header.json, {file.path} is neither"
        )
    return header, [(f"{file.path}, sample {n}", s) for n, s in enumerate(samples, 1)]


def _has_header(file: LogFile) -> bool:
    try:
        LogFile(f"{file.folder}/header.json").json()
    except OSError:
        return False
    return True


def _archived(file: LogFile) -> tuple[Fields, list[tuple[str, Fields]]]:
    archive = file.archive()
    names = archive.names
    starts = [name for name in ("header.json", "_journal/start.json") if name in names]
    if not starts:
        raise UnreadableError(f"an Inspect log must hold header.json, {file.path} does not")
    header = archive.json(starts[0])  # a log that was not finished has the journal's alone
    whole = dict.fromkeys(n for n in names if n.startswith("samples/") and n.endswith(".json"))
    if whole:
        return header, [(f"{file.path}, {name}", archive.json(name)) for name in whole]
    parts = [n for n in names if n == "summaries.json"] or [
        n for n in names if n.startswith("_journal/summaries/")
    ]
    summaries = [summary for name in parts for summary in archive.json(name)]
    return header, [(f"{file.path}, summary {n}", s) for n, s in enumerate(summaries, 1)]


def _decoding(log: Log, header: Fields, where: str) -> None:
    config = {
        **(header.get("eval", {}).get("model_generate_config") or {}),
        **(header.get("plan", {}).get("config") or {}),
    }
    log.decode_with(where, **{n: config.get(n) for n in ("temperature", "top_p", "max_tokens")})


def _share_of_total(header: Fields, samples: Sequence[tuple[str, Fields]]) -> int | None:
    """Output tokens a sample, of the total in the header; older logs have no more."""
    usage = (header.get("stats") or {}).get("model_usage") or {}
    total = count_of(_usage(usage, header).get("output_tokens"))
    return None if not total or not samples else round(total / len(samples))


def _usage(usage: Any, header: Fields) -> Fields:
    """Of the model that was evaluated, and not of one that graded it."""
    model = header.get("eval", {}).get("model")
    if not isinstance(usage, Mapping) or not usage:
        return {}
    found = usage.get(model)
    if found is None and len(usage) == 1:
        found = next(iter(usage.values()))
    return found if isinstance(found, Mapping) else {}


def _entry(
    header: Fields, sample: Any, where: str, scorer: str | None, share: int | None
) -> Entry | str:
    if not isinstance(sample, Mapping) or "id" not in sample or "epoch" not in sample:
        return f"a sample must have id and epoch, got {_names(sample)} in {where}"
    facts = header.get("eval") or {}
    usage = _usage(sample.get("model_usage"), header)
    output = sample.get("output") or {}
    usage = usage or output.get("usage") or {}
    tokens, estimated = count_of(usage.get("output_tokens")), False
    if tokens is None and share is not None:
        tokens, estimated = share, True
    entry = Entry(
        where=where,
        question_id=str(sample["id"]),
        pool=Pool.PARALLEL,
        place=int(sample["epoch"]) - 1,
        uid=text_of(sample.get("uuid")),
        benchmark=text_of(facts.get("task_display_name") or facts.get("task")),
        model=text_of(facts.get("model")),
        question=_question(sample),
        gold=_targets(sample.get("target")),
        tokens=tokens,
        tokens_estimated=estimated,
        prompt_tokens=count_of(usage.get("input_tokens")),
        thinking_tokens=count_of(usage.get("reasoning_tokens")),
    )
    if (error := _error(sample, output)) is not None:
        return replace(entry, error=error, tokens=None if estimated else tokens)
    right, answer = _scored(sample, scorer)
    text, finish = _reply(sample, output)
    return replace(entry, text=text, answer=answer, right=right, finish_reason=finish)


def _error(sample: Fields, output: Fields) -> str | None:
    error = sample.get("error") or output.get("error")
    if isinstance(error, Mapping):
        error = error.get("message") or "an error"
    if error:
        return str(error)
    return "not completed" if sample.get("completed") is False else None


def _question(sample: Fields) -> str | None:
    turn = last_user_turn(_attached(sample, sample.get("input")))
    choices = sample.get("choices")
    if turn is None or not isinstance(choices, Sequence) or not choices:
        return turn
    lines = [f"{letter}) {text}" for letter, text in zip(_LETTERS, choices, strict=False)]
    return "\n".join([turn, "", *lines])


def _targets(target: Any) -> tuple[str, ...]:
    targets = target if isinstance(target, list) else [target]
    return tuple(text for one in targets if (text := text_of(one)))


def _reply(sample: Fields, output: Fields) -> tuple[str | None, str]:
    choices = output.get("choices") or [{}]
    text = content_of(_attached(sample, (choices[0].get("message") or {}).get("content")))
    text = output.get("completion") if text is None else text
    if text is None:
        turns = [m for m in sample.get("messages") or () if m.get("role") == "assistant"]
        text = content_of(turns[-1].get("content")) if turns else None
    stop = text_of(choices[0].get("stop_reason")) or "stop"
    attached = _attached(sample, text)
    return (attached if isinstance(attached, str) else None), _FINISHED.get(stop, "stop")


def _attached(sample: Fields, value: Any) -> Any:
    """A long text is kept once among the attachments, where its digest leads."""
    if isinstance(value, str) and value.startswith("attachment://"):
        return (sample.get("attachments") or {}).get(value.removeprefix("attachment://"), value)
    if isinstance(value, list):
        return [_attached(sample, part) for part in value]
    if isinstance(value, Mapping):
        return {name: _attached(sample, part) for name, part in value.items()}
    return value


def _scored(sample: Fields, scorer: str | None) -> tuple[bool | None, str | None]:
    scores = sample.get("scores") or {}
    if not scores and isinstance(sample.get("score"), Mapping):
        scores = {"score": sample["score"]}  # before version 2
    if scorer is not None and scorer not in scores:
        raise DataError(f"--scorer must be one of {', '.join(scores) or 'none'}, got {scorer!r}")
    listed = [scores[scorer]] if scorer is not None else list(scores.values())
    listed = [score for score in listed if isinstance(score, Mapping)]
    for score in listed:
        if (right := label_of(score.get("value"))) is not None:
            return right, text_of(score.get("answer"))
    return None, text_of(listed[0].get("answer")) if listed else None


def _names(value: Any) -> str:
    return ", ".join(sorted(value)) if isinstance(value, Mapping) else type(value).__name__
