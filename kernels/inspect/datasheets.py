"""What vendors say of a few GPUs, for pages that put a measurement beside it.

From NVIDIA's whitepapers on the A100 and H100 architectures and the data sheets of A100 (SXM, 80 GB), H100 (SXM) and
H200 (SXM). Rates that follow from the others are computed, not copied.
"""

from __future__ import annotations

from dataclasses import dataclass

BANKS, BANK_BYTES = 32, 4  # of shared memory: a multiprocessor delivers a word of each bank in a cycle


@dataclass(frozen=True)
class Datasheet:
    """One GPU. Sizes of one multiprocessor are in KiB, of the L2 cache in MiB, of memory in GB."""

    name: str
    arch: int
    multiprocessors: int
    boost_mhz: int
    float32_lanes: int
    register_kib: int
    l1_kib: int
    l2_mib: int
    memory_gb: int
    memory_gb_per_s: int
    bfloat16_tflop_per_s: float

    @property
    def shared_tb_per_s(self) -> float:
        """What all banks of all multiprocessors deliver at the boost clock."""
        return self.multiprocessors * BANKS * BANK_BYTES * self.boost_mhz / 1e6

    @property
    def float32_tflop_per_s(self) -> float:
        """A multiply-add a lane a cycle, counted as two."""
        return self.multiprocessors * self.float32_lanes * 2 * self.boost_mhz / 1e6

    @property
    def register_mib(self) -> float:
        """All register files together."""
        return self.multiprocessors * self.register_kib / 1024

    @property
    def l1_mib(self) -> float:
        """All L1 caches and shared memories together."""
        return self.multiprocessors * self.l1_kib / 1024


A100 = Datasheet("A100", 80, 108, 1410, 64, 256, 192, 40, 80, 2039, 312.0)
H100 = Datasheet("H100", 90, 132, 1980, 128, 256, 256, 50, 80, 3350, 989.4)
H200 = Datasheet("H200", 90, 132, 1980, 128, 256, 256, 50, 141, 4800, 989.4)
DATASHEETS = (A100, H100, H200)
