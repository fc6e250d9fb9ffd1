"""*features_of*: computes and caches the last-layer state of each prompt for predictors.

A phase of its own on a fixed pool of Ray Data actors, whose GPUs are free again when it ends. What
is cached is not computed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.config.models import GeneratorModel
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Prompts
from pipeline.planning.capacity import READING, pool_ask
from pipeline.predictors.features import FeatureCache, digest_of, messages_of
from pipeline.predictors.heads import Backbone
from pipeline.records.trajectory import Row
from pipeline.store.local import shipped_path
from pipeline.store.storage import Folder, resolve, sha256

logger = logging.getLogger(__name__)

Features = dict[tuple[str, str], NDArray[np.float32]]
"""(F,) by (benchmark, question_id)."""

_EDGE = 1 << 20  # bytes at either end of a weight file that identify it
_RELEASED_S = 60.0
_BATCH = 64  # prompts


def backbone_of(model: GeneratorModel) -> Backbone:
    """The model's identity: commit of a Hugging Face id, digest of a local folder; and what makes
    its prompts.

    Raises:
        ConfigError: where it is neither a folder nor an id that can be looked up, or its chat
            template cannot be read.
    """
    place, prompting = Path(shipped_path(model.model)), _prompting(model)
    if place.is_dir():
        revision = f"sha256:{_folder_digest(place)}"
        return Backbone(model=place.resolve().name, revision=revision, prompting=prompting)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        path = hf_hub_download(model.model, "config.json", revision=model.revision)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ConfigError(
            f"the backbone of a predictor must be a folder or a Hugging Face id, got "
            f"{model.model!r}: {error}"
        ) from error
    return Backbone(model=model.model, revision=Path(path).parent.name, prompting=prompting)


def cache_address(config: RunConfig) -> str:
    """Where features are cached: `runtime.features.cache`, else beside the runs."""
    return config.runtime.features.cache or Folder(config.runtime.runs).child("features").address


def features_of(
    config: RunConfig, backbone: Backbone, questions: Sequence[Row], pooling: str
) -> Features:
    """Features of questions: from the cache, and for those that are missing from the backbone.

    Args:
        config: whose generator is the backbone; Ray must have been started.
        backbone: its identity.
        questions: with benchmark, question_id and text.
        pooling: ``last`` or ``mean``.

    Raises:
        ConfigError: where the run's engines are scripted: they have no states.
    """
    address, prompts = cache_address(config), config.science.prompts
    cache = FeatureCache.of(address, backbone, pooling)
    by_digest = {digest_of(m): m for m in (messages_of(prompts, row["text"]) for row in questions)}
    known = cache.read(by_digest)
    missing = {digest: messages for digest, messages in by_digest.items() if digest not in known}
    if missing:
        if config.runtime.scripted is not None:
            raise ConfigError("scripted engines have no states to make features of")
        logger.info("features of %d questions to make with %s", len(missing), backbone.name)
        cache.begin(backbone, pooling)
        _extract(config, missing, pooling, cache)
    return cached_features(address, prompts, backbone, questions, pooling)


def cached_features(
    address: str, prompts: Prompts, backbone: Backbone, questions: Sequence[Row], pooling: str
) -> Features:
    """As `features_of`, without Ray and without a GPU.

    Args:
        address: folder of the cache.
        prompts: of the run or pool that the questions are of.
        backbone: whose features.
        questions: with benchmark, question_id and text.
        pooling: ``last`` or ``mean``.

    Raises:
        ConfigError: where features are not cached yet.
    """
    cache = FeatureCache.of(address, backbone, pooling)
    digests = {
        (row["benchmark"], row["question_id"]): digest_of(messages_of(prompts, row["text"]))
        for row in questions
    }
    known = cache.read(digests.values())
    lacking = sum(digest not in known for digest in digests.values())
    if lacking:
        raise ConfigError(
            f"features must be cached to be used offline, {lacking} of {len(digests)} questions "
            f"have none in {cache.folder.address}: run jobs.features on them"
        )
    return {key: known[digest] for key, digest in digests.items()}


def _extract(
    config: RunConfig, wanted: Mapping[str, str], pooling: str, cache: FeatureCache
) -> None:
    import ray

    from actors.cluster.ray_data import data_context
    from actors.engines.actor_host import ray_options
    from actors.engines.feature_actor import FeatureActor
    from actors.engines.launch import require_room

    features = config.runtime.features
    pool = features.pool or config.runtime.generator
    setting = "runtime.features.pool" if features.pool else "runtime.generator"
    require_room([pool_ask("feature actor", setting, pool), READING])
    before = ray.available_resources().get("GPU", 0.0)
    data_context()
    questions = ray.data.from_arrow(
        pa.table({"digest": list(wanted), "messages": list(wanted.values())})
    ).repartition(max(pool.replicas, -(-len(wanted) // _BATCH)))
    filesystem, path = resolve(cache.folder.address)
    questions.map_batches(
        FeatureActor,
        fn_constructor_kwargs={
            "model": config.science.generator.model_dump(mode="json"),
            "pool": pool.model_dump(mode="json"),
            "pooling": pooling,
        },
        compute=ray.data.ActorPoolStrategy(size=pool.replicas),
        batch_size=_BATCH,
        batch_format="pyarrow",
        **ray_options(pool),
    ).write_parquet(path, filesystem=filesystem)
    _wait_for_gpus(before)


def _wait_for_gpus(wanted: float) -> None:
    """The actors end with the pipeline; engines must not be placed before their GPUs are back."""
    import ray

    until = time.monotonic() + _RELEASED_S
    while ray.available_resources().get("GPU", 0.0) < wanted:
        if time.monotonic() > until:
            logger.warning("GPUs of the feature phase were not given back in %g s", _RELEASED_S)
            return
        time.sleep(0.2)


def _prompting(model: GeneratorModel) -> str:
    """What stands in `Backbone.prompting`."""
    own: dict[str, Any] = {}
    if model.tokenizer is not None:
        own["tokenizer"] = model.tokenizer
    if model.chat_template is not None:
        own["chat_template"] = sha256(_read_template(model.chat_template))[:16]
    if model.chat_template_kwargs:
        own["chat_template_kwargs"] = model.chat_template_kwargs
    return json.dumps(own, sort_keys=True) if own else ""


def _read_template(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"science.generator.chat_template must be a file: {error}") from error


def _folder_digest(folder: Path) -> str:
    """SHA-256 over names, sizes and both ends of the files that make a model."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".safetensors", ".bin") and path.name not in (
            "config.json",
            "tokenizer.json",
        ):
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}\x1f{size}\x1f".encode())
        with path.open("rb") as file:
            digest.update(file.read(_EDGE))
            file.seek(max(0, size - _EDGE))
            digest.update(file.read(_EDGE))
    return digest.hexdigest()[:16]
