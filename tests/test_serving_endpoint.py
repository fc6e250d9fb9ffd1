"""Strategies served over a server that runs already: their completions come from an endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.driver.service import Service
from pipeline.config.run import RunConfig
from pipeline.config.runtime import Script
from tests.chat_servers import ScriptedModel, serving
from tests.endpoints import endpoint_run, generator_of, started
from tests.test_serving import CHAIN, endpoint

AT = {"model": "tiny", "max_concurrency": 64}


def test_one_process_has_all_places_of_the_server(tmp_path: Path) -> None:
    """However many controllers a run of the same configuration would share them among."""
    with serving(ScriptedModel()) as server:
        values = endpoint_run(str(tmp_path), {"base_urls": [server.url], **AT}).model_dump(
            mode="json"
        )
        values["runtime"]["controllers"]["actors"] = 4
        service = Service(RunConfig.parse(values), "served", host="127.0.0.1", port=1)
        with service._engines() as engines:
            assert engines.address.pools["generator"].at["controllers"] == 1


async def test_answers_come_from_a_server_that_runs_already(tmp_path: Path) -> None:
    """Usage is what that server counts; a client that goes away closes the connections to it."""
    model = ScriptedModel(script=Script(p0=0.5, a=0.1, b=0.3, tokens=20))
    with serving(model) as server:
        at = {"base_urls": [server.url], **AT}
        config = endpoint_run(
            str(tmp_path), at, strategies=["chain_asc"], strategy={"n": 8}, priors={}
        )
        with started(config) as engines:
            probed, asked = model.completion_tokens, len(server.completions)
            async with generator_of(engines) as client, endpoint(config, client) as served:
                answer = await served.post(model=CHAIN)
                told = answer.json()
                assert told["usage"]["completion_tokens"] == model.completion_tokens - probed > 0
                assert told["markovscale"]["completions"] == len(server.completions) - asked
                model.wait_s = 30.0
                gone = asyncio.create_task(served.post(model=CHAIN))
                while len(server.completions) == asked + told["markovscale"]["completions"]:
                    await asyncio.sleep(0.01)
                gone.cancel()
                while not server.completions[-1].hung_up:
                    await asyncio.sleep(0.01)
                assert served.answering.open == 0
