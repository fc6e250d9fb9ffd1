"""What is found out about servers before a run: fields that they refuse or read past, and more."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pipeline.core.errors import ConfigError, EngineError
from tests.chat_servers import OPENAI, VLLM, Asked, Faults, Said, ScriptedModel, serving
from tests.endpoints import endpoint_run, started

CONTINUES = [{"kind": "budget_forcing", "num_ignore": 1}]
BUSY = Said(429, {"error": {"message": "slow down"}}, {"Retry-After": "0"})


def found(answers: Any, endpoint: dict[str, Any] | None = None, **science: Any) -> dict[str, Any]:
    """What is found out before a run with these settings."""
    with serving(answers) as server:
        config = endpoint_run(
            "runs", {"base_urls": [server.url], "model": "tiny", **(endpoint or {})}, **science
        )
        with started(config) as engines:
            told: dict[str, Any] = engines.address.pools["generator"].at["found"]
    return told


def test_a_server_like_vllm_takes_everything() -> None:
    """No field is left out, and replies may be continued."""
    science = {
        "decoding": {"max_tokens": 256, "top_k": 20, "thinking_budget": 9},
        "strategies": CONTINUES,
        "generator": {"model": "m", "chat_template_kwargs": {"enable_thinking": False}},
    }
    assert found(ScriptedModel(), **science) == {
        "limit": "max_tokens",
        "refused": (),
        "opened": "",
    }


def test_a_server_like_a_hosted_one_gets_what_it_knows(caplog: pytest.LogCaptureFixture) -> None:
    """Fields that change nothing are left out, and so is a seed; the limit has its newer name. All
    of it is named."""
    caplog.set_level(logging.WARNING)
    hosted = ScriptedModel(known=OPENAI - {"seed"}, refuses=True, limit="max_completion_tokens")
    assert found(hosted) == {
        "limit": "max_completion_tokens",
        "refused": ("min_p", "repetition_penalty", "seed", "top_k"),
        "opened": "",
    }
    assert "does not take min_p, repetition_penalty, seed, top_k" in caplog.text


@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize(
    ("field", "science"),
    [
        ("top_k", {"decoding": {"max_tokens": 256, "top_k": 20}}),
        ("min_p", {"decoding": {"max_tokens": 256, "min_p": 0.1}}),
        ("thinking_token_budget", {"decoding": {"max_tokens": 256, "thinking_budget": 9}}),
        (
            "chat_template_kwargs",
            {"generator": {"model": "m", "chat_template_kwargs": {"enable_thinking": False}}},
        ),
        ("continue_final_message", {"strategies": CONTINUES}),
    ],
)
def test_what_changes_answers_must_be_taken(
    refuses: bool, field: str, science: dict[str, Any]
) -> None:
    """Whether a server refuses the field or reads past it in silence: the run is refused, by its
    name, before its first completion."""
    model = ScriptedModel(known=VLLM - {field}, refuses=refuses)
    with pytest.raises(ConfigError, match=rf"/v1 must take {field}, which the configuration sets"):
        found(model, **science)
    assert model.completion_tokens < 1000


def test_the_model_must_be_there() -> None:
    """By the name that the server has for it, and with the context that the configuration says."""
    with pytest.raises(ConfigError, match=r"one that http.*/v1 serves \(other\), got 'tiny'"):
        found(ScriptedModel(name="other"))
    with pytest.raises(ConfigError, match=r"max_model_len must be the context of .*, which is 512"):
        found(ScriptedModel(context=512), generator={"model": "m", "max_model_len": 1024})
    found(ScriptedModel(context=512), generator={"model": "m", "max_model_len": 512})
    found(ScriptedModel(), {"model": None}, generator={"model": "tiny"})


def test_a_model_that_is_not_listed_may_be_there(caplog: pytest.LogCaptureFixture) -> None:
    """Deployments of hosted APIs are not listed. It is there where the server answers as it, and as
    none that cannot be; one that answers to any name must list it."""
    strict, any_name = ScriptedModel(name="listed"), ScriptedModel(name="listed")

    def knows(asked: Asked) -> Said:
        if asked.path.endswith("completions") and asked.body["model"] != "tiny":
            return Said(404, {"error": {"message": "no such deployment"}})
        return strict(asked)

    found(knows)
    assert "does not list tiny, but answers as it" in caplog.text
    with pytest.raises(ConfigError, match=r"serves \(listed\), got 'tiny'"):
        found(any_name)


def test_log_probabilities_must_be_of_several_tokens() -> None:
    """A server that tells that of the chosen token only, or none, has not what confidence is made
    of."""

    def chosen_only(asked: Asked) -> Said:
        said = ScriptedModel()(asked)
        if asked.path.endswith("completions") and said.status == 200:
            said.body["choices"][0]["logprobs"] = {"content": [{"token": "5", "logprob": -0.1}]}
        return said

    for answers in (chosen_only, ScriptedModel()):
        with pytest.raises(ConfigError, match="must take logprobs, which the configuration sets"):
            found(answers, generator={"model": "m", "logprobs": True})


def test_a_server_without_a_list_of_models_is_asked_for_a_completion() -> None:
    """Gateways often have none."""

    def gateway(asked: Asked) -> Said:
        model = ScriptedModel()
        return Said(404, b"") if asked.path.endswith("/models") else model(asked)

    assert found(gateway)["refused"] == ()


def test_a_server_must_say_what_a_completion_cost() -> None:
    """Else neither tokens nor money could be accounted for."""

    def mute(asked: Asked) -> Said:
        said = ScriptedModel()(asked)
        said.body.pop("usage", None)
        return said

    with pytest.raises(ConfigError, match="must report usage with each reply, got None"):
        found(mute)


def test_a_wrong_key_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the server's words, without the key."""
    monkeypatch.setenv("MY_KEY", "sk-wrong-0123")
    with pytest.raises(EngineError, match=r"status 401: Incorrect API key: Bearer \*\*\*"):
        found(ScriptedModel(key="right"), {"api_key_env": "MY_KEY"})


def test_top_k_is_off_in_the_way_that_all_servers_take() -> None:
    """SGLang refuses 0; without the field it takes that of the model's generation_config.json."""

    def sglang(asked: Asked) -> Said:
        if asked.body.get("top_k") == 0:
            return Said(400, {"message": "top_k must be -1 (disable) or at least 1, got 0"})
        return ScriptedModel()(asked)

    assert found(sglang)["refused"] == ()


def test_whoever_started_a_run_is_told_where_a_server_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log of the job, once, and when it is back; controllers log on their nodes."""
    monkeypatch.setattr("actors.engines.endpoint_host._LOOK_EVERY_S", 0.05)

    def told(words: str) -> None:
        give_up = time.monotonic() + 10
        while words not in caplog.text:
            assert time.monotonic() < give_up, caplog.text
            time.sleep(0.02)

    broken = Event()

    def answers(asked: Asked) -> Said:
        return Said(502, b"") if broken.is_set() else ScriptedModel()(asked)

    with serving(answers) as server:
        config = endpoint_run(str(tmp_path), {"base_urls": [server.url], "model": "tiny"})
        with started(config):
            broken.set()
            told(f"{server.url} cannot be used: status 502")
            broken.clear()
            told(f"{server.url} can be used again")


def test_a_busy_server_is_asked_again() -> None:
    """A refusal for its load says nothing of the request."""
    assert found(Faults(ScriptedModel(), iter([BUSY, None] * 4)))["refused"] == ()


def test_a_server_that_is_not_there_is_named() -> None:
    """All of them: the run ends. Some: it begins, and they may come later."""
    with serving(ScriptedModel()) as gone:
        pass
    config = endpoint_run("runs", {"base_urls": [gone.url], "model": "tiny"}, start_timeout_s=0.5)
    what = rf"no server of the endpoint answers: {gone.url} "
    with pytest.raises(EngineError, match=what), started(config):
        pass
    with serving(ScriptedModel()) as server:
        both = {"base_urls": [gone.url, server.url], "model": "tiny"}
        config = endpoint_run("runs", both, start_timeout_s=0.5)
        with started(config) as engines:
            assert engines.address.in_flight == 1.5 * 2 * 256


def test_the_tag_that_the_template_writes_is_found() -> None:
    """Where a server tells how it renders a prompt, as vLLM does."""

    def thinks(asked: Asked) -> Said:
        if asked.path == "/tokenize":
            assert asked.body["add_generation_prompt"]
            return Said(body={"tokens": [1, 2, 3]})
        if asked.path == "/detokenize":
            return Said(body={"prompt": "<|assistant|>\n<think>\n"})
        return ScriptedModel()(asked)

    assert found(thinks)["opened"] == "<think>\n"
    named = found(thinks, generator={"model": "m", "open_thinking": ""})
    assert named["opened"] == ""
