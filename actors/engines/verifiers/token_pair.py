"""``token_pair``: a language model's logits of two tokens (such as - and +) at every tag, softmax.

Math-Shepherd (arXiv:2312.08935) and RLHFlow. vLLM takes the two tokens' rows of the language model
head as a classifier, so that no logits of the whole vocabulary are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.engines.verifiers.needs import LANGUAGE_MODELS, Has, refused, tokens_of, told
from actors.engines.verifiers.step_reader import StepReader
from pipeline.config.runtime import PoolConfig
from pipeline.core import prm
from pipeline.core.errors import ConfigError


class TokenPair(StepReader):
    """See the module."""

    def check(self, has: Has) -> None:
        """A language model that has both tokens."""
        if not has.ends_with(*LANGUAGE_MODELS):
            raise refused(self.model, told(has), "a language model head (...ForCausalLM)")
        pair = (self.form.bad or "", self.form.good or "")
        self._pair = list(tokens_of(self.model, self.tokenizer, pair, "bad or good").values())

    def overrides(self) -> dict[str, Any]:
        """The classifier that vLLM makes of the head."""
        return {
            "classifier_from_token": self.tokenizer.convert_ids_to_tokens(self._pair),
            "method": "no_post_processing",
            "num_labels": 2,
        }

    def arguments(self) -> dict[str, Any]:
        """See `Kind.arguments`."""
        return {**super().arguments(), "convert": "classify"}

    def check_pool(self, pool: PoolConfig, context: int | None) -> None:
        """See `Kind.check_pool`: a head that is spread over GPUs has no GPU with both rows."""
        super().check_pool(pool, context)
        if (gpus := pool.engine.tensor_parallel_size) != 1:
            raise ConfigError(
                "tensor_parallel_size of the verifier must be 1 for kind token_pair, whose two "
                f"tokens vLLM looks for on each GPU, got {gpus}"
            )

    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """P(good) among the two."""
        return prm.pair_scores(rows, n_steps, temperature=self.form.temperature)
