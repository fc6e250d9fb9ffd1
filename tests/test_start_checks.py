"""What can be known of a model is refused before its weights are loaded, in one line."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors.engines import vllm_engine, vllm_setup
from actors.engines.generator import GeneratorEngine
from actors.engines.launch import QUESTION, REPLY
from actors.engines.prompting import Tokenizing
from actors.engines.verifier import VerifierEngine
from actors.routing.calls import GenerateCall, ScoreCall
from pipeline.config.models import GeneratorModel, VerifierModel
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Message
from pipeline.core.protocol import Failure, Request

POOL = PoolConfig(num_gpus=0).model_dump(mode="json")
SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}x"


class LoadedError(Exception):
    """Weights would be loaded now."""


@pytest.fixture(autouse=True)
def _no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> None:
        raise LoadedError

    monkeypatch.setattr(vllm_engine, "start", start)
    monkeypatch.setattr(vllm_setup, "token_rows", lambda **_: {})


def generator(*turns: Message, **fields: Any) -> None:
    """Start a generator whose run asks for these turns."""
    request = Request(messages=turns, max_tokens=9, temperature=1.0, top_p=1.0, seed=0)
    values = {"model": "models/tiny-generator", "max_model_len": 512, **fields}
    model = GeneratorModel.model_validate(values).model_dump(mode="json")
    GeneratorEngine(model, POOL, [GenerateCall(request)])


def verifier(template: str | None, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Start a verifier, with another chat template."""
    if template is not None:
        own = vllm_setup.tokenizer

        def changed(model: Any) -> Any:
            tokenizer = own(model)
            tokenizer.chat_template = template
            return tokenizer

        monkeypatch.setattr(vllm_setup, "tokenizer", changed)
    values = {"model": "models/tiny-verifier", "max_model_len": 512, "system": None, **fields}
    model = VerifierModel.model_validate(values).model_dump(mode="json")
    VerifierEngine(model, POOL, [ScoreCall(QUESTION.text, REPLY)])


USER, TOLD = Message("user", "1+1?"), Message("system", "Be brief.")


def test_a_template_that_refuses_what_the_run_asks_for_is_final(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what the template says and for which turns; without such turns it is fine."""
    path = tmp_path / "t.jinja"
    path.write_text(SYSTEM)
    with pytest.raises(ConfigError, match=r"turns of system, user, got: no system role$"):
        generator(TOLD, USER, chat_template=str(path))
    with pytest.raises(LoadedError):
        generator(USER, chat_template=str(path))
    with pytest.raises(ConfigError, match=r"of system, user, assistant, got: no system role$"):
        verifier(SYSTEM, monkeypatch, system="Judge.")


@pytest.mark.parametrize("template", ["{{ messages[0].none.none }}", "{{ 1 / 0 }}", "{% if %}"])
def test_a_template_with_a_fault_is_final(tmp_path: Any, template: str) -> None:
    """Whatever it raises."""
    path = tmp_path / "t.jinja"
    path.write_text(template)
    with pytest.raises(ConfigError, match="the chat template must take turns of user, got: "):
        generator(USER, chat_template=str(path))


def test_a_template_that_cannot_be_read_is_final() -> None:
    """The message names the field."""
    with pytest.raises(ConfigError, match=r"science.generator.chat_template must be text: .*none"):
        generator(USER, chat_template="/none.jinja")


def test_a_context_that_no_prompt_fits_into_is_final() -> None:
    """Both figures are named."""
    with pytest.raises(ConfigError, match=r"prompt has [\d,]+ tokens, the context holds 16$"):
        generator(Message("user", "1+1?" * 20), max_model_len=16)


@pytest.mark.parametrize(
    ("fields", "template", "message"),
    [
        ({"step_separator": "ки"}, None, r"one token as step_separator, 'ки', .*, has 4 tokens"),
        ({}, "{{ messages[0].content }}", r"the chat template must keep 2 separators .*, kept 0"),
        ({"max_model_len": 16}, None, r"question has [\d,]+ tokens with the prompt.*the verifier"),
        ({"max_model_len": 99_999}, None, r"max_num_batched_tokens of the verifier must be at lea"),
    ],
)
def test_a_verifier_that_can_never_score_is_refused(
    fields: dict[str, Any], template: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Separator, template and context."""
    with pytest.raises(ConfigError, match=message):
        verifier(template, monkeypatch, **fields)


def test_the_models_that_ship_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to where weights are loaded."""
    with pytest.raises(LoadedError):
        generator(USER)
    with pytest.raises(LoadedError):
        verifier(None, monkeypatch)


async def test_a_request_that_is_aborted_while_its_prompt_is_made_is_never_run() -> None:
    """A drain reaches it too: the engine is not asked for what nobody waits for."""
    tokenizing, going = Tokenizing(), threading.Event()
    running = asyncio.create_task(tokenizing.run("r", lambda: going.wait(10)))
    other = asyncio.create_task(tokenizing.run("s", lambda: "made"))
    await asyncio.sleep(0.01)
    held = tokenizing.abort("r"), tokenizing.abort("elsewhere")
    going.set()
    ended = await running

    assert held == (True, False)
    assert ended == Failure(error="aborted: before it began", completion_tokens=0)
    assert await other == "made"
    assert not tokenizing.abort("s")
    tokenizing.close()
