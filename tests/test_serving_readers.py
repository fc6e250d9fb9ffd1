"""LangChain as a client of an endpoint in process (requirements/readers.lock)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from tests.test_serving import CHAIN, config, endpoint
from tests.test_serving_forms import WEATHER, Says, called

pytestmark = pytest.mark.readers


class City(BaseModel):
    """A city and its country."""

    name: str
    country: str


def model(served: Any, **fields: Any) -> Any:
    """LangChain's model over the connections of a served endpoint."""
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model=CHAIN,
        base_url="http://localhost/v1",
        api_key=SecretStr("none"),
        http_async_client=served.http,
        max_retries=0,
        **fields,
    )


async def test_langchain_gets_calls_of_tools(tmp_path: Path) -> None:
    """`bind_tools`: the elected call has its arguments as a dictionary."""
    says = Says(called("Basel"), called("Bern"), called("Bern"))
    async with endpoint(config(tmp_path), says) as served:
        reply = await model(served).bind_tools([WEATHER]).ainvoke("Weather in Bern?")
    (call,) = reply.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Bern"})


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
async def test_langchain_gets_structured_output(tmp_path: Path, method: str) -> None:
    """`with_structured_output` by schema and by a call: an object of its class."""
    text = '{"country": "Switzerland", "name": "Bern"}'
    if method == "function_calling":
        text = f'<tool_call>{{"name": "City", "arguments": {text}}}</tool_call>'
    async with endpoint(config(tmp_path), Says(text)) as served:
        asked = model(served).with_structured_output(City, method=method)
        city = await asked.ainvoke("Which city is the seat of the Swiss government?")
    assert city == City(name="Bern", country="Switzerland")


async def test_langchain_sets_a_budget_and_streams(tmp_path: Path) -> None:
    """`extra_body` reaches the endpoint; a stream ends with the answer."""
    says = Says(*(f"\\boxed{{{number}}}" for number in range(8)))
    async with endpoint(config(tmp_path), says) as served:
        asked = model(served, extra_body={"markovscale": {"n": 3}})
        await asked.ainvoke("1+1?")
        drawn = len(says.asked)
        pieces = [piece.content async for piece in asked.astream("1+1?")]
    assert (drawn, len(says.asked)) == (3, 6)
    assert "\\boxed{" in "".join(pieces)
