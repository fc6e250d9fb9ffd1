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

from actors.training.tiny_measure import measure_chains, measure_verifier
from actors.training.tiny_models import GENERATOR, VERIFIER, load_generator, load_verifier
from actors.training.tiny_sampling import step_scores
from pipeline.benchmarks.arithmetic import answer_of, parse, questions, slipped_solution, solution

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
FIGURES = json.loads((MODELS / GENERATOR / "figures.json").read_text(encoding="utf-8"))
FRESH_SEED = 41968
"""Not the seed of the card (2026) nor of its priors (2027)."""

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def measured() -> tuple[dict[str, Any], dict[str, Any]]:
    """Chains of 3 rounds on 200 fresh test questions, and the verifier's scores of them."""
    generator, verifier = load_generator(MODELS / GENERATOR), load_verifier(MODELS / VERIFIER)
    chains, *scored = measure_chains(generator, n=200, split="test", rounds=3, seed=FRESH_SEED)
    return chains, measure_verifier(verifier, *scored)


def four_standard_errors(p1: float, n1: int, p2: float, n2: int) -> float:
    """Tolerance of the difference of two shares."""
    p = (p1 * n1 + p2 * n2) / (n1 + n2)
    return 4 * float(np.sqrt(p * (1 - p) * (1 / n1 + 1 / n2)))


def auc_variance(auc: float, n_right: int, n_wrong: int) -> float:
    """Variance of an estimated AUC (Hanley and McNeil 1982, Eq. 1)."""
    both_right, both_wrong = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = (n_right - 1) * (both_right - auc**2) + (n_wrong - 1) * (both_wrong - auc**2)
    return (auc * (1 - auc) + spread) / (n_right * n_wrong)


def test_first_answers_are_as_accurate_as_the_card_says(measured: Any) -> None:
    """p0 agrees within 4 standard errors."""
    here, card = measured[0], FIGURES["chains"]
    tolerance = four_standard_errors(here["p0"], here["questions"], card["p0"], card["questions"])

    assert here["p0"] == pytest.approx(card["p0"], abs=tolerance)


@pytest.mark.parametrize(("name", "counts"), [("a", "right_to_wrong"), ("b", "wrong_to_right")])
def test_transitions_are_as_the_card_says(measured: Any, name: str, counts: str) -> None:
    """a and b agree within 4 standard errors, questions counted once."""
    here, card = measured[0], FIGURES["chains"]
    tolerance = four_standard_errors(here[name], here[counts][2], card[name], card[counts][2])

    assert here[name] == pytest.approx(card[name], abs=tolerance)


@pytest.mark.parametrize("aggregation", ["mean", "min", "product", "last"])
def test_the_verifier_separates_as_the_card_says(measured: Any, aggregation: str) -> None:
    """AUC of first answers agrees within 4 standard errors and is far from chance."""
    here, card = measured[1], FIGURES["verifier"]
    found, stated = (each["auc_first_answers"][aggregation] for each in (here, card))
    variance = sum(
        auc_variance(each["auc_first_answers"][aggregation], *each["first_answers_right_wrong"])
        for each in (here, card)
    )

    assert found == pytest.approx(stated, abs=4 * variance**0.5)
    assert found > 0.8


def test_nearly_all_replies_have_an_answer(measured: Any) -> None:
    """At most one reply in a hundred ends without a box."""
    assert measured[0]["without_answer"] <= 6


ENGINE = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.config import PoolerConfig

models, turns = sys.argv[1], json.load(sys.stdin)
shared = {"enforce_eager": True, "dtype": "float32", "max_model_len": 256}
generator = LLM(models + "/tiny-generator", **shared)
sampling = SamplingParams(temperature=0.7, top_p=0.95, max_tokens=96, seed=0)
asked = [turn[:1] for turn in turns]
replies = [each.outputs[0].text for each in generator.chat(asked, sampling, use_tqdm=False)]
verifier = LLM(models + "/tiny-verifier", runner="pooling", **shared,
               pooler_config=PoolerConfig(step_tag_id=4))
template = verifier.get_tokenizer().apply_chat_template
prompts = [template(turn, tokenize=False) for turn in turns]
outputs = verifier.encode(prompts, pooling_task="token_classify", use_tqdm=False)
scores = [each.outputs.data.float().tolist() for each in outputs]
print("RESULT" + json.dumps({"replies": replies, "scores": scores}))
"""


@pytest.fixture(scope="module")
def engines() -> dict[str, Any]:
    """What vLLM on the CPU makes of 24 questions and their solutions, in a process of its own."""
    rng = np.random.default_rng(0)
    texts = [question.text for question in questions(24, split="test", seed=FRESH_SEED)]
    solved = [
        slipped_solution(parse(text), rng) if position % 2 else solution(parse(text))
        for position, text in enumerate(texts)
    ]
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
        [sys.executable, "-c", ENGINE, str(MODELS)],
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


def test_vllm_scores_steps_as_the_trained_verifier_does(engines: dict[str, Any]) -> None:
    """One softmaxed pair a step, equal to the torch forward within 2e-2."""
    verifier = load_verifier(MODELS / VERIFIER)
    expected = step_scores(verifier, engines["texts"], engines["solutions"])

    for rows, scores in zip(engines["scores"], expected, strict=True):
        assert np.sum(rows, axis=1) == pytest.approx(np.ones(4), abs=1e-4)
        assert np.array(rows)[:, 1] == pytest.approx(scores, abs=2e-2)


def test_vllm_answers_as_often_right_as_the_card_says(engines: dict[str, Any]) -> None:
    """Replies through the chat template agree with p0 within 4 standard errors."""
    right = [
        answer_of(reply) == str(parse(text).value)
        for text, reply in zip(engines["texts"], engines["replies"], strict=True)
    ]
    card = FIGURES["chains"]
    tolerance = four_standard_errors(float(np.mean(right)), 24, card["p0"], card["questions"])

    assert np.mean(right) == pytest.approx(card["p0"], abs=tolerance)
