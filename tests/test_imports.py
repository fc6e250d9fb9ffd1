"""Imports of other tools' logs: each format's file, what is refused, and what a pool says of it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.import_logs import main
from jobs.paper import main as paper
from jobs.sweep import main as sweep
from pipeline.api import accuracy_by_round, fronts
from pipeline.config.collection import make_collection
from pipeline.core.prompts import first_box_compat
from pipeline.core.protocol import Question
from pipeline.imports.first_table import first_table
from pipeline.imports.optscale import PROMPTS
from pipeline.replay.pools import CompletionPool, read_pool
from pipeline.statistics.intervals import mean_interval
from pipeline.store import log_files
from pipeline.strategies.sequential import MRThinking

LOGS = Path(__file__).parent / "logs"

REPLIES = {
    "q1": ["2 and 2 make \\boxed{4}.", "It is \\boxed{5}.", "So \\boxed{4}.", "\\boxed{4}"],
    "q2": ["\\boxed{9}", "\\boxed{9}", "\\boxed{9}", "\\boxed{8}"],
    "q3": ["\\boxed{1}", "\\boxed{2}", "no idea", "\\boxed{7}"],
}
GOLD = {"q1": "4", "q2": "9", "q3": "7"}
ASKED = {"q1": "What is 2 + 2?", "q2": "What is 3 * 3?", "q3": "What is hard?"}
VERDICTS = {
    "q1": ("right", "wrong", "right", "right"),
    "q2": ("right", "right", "right", "wrong"),
    "q3": ("wrong", "wrong", "wrong", "right"),
}


def lines(path: Path, rows: list[Any]) -> Path:
    """Rows as JSONL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def document(path: Path, value: Any) -> Path:
    """A value as JSON."""
    path.write_text(json.dumps(value))
    return path


def imported(tmp_path: Path, *arguments: Any, status: int = 0) -> CompletionPool:
    """The pool that the verb makes."""
    out = tmp_path / "pool"
    assert main([*map(str, arguments), "--out", str(out)]) == status
    return read_pool(str(out))


def sample_verdicts(pool: CompletionPool) -> dict[str, tuple[str | None, ...]]:
    """By question."""
    return {q.question.question_id: q.sample_verdicts for q in pool.questions}


def nemo_files(folder: Path) -> Path:
    """What NeMo-Skills' ``generate`` and ``evaluate`` write: a file a seed."""
    for seed in range(4):
        rows = [
            {
                "generation": REPLIES[key][seed],
                "num_generated_tokens": 20 + seed,
                "finish_reason": "stop",
                "problem": ASKED[key],
                "expected_answer": GOLD[key],
                "id": key,
                "predicted_answer": None,
                "symbolic_correct": VERDICTS[key][seed] == "right",
            }
            for key in REPLIES
        ]
        lines(folder / f"output-rs{seed}.jsonl", rows[::-1] if seed == 2 else rows)
    return folder


def batch_files(folder: Path) -> list[Path]:
    """A batch's input and output file, one request a sample, and one that failed."""
    asked, answered = [], []
    for key, replies in REPLIES.items():
        for number, text in enumerate(replies):
            custom_id = f"{key}-{number}"
            body = {"model": "m", "messages": [{"role": "user", "content": ASKED[key]}]}
            asked.append({"custom_id": custom_id, "method": "POST", "url": "/v1", "body": body})
            response = {
                "status_code": 200,
                "body": {
                    "model": "gpt-mini",
                    "choices": [
                        {
                            "index": 0,
                            "finish_reason": "stop",
                            "message": {"role": "assistant", "content": text},
                        }
                    ],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 20 + number},
                },
            }
            row = {"id": f"b-{custom_id}", "custom_id": custom_id, "response": response}
            answered.append({**row, "error": None})
    answered[-1] = {
        "custom_id": "q3-3",
        "response": {"status_code": 500, "body": {"error": {"message": "overloaded"}}},
        "error": None,
    }
    return [lines(folder / "input.jsonl", asked), lines(folder / "output.jsonl", answered[::-1])]


def qwen_file(folder: Path, scores: dict[str, list[float]]) -> Path:
    """What ``math_eval.py`` writes, with a reward model's raw values."""
    rows = [
        {
            "idx": number,
            "question": ASKED[key],
            "gt_cot": "...",
            "gt": GOLD[key],
            "level": 3,
            "code": REPLIES[key],
            "pred": ["4"] * 4,
            "report": [None] * 4,
            "score": [verdict == "right" for verdict in VERDICTS[key]],
            "pred_score": [[score] for score in scores[key]],
        }
        for number, key in enumerate(REPLIES)
    ]
    return lines(folder / "test_cot_-1_seed0_t0.7_s0_e-1.jsonl", rows)


def optscale_files(folder: Path) -> list[Path]:
    """Scored pools of ``prm_scoring.py`` and the file of questions."""

    def scored(texts: dict[str, list[str]]) -> list[Any]:
        return [
            {
                "id": number,
                "output": replies[0],
                "n": len(replies),
                "score": {
                    "problem": [ASKED[key]],
                    "completions": [replies],
                    "scores": [[0.9 - 0.1 * at for at in range(len(replies))]],
                    "last_scores": [[0.5] * len(replies)],
                    "pred": [replies[0]],
                    "completion_tokens": [[30 + at for at in range(len(replies))]],
                },
            }
            for number, (key, replies) in enumerate(texts.items(), 1)
        ]

    rows = [{"problem": ASKED[k], "answer": GOLD[k], "unique_id": k} for k in REPLIES]
    return [
        document(folder / "math500_test.json", rows),
        document(folder / "scored_qwen7b_par_math500_64.json", scored(REPLIES)),
        document(folder / "scored_qwen7b_seq_math500_64.json", scored(REPLIES)),
    ]


def test_inspect_logs_of_the_tool_are_read_with_their_epochs_as_samples(tmp_path):
    """An archive that inspect_ai 0.3.285 wrote (Zstandard): ids, tokens, model and temperature;
    its own `match` scorer reads no boxes, so that labels differ and the exit status is 1."""
    pool = imported(tmp_path, LOGS / "inspect_toy.eval", "--format", "inspect", status=1)
    assert sample_verdicts(pool)["q2"] == ("right", "right", "right", "wrong")
    assert [e.observation.completion_tokens for e in pool.questions[0].samples] == [20, 21, 22, 23]
    assert pool.science.generator.model == "mockllm/model"
    assert pool.science.decoding.temperature == 0.7
    written = (tmp_path / "pool/disagreements.jsonl").read_text()
    table = [json.loads(line) for line in written.splitlines()]
    assert {(one["label"], one["verdict"]) for one in table} == {("wrong", "right")}
    assert len(table) == 5


def test_letters_are_answers(tmp_path):
    """A log of multiple choice: letters are graded as the log's scorer did."""
    pool = imported(tmp_path, LOGS / "inspect_choices.eval", "--format", "inspect")
    assert [q.gold for q in pool.questions] == ["B", "C", "D"]
    assert sample_verdicts(pool)["3"] == ("wrong", "wrong")
    assert "A) w" in pool.questions[0].question.text


def test_summaries_beside_a_header_are_a_log(tmp_path):
    """What Inspect's viewer serves has no replies: the scorer's answer counts, and a total in the
    header is shared among the samples, which is said."""
    header = {
        "eval": {"task": "t", "model": "m"},
        "stats": {"model_usage": {"m": {"output_tokens": 60}}},
    }
    document(tmp_path / "header.json", header)
    summaries = [
        {"id": key, "epoch": epoch, "input": ASKED[key], "target": GOLD[key],
         "scores": {"s": {"value": value, "answer": answer}}, "completed": True}
        for key in ("q1", "q2")
        for epoch, (value, answer) in enumerate([("C", GOLD[key]), ("I", "0")], 1)
    ]  # fmt: skip
    summaries.append({"id": "q3", "epoch": 1, "input": "?", "target": "1", "error": "timeout"})
    document(tmp_path / "summaries.json", summaries)
    pool = imported(tmp_path, tmp_path, "--format", "inspect")
    assert pool.tokens == "estimated"
    assert [e.observation.completion_tokens for e in pool.questions[0].samples] == [12, 12]
    assert pool.imported is not None
    assert pool.imported.dropped == {"questions with too few samples": 1}


def test_a_copied_sample_of_a_retried_log_counts_once(tmp_path):
    """Inspect's retry copies what was done: the copies are refused by name."""
    log = LOGS / "inspect_choices.eval"
    again = tmp_path / "again.eval"
    again.write_bytes(log.read_bytes())
    pool = imported(tmp_path, log, again, "--format", "inspect")
    assert pool.samples == 2


def test_lm_eval_samples_of_the_tool_are_read_once_a_question(tmp_path, capsys):
    """A file that lm_eval 0.4.13 wrote, two filters a question, gold in a worked solution."""
    log = LOGS / "samples_toy_gsm_2026-11-29T12-31-42.680103.jsonl"
    pool = imported(tmp_path, log, "--format", "lm_eval", "--tokens", "estimate", "--model", "toy")
    assert sample_verdicts(pool) == {
        "0": ("right", "wrong", "right", "right"),
        "1": ("right", "right", "right", "wrong"),
        "2": ("wrong",) * 4,
    }
    assert pool.benchmarks == ("toy_gsm",)
    assert pool.tokens == "estimated"


def test_log_likelihoods_are_no_samples(tmp_path, capsys):
    """Rows of a multiple choice task are refused by name, and no pool is made of them."""
    row = {"doc_id": 0, "doc": {}, "target": "0", "resps": [[[-1.5, False]], [[-2.0, False]]]}
    log = lines(tmp_path / "samples_mc.jsonl", [row])
    assert main([str(log), "--format", "lm_eval", "--out", str(tmp_path / "pool")]) == 2
    assert "samples_mc.jsonl, line 1" in capsys.readouterr().err


def test_nemo_skills_files_are_seeds_whatever_the_order_of_their_rows(tmp_path):
    """A file a seed; one of them in another order."""
    pool = imported(tmp_path, nemo_files(tmp_path / "aime24"), "--format", "nemo_skills")
    assert sample_verdicts(pool) == VERDICTS
    assert pool.tokens == "recorded"
    assert pool.benchmarks == ("aime24",)


def test_batches_are_grouped_by_prompt_and_failures_are_failures(tmp_path):
    """With its input file a batch's samples are those of one prompt; an error is no answer."""
    golds = [{"id": key, "question": ASKED[key], "answer": GOLD[key]} for key in GOLD]
    gold = lines(tmp_path / "gold.jsonl", golds)
    files = batch_files(tmp_path)
    pool = imported(tmp_path, *files, "--format", "openai_batch", "--gold", gold)
    assert sorted(q.gold for q in pool.questions) == ["4", "7", "9"]
    assert [q.sample_verdicts for q in pool.questions if q.gold == "7"] == [
        (None, "wrong", "wrong", "wrong")  # answered in the order of the output file
    ]
    assert pool.science.generator.model == "gpt-mini"


def test_raw_values_of_reward_models_become_scores(tmp_path):
    """Qwen2.5-Math's results: a sigmoid keeps the order, and the pool names it."""
    raw = {key: [-4.0, 0.0, 2.0, 6.0] for key in REPLIES}
    pool = imported(tmp_path, qwen_file(tmp_path, raw), "--format", "qwen_math")
    scores = [e.observation.score for e in pool.questions[0].samples]
    assert scores == pytest.approx([0.0179862, 0.5, 0.8807971, 0.9975274])
    assert pool.science.verifier is not None
    assert pool.science.verifier.model == "pred_score (sigmoid)"
    assert pool.science.decoding.temperature == 0.7


def test_scores_outside_the_unit_interval_are_refused_with_the_cure(tmp_path, capsys):
    """Nobody's raw values are taken for chances."""
    log = qwen_file(tmp_path, {key: [-4.0, 0.0, 2.0, 6.0] for key in REPLIES})
    out = str(tmp_path / "pool")
    arguments = [str(log), "--format", "qwen_math", "--score-map", "identity", "--out", out]
    assert main(arguments) == 2
    assert "sigmoid is for raw values" in capsys.readouterr().err


def test_optscale_pools_have_chains_samples_scores_and_their_prompts(tmp_path):
    """Both pools of a question under one id, with the authors' feedback in the digests."""
    pool = imported(tmp_path, *optscale_files(tmp_path), "--format", "optscale", "--model", "r1")
    assert (pool.rounds, pool.samples, pool.chains) == (4, 4, 1)
    assert sample_verdicts(pool) == VERDICTS
    assert {q.question.question_id: q.round_verdicts for q in pool.questions} == VERDICTS
    assert [e.observation.score for e in pool.questions[0].rounds] == pytest.approx(
        [0.9, 0.8, 0.7, 0.6]
    )
    assert pool.science.prompts == PROMPTS
    assert pool.imported is not None
    assert pool.imported.prompts == "known"


def test_optscale_prompts_are_those_of_the_authors_scripts():
    """The prompt of a later round, letter by letter."""
    asked = PROMPTS.ask_again("Q?", first_box_compat("so \\boxed{5}$. \n\nThen {x}"))
    assert asked[0].content == (
        "Answer the following questions. You should think step-by-step and put your final answer "
        "within $\\boxed{answer}$, where [answer] is just the final number or expression that "
        "solves the problem.\n Question: Q?\nThe assistant's previous answer is: "
        "$\\boxed{5}$. }$, and please re-answer."
    )


MAP = "question_id: task\ngold: gold\ntext: reply\nright: ok\nround: step\ncontext: history\n"


def chain_rows(lengths: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """A row a round."""
    return [
        {"task": key, "gold": GOLD[key], "reply": text, "ok": verdict == "right", "step": at + 1}
        for key, replies in REPLIES.items()
        for at, (text, verdict) in enumerate(zip(replies, VERDICTS[key], strict=True))
        if at < (lengths or {}).get(key, 4)
    ]


def mapped(tmp_path: Path, rows: list[dict[str, Any]], text: str = MAP) -> list[str]:
    """Arguments that import rows by a map."""
    (tmp_path / "map.yaml").write_text(text)
    return [str(lines(tmp_path / "log.jsonl", rows)), "--map", str(tmp_path / "map.yaml")]


def test_a_map_reads_rounds_and_their_context(tmp_path):
    """Chains alone, no tokens, no scores: the pool says so."""
    pool = imported(tmp_path, *mapped(tmp_path, chain_rows()))
    assert (pool.rounds, pool.samples, pool.tokens) == (4, 0, "none")
    assert {q.question.question_id: q.round_verdicts for q in pool.questions} == VERDICTS
    assert pool.imported is not None
    assert "each round saw the whole history" in pool.imported.sentence


def test_a_map_reads_a_question_with_lists(tmp_path):
    """A row a question; lists within lists by ``[]``."""
    rows = [
        {"id": key, "gold": GOLD[key], "turns": [{"text": text} for text in replies]}
        for key, replies in REPLIES.items()
    ]
    text = "question_id: id\ngold: gold\ntext: turns[].text\nrows: samples\n"
    assert sample_verdicts(imported(tmp_path, *mapped(tmp_path, rows, text))) == VERDICTS


def test_chains_that_an_oracle_stopped_are_refused(tmp_path, capsys):
    """Where no right answer is followed by anything, a cannot be counted."""
    rows = chain_rows({"q1": 1, "q2": 1})
    assert main([*mapped(tmp_path, rows), "--out", str(tmp_path / "pool")]) == 2
    assert "an oracle stopped them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ragged", "rounds", "questions", "dropped"),
    [
        ("best", 4, 2, {"chains that are too short": 1, "questions without enough chains": 1}),
        ("cut", 2, 3, {"rounds beyond the common depth": 4}),
    ],
)
def test_ragged_chains_are_dropped_or_cut_with_counts(tmp_path, ragged, rounds, questions, dropped):
    """The depth that keeps most completions, or the smallest."""
    arguments = mapped(tmp_path, chain_rows({"q3": 2}))
    pool = imported(tmp_path, *arguments, "--ragged", ragged)
    assert (pool.rounds, len(pool.questions)) == (rounds, questions)
    assert pool.imported is not None
    assert pool.imported.dropped == dropped


def test_errors_are_failures_and_no_answers(tmp_path):
    """A reply that is an error ends its chain."""
    rows = chain_rows()
    rows[2]["reply"] = "API_ERROR: quota"
    pool = imported(tmp_path, *mapped(tmp_path, rows, MAP + "errors: [API_ERROR]\n"))
    assert pool.questions[0].round_verdicts == ("right", "wrong", None)


def test_several_chains_of_a_question_are_kept_apart(tmp_path):
    """Chains by seed; each is read as the pool's chain in turn."""
    rows = [{**row, "seed": seed} for seed in (7, 8) for row in chain_rows()]
    for row in rows:
        if row["seed"] == 8:
            row["reply"], row["ok"] = "\\boxed{0}", False
    pool = imported(tmp_path, *mapped(tmp_path, rows, MAP + "chain: seed\n"))
    assert pool.chains == 2
    assert pool.questions[0].round_verdicts == VERDICTS["q1"]
    assert pool.with_chain(1).questions[0].round_verdicts == ("wrong",) * 4


@pytest.mark.parametrize(
    ("labels", "verdict", "status"),
    [("trust", "wrong", 0), ("grade", "right", 0), ("both", "right", 1)],
)
def test_labels_are_trusted_replaced_or_compared(tmp_path, labels, verdict, status):
    """A label that the grader contradicts, one of 12: above 2 % the exit status is 1."""
    rows = chain_rows()
    rows[0]["ok"] = False
    pool = imported(tmp_path, *mapped(tmp_path, rows), "--labels", labels, status=status)
    assert pool.questions[0].round_verdicts[0] == verdict


def test_facts_without_texts_questions_and_gold_make_a_pool(tmp_path):
    """Anonymous facts: an answer's number and a label."""
    rows = [
        {"q": key, "n": at, "a": at % 2, "ok": verdict == "right"}
        for key, verdicts in VERDICTS.items()
        for at, verdict in enumerate(verdicts)
    ]
    text = "question_id: q\nanswer: a\nright: ok\nsample: n\n"
    pool = imported(tmp_path, *mapped(tmp_path, rows, text))
    assert sample_verdicts(pool) == VERDICTS
    assert [e.observation.answer for e in pool.questions[0].samples] == ["0", "1", "0", "1"]


def test_a_bad_row_is_named_and_the_others_are_read(tmp_path, capsys):
    """A line that is no JSON, and a row without a reply."""
    arguments = mapped(tmp_path, chain_rows())
    log = tmp_path / "log.jsonl"
    log.write_text(log.read_text() + "{torn\n" + json.dumps({"task": "q4"}) + "\n")
    assert len(imported(tmp_path, *arguments).questions) == 3
    said = capsys.readouterr().out
    assert "log.jsonl, line 13" in said
    assert "log.jsonl, line 14" in said


def test_a_bad_file_is_left_out_and_named(tmp_path, capsys):
    """The others of its folder make the pool, which counts it; exit status 1 unless told."""
    folder = tmp_path / "log"
    for number, row in enumerate(chain_rows()):
        document(lines(folder / "x", []).with_name(f"{number}.json"), [row])
    (folder / "x").unlink()
    (folder / "torn.json").write_text("[{")
    (tmp_path / "map.yaml").write_text(MAP)
    arguments = [str(folder), "--map", str(tmp_path / "map.yaml")]
    pool = imported(tmp_path, *arguments, status=1)
    assert "torn.json must be JSON" in capsys.readouterr().out
    assert pool.imported is not None
    assert pool.imported.dropped == {"files that cannot be read": 1}
    assert [len(q.rounds) for q in pool.questions] == [4, 4, 4]
    out = str(tmp_path / "again")
    assert main([*arguments, "--skip-bad", "--out", out]) == 0


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed_files_are_read_within_a_bound(tmp_path, capsys, monkeypatch, packing):
    """By what stands before their ending; a cut one is refused, and one that unpacks too large."""
    *arguments, _, fields = mapped(tmp_path, chain_rows())
    plain = Path(arguments[0]).read_bytes()
    codec = pa.Codec("gzip" if packing == "gz" else "zstd")
    data = bytes(codec.compress(plain, asbytes=True))
    packed = tmp_path / f"log.jsonl.{packing}"
    packed.write_bytes(data)
    rest = ["--map", fields]
    pool = imported(tmp_path, packed, *rest)
    assert {q.question.question_id: q.round_verdicts for q in pool.questions} == VERDICTS
    assert pool.imported is not None
    assert pool.imported.sources[0]["name"] == packed.name
    packed.write_bytes(data[: len(data) // 2])
    assert main([str(packed), *rest, "--out", str(tmp_path / "cut")]) == 2
    assert f"{packed} must be whole" in capsys.readouterr().err
    packed.write_bytes(data)
    monkeypatch.setattr(log_files, "_MOST_UNPACKED", 100)
    assert main([str(packed), *rest, "--out", str(tmp_path / "bomb")]) == 2
    assert "must unpack to at most 100 bytes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "inspect", "--map", "m.yaml"], "one of them"),
        ([], "one of them"),
        (["--format", "inspect"], "must be JSON"),
    ],
)
def test_what_does_not_fit_ends_with_one_line(tmp_path, capsys, arguments, said):
    """Options and files that cannot be."""
    log = tmp_path / "log.json"
    log.write_text("{")
    assert main([str(log), *arguments, "--out", str(tmp_path / "pool")]) == 2
    assert said in capsys.readouterr().err


def test_a_deflated_archive_of_an_unfinished_log_is_read(tmp_path):
    """Earlier versions deflated, and a log that was stopped has the journal's header alone."""
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {"eval": {"task": "t", "model": "m"}, "plan": {"config": {"temperature": 1.0}}}
        archive.writestr("_journal/start.json", json.dumps(start))
        for epoch in (1, 2):
            output = {"choices": [{"message": {"content": "\\boxed{4}"}, "stop_reason": "stop"}]}
            sample = {"id": 1, "epoch": epoch, "input": "?", "target": "4", "output": output}
            archive.writestr(f"samples/1_epoch_{epoch}.json", json.dumps(sample))
    pool = imported(tmp_path, path, "--format", "inspect")
    assert pool.questions[0].sample_verdicts == ("right", "right")


def test_pools_of_other_seeds_become_one(tmp_path):
    """Chains and samples add up; verdicts and prompts are kept."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, ok in ((one, True), (two, False)):
        rows = chain_rows()
        for row in rows:
            row["reply"] = row["reply"] if ok else "\\boxed{0}"
            row["ok"] = row["ok"] and ok
        folder.mkdir()
        assert main([*mapped(folder, rows), "--out", str(folder / "pool")]) == 0
    pool = imported(tmp_path, one / "pool", two / "pool", "--format", "pool")
    assert (pool.chains, pool.rounds) == (2, 4)
    assert {q.question.question_id: q.round_verdicts for q in pool.questions} == VERDICTS
    assert pool.with_chain(1).questions[0].round_verdicts == ("wrong",) * 4


def test_the_first_table_says_what_samples_were_worth(tmp_path, capsys):
    """avg@4, maj@4 and pass@4 by hand: 7 of 12 right; two questions won by votes."""
    pool = imported(tmp_path, nemo_files(tmp_path / "set"), "--format", "nemo_skills")
    rows = {row.method: row for row in first_table(pool)}
    assert rows["single"].column.right_Q.tolist() == [0.75, 0.75, 0.25]
    assert rows["SC@4"].column.right_Q.tolist() == [1.0, 1.0, 0.0]
    assert rows["pass@4 (an oracle)"].column.right_Q.tolist() == [1.0, 1.0, 1.0]
    assert rows["single"].completions_saved is not None
    assert rows["single"].completions_saved.value == 0.75


def test_a_collection_draws_several_chains_with_seeds_of_their_own():
    """Labels, places and seeds; a resume keeps the number of chains, and may raise it."""
    values: dict[str, Any] = {"science": {}}
    for chains, expected in ((2, 2), (None, 2), (3, 3)):
        make_collection(values, 8, 0, chains)
        labels = [entry["label"] for entry in values["science"]["strategies"]]
        assert labels == ["sequential", "sequential-1", "sequential-2"][:expected]
    asked = Question(benchmark="b", question_id="1", text="?", seed=3)
    starts = [next(MRThinking(n=2, chain=chain).decide(asked)) for chain in range(3)]
    requests = [start.requests[0] for start in starts]
    assert [request.address for request in requests] == [("sequential", c, 0, 0) for c in range(3)]
    assert len({request.seed for request in requests}) == 3
    assert len({request.digest() for request in requests}) == 1


def letters(kind: str) -> list[dict[str, Any]]:
    """60 questions of multiple choice: four completions each, as rounds or as samples."""
    return [
        {"q": str(q), "gold": "ABCD"[q % 4], kind: at, "a": "ABCD"[(q + (q * at) % 3) % 4]}
        for q in range(60)
        for at in range(4)
    ]


@pytest.mark.parametrize("kind", ["round", "sample"])
def test_pools_of_one_kind_without_scores_and_tokens_fill_every_table(
    tmp_path, capsys, monkeypatch, kind
):
    """Chains or samples alone, letters, four deep: the paper's evaluation, a sweep of its grid and
    the fronts end well, say what they rest on, and count completions in place of tokens."""
    monkeypatch.setattr("pipeline.paper.opponents.SPLITS", 2)
    text = f"question_id: q\ngold: gold\nanswer: a\n{kind}: {kind}\n"
    pool = imported(tmp_path, *mapped(tmp_path, letters(kind), text))
    out = tmp_path / "paper"
    assert paper([f"--pool={tmp_path / 'pool'}", f"--out={out}"]) == 0
    page = (out / "paper.html").read_text()
    assert "imported from 1 file of format map" in page
    assert "completions, as no tokens are recorded" in page
    method = "Self-Consistency" if kind == "sample" else "MR-Thinking"
    main_rows = (out / "main.csv").read_text().splitlines()
    row = next(line for line in main_rows if f",{method},N = 4,{method}," in line)
    assert "tokens are completions" in row

    config = Path(__file__).parents[1] / "configs" / "sweeps" / "paper.yaml"
    arguments = [f"--pool={tmp_path / 'pool'}", f"--config={config}"]
    assert sweep([*arguments, f"--out={tmp_path / 'sweep.parquet'}"]) == 0
    said = capsys.readouterr().out
    assert "is cut to 4, the depth of the pool" in said
    assert "left out, as the pool has no scores: " in said
    assert "jobs.collect" not in said
    assert fronts(pool).num_rows > 0


def test_a_log_has_the_models_own_stop_flag(tmp_path):
    """Chains can then be stopped by it, and pools of this project keep it."""
    rows = [{**row, "done": row["step"] >= 2} for row in chain_rows()]
    pool = imported(tmp_path, *mapped(tmp_path, rows, MAP + "stop: done\n"))
    again = tmp_path / "again"
    assert main([str(tmp_path / "pool"), "--format", "pool", "--out", str(again), "-q"]) == 0
    sweep_file = tmp_path / "sweep.yaml"
    sweep_file.write_text(
        "strategies: [{kind: settled, n: 3, repeat: null, stop_flag: true, discount: 0}]\n"
    )
    for read in (pool, read_pool(str(again))):
        flags = [[e.observation.says_stop for e in q.rounds] for q in read.questions]
        assert flags == [[False, True, True, True]] * 3
        out = str(tmp_path / f"out-{len(list(tmp_path.iterdir()))}")
        assert sweep(["--pool", read.address, "--config", str(sweep_file), "--out", out]) == 0


def test_accuracy_by_round_is_over_all_chains_of_a_question(tmp_path):
    """Two chains a question count alike; the interval is over questions."""
    rows = [{**row, "seed": seed} for seed in (1, 2) for row in chain_rows()]
    for row in rows:
        if row["seed"] == 2 and row["step"] == 1:
            row["reply"], row["ok"] = "\\boxed{0}", False
    pool = imported(tmp_path, *mapped(tmp_path, rows, MAP + "chain: seed\n"))
    table = accuracy_by_round(pool).to_pylist()
    shares = np.array([0.5, 0.5, 0.0])

    assert pool.chains == 2
    assert [row["graded"] for row in table] == [6] * 4
    assert (table[0]["right"], table[0]["accuracy"]) == (2, pytest.approx(1 / 3))
    assert table[0]["high"] == pytest.approx(min(1.0, mean_interval(shares).high))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", 'task;gold;said\nq1;4;"[""4"", ""5""]"\nq2;9;"[""9"", ""8""]"\n'),
        ("log.csv", 'task\tgold\tsaid\nq1\t4\t"[""4"", ""5""]"\nq2\t9\t"[""9"", ""8""]"\n'),
        (
            "log.json",
            '{"q1": {"gold": "4", "said": ["4", "5"]}, "q2": {"gold": 9, "said": [9, 8]}}',
        ),
    ],
    ids=["semicolons", "tabs", "rows by key"],
)
def test_a_map_reads_what_spreadsheets_and_scripts_write(tmp_path, name, text):
    """Other separators, lists within cells, and an object of rows by their id."""
    (tmp_path / name).write_text(text)
    key, said = ("task", "said[]") if name.endswith("csv") else ("key", "said")
    map_file = tmp_path / "map.yaml"
    map_file.write_text(f"question_id: {key}\ngold: gold\nanswer: {said}\nrows: samples\n")
    pool = imported(tmp_path, tmp_path / name, "--map", map_file)
    assert sample_verdicts(pool) == dict.fromkeys(("q1", "q2"), ("right", "wrong"))


def test_a_batch_of_the_responses_api_finds_its_questions(tmp_path):
    """Prompts of ``input_text`` parts, answers of ``output_text`` parts."""
    asked, answered = [], []
    for key, reply in (("q1", "\\boxed{4}"), ("q2", "\\boxed{8}")):
        part = {"type": "input_text", "text": ASKED[key]}
        body = {"model": "m", "input": [{"role": "user", "content": [part]}]}
        asked.append({"custom_id": key, "method": "POST", "url": "/v1/responses", "body": body})
        said = {"type": "message", "content": [{"type": "output_text", "text": reply}]}
        body = {"model": "m", "output": [{"type": "reasoning", "summary": []}, said]}
        answered.append({"custom_id": key, "response": {"status_code": 200, "body": body}})
    files = [lines(tmp_path / "in.jsonl", asked), lines(tmp_path / "out.jsonl", answered)]
    gold = [{"id": k, "question": ASKED[k], "answer": GOLD[k]} for k in ("q1", "q2")]
    arguments = ("--format", "openai_batch", "--gold", lines(tmp_path / "gold.jsonl", gold))
    pool = imported(tmp_path, *files, *arguments)
    assert sorted(sample_verdicts(pool).values()) == [("right",), ("wrong",)]
    assert {q.question.text for q in pool.questions} == {ASKED["q1"], ASKED["q2"]}
