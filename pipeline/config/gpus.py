"""*GPUS*: memory, bandwidth and speed of GPUs by name, for plans made without one."""

from __future__ import annotations

from typing import NamedTuple

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
