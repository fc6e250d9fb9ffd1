"""What trained the shipped models of `steps-K`: its corpus, and its model beside transformers."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.benchmarks.generated import MODULUS, split_of_text
from tools import corpus
from tools import problems as steps

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = steps.parse("a=17;m=4;b=a+9;n=m-8;c=b*a;?c")


def kinds(kind: int) -> corpus.Hand:
    """A hand that knows every operation in one way."""
    known = corpus.hand()
    table = {sign: [[kind] * MODULUS] * MODULUS for sign in corpus.SHARES}
    return corpus.Hand(table, known.usual)


@pytest.mark.parametrize("kind", [corpus.KNOWN, corpus.CARELESS, corpus.BELIEVED])
@pytest.mark.parametrize("revised", [False, True])
def test_hands_slip_as_often_as_the_corpus_says(kind: int, revised: bool) -> None:
    """On problems of one step: within 4 standard errors of P(slip), or of half of it in revisions,
    as half of those end with the answer shown, here the right one."""
    rng, known, n = np.random.default_rng(0), kinds(kind), 4_000
    wrong = 0
    for _ in range(n):
        problem = steps.draw(rng, 1, "train")
        shown = problem.value if revised else None
        reply, value = corpus.written(problem, rng, known, shown)
        wrong += value != problem.value
        assert reply[-1] == f"\\boxed{{{value}}}"
    expected = corpus.P_REVISED[kind] * (1 - corpus.P_KEPT) if revised else corpus.P_FIRST[kind]

    assert abs(wrong / n - expected) < 4 * (expected * (1 - expected) / n) ** 0.5


def test_the_usual_slip_is_never_the_right_result() -> None:
    """Else a believed operation would be right after all."""
    for sign, table in corpus.hand().usual.items():
        for left, row in enumerate(table):
            for right, value in enumerate(row):
                assert value != steps.apply(left, sign, right)


@pytest.mark.vllm
def test_the_model_computes_what_transformers_computes() -> None:
    """Logits of the shipped generator, which engines load by the names of its weights."""
    import torch
    from transformers import Qwen2ForCausalLM

    from tools.model import load
    from tools.train import prompt_ids

    folder = ROOT / "models" / "steps-small"
    ids = torch.tensor([prompt_ids("a=17;m=4;b=a+9;n=m-8;c=b*a;?c")])
    theirs = Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        difference = (load(folder)(ids) - theirs(ids).logits).abs().max()

    assert float(difference) < 1e-4


@pytest.mark.vllm
def test_the_shipped_models_know_their_task() -> None:
    """Of 40 problems of two steps more than half are answered right, and the verifier scores right
    solutions above those with another last result in most."""
    import torch

    from tools.model import load, sample
    from tools.tokens import decode
    from tools.train import prompt_ids, scored_ids, step_scores

    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    problems = [steps.draw(rng, 2, "test") for _ in range(40)]
    prompts = [prompt_ids(problem.question) for problem in problems]
    replies = sample(load(ROOT / "models" / "steps-small"), prompts, most=60)
    right = [
        steps.answer_of(decode(ids)) == str(problem.value)
        for ids, problem in zip(replies, problems, strict=True)
    ]
    rows = []
    for problem in problems:
        *first, last, _ = steps.solution(problem)
        wrong = (problem.value + 3) % MODULUS
        slipped = [*first, f"{last.rpartition('=')[0]}={wrong}", f"\\boxed{{{wrong}}}"]
        rows += [scored_ids(problem.question, "\n\n".join(steps.solution(problem)))]
        rows += [scored_ids(problem.question, "\n\n".join(slipped))]
    verifier = load(ROOT / "models" / "steps-verifier")
    scores = np.array([row.mean() for row in step_scores(verifier, rows, "cpu")]).reshape(-1, 2)

    assert np.mean(right) > 0.5
    assert np.mean(scores[:, 0] > scores[:, 1]) > 0.75


@given(level=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_a_problem_reads_back_and_its_solution_is_right(level: int, seed: int) -> None:
    """K operations, whatever leads nowhere; each step of the solution is the one due."""
    problem = steps.draw(np.random.default_rng(seed), level, "train")
    reply = "\n\n".join(steps.solution(problem))

    assert steps.parse(problem.question) == problem
    assert len(problem.operations) == level
    assert steps.check_steps(problem, reply) == (True,) * (level + 1)
    assert steps.answer_of(reply) == str(problem.value)
    assert split_of_text(problem.text) == "train"


@pytest.mark.parametrize(
    ("reply", "verdicts"),
    [
        ("b=17+9=6\n\nc=6*17=2\n\n\\boxed{2}", (True, True, True)),
        ("b=17+9=7\n\nc=7*17=19\n\n\\boxed{19}", (False, False, False)),
        ("b=17+9=7\n\nc=7*17=2\n\n\\boxed{2}", (False, False, True)),
        ("c=6*17=2\n\n\\boxed{2}", (False, False)),
        ("b=17+9=6\n\nc=6*17=2\n\n\\boxed{2}\n\nso", (True, True, True, False)),
        ("", ()),
    ],
)
def test_steps_are_judged_at_their_place(reply: str, verdicts: tuple[bool, ...]) -> None:
    """A step that goes on with a wrong result is wrong, a right box is right whatever led to it."""
    assert steps.check_steps(PROBLEM, reply) == verdicts
