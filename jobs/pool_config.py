"""*Pool config*: the run configuration behind a pool, and the priors of its questions."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from typing import Any

from pipeline.config.run import RunConfig, override_field
from pipeline.config.science import PriorsConfig
from pipeline.core.errors import ConfigError
from pipeline.predictors.features import template_digest
from pipeline.predictors.heads import load_predictor
from pipeline.predictors.priors import question_rows, with_priors
from pipeline.records.run_dir import RunDir
from pipeline.replay.pools import CompletionPool, exported_science, is_export, names_of


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


logger = logging.getLogger(__name__)


def predicted_pool(
    pool: CompletionPool, priors: PriorsConfig, features: str | None
) -> CompletionPool:
    """The pool with these priors.

    Args:
        pool: as it was read.
        priors: values, a file or a predictor.
        features: folder of cached features; by default that of the run (`cache_of`).
    """
    if priors.predictor is None:
        return with_priors(pool, priors)
    from actors.training.backbone_features import backbone_of, cached_features

    predictor = load_predictor(priors.predictor)
    backbone = backbone_of(pool.science.generator)
    predictor.check_backbone(backbone, template_digest(pool.science.prompts))
    for warning in predictor.warnings():
        logger.warning("predictor: %s", warning)
    origin = predictor.card.origin
    shared = 0 if origin is None else origin.shared([q.question.text for q in pool.questions])
    named = origin is None and predictor.card.fitted_on in names_of(pool.address)
    if shared or named:
        logger.warning(
            "predictor %s was trained on %s of this pool: what it says of them is better than it "
            "would be of others",
            predictor.address,
            f"{shared:,} questions" if shared else "questions",
        )
    for differing in [] if origin is None else origin.differing(pool.science.origin()):
        logger.warning("predictor %s was trained with another %s", predictor.address, differing)
    address = features or cache_of(pool.address)
    rows = question_rows(pool, priors)
    known = cached_features(address, pool.science.prompts, backbone, rows, predictor.card.pooling)
    return with_priors(pool, priors, predictor, known)


def cache_of(pool: str) -> str:
    """Where a pool's features are: its run's ``runtime.features.cache``, else beside the pool."""
    own = None if is_export(pool) else RunDir.open(pool).config().runtime.features.cache
    return own or beside(pool)


def beside(pool: str) -> str:
    """The folder ``features`` next to a pool, on whatever file system that is."""
    return posixpath.join(posixpath.dirname(pool), "features")
