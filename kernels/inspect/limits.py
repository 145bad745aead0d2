"""What a GPU can give to one block. From the table of compute capabilities in NVIDIA's CUDA programming guide."""

from __future__ import annotations

# KiB of shared memory that one block may ask for. Consumer cards have less than half of a data-centre card.
_SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}


def shared_limit_bytes(arch: int) -> int:
    """The most shared memory, in bytes, that one block may use on compute capability `arch` (90 for sm_90).

    Raises:
        ValueError: the table does not know the architecture.
    """
    if arch not in _SHARED_KIB:
        names = ", ".join(str(number) for number in _SHARED_KIB)
        raise ValueError(f"The shared memory of sm_{arch} is not in the table; it knows {names}.")
    return 1024 * _SHARED_KIB[arch]
