"""What an endpoint says that a run used, and what that costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.journals import read_journal
from jobs.results import write_summary
from pipeline.config.run import RunConfig
from pipeline.report.usage import judge_words, usage_words
from tests.chat_servers import Faults, Said, ScriptedModel, serving
from tests.endpoints import endpoint_run, generator_of, started
from tests.live import config_of, create, live


async def test_usage_is_that_of_the_server_and_has_a_price(tmp_path: Path) -> None:
    """In summary.json: tokens by kind as the server counted them, in USD by kind; replies that were
    lost are said, their tokens in no sum."""
    model = ScriptedModel()
    way = Faults(model, iter([None] * 3 + [Said(reset=True), None]))
    with serving(way) as server:
        prices = {"prompt": 1.0, "completion": 10.0}
        config = endpoint_run(
            str(tmp_path),
            {"base_urls": [server.url], "model": "tiny", "usd_per_million": prices},
            size=2,
            strategies=["base"],
        )
        with started(config) as engines:
            way.faults = iter([Said(reset=True)])
            before = (model.prompt_tokens, model.completion_tokens)
            run = create(config)
            async with generator_of(engines) as generator:
                await live(run, generator)
    used = write_summary(run)["usage"]
    read, made = model.prompt_tokens - before[0], model.completion_tokens - before[1]

    assert (used["completions"], used["unknown_tries"]) == (2, 1)
    assert 0 < used["prompt_tokens"] < read  # the lost reply was made, too
    assert 0 < used["completion_tokens"] < made
    usd = (used["prompt_tokens"] * 1.0 + used["completion_tokens"] * 10.0) / 1e6
    assert used["usd"] == pytest.approx(usd)
    assert usage_words(used).endswith("; 1 lost replies not counted; $0.00")


async def test_a_judge_behind_an_endpoint_has_a_bill_of_its_own(tmp_path: Path) -> None:
    """Its tokens stand beside those of the generator, priced as if all were of the dearest kind."""
    config = config_of(str(tmp_path), ["best_of_n"], size=2)
    values = config.model_dump(mode="json")
    judge = {"base_urls": ["http://judge/v1"], "usd_per_million": {"prompt": 1, "completion": 10}}
    values["science"]["verifier"] = {"model": "j", "kind": "generative", "profile": "judge"}
    values["runtime"]["verifier"] = {"endpoint": judge}
    run = create(RunConfig.parse(values))
    await live(run)
    summary = write_summary(run)
    scored = sum(read_journal(run.journal).table["verifier_tokens"].to_pylist())

    assert "usage" not in summary
    assert summary["judge_usage"] == {"tokens": scored, "usd_at_most": scored * 10 / 1e6}
    assert f"{scored:,} tokens, at most $0.0" in judge_words(summary["judge_usage"])
