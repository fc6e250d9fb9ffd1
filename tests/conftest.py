"""What the whole session shares: a local Ray, and real engines on the embedded tiny models.

Starting them takes longer than using them. Tests that need them are marked ``ray`` or ``vllm``, and
tests that start them without the mark fail.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from actors.engines.launch import Engines

# before anything imports Ray: a token in the user's home must not decide whether tests connect
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# a call that needs Ray where none runs must fail, not start one of its own
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
# tables are as wide as the tests say, not as the terminal of whoever runs them
os.environ.pop("COLUMNS", None)
# before anything imports torch: its threads spin while they wait for each other, which on a busy
# machine takes ten times as long as one thread for models as small as ours
os.environ.setdefault("OMP_NUM_THREADS", "1")

# how long an example takes says how busy the machine is, not whether the property holds
settings.register_profile(
    "project",
    max_examples=50,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),  # CI judges the change, not its luck; others explore
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("project"), max_examples=500)
settings.load_profile("project")

ROOT = Path(__file__).resolve().parent.parent

TINY_GENERATOR = {"model": "models/tiny-generator", "dtype": "float32", "max_model_len": 512}
TINY_VERIFIER = {**TINY_GENERATOR, "model": "models/tiny-verifier", "system": None}
TINY_POOL: dict[str, Any] = {
    "num_gpus": 0,
    "num_cpus": 0.3,
    "start_timeout_s": 290,
    "engine": {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "enforce_eager": True},
}


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay to the end, out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def default_signals() -> Iterator[None]:
    """What a child inherits of signals must not depend on how the tests were started (nohup, &)."""
    numbers = (signal.SIGHUP, signal.SIGINT)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that starts Ray or imports vLLM and does not say so by its marks."""
    marks = {mark.name for mark in request.node.iter_markers()}
    had_vllm = "vllm" in sys.modules
    if "ray" not in marks:
        start = subprocess.Popen.__init__

        def checked(self: Any, args: Any, *rest: Any, **named: Any) -> None:
            if any(name in str(args) for name in ("/gcs_server", "/raylet/raylet")):
                pytest.fail("a test that starts Ray must have the mark ray")
            start(self, args, *rest, **named)

        monkeypatch.setattr(subprocess.Popen, "__init__", checked)
    yield
    if "vllm" in sys.modules and not had_vllm and "vllm" not in marks:
        pytest.fail("a test that imports vLLM must have the mark vllm")


@pytest.fixture(scope="session", autouse=True)
def _one_chart_script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The script that draws charts takes seconds to bundle: the workers share one."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    from pipeline.report import html

    bundle = html.vega

    @cache
    def shared() -> str:
        path = tmp_path_factory.getbasetemp().parent / "vega.js"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_text(bundle(), "utf-8")
        return path.read_text("utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "vega", shared)
        yield


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A Ray of two CPUs on the loopback interface, for the whole session."""
    import ray

    ray.init(
        address="local",  # never one that somebody has started on this machine
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def tiny_engines(local_ray: None) -> Iterator[Engines]:
    """One real generator and one real verifier on plain actors, for the whole session."""
    from actors.engines.launch import start_pools
    from pipeline.config.models import GeneratorModel, VerifierModel
    from pipeline.config.runtime import RuntimeConfig

    engines = start_pools(
        {
            "generator": GeneratorModel.model_validate({**TINY_GENERATOR, "logprobs": True}),
            "verifier": VerifierModel.model_validate(TINY_VERIFIER),
        },
        RuntimeConfig.model_validate({"generator": TINY_POOL, "verifier": TINY_POOL}),
        run_id="tests",
        max_tokens=256,
    )
    yield engines
    engines.stop()
