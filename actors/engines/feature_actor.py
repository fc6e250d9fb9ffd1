"""*FeatureActor*: turns prompts into states of the frozen backbone, for Ray Data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from actors.cluster.process_guard import ProcessGuard
from actors.engines import vllm_engine, vllm_setup
from actors.engines.prompting import rendered
from actors.engines.vllm_setup import generator_tokenizer
from pipeline.config.models import GeneratorModel
from pipeline.config.runtime import PoolConfig
from pipeline.predictors.features import table_of


class FeatureActor:
    """Loads the backbone once, with vLLM's pooling runner, and turns batches of prompts into
    features.

    Args:
        model: fields of `GeneratorModel`.
        pool: fields of `PoolConfig`.
        pooling: ``last``: the state of the prompt's last token; ``mean``: the mean over its tokens.
    """

    def __init__(self, model: dict[str, Any], pool: dict[str, Any], pooling: str) -> None:
        ProcessGuard()
        self._model = GeneratorModel.model_validate(model)
        pool_config = PoolConfig.model_validate(pool)
        self._tokenizer = generator_tokenizer(self._model)
        own = self._model.max_model_len
        own = own or vllm_setup.hf_config(self._model).max_position_embeddings
        context = min(own, pool_config.engine.max_num_batched_tokens)
        shortened = self._model.model_copy(update={"max_model_len": context})
        self._llm = vllm_engine.embedder(shortened, pool_config, pooling)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rows with ``digest`` and ``messages`` in, rows of the cache out."""
        prompts = [
            {"prompt_token_ids": self._ids(json.loads(text))}
            for text in batch["messages"].to_pylist()
        ]
        outputs = self._llm.embed(prompts, use_tqdm=False)
        states = np.array([output.outputs.embedding for output in outputs], dtype=np.float32)
        return table_of(batch["digest"].to_pylist(), states)

    def _ids(self, messages: list[dict[str, str]]) -> list[int]:
        """The prompt exactly as the generator is given it."""
        template = self._model.chat_template_kwargs
        text = rendered(self._tokenizer, messages, add_generation_prompt=True, **template)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids
