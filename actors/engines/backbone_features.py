"""Features of the frozen backbone: the state of a question's prompt, before any engine starts.

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

from actors.engines import orphan_reaper, vllm_setup
from pipeline.config.models import GeneratorModel
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Prompts
from pipeline.planning.capacity import pool_ask, reading_ask
from pipeline.predictors.features import FeatureCache, digest_of, messages_of, table_of
from pipeline.predictors.heads import Backbone
from pipeline.records.trajectory import Row
from pipeline.store.storage import Folder, resolve

logger = logging.getLogger(__name__)

Features = dict[tuple[str, str], NDArray[np.float32]]
"""(F,) by (benchmark, question_id)."""

_EDGE = 1 << 20  # bytes at either end of a weight file that identify it
_RELEASED_S = 60.0


def backbone_of(model: GeneratorModel) -> Backbone:
    """The model's identity: commit of a Hugging Face id, digest of a local folder.

    Raises:
        ConfigError: where it is neither a folder nor an id that can be looked up.
    """
    place = Path(vllm_setup.located(model.model))
    if place.is_dir():
        return Backbone(model=place.resolve().name, revision=f"sha256:{_folder_digest(place)}")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        path = hf_hub_download(model.model, "config.json", revision=model.revision)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ConfigError(
            f"the backbone of a predictor must be a folder or a Hugging Face id, got "
            f"{model.model!r}: {error}"
        ) from error
    return Backbone(model=model.model, revision=Path(path).parent.name)


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
    cache = FeatureCache.of(cache_address(config), backbone, pooling)
    asked = {
        (row["benchmark"], row["question_id"]): messages_of(config.science.prompts, row["text"])
        for row in questions
    }
    digests = {key: digest_of(messages) for key, messages in asked.items()}
    missing = set(digests.values()) - cache.read(digests.values()).keys()
    if missing:
        if config.runtime.scripted is not None:
            raise ConfigError("scripted engines have no states to make features of")
        wanted = {digest_of(m): m for m in asked.values() if digest_of(m) in missing}
        logger.info("features of %d questions to make with %s", len(wanted), backbone.name)
        _extract(config, wanted, pooling, cache)
    known = cache.read(digests.values())
    return {key: known[digest] for key, digest in digests.items()}


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
    from actors.engines.capacity_check import require_room

    features = config.runtime.features
    pool = features.pool or config.runtime.generator
    setting = "runtime.features.pool" if features.pool else "runtime.generator"
    require_room([pool_ask("feature actor", setting, pool), reading_ask({})])
    before = ray.available_resources().get("GPU", 0.0)
    data_context()
    questions = ray.data.from_arrow(
        pa.table({"digest": list(wanted), "messages": list(wanted.values())})
    ).repartition(max(pool.replicas, -(-len(wanted) // features.batch_size)))
    filesystem, path = resolve(cache.folder.address)
    questions.map_batches(
        FeatureActor,
        fn_constructor_kwargs={
            "model": config.science.generator.model_dump(mode="json"),
            "pool": pool.model_dump(mode="json"),
            "pooling": pooling,
            "backend": features.backend,
        },
        compute=ray.data.ActorPoolStrategy(size=pool.replicas),
        batch_size=features.batch_size,
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


class FeatureActor:
    """Loads the backbone once and turns batches of prompts into features.

    Args:
        model: fields of `GeneratorModel`.
        pool: fields of `PoolConfig`.
        pooling: ``last``: the state of the prompt's last token; ``mean``: the mean over its tokens.
        backend: ``vllm`` or ``transformers``.
    """

    def __init__(
        self, model: dict[str, Any], pool: dict[str, Any], pooling: str, backend: str
    ) -> None:
        self._model = GeneratorModel.model_validate(model)
        pool_config = PoolConfig.model_validate(pool)
        self._tokenizer = vllm_setup.tokenizer(self._model)
        if self._model.chat_template is not None:
            self._tokenizer.chat_template = Path(self._model.chat_template).read_text("utf-8")
        make = _VllmStates if backend == "vllm" else _TransformersStates
        self._states = make(self._model, pool_config, pooling)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rows with ``digest`` and ``messages`` in, rows of the cache out."""
        prompts = [self._ids(json.loads(text)) for text in batch["messages"].to_pylist()]
        return table_of(batch["digest"].to_pylist(), self._states(prompts))

    def _ids(self, messages: list[dict[str, str]]) -> list[int]:
        """The prompt exactly as the generator is given it."""
        text = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


class _VllmStates:
    """Last-layer states by vLLM's pooling runner, over as many GPUs as a replica has."""

    def __init__(self, model: GeneratorModel, pool: PoolConfig, pooling: str) -> None:
        from transformers import AutoConfig

        orphan_reaper.hold()

        own = AutoConfig.from_pretrained(
            vllm_setup.located(model.model),
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
        )
        context = min(
            model.max_model_len or own.max_position_embeddings, pool.engine.max_num_batched_tokens
        )
        shortened = model.model_copy(update={"max_model_len": context})
        self._llm = vllm_setup.embedder(shortened, pool, pooling)

    def __call__(self, prompts: list[list[int]]) -> NDArray[np.float32]:
        outputs = self._llm.embed([{"prompt_token_ids": ids} for ids in prompts], use_tqdm=False)
        return np.array([output.outputs.embedding for output in outputs], dtype=np.float32)


class _TransformersStates:
    """The same states by transformers, on one device."""

    def __init__(self, model: GeneratorModel, pool: PoolConfig, pooling: str) -> None:
        import torch
        from transformers import AutoModel

        self._device = "cpu" if vllm_setup.on_cpu(pool) else "cuda"
        self._mean = pooling == "mean"
        self._model = AutoModel.from_pretrained(
            vllm_setup.located(model.model),
            revision=model.revision,
            dtype="auto" if model.dtype == "auto" else getattr(torch, model.dtype),
            trust_remote_code=model.trust_remote_code,
        ).to(self._device)
        self._model.eval()

    def __call__(self, prompts: list[list[int]]) -> NDArray[np.float32]:
        import torch

        width = max(map(len, prompts))
        ids = torch.zeros((len(prompts), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
            mask[row, : len(prompt)] = 1
        with torch.inference_mode():
            states = self._model(
                input_ids=ids.to(self._device), attention_mask=mask.to(self._device)
            ).last_hidden_state.float()
        mask = mask.to(self._device)
        if self._mean:
            pooled = (states * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        else:
            pooled = states[torch.arange(len(prompts)), mask.sum(dim=1) - 1]
        return np.asarray(pooled.cpu().numpy(), dtype=np.float32)


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
