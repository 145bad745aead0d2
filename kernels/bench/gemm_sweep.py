"""The sweep that decided the matmul plan: many tiles for each shape beside cuBLAS, once, on one GPU.

It is no operator's record: it has no single samples, and belongs to the code of its commit. What it is for is to be
held against the plan: which arm is the plan's choice today, which was fastest, how far both are from the library.
One arm is measured again by `kernel-bench --op matmul --dtype bfloat16 --shape MxNxK --variant …`, its choices written
as a variant.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kernels.bench.results import RESULTS, ResultsError

if TYPE_CHECKING:
    from kernels.ops.matmul_plan import MatmulPlan

FILE = "gemm-sweep.json"
LIBRARY = "cublas"
DEFAULTS = {"splits": 1, "turned": False, "group_m": 8}  # of choices that an arm leaves out


class Arm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One candidate on one shape (M, N, K): microseconds, and its largest error as a share of the tolerance.

    An arm that computes something else for comparison, the product without bias and GELU, has no error.
    """

    product: str  # "matmul", or "fused" with bias and GELU
    shape: tuple[int, int, int]
    transposed: str  # "a" or "b" where that operand is stored column by column
    arm: str
    choices: dict[str, int | str | bool]
    median_us: float
    least_us: float
    most_us: float
    samples: int
    error_over_tolerance: float | None

    @property
    def tflop_per_s(self) -> float:
        M, N, K = self.shape
        return 2e-6 * M * N * K / self.median_us

    def takes(self, plan: MatmulPlan) -> bool:
        """Whether the arm is what a plan says, the parts in which a tile leaves apart."""
        if not self.choices:
            return False
        names = ("path", "block_m", "block_n", "block_k", "num_warps", "num_stages", *DEFAULTS)
        return all(self.choices.get(name, DEFAULTS.get(name)) == getattr(plan, name) for name in names)


class Sweep(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole run: where, when, of which commit, and how."""

    schema_version: int
    gpu: str
    utc: str
    commit: str
    method: str
    cases: list[Arm]

    def arms(self, shape: tuple[int, ...], product: str = "matmul") -> list[Arm]:
        """Our arms on a shape with both operands row by row, the fastest first."""
        found = [c for c in self.cases if c.shape == tuple(shape) and c.product == product and c.choices]
        return sorted((c for c in found if not c.transposed), key=lambda c: c.median_us)

    def library(self, shape: tuple[int, ...], product: str = "matmul") -> Arm | None:
        """cuBLAS on a shape, in the same run."""
        found = (c for c in self.cases if c.shape == tuple(shape) and c.product == product and c.arm == LIBRARY)
        return next((c for c in found if not c.transposed), None)

    def planned(self, shape: tuple[int, ...], sm_count: int = 132) -> Arm | None:
        """The arm that the plan takes for a bfloat16 product of that shape without the Gluon kernel."""
        from kernels.ops.matmul_plan import plan_matmul

        M, N, K = shape
        plan = plan_matmul(M, N, K, 1, 2, "ieee", sm_count, (K % 8 == 0, N % 8 == 0), True, False)
        return next((arm for arm in self.arms(shape) if arm.takes(plan)), None)


def read_sweep(gpu: str = "h200", path: Path | None = None) -> Sweep | None:
    """The committed sweep of a GPU, None where there is none. ResultsError where it cannot be read."""
    path = path or RESULTS / gpu / "experiments" / FILE
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Sweep)
    except msgspec.DecodeError as error:
        raise ResultsError(f"{path} is not a sweep of products: {error}.") from None
