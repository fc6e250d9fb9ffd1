"""*FeatureActor*: turns prompts into states of the frozen backbone, for Ray Data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.cluster.process_guard import ProcessGuard
from actors.engines import vllm_engine, vllm_setup
from actors.engines.prompting import rendered
from actors.engines.vllm_setup import generator_tokenizer
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig
from pipeline.predictors.features import table_of
from pipeline.store.local import shipped_path


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
        self._tokenizer = generator_tokenizer(self._model)
        make = _VllmStates if backend == "vllm" else _TransformersStates
        self._states = make(self._model, pool_config, pooling)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rows with ``digest`` and ``messages`` in, rows of the cache out."""
        prompts = [self._ids(json.loads(text)) for text in batch["messages"].to_pylist()]
        return table_of(batch["digest"].to_pylist(), self._states(prompts))

    def _ids(self, messages: list[dict[str, str]]) -> list[int]:
        """The prompt exactly as the generator is given it."""
        template = self._model.chat_template_kwargs
        text = rendered(self._tokenizer, messages, add_generation_prompt=True, **template)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


class _VllmStates:
    """Last-layer states by vLLM's pooling runner, over as many GPUs as a replica has."""

    def __init__(self, model: GeneratorModel, pool: PoolConfig, pooling: str) -> None:
        ProcessGuard()
        own = model.max_model_len or vllm_setup.hf_config(model).max_position_embeddings
        context = min(own, pool.engine.max_num_batched_tokens)
        shortened = model.model_copy(update={"max_model_len": context})
        self._llm = vllm_engine.embedder(shortened, pool, pooling)

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
            shipped_path(model.model),
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
