"""The real engines on the embedded tiny models."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from actors.cluster.run_monitor import NAMESPACE
from actors.engines.engine_stats import EngineStats
from actors.engines.hosts import clients_of
from actors.engines.launch import Engines, start_pools
from actors.routing.calls import GenerateCall, Generated, ScoreCall, Scored
from actors.routing.client import EngineClient
from pipeline.benchmarks.generated import questions
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import RequestConfig, RuntimeConfig
from pipeline.core.decoding import RepetitionDetection, Sampling
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Request
from tests.conftest import TINY_GENERATOR, TINY_POOL

pytestmark = [pytest.mark.ray, pytest.mark.vllm]

QUESTION = questions("arithmetic", 1, split="test", seed=0)[0]
CONTEXT = 512
IN_ITS_OWN_PROCESS = {**TINY_POOL, "env": {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}}


def clients(engines: Engines, **settings: Any) -> tuple[EngineClient, EngineClient]:
    """Clients of both pools."""
    found = clients_of(engines.address, RequestConfig(backoff_s=0.1, **settings))
    return found["generator"], found["verifier"]


def asks(text: str = QUESTION.text, **fields: Any) -> Request:
    """A request for a reply to `text`."""
    base = {"max_tokens": 200, "temperature": 0.7, "top_p": 0.95, "seed": 3}
    return Request(messages=(Message("user", text),), **{**base, **fields})


async def made(generator: EngineClient, request: Request) -> Generated:
    """A completion that must come."""
    outcome = await generator.call(GenerateCall(request, session="s"))
    assert isinstance(outcome, Generated), outcome
    return outcome


async def scored(verifier: EngineClient, question: str, reply: str) -> Scored:
    """Scores that must come."""
    outcome = await verifier.call(ScoreCall(question, reply, session="s"))
    assert isinstance(outcome, Scored), outcome
    return outcome


async def test_a_completion_carries_its_counts(tiny_engines: Engines) -> None:
    """Text, finish reason and tokens fit each other; a second ask finds its prompt cached."""
    generator, _ = clients(tiny_engines)
    first = await made(generator, asks())

    assert first.replica == tiny_engines.address.pools["generator"].at["replicas"][0]
    assert 0 < first.completion_tokens <= 200
    assert first.prompt_tokens >= len(QUESTION.text)
    assert first.thinking_tokens == 0
    assert (first.attempts, first.wasted_tokens) == (1, 0)


async def test_the_limits_of_length(tiny_engines: Engines) -> None:
    """max_tokens ends a completion with length, and so does the end of the context."""
    generator, _ = clients(tiny_engines)
    short = await made(generator, asks(max_tokens=5, min_tokens=5))
    room = CONTEXT - short.prompt_tokens
    long = await made(generator, asks(max_tokens=10_000, min_tokens=room))

    assert (short.finish_reason, short.completion_tokens) == ("length", 5)
    assert (long.finish_reason, long.completion_tokens) == ("length", room)


async def test_greedy_decoding_and_an_assistant_prefix_go_on_with_the_same_text(
    tiny_engines: Engines,
) -> None:
    """The rest after a prefix is what followed it, and only the new text comes back."""
    generator, _ = clients(tiny_engines)
    whole = await made(generator, asks(temperature=0.0))
    prefix = whole.text[:4]
    rest = await made(generator, asks(temperature=0.0, assistant_prefix=prefix))

    assert prefix + rest.text == whole.text


@pytest.mark.parametrize("sampling", [Sampling(top_k=1), Sampling(min_p=1.0)])
async def test_sampling_among_the_likeliest_token_alone_is_greedy(
    tiny_engines: Engines, sampling: Sampling
) -> None:
    """top_k and min_p reach the engine: hot sampling gives the greedy completion."""
    generator, _ = clients(tiny_engines)
    greedy = await made(generator, asks(temperature=0.0))
    hot = await made(generator, asks(temperature=2.0, top_p=1.0))
    likeliest = await made(generator, asks(temperature=2.0, top_p=1.0, sampling=sampling))

    assert likeliest.text == greedy.text != hot.text


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(presence_penalty=2.0),
        Sampling(frequency_penalty=2.0),
        Sampling(repetition_penalty=1.8),
    ],
)
async def test_penalties_change_the_greedy_completion(
    tiny_engines: Engines, sampling: Sampling
) -> None:
    """Each of them reaches the engine; of this product the model is not sure."""
    generator, _ = clients(tiny_engines)
    greedy, penalised = await asyncio.gather(
        made(generator, asks("347*83+129-45?", temperature=0.0)),
        made(generator, asks("347*83+129-45?", temperature=0.0, sampling=sampling)),
    )

    assert penalised.text != greedy.text


async def test_a_reply_that_repeats_itself_is_a_cut_reply(tiny_engines: Engines) -> None:
    """It comes at the first try, as far as it went; a blank line is two equal tokens."""
    generator, _ = clients(tiny_engines)
    detection = RepetitionDetection(max_pattern_size=1, min_count=2)
    whole = await made(generator, asks(temperature=0.0))
    cut = await made(
        generator, asks(temperature=0.0, sampling=Sampling(repetition_detection=detection))
    )

    assert (cut.finish_reason, cut.attempts) == ("repetition", 1)
    assert whole.text.startswith(cut.text)
    assert cut.completion_tokens < whole.completion_tokens


@pytest.mark.slow  # an engine of its own, which takes a minute to start
async def test_a_thinking_budget_is_kept_where_the_end_of_the_thinking_is_known(
    tiny_engines: Engines, other_engines: Engines
) -> None:
    """An engine that does not know it answers as without one; one that does ends the thought."""
    generator, _ = clients(tiny_engines)
    thinking = clients_of(other_engines.address, RequestConfig(backoff_s=0.1))["generator"]
    request = asks(temperature=0.0, sampling=Sampling(thinking_budget=1))
    free = await made(generator, asks(temperature=0.0))
    ignored = await made(generator, request)
    unhurried = await made(thinking, asks(temperature=0.0))
    hurried = await made(thinking, request)

    assert ignored.text == free.text
    assert unhurried.text == as_thought(free.text)
    assert unhurried.thinking_tokens > 0 == free.thinking_tokens
    assert "</think>" in hurried.text[:20]
    assert hurried.text != unhurried.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1" * 600, r"prompt has 6\d\d tokens, the context holds 512"),
        ("", "prompt must not be empty"),
        (" \n", "prompt must not be empty"),
        ("a\0b", "user message must not hold NUL, got one at position 1"),
        ("a\ud800", "got a lone surrogate at position 1"),
        (12, "user message must be text, got int"),
    ],
)
async def test_a_prompt_that_cannot_be_served_is_an_error_of_its_own(
    tiny_engines: Engines, text: Any, says: str
) -> None:
    """It is tried once, costs nothing, and the engine goes on."""
    generator, _ = clients(tiny_engines)
    outcome, other = await asyncio.gather(
        generator.call(GenerateCall(asks(text), session="bad")), made(generator, asks())
    )

    assert isinstance(outcome, Failure)
    assert outcome.completion_tokens == 0
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(outcome.error)
    assert outcome.error.startswith("bad_request: ")
    assert other.attempts == 1


async def test_what_a_deadline_and_a_cancellation_cost_is_counted_by_the_engine(
    tiny_engines: Engines,
) -> None:
    """Both end the request in vLLM, and the engine's totals have exactly their tokens more."""
    long = asks(max_tokens=480, min_tokens=480)
    patient, _ = clients(tiny_engines)
    await made(patient, long)  # the first of its kind takes seconds
    generator, _ = clients(tiny_engines, deadline_s=0.1, attempts=1)
    before = await generator_stats(tiny_engines)
    late = await generator.call(GenerateCall(long, session="s"))
    between = await generator_stats(tiny_engines)
    task = asyncio.create_task(patient.call(GenerateCall(long, session="s")))
    while (await generator_stats(tiny_engines)).completion_tokens < between.completion_tokens + 9:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    after = await generator_stats(tiny_engines)
    while after.aborted < between.aborted + 1 or after.running:  # told before the request has left
        await asyncio.sleep(0.05)
        after = await generator_stats(tiny_engines)

    assert isinstance(late, Failure)
    assert late.error == "deadline: no completion within 0.1 s"
    assert late.completion_tokens == between.aborted_tokens - before.aborted_tokens
    assert late.completion_tokens < 480
    assert between.completion_tokens - before.completion_tokens == late.completion_tokens
    assert 0 < after.aborted_tokens - between.aborted_tokens < 480
    assert (after.aborted, after.running) == (before.aborted + 2, 0)


async def generator_stats(engines: Engines) -> EngineStats:
    """What the only generator counted so far."""
    return (await asyncio.to_thread(engines.stats))["generator"][0]


async def test_a_verifier_counts_the_time_in_which_it_reads(tiny_engines: Engines) -> None:
    """vLLM says nothing of a prompt that comes and goes within one step."""

    async def told() -> EngineStats:
        return (await asyncio.to_thread(tiny_engines.stats))["verifier"][0]

    _, verifier = clients(tiny_engines)
    reply = "3*4=12\n\n" * 40 + "\\boxed{12}"
    before = await told()
    tasks = [asyncio.create_task(scored(verifier, f"3*4+{i}?", reply)) for i in range(64)]
    during = [await told()]
    while not all(task.done() for task in tasks):
        during.append(await told())
    after = await told()

    assert after.requests == before.requests + 64
    assert 0 < after.slot_s - before.slot_s == pytest.approx(after.busy_s - before.busy_s)
    assert max(stats.running for stats in during) > 0
    assert after.running == 0


async def test_every_step_is_scored(tiny_engines: Engines) -> None:
    """One probability a step; what the reply says of the separator forges none."""
    _, verifier = clients(tiny_engines)
    reply = "<think>\nhm\n\nhm</think>\n\n3*4=12\n\n12<extra_0>+1=13\n\n\\boxed{13}"
    outcome = await scored(verifier, "3*4+1?", reply)

    assert len(outcome.step_scores) == 3
    assert all(0 <= score <= 1 for score in outcome.step_scores)
    assert outcome.score == pytest.approx(sum(outcome.step_scores) / 3)
    assert outcome.tokens > len("3*4+1?")
    assert not outcome.truncated


async def test_a_reply_past_the_context_loses_whole_leading_steps(tiny_engines: Engines) -> None:
    """The tail is scored as if it were the whole reply, and the result says so."""
    _, verifier = clients(tiny_engines)
    steps = [f"{i}+{i}={2 * i}" for i in range(100, 180)]
    cut = await scored(verifier, QUESTION.text, "\n\n".join(steps))
    tail = "\n\n".join(steps[-len(cut.step_scores) :])
    alone = await scored(verifier, QUESTION.text, tail)

    assert cut.truncated
    assert not alone.truncated
    assert 20 < len(cut.step_scores) < 80
    assert alone.step_scores == pytest.approx(cut.step_scores, abs=1e-4)


async def test_scores_agree_with_the_model_run_by_hand(tiny_engines: Engines) -> None:
    """The same weights in plain torch give the same probabilities at the same separators."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, Qwen2Config, Qwen2Model

    from tests.conftest import ROOT

    folder = ROOT / "models" / "tiny-verifier"
    _, verifier = clients(tiny_engines)
    steps = ("347*80=27760", "347*3=1041", "27760+1041=28801")
    outcome = await scored(verifier, "347*83?", "\n\n".join(steps))

    weights = {
        name: value.float() for name, value in load_file(folder / "model.safetensors").items()
    }
    backbone = Qwen2Model(Qwen2Config.from_pretrained(folder))
    backbone.load_state_dict(
        {n.removeprefix("model."): w for n, w in weights.items() if n.startswith("model.")}
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    turns = [
        {"role": "user", "content": "347*83?"},
        {"role": "assistant", "content": "".join(f"{step}<extra_0>" for step in steps)},
    ]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    with torch.no_grad():
        hidden = backbone.float().eval()(input_ids=ids).last_hidden_state[0]
        inner = torch.relu(hidden @ weights["score.0.weight"].T + weights["score.0.bias"])
        logits = inner @ weights["score.2.weight"].T + weights["score.2.bias"]
    separator = tokenizer.convert_tokens_to_ids("<extra_0>")
    expected = logits.softmax(-1)[ids[0] == separator, 1]

    assert outcome.step_scores == pytest.approx(expected.tolist(), abs=2e-3)


@pytest.fixture(scope="module")
def other_engines(local_ray: None) -> Iterator[Engines]:
    """The same generator with its engine in a process of its own, as engines on GPUs have it.

    The tiny model's product, from ``*`` to ``=``, stands for a thought.
    """
    model = {**TINY_GENERATOR, "reasoning": {"open": "*", "close": "="}}
    engines = start_pools(
        {"generator": GeneratorModel.model_validate(model)},
        RuntimeConfig.model_validate({"generator": IN_ITS_OWN_PROCESS}),
        run_id="tiny",
        max_tokens=256,
    )
    yield engines
    engines.stop()


def as_thought(text: str) -> str:
    """What `other_engines` make of a reply."""
    return text.replace("*", "<think>").replace("=", "</think>")


async def test_an_engine_in_a_process_of_its_own_answers_alike(
    tiny_engines: Engines, other_engines: Engines
) -> None:
    """Greedy replies are those of the engine in the actor's process, as engines without GPUs have
    it; they run at once."""
    other = clients_of(other_engines.address, RequestConfig(backoff_s=0.1))["generator"]
    plain, _ = clients(tiny_engines)
    requests = [
        asks(q.text, temperature=0.0) for q in questions("arithmetic", 8, split="test", seed=1)
    ]
    ours = await asyncio.gather(*(made(other, request) for request in requests))
    theirs = await asyncio.gather(*(made(plain, request) for request in requests))
    stats = (await asyncio.to_thread(other_engines.stats))["generator"][0]

    # batches differ, so a near tie between two tokens may fall the other way: most must agree
    same = [a.text == as_thought(b.text) for a, b in zip(ours, theirs, strict=True)]
    assert sum(same) >= 6
    assert stats.requests >= 8
    assert stats.completion_tokens > 0


@pytest.mark.slow
async def test_a_killed_engine_is_replaced_and_the_request_is_served_again(
    tiny_engines: Engines,
) -> None:
    """The process of engine and actor is killed under a running request: another serves it."""
    import os
    import signal

    import psutil
    import ray

    (name,) = tiny_engines.address.pools["generator"].at["replicas"]
    actor = ray.get_actor(name, namespace=NAMESPACE)
    pid = await actor.ping.remote()
    generator, _ = clients(tiny_engines, no_replica_timeout_s=240)
    task = asyncio.create_task(
        generator.call(GenerateCall(asks(min_tokens=300, max_tokens=300), session="s"))
    )
    await asyncio.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    outcome = await task

    assert isinstance(outcome, Generated)
    assert (outcome.attempts, outcome.unknown_attempts) == (2, 1)
    assert not psutil.pid_exists(pid)
