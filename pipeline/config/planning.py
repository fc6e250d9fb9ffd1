"""*PlanConfig*: the GPUs and the assumptions that `--dry-run` counts with."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from pipeline.config.gpus import GPUS
from pipeline.config.schema import Section


class BenchmarkPlan(Section):
    """What is assumed of a benchmark, whose questions a dry run does not read."""

    questions: int | None = Field(None, ge=1, le=10_000_000)
    """None takes the published number of a known benchmark."""
    tokens: float = Field(gt=0)
    """Mean completion tokens of one completion."""
    prompt_tokens: float = Field(200, ge=0)


class PlanConfig(Section):
    """The hardware that a configuration was written for; only `--dry-run` reads it."""

    gpu: str
    """Kind of GPU, one of `pipeline.config.gpus.GPUS`."""
    gpus_per_node: int = Field(4, ge=1, le=1_024)
    nodes: int = Field(1, ge=1, le=10_000)
    """GPU nodes; for an elastic run, the most that the cluster may have."""
    overhead_gib: float = Field(3.0, ge=0)
    """Memory of each GPU, inside `gpu_memory_utilization`, that neither weights nor KV cache have:
    activations, CUDA graphs, buffers."""
    tokens_per_s: float | None = Field(None, gt=0)
    """Completion tokens a second of one generator replica, as it is configured, that is full; None
    takes what the model of speed says. Set it to a measured value where there is one: other
    batches and other splits are then converted by that model."""
    scored_tokens: float = Field(1_000, gt=0)
    """Mean tokens that the verifier reads for one score."""
    benchmarks: dict[str, BenchmarkPlan] = Field(default_factory=dict)
    """By the benchmark's name in the run."""
    completions: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Mean completions a question, by strategy label, where experience says that a strategy stops
    early; otherwise its whole budget is counted."""

    former: ClassVar[frozenset[str]] = frozenset((
        "all_reduce_us", "apply", "bandwidth_efficiency", "compute_efficiency",
    ))  # fmt: skip

    @field_validator("gpu")
    @classmethod
    def _known(cls, gpu: str) -> str:
        if gpu not in GPUS:
            raise ValueError(f"a GPU must be one of {', '.join(GPUS)}, got {gpu!r}")
        return gpu
