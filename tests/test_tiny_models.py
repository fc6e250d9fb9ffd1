"""The shipped tiny models do, on fresh questions, what their cards say.

A figure of the card and its repetition here are two estimates of one probability p, from n1 and n2
independent questions. Their difference has the standard error sqrt(p (1 - p) (1/n1 + 1/n2)), p
pooled, and may be 4 of them (6 in 100,000 by chance). Transitions of one chain are not independent,
so a and b count questions with such a transition, not transitions. The error of an AUC is that of
Hanley and McNeil (1982), https://doi.org/10.1148/radiology.143.1.7063747.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.training.tiny_measure import measure
from actors.training.tiny_models import (
    GENERATOR,
    VERIFIER,
    folder_name,
    load_generator,
    load_verifier,
)
from actors.training.tiny_sampling import sample_replies, step_scores
from pipeline.benchmarks import arithmetic, sums
from pipeline.benchmarks.builtin import NAMES, gold, questions
from pipeline.benchmarks.generated import answer_of

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
FOLDERS = {
    task: {model: MODELS / folder_name(task, model) for model in (GENERATOR, VERIFIER)}
    for task in NAMES
}
FIGURES = {
    task: json.loads((folders[GENERATOR] / "figures.json").read_text(encoding="utf-8"))
    for task, folders in FOLDERS.items()
}
FRESH_SEED = 41968
"""Not the seed of the card (2026) nor of its priors (2027)."""

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module", params=NAMES)
def task(request: pytest.FixtureRequest) -> str:
    """Each task that there are shipped models of."""
    return str(request.param)


@pytest.fixture(scope="module")
def measured(task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Chains of 3 rounds on 200 fresh test questions, and the verifier's scores of them."""
    folders = FOLDERS[task]
    generator, verifier = load_generator(folders[GENERATOR]), load_verifier(folders[VERIFIER])
    figures = measure(generator, verifier, task, n=200, rounds=3, seed=FRESH_SEED)
    return figures["chains"], figures["verifier"]


def four_standard_errors(p1: float, n1: int, p2: float, n2: int) -> float:
    """Tolerance of the difference of two shares."""
    p = (p1 * n1 + p2 * n2) / (n1 + n2)
    return 4 * float(np.sqrt(p * (1 - p) * (1 / n1 + 1 / n2)))


def auc_variance(auc: float, n_right: int, n_wrong: int) -> float:
    """Variance of an estimated AUC (Hanley and McNeil 1982, Eq. 1)."""
    both_right, both_wrong = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = (n_right - 1) * (both_right - auc**2) + (n_wrong - 1) * (both_wrong - auc**2)
    return (auc * (1 - auc) + spread) / (n_right * n_wrong)


def test_first_answers_are_as_accurate_as_the_card_says(task: str, measured: Any) -> None:
    """p0 agrees within 4 standard errors."""
    here, card = measured[0], FIGURES[task]["chains"]
    tolerance = four_standard_errors(here["p0"], here["questions"], card["p0"], card["questions"])

    assert here["p0"] == pytest.approx(card["p0"], abs=tolerance)


@pytest.mark.parametrize(("name", "counts"), [("a", "right_to_wrong"), ("b", "wrong_to_right")])
def test_transitions_are_as_the_card_says(task: str, measured: Any, name: str, counts: str) -> None:
    """a and b agree within 4 standard errors, questions counted once."""
    here, card = measured[0], FIGURES[task]["chains"]
    tolerance = four_standard_errors(here[name], here[counts][2], card[name], card[counts][2])

    assert here[name] == pytest.approx(card[name], abs=tolerance)


@pytest.mark.parametrize("aggregation", ["mean", "min", "product", "last"])
def test_the_verifier_separates_as_the_card_says(
    task: str, measured: Any, aggregation: str
) -> None:
    """AUC of first answers agrees within 4 standard errors and is far from chance."""
    here, card = measured[1], FIGURES[task]["verifier"]
    found, stated = (each["auc_first_answers"][aggregation] for each in (here, card))
    variance = sum(
        auc_variance(each["auc_first_answers"][aggregation], *each["first_answers_right_wrong"])
        for each in (here, card)
    )

    assert found == pytest.approx(stated, abs=4 * variance**0.5)
    assert found > 0.8


def test_nearly_all_replies_have_an_answer(task: str, measured: Any) -> None:
    """At most one reply in a hundred ends without a box."""
    assert measured[0]["without_answer"] <= 6


def test_the_cards_example_is_answered_right(task: str) -> None:
    """At least one of 8 fresh answers is right: all wrong has probability 0.0002 at p0 = 0.66."""
    example = FIGURES[task]["example"]
    replies = sample_replies(
        load_generator(FOLDERS[task][GENERATOR]), [example["question"]] * 8, seed=FRESH_SEED
    )

    assert example["question"] in (FOLDERS[task][GENERATOR] / "README.md").read_text()
    assert answer_of(example["reply"]) == example["answer"] == gold(example["question"])
    assert example["answer"] in map(answer_of, replies)


ENGINE = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.config import PoolerConfig

generator, verifier, turns = *sys.argv[1:], json.load(sys.stdin)
shared = {"enforce_eager": True, "dtype": "float32", "max_model_len": 256}
generator = LLM(generator, **shared)
sampling = SamplingParams(temperature=0.7, top_p=0.95, max_tokens=96, seed=0)
asked = [turn[:1] for turn in turns]
replies = [each.outputs[0].text for each in generator.chat(asked, sampling, use_tqdm=False)]
verifier = LLM(verifier, runner="pooling", **shared,
               pooler_config=PoolerConfig(step_tag_id=4))
template = verifier.get_tokenizer().apply_chat_template
prompts = [template(turn, tokenize=False) for turn in turns]
outputs = verifier.encode(prompts, pooling_task="token_classify", use_tqdm=False)
scores = [each.outputs.data.float().tolist() for each in outputs]
print("RESULT" + json.dumps({"replies": replies, "scores": scores}))
"""


def _solved(text: str, rng: np.random.Generator, *, slips: bool) -> tuple[str, ...]:
    """A worked solution of a question of either task, with or without a slip."""
    if "*" not in text:
        return sums.solution(sums.parse(text), [1] if slips else [])
    asked = arithmetic.parse(text)
    return arithmetic.slipped_solution(asked, rng) if slips else arithmetic.solution(asked)


@pytest.fixture(scope="module")
def engines(task: str) -> dict[str, Any]:
    """What vLLM on the CPU makes of 24 questions and their solutions, in a process of its own."""
    rng = np.random.default_rng(0)
    texts = [question.text for question in questions(task, 24, split="test", seed=FRESH_SEED)]
    solved = [_solved(text, rng, slips=position % 2 == 1) for position, text in enumerate(texts)]
    turns = [
        [
            {"role": "user", "content": text},
            {"role": "assistant", "content": "".join(f"{step}<extra_0>" for step in steps)},
        ]
        for text, steps in zip(texts, solved, strict=True)
    ]
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, *map(str, FOLDERS[task].values())],
        input=json.dumps(turns),
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-3000:]
    return {
        **json.loads(lines[-1].removeprefix("RESULT")),
        "texts": texts,
        "solutions": ["\n\n".join(steps) for steps in solved],
    }


def test_vllm_scores_steps_as_the_trained_verifier_does(task: str, engines: dict[str, Any]) -> None:
    """One softmaxed pair a step, equal to the torch forward within 2e-2."""
    verifier = load_verifier(FOLDERS[task][VERIFIER])
    expected = step_scores(verifier, engines["texts"], engines["solutions"])

    for rows, scores in zip(engines["scores"], expected, strict=True):
        assert np.sum(rows, axis=1) == pytest.approx(np.ones(4), abs=1e-4)
        assert np.array(rows)[:, 1] == pytest.approx(scores, abs=2e-2)


def test_vllm_answers_as_often_right_as_the_card_says(task: str, engines: dict[str, Any]) -> None:
    """Replies through the chat template agree with p0 within 4 standard errors."""
    right = [
        answer_of(reply) == gold(text)
        for text, reply in zip(engines["texts"], engines["replies"], strict=True)
    ]
    card = FIGURES[task]["chains"]
    tolerance = four_standard_errors(float(np.mean(right)), 24, card["p0"], card["questions"])

    assert np.mean(right) == pytest.approx(card["p0"], abs=tolerance)
