"""What an endpoint says that a run used, and what that costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.results import write_summary
from pipeline.report.endpoint_usage import usage_words
from tests.chat_servers import Faults, Said, ScriptedModel, serving
from tests.endpoints import endpoint_run, generator_of, started
from tests.live import create, live


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
