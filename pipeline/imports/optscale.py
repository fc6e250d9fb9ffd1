"""*read_optscale*: reads OptScale's pools (arXiv 2506.22376), from which the paper's 7B tables are.

Files are those of the repository's ``generation_and_scoring`` folder: ``run_para_inference.py`` and
``run_seq_inference.py`` write ``{problem, outputs[, pre_answers]}`` a question, ``prm_scoring.py``
adds scores and tokens. Both scripts ask the same prompts whatever the benchmark, so that a pool
knows its prompts and a live run may go on from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.prompts import EmptyAnswer, Feedback, Prompts
from pipeline.core.protocol import Pool
from pipeline.imports.entries import Entry, Log, count_of, number_of, text_of
from pipeline.store.log_files import LogFile, UnreadableError

_ASK = (
    "Answer the following questions. You should think step-by-step and put your final answer "
    "within $\\boxed{answer}$, where [answer] is just the final number or expression that solves "
    "the problem.\n Question: {question}"
)
PROMPTS = Prompts(
    first=_ASK,
    revise=_ASK
    + "\nThe assistant's previous answer is: $\\boxed{{answer}}$, and please re-answer.",
    feedback=Feedback.FIRST_BOX_COMPAT,
    empty_answer=EmptyAnswer.EMPTY_BOX,
)
_DECODING = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 10_000}
_BENCHMARK = re.compile(r"(math[-_]?500|gsm8k|aime[-_]?(?:20)?2[45]|amc[-_]?23)", re.IGNORECASE)
_CHAIN = re.compile(r"(?:^|[/_-])seq(?:uential)?(?:[/_-]|$)", re.IGNORECASE)
_SAMPLES = re.compile(r"(?:^|[/_-])par(?:allel|a)?(?:[/_-]|$)", re.IGNORECASE)


def read_optscale(files: Sequence[LogFile], *, pool: Pool | None = None) -> Log:
    """Read pools, scored or not, and the files of questions beside them.

    ``pre_answers`` marks rounds; else ``seq`` and ``par`` in the path tell rounds from samples.

    Args:
        files: pools, and files with ``problem`` (or ``question``) and ``answer`` a row, which give
            gold answers by the question's text, else by its place.
        pool: what the rows are where the path does not say.
    """
    log = Log(
        prompts=PROMPTS,
        context="last_answer",
        decoding=dict(_DECODING),
        scores="Qwen/Qwen2.5-Math-PRM-7B",
    )
    golds: dict[str, list[Mapping[str, Any]]] = {}
    pools: list[tuple[LogFile, list[Any]]] = []
    for file in files:
        items = _items(log, file)
        if any(
            isinstance(item, Mapping) and ("score" in item or "outputs" in item) for item in items
        ):
            pools.append((file, items))
        elif items:
            golds[_benchmark(file)] = [item for item in items if isinstance(item, Mapping)]
    for file, items in pools:
        benchmark = _benchmark(file)
        known = golds.get(benchmark) or (next(iter(golds.values())) if len(golds) == 1 else [])
        by_text = {_plain(_question(gold)): gold for gold in known}
        for number, item in enumerate(items, 1):
            where = f"{file.path}, item {number}"
            drawn = _completions_of(item)
            kind = _kind(item, file, pool)
            if drawn is None or kind is None:
                why = "score.completions or outputs" if drawn is None else "seq or par in its path"
                log.refused.append(f"a pool must have {why} (or --rounds, --samples), in {where}")
                continue
            problem, completions, tokens, scores = drawn
            place = int(item.get("id", number)) - 1
            gold = by_text.get(_plain(problem)) or (known[place] if place < len(known) else {})
            name = text_of(gold.get("unique_id", gold.get("id"))) or str(place + 1)
            for at, text in enumerate(completions):
                log.entries.append(
                    Entry(
                        where=where,
                        question_id=name,
                        pool=kind,
                        place=at,
                        benchmark=benchmark,
                        question=problem,
                        gold=() if gold.get("answer") is None else (str(gold["answer"]),),
                        level=text_of(gold.get("level")),
                        text=text_of(text),
                        tokens=count_of(tokens[at]) if at < len(tokens) else None,
                        score=number_of(scores[at]) if at < len(scores) else None,
                    )
                )
    return log


def _items(log: Log, file: LogFile) -> list[Any]:
    if not file.name.endswith(".json"):
        return [row for _, row in log.rows_of(file)]
    try:
        value = file.json()
    except UnreadableError as error:
        log.bad_files.append(str(error))
        return []
    return value if isinstance(value, list) else [value]


def _completions_of(item: Any) -> tuple[str, list[Any], list[Any], list[Any]] | None:
    if not isinstance(item, Mapping):
        return None
    score = item.get("score")
    if isinstance(score, Mapping) and score.get("completions"):
        problem = (score.get("problem") or [item.get("problem")])[0]
        parts = [(score.get(n) or [[]])[0] for n in ("completions", "completion_tokens", "scores")]
        return str(problem), parts[0], parts[1], parts[2]
    if isinstance(item.get("outputs"), list):
        return str(item.get("problem")), item["outputs"], [], []
    return None


def _kind(item: Any, file: LogFile, given: Pool | None) -> Pool | None:
    if isinstance(item, Mapping) and item.get("pre_answers"):
        return Pool.SEQUENTIAL
    stem = file.name.rsplit(".", 1)[0]
    for pattern, kind in ((_CHAIN, Pool.SEQUENTIAL), (_SAMPLES, Pool.PARALLEL)):
        if pattern.search(stem) or (pattern.search(file.folder) and given is None):
            return kind
    return given


def _benchmark(file: LogFile) -> str:
    found = _BENCHMARK.search(file.name)
    return re.sub(r"[-_]|(?<=aime)20", "", found[1].lower()) if found else "optscale"


def _question(gold: Mapping[str, Any]) -> str:
    return str(gold.get("problem", gold.get("question", gold.get("prompt", ""))))


def _plain(text: str) -> str:
    return " ".join(text.split())
