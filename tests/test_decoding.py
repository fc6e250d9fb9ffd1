"""Sampling settings: their ranges, and which of them a request's and a run's digest know."""

from dataclasses import fields, replace
from typing import Any

import pytest

from pipeline.config.run import RunConfig
from pipeline.core.decoding import Decoding, RepetitionDetection, Sampling
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Message
from pipeline.core.protocol import Completion, PhaseStats, Priors, Question, Request
from pipeline.strategies import STRATEGIES
from tests.generators import first_requests

CHOSEN: dict[str, Any] = {
    "top_k": 20,
    "min_p": 0.05,
    "presence_penalty": 1.5,
    "frequency_penalty": -0.5,
    "repetition_penalty": 1.1,
    "thinking_budget": 100,
    "repetition_detection": RepetitionDetection(max_pattern_size=8, min_count=3),
}
SCIENCE: dict[str, Any] = {
    "benchmarks": [{"name": "arithmetic"}],
    "strategies": ["mr_thinking", {"kind": "best_of_n", "n": 4}],
    "generator": {"model": "g"},
    "verifier": {"model": "v"},
    "decoding": {"max_tokens": 64},
}


def run_config(**changes: Any) -> RunConfig:
    """The configuration with sections of its science part changed."""
    science = {name: dict(v) if isinstance(v, dict) else v for name, v in SCIENCE.items()}
    for section, values in changes.items():
        science[section].update(values)
    return RunConfig.parse({"science": science})


def test_digests_of_runs_made_before_these_fields_are_as_they_were() -> None:
    """Recorded journals still replay: the constants are of the version without the fields."""
    asked = Request(
        messages=(Message("system", "be brief"), Message("user", "1+1?")),
        assistant_prefix="<think>\n",
        max_tokens=256,
        temperature=0.7,
        top_p=0.95,
        stop_token_ids=(7,),
        min_tokens=1,
    )

    assert asked.digest() == "f75dd573b368eec744f28f431597f8a7ca532b807bc3f77064da161a8fc5ebf1"
    assert run_config().science_digest() == (
        "45dd2766e221d28055ab8524596e05c48e219115b10bfc35104038501297a6ae"
    )


def test_each_field_changes_both_digests() -> None:
    """What changes a completion is another request, and another run."""
    assert CHOSEN.keys() == {field.name for field in fields(Sampling)}
    asked = Request(messages=(Message("user", "q"),), max_tokens=9, temperature=1.0, top_p=1.0)
    requests = {asked.digest()}
    runs = {run_config().science_digest()}
    for name, value in CHOSEN.items():
        requests.add(replace(asked, sampling=Sampling(**{name: value})).digest())
        written = {"max_pattern_size": 8, "min_count": 3} if "detection" in name else value
        decoding = {name: written, "max_tokens": 200}
        runs.add(run_config(decoding=decoding).science_digest())

    assert len(requests) == len(runs) == len(CHOSEN) + 1


@pytest.mark.parametrize(
    "generator",
    [{"reasoning": {"open": "<r>", "close": "</r>"}}, {"chat_template_kwargs": {"effort": "low"}}],
)
def test_what_the_generator_is_told_changes_the_digest_of_the_run(generator: Any) -> None:
    """Marks of thinking and variables of the chat template."""
    assert run_config(generator=generator).science_digest() != run_config().science_digest()


@pytest.mark.parametrize("kind", list(STRATEGIES))
def test_every_strategy_asks_with_them(kind: str) -> None:
    """The first request of each strategy carries what the run's decoding has."""
    strategy = STRATEGIES[kind](decoding=Decoding(max_tokens=200, **CHOSEN))
    priors = Priors(p0=0.2, a=0.1, b=0.4)
    question = Question(benchmark="b", question_id="q", text="1+1?", priors=priors)
    requests = first_requests(strategy, question, PhaseStats(a=0.1, b=0.4))

    assert all(request.sampling == Sampling(**CHOSEN) for request in requests)


@pytest.mark.parametrize(
    ("decoding", "says"),
    [
        ({"top_k": -1}, "top_k must be >= 0, where 0 takes all tokens, got -1"),
        ({"min_p": 1.5}, r"min_p must be in \[0, 1\], got 1.5"),
        ({"presence_penalty": 3}, r"presence_penalty must be in \[-2, 2\], got 3"),
        ({"frequency_penalty": -2.5}, r"frequency_penalty must be in \[-2, 2\], got -2.5"),
        ({"repetition_penalty": 0}, "repetition_penalty must be > 0, got 0"),
        ({"thinking_budget": -1}, "thinking_budget must be >= 0, got -1"),
        ({"thinking_budget": 64}, "thinking_budget must be below max_tokens of 64, got 64"),
        ({"temperature": ".nan"}, "temperature"),
        (
            {
                "repetition_detection": {
                    "max_pattern_size": 2,
                    "min_pattern_size": 3,
                    "min_count": 2,
                }
            },
            "must have 1 <= min_pattern_size <= max_pattern_size, got 3 and 2",
        ),
        (
            {"repetition_detection": {"max_pattern_size": 2, "min_count": 1}},
            "min_count of repetition_detection must be >= 2, got 1",
        ),
        ({"repetition_detection": {"min_count": 2}}, "max_pattern_size"),
        ({"topk": 3}, "topk"),
    ],
)
def test_a_value_out_of_range_is_named(decoding: dict[str, Any], says: str) -> None:
    """The message has the field, what must hold and what came."""
    with pytest.raises(ConfigError, match=says):
        run_config(decoding=decoding)


def test_template_variables_that_the_engine_decides_are_refused() -> None:
    """Messages and the like are the run's."""
    with pytest.raises(ConfigError, match="chat_template_kwargs must not hold tools"):
        run_config(generator={"chat_template_kwargs": {"tools": []}})


def test_a_reply_is_cut_by_its_length_and_by_repetition() -> None:
    """Both end before the model had; neither is a failure."""
    reasons = {reason: Completion(text="", finish_reason=reason).is_cut
               for reason in ("stop", "length", "repetition")}  # fmt: skip

    assert reasons == {"stop": False, "length": True, "repetition": True}
