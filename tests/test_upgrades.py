"""Parts of Ray and vLLM that are not public and used all the same: each fails here by its name."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT

_PRIVATE = re.compile(
    r"ray\.(?:\w+\.)*_\w+(?:\.\w+)*|\bcontext\._\w+|_internal_kv_get|output_processor\.\w+"
    r"|ray\.autoscaler\.\S+"
)
_USED = {
    ("actors/driver/run_phases.py", "context._max_num_blocks_in_streaming_gen_buffer"),
    ("actors/engines/launch.py", "ray._private.ray_constants"),
    ("actors/engines/launch.py", "ray.autoscaler.v2.utils"),
    ("actors/engines/launch.py", "_internal_kv_get"),
    ("actors/engines/vllm_engine.py", "output_processor.request_states"),
}


def test_no_other_private_part_is_used() -> None:
    """A new one is listed here, with a test of its own below."""
    found = {
        (str(path.relative_to(ROOT)), use)
        for folder in ("actors", "jobs", "pipeline")
        for path in (ROOT / folder).rglob("*.py")
        for use in _PRIVATE.findall(path.read_text("utf-8"))
    }
    used = {each for each in found if not each[1].startswith("ray.data._internal.progress")}

    assert used == _USED


def test_ray_data_limits_the_blocks_that_a_task_holds() -> None:
    """`actors.driver.run_phases` lets a controller hold few of them."""
    from ray.data import DataContext

    assert isinstance(DataContext()._max_num_blocks_in_streaming_gen_buffer, int)


def test_ray_says_whether_an_autoscaler_adds_nodes() -> None:
    """`actors.engines.launch` asks both versions of it."""
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.autoscaler.v2.utils import is_autoscaler_v2
    from ray.experimental.internal_kv import _internal_kv_get

    assert DEBUG_AUTOSCALING_STATUS
    assert "fetch_from_server" in inspect.signature(is_autoscaler_v2).parameters
    assert len(inspect.signature(_internal_kv_get).parameters) >= 1


def imported(path: Path) -> set[tuple[str, str]]:
    """(module, name) of what a file takes from modules of Ray and vLLM."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.partition(".")[0] in ("ray", "vllm")
        for alias in node.names
    }


@pytest.mark.vllm
def test_every_name_that_is_taken_from_ray_and_vllm_exists() -> None:
    """Most of vLLM's are below ``vllm.v1``, which promises nothing."""
    used = {
        each
        for folder in ("actors", "jobs", "pipeline")
        for path in (ROOT / folder).rglob("*.py")
        for each in imported(path)
    }
    missing = {
        (module, name)
        for module, name in used
        if not hasattr(import_module(module), name) and find_spec(f"{module}.{name}") is None
    }

    assert ("vllm.v1.engine.async_llm", "AsyncLLM") in used
    assert missing == set()


@pytest.mark.vllm
def test_vllm_gives_the_output_of_a_request_to_its_queue() -> None:
    """`actors.engines.vllm_engine` puts its own in that place."""
    from vllm.v1.engine.output_processor import OutputProcessor, RequestState

    assert "self.request_states" in inspect.getsource(OutputProcessor.__init__)
    assert "queue" in inspect.signature(RequestState.__init__).parameters
    assert "queue.put(" in inspect.getsource(OutputProcessor.process_outputs)
