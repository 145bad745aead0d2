"""How many blocks of a kernel a multiprocessor holds at once, and what stops one more.

Limits from the table of technical specifications in NVIDIA's CUDA C++ Programming Guide ("Compute Capabilities");
how registers and shared memory are dealt out, from `cuda_occupancy.h` of the CUDA toolkit, which a test compiles and
compares with this file. It needs no GPU: on one, `kernels.bench.occupancy` asks the driver the same question.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kernels.inspect.limits import shared_limit_bytes

WARP = 32
PARTITIONS = 4  # of a multiprocessor; each has a quarter of the registers
REGISTER_UNIT = 256  # registers that are dealt out at once, to a warp
REGISTERS = 65536  # of a multiprocessor, and the most of a block
MOST_REGISTERS = 255  # of a thread
MOST_THREADS = 1024  # of a block
SHARED_UNIT = 128  # bytes
RESERVED_BYTES = 1024  # shared memory that the system keeps of each block


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor has: warps and blocks that it can hold, and bytes of shared memory."""

    warps: int
    blocks: int
    shared_bytes: int


MULTIPROCESSORS = {
    80: Multiprocessor(64, 32, 164 * 1024),  # A100
    90: Multiprocessor(64, 32, 228 * 1024),  # H100, H200
    100: Multiprocessor(64, 32, 228 * 1024),  # B200
    120: Multiprocessor(48, 24, 100 * 1024),  # GeForce RTX 50
}

REASONS = {
    "warps": "the multiprocessor has no more places for warps",
    "blocks": "the multiprocessor holds no more blocks, however small",
    "registers": "the registers are used up",
    "shared memory": "the shared memory is used up",
    "does not fit": "not even one block can be launched",
}


@dataclass(frozen=True)
class Occupancy:
    """The answer for one kernel and block size.

    Attributes:
        blocks: resident on a multiprocessor at once.
        warps: of these blocks.
        most_warps: that the multiprocessor could hold.
        limits: how many blocks each resource alone would allow.
        limited_by: the resources that allow no more than `blocks`.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: dict[str, int]
    limited_by: tuple[str, ...]

    @property
    def share(self) -> float:
        """Resident warps as a share of the most."""
        return self.warps / self.most_warps

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def occupancy(arch: int, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """What fits on a multiprocessor of compute capability `arch`.

    Args:
        arch: 80, 90, 100 or 120.
        threads: of a block, 1 to 1024.
        registers: of a thread, as the compiler reports them; 0 to 255.
        shared_bytes: of a block, static and dynamic together, without what the system reserves.

    Raises:
        ValueError: an argument is out of its range; the message says which.
    """
    if arch not in MULTIPROCESSORS:
        names = ", ".join(map(str, MULTIPROCESSORS))
        raise ValueError(f"The limits of sm_{arch} are not in the table; it knows {names}.")
    for name, value, low, high in (
        ("threads", threads, 1, MOST_THREADS),
        ("registers", registers, 0, MOST_REGISTERS),
        ("shared_bytes", shared_bytes, 0, 1 << 30),
    ):
        if not low <= value <= high:
            raise ValueError(f"{name} is {value}; it can be {low} to {high}.")
    has = MULTIPROCESSORS[arch]
    warps = -(-threads // WARP)
    limits = {"warps": has.warps // warps, "blocks": has.blocks}

    a_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    # A launch is checked as if warps filled all four partitions evenly.
    if a_warp * (-(-warps // PARTITIONS) * PARTITIONS) > REGISTERS:
        limits["registers"] = 0
    elif a_warp:
        limits["registers"] = REGISTERS // PARTITIONS // a_warp * PARTITIONS // warps

    a_block = -(-(shared_bytes + RESERVED_BYTES) // SHARED_UNIT) * SHARED_UNIT
    fits = a_block <= shared_limit_bytes(arch) + RESERVED_BYTES
    limits["shared memory"] = has.shared_bytes // a_block if fits else 0

    blocks = min(limits.values())
    reasons = tuple(name for name, limit in limits.items() if limit == blocks)
    return Occupancy(blocks, blocks * warps, has.warps, limits, reasons)
