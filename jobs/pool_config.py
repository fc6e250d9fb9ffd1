"""*Pool config*: reads the run configuration behind a pool, for jobs that need its backbone."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from pipeline.config.run import RunConfig, override_field
from pipeline.core.errors import ConfigError
from pipeline.records.run_dir import RunDir
from pipeline.replay.pools import exported_science, is_export


def pool_config(address: str, file: str | None, overrides: Sequence[str]) -> RunConfig:
    """The configuration of a run; of an export its science and the runtime section of a file.

    Args:
        address: of a run or an exported pool.
        file: run configuration whose runtime section an export takes.
            Features are cached beside the pool, wherever it lies now: other jobs look for them
            there, unless the run names a cache.
        overrides: ``runtime.field=value``.

    Raises:
        ConfigError: at an export without a file, where scripted engines drew the pool, which have
            no states, or where an override names no field of runtime.
    """
    beside = posixpath.dirname(address.rstrip("/")) or "."
    if is_export(address):
        science, synthetic = exported_science(address)
        if file is None and not synthetic:
            raise ConfigError(
                f"{address} is an exported pool, which says nothing of the machine: give --config "
                "FILE, a run's configuration whose runtime section fits it, such as laptop"
            )
        runtime: dict[str, Any] = {} if file is None else RunConfig.read(file).get("runtime", {})
        runtime["runs"] = beside
        values = {"science": science.model_dump(mode="json"), "runtime": runtime}
    else:
        if file is not None:
            raise ConfigError("--config is for exported pools, a run has its own configuration")
        values = RunDir.open(address).config().model_dump(mode="json")
        values["runtime"]["runs"] = beside
        synthetic = values["runtime"].get("scripted") is not None
    if synthetic:
        raise ConfigError("a predictor needs a backbone, scripted engines have none")
    for override in overrides:
        if not override.startswith("runtime."):
            raise ConfigError(f"--set must name a field of runtime, got {override!r}")
        override_field(values, override)
    return RunConfig.parse(values, address)
