"""Each kind of verifier on a real engine: its scores are those of plain transformers.

The models are random, of the architectures of the verifiers in use. Prompts and places are made
here once more, from what the models' authors published, and not by the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.engines import vllm_setup
from actors.engines.verifier import VerifierEngine
from actors.routing.calls import ScoreCall, Scored
from pipeline.config.runtime import PoolConfig
from pipeline.core.protocol import Failure
from tests.conftest import TINY_POOL
from tests.tiny_verifiers import CHAT, save

pytestmark = pytest.mark.vllm

QUESTION = "12*3+1?"
STEPS = ("12*3=36", "Now +1-0 gives 37", "\\boxed{37}")
Score = Callable[[Any, Any], Sequence[float]]


def rows_at(model: Any, ids: list[int]) -> Any:
    """The logits of every token, as transformers computes them."""
    import torch

    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def chat(tokenizer: Any, *turns: tuple[str, str], opens: bool = False) -> list[int]:
    """Tokens of a conversation."""
    assert tokenizer.chat_template == CHAT
    text = "".join(f"<{role}>{content}\n" for role, content in turns)
    ids: list[int] = tokenizer.encode(text + "<assistant>" * opens, add_special_tokens=False)
    return ids


def math_shepherd(model: Any, tokenizer: Any) -> list[float]:
    """The whole text at once; the two signs' logits wherever the tag is."""
    text = f"{QUESTION} " + "".join(f"Step {n}: {step} ки\n" for n, step in enumerate(STEPS, 1))
    ids = tokenizer.encode(text)
    tag, good, bad = (tokenizer.convert_tokens_to_ids(sign) for sign in ("ки", "+", "-"))
    pairs = rows_at(model, ids)[:, [good, bad]].softmax(-1)
    return [pairs[place, 0].item() for place, token in enumerate(ids) if token == tag]


def rlhflow(model: Any, tokenizer: Any) -> list[float]:
    """A conversation for every step; what is predicted in place of the last sign."""
    good, bad = (tokenizer.convert_tokens_to_ids(sign) for sign in "+-")
    turns: list[tuple[str, str]] = []
    scores = []
    for number, step in enumerate(STEPS):
        turns += [("user", f"{QUESTION} {step}" if number == 0 else step), ("assistant", "+")]
        pair = rows_at(model, chat(tokenizer, *turns))[-3, [good, bad]]
        scores.append(pair.softmax(-1)[0].item())
    return scores


def skywork(model: Any, tokenizer: Any) -> list[float]:
    """The value head at the end of every line."""
    import torch

    ids = [tokenizer.bos_token_id, *tokenizer.encode(f"{QUESTION}\n", add_special_tokens=False)]
    places = []
    for step in STEPS:
        ids += tokenizer.encode(f"{step}\n", add_special_tokens=False)
        places.append(len(ids) - 1)
    with torch.no_grad():
        values = model.v_head(model(torch.tensor([ids])).last_hidden_state[0])
    return [torch.sigmoid(values[place, 0]).item() for place in places]


def outcome(model: Any, tokenizer: Any) -> list[float]:
    """Sequence classification as transformers does it: at the last token."""
    import torch

    ids = chat(tokenizer, ("user", QUESTION), ("assistant", "\n\n".join(STEPS) + "<|im_end|>"))
    with torch.no_grad():
        value = model(torch.tensor([ids[:-1]])).logits[0, 0]  # without the line end after it
    return [torch.sigmoid(value).item()]


def judge(model: Any, tokenizer: Any) -> list[float]:
    """P(Yes) of Yes and No as the next token."""
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("Yes", "No"))
    ids = chat(tokenizer, ("user", f"{QUESTION}\n" + "\n\n".join(STEPS)), opens=True)
    return [rows_at(model, ids)[-1, [yes, no]].softmax(-1)[0].item()]


@pytest.mark.parametrize(
    ("architecture", "fields", "kind", "profile", "expected"),
    [
        pytest.param(
            *("MistralForCausalLM", {}, "token_pair", "math_shepherd", math_shepherd),
            marks=pytest.mark.slow,  # an engine takes 15 s, and this one differs by its prompt
        ),
        ("LlamaForCausalLM", {}, "token_pair", "rlhflow", rlhflow),
        ("Qwen2ForPrmModel", {}, "one_column", "skywork_o1_prm", skywork),
        pytest.param(
            "LlamaForSequenceClassification",
            {"num_labels": 1, "pad_token_id": 0},
            "one_column",
            "outcome_qwen",
            outcome,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "Qwen2ForCausalLM",
            {},
            "generative",
            {"like": "judge", "ask": "{question}\n{solution}"},
            judge,
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_scores_are_those_of_plain_transformers(
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    fields: dict[str, Any],
    kind: str,
    profile: Any,
    expected: Score,
) -> None:
    """One score a step, or a reply, in order, within a hundredth; batched calls do not mix."""
    pool = PoolConfig.model_validate({**TINY_POOL, "num_cpus": 1})
    for name, value in vllm_setup.environment(pool).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # Ray's threads forbid a fork
    model = save(tmp_path, architecture, **fields)
    engine = VerifierEngine(
        {
            "model": str(tmp_path),
            "kind": kind,
            "profile": profile,
            "dtype": "float32",
            "max_model_len": 400,
        },
        pool.model_dump(mode="json"),
        [ScoreCall(QUESTION, "2")],
    )
    try:
        await engine.warm_up()
        reply = "\n\n".join(STEPS)
        both = [ScoreCall(QUESTION, reply, request_id="a"), ScoreCall("1?", "2", request_id="b")]
        scored, other = [await engine.serve(call) for call in both]
        late = await engine.serve(ScoreCall(QUESTION, reply, request_id="c", deadline_s=1e-4))
        await engine.health()
        wanted = expected(model, engine._kind.tokenizer)  # type: ignore[attr-defined]
    finally:
        engine.shutdown()

    assert isinstance(scored, Scored), scored
    assert isinstance(other, Scored), other
    assert scored.step_scores == pytest.approx(wanted, abs=1e-2)
    assert len({*scored.step_scores}) == len(wanted) > 0
    assert scored.tokens > other.tokens > 0
    assert len(other.step_scores) == 1
    assert isinstance(late, Failure)
    assert late.error.startswith("deadline: ")
