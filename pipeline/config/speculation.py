"""Speculative decoding: how a generator drafts tokens that the model then accepts or rejects.

The distribution of completions stays as it is, so this belongs to `runtime`: it changes how fast a
token comes, and which tokens of that distribution a seed draws.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from pipeline.config.schema import Section

Method = Literal["ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp", "custom_class"]

_NAMES = {"draft_model": "model", "eagle": "model", "eagle3": "model", "custom_class": "model"}


class SpeculationConfig(Section):
    """vLLM's speculative decoding for one pool of generators."""

    method: Method
    """`ngram` looks the last tokens up in the prompt and the reply at hand; `suffix` in earlier
    replies of the same replica as well (needs the package arctic-inference); `draft_model`,
    `eagle`, `eagle3` ask a second, smaller model; `mtp` the model's own further heads;
    `custom_class` a class of yours."""
    tokens: int = Field(ge=1, le=64)
    """Tokens drafted at once, at most."""
    model: str | None = None
    """The drafting model, or the dotted name of a class for `custom_class`."""
    lookup: tuple[int, int] = (2, 4)
    """For `ngram`: the fewest and most last tokens that are looked up."""
    most_sequences: int | None = Field(None, ge=1)
    """Nothing is drafted while a replica runs more sequences than this; None always drafts."""

    @model_validator(mode="after")
    def _fits_its_method(self) -> "SpeculationConfig":
        if (self.method in _NAMES) != (self.model is not None):
            needed = "must be given" if self.method in _NAMES else "must not be given"
            raise ValueError(f"model {needed} for method {self.method}, got {self.model!r}")
        if self.method == "suffix" and self.most_sequences is not None:
            raise ValueError("most_sequences must not be given for method suffix: it drafts always")
        if not 1 <= self.lookup[0] <= self.lookup[1]:
            raise ValueError(f"lookup must be 1 <= fewest <= most, got {list(self.lookup)}")
        if self.method == "custom_class" and "." not in (self.model or ""):
            raise ValueError(f"model must be a dotted name of a class, got {self.model!r}")
        return self

    def vllm_fields(self, max_num_seqs: int) -> dict[str, Any]:
        """Fields of vLLM's SpeculativeConfig.

        Args:
            max_num_seqs: sequences that a replica runs at once.
        """
        fields: dict[str, Any] = {"method": self.method, "num_speculative_tokens": self.tokens}
        if self.model is not None:
            fields["model"] = self.model
        if self.method == "ngram":
            fields["prompt_lookup_min"], fields["prompt_lookup_max"] = self.lookup
        if self.most_sequences is not None and self.most_sequences < max_num_seqs:
            fields["num_speculative_tokens_per_batch_size"] = [
                (1, self.most_sequences, self.tokens),
                (self.most_sequences + 1, max_num_seqs, 0),
            ]
        return fields
