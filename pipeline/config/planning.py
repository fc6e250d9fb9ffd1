"""*PlanConfig*, *GPUS*: the GPUs and the assumptions that `--dry-run` counts with."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field, field_validator

from pipeline.config.schema import Section

MIB = 2**20


class Gpu(NamedTuple):
    """One kind of GPU, as its vendor states it."""

    memory_mib: int
    """Total memory as the driver reports it; less than the round number on the box."""
    bandwidth_gb_s: int
    """Memory bandwidth, 10^9 bytes/s."""
    tflops: int
    """Dense 16-bit matrix throughput, 10^12 operations/s."""
    link_gb_s: int
    """To another GPU of its node, one way, 10^9 bytes/s: NVLink, or PCIe."""

    @property
    def memory_bytes(self) -> int:
        """Total memory."""
        return self.memory_mib * MIB


GPUS: dict[str, Gpu] = {
    "A10G": Gpu(23_028, 600, 70, 32),
    "L4": Gpu(23_034, 300, 121, 32),
    "L40S": Gpu(46_068, 864, 362, 32),
    "A100-40GB": Gpu(40_960, 1_555, 312, 300),
    "A100-80GB": Gpu(81_920, 2_039, 312, 300),
    "H20": Gpu(97_871, 4_000, 148, 450),
    "H100": Gpu(81_559, 3_350, 989, 450),
    "H200": Gpu(143_771, 4_800, 989, 450),
    "B200": Gpu(183_359, 8_000, 2_250, 900),
}
"""The GPUs that a plan may name."""


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
    """Kind of GPU, one of `pipeline.config.planning.GPUS`."""
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
