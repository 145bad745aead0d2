"""Times the patterns beside the ladder: fused kernels, weights of one byte, and sums over a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

SUMMED = (1 << 16, 1 << 26)
SUM_BLOCKS = 528
FEW_ROWS = (1, 2, 4, 8, 16, 64, 512)
WEIGHTS = (14336, 4096)  # rows and columns of the weights: a projection of a model with 8 billion of them
FUSED_SHAPES = ((8192, 8192), (256, 4096))


def measure_patterns(samples: int = 15, say: Callable[[str], object] = print) -> dict[str, dict[str, Any]]:
    """A key for each pattern and size, with the rows of its arms as `kernels.bench.ladder.summary` makes them."""
    from kernels.bench.device import CudaDevice

    device = CudaDevice()
    found: dict[str, dict[str, Any]] = {}
    for pattern in (_fused, _dequantized, _sums):
        for key, entry in pattern(device, samples):
            found[key] = entry
            say(f"{key}: " + ", ".join(f"{arm['name']} {arm['median_us']:.1f} µs" for arm in entry["arms"]))
    return found


def _timed(
    device: Any, arms: dict[str, Callable[..., object]], sets: Sequence[tuple], samples: int, **more: Any
) -> dict:
    from kernels.bench.ladder import summary
    from kernels.bench.timer import Arm, measure

    rows = measure(device, [Arm(name, call) for name, call in arms.items()], sets, samples=samples)
    return {"arms": [summary(row.name, row.samples_us) for row in rows], **more}


def _fused(device: Any, samples: int):
    import torch

    from kernels.cuda import fused

    def relu(x, bias):
        return torch.relu(x + bias) * 0.5

    def gelu(x, bias):
        return torch.nn.functional.gelu(x + bias, approximate="tanh")

    for name, eager, more in (("fused_bias_relu_scale", relu, (0.5,)), ("fused_bias_gelu", gelu, ())):
        narrow, wide = getattr(fused, name), getattr(fused, f"{name}_float4")
        arms = {
            "torch eager": eager,
            "torch.compile": torch.compile(eager),
            "scalar": lambda x, bias, call=narrow, more=more: call(x, bias, *more),
            "float4": lambda x, bias, call=wide, more=more: call(x, bias, *more),
        }
        for rows, columns in FUSED_SHAPES:
            copies = 2 if rows * columns > 1 << 24 else 40
            sets = [
                (torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda")) for _ in range(copies)
            ]
            moved = rows * columns * 8 + columns * 4
            yield f"{name} {rows}x{columns}", _timed(device, arms, sets, samples, bytes=moved)


def _dequantized(device: Any, samples: int):
    import torch

    from kernels.cuda.dequantize import dequantize, dequantize_matmul

    arms = {
        "fused": lambda x, q, scale, w: dequantize_matmul(x, q, scale),
        "dequantize, then cuBLAS": lambda x, q, scale, w: torch.mm(x, dequantize(q, scale).t()),
        "torch: convert, scale, multiply": lambda x, q, scale, w: torch.mm(
            x, (q.float() * scale[:, None]).bfloat16().t()
        ),
        "bfloat16 weights, cuBLAS": lambda x, q, scale, w: torch.mm(x, w.t()),
    }
    n, k = WEIGHTS
    for m in FEW_ROWS:
        sets = []
        for _ in range(5):
            q = torch.randint(-127, 128, (n, k), device="cuda", dtype=torch.int8)
            scale = torch.rand(n, device="cuda") / 127
            sets.append((torch.randn(m, k, device="cuda").bfloat16(), q, scale, dequantize(q, scale)))
        yield f"dequantize_matmul {m}", _timed(device, arms, sets, samples, m=m, n=n, k=k)


def _sums(device: Any, samples: int):
    import torch

    from kernels.cuda import grid_sum

    for count in SUMMED:
        sets = [(torch.randn(count, device="cuda"),) for _ in range(3)]
        both = {
            "two_launches": lambda x: grid_sum.grid_sum_two_launches(x, SUM_BLOCKS),
            "last_block": lambda x: grid_sum.grid_sum_last_block(x, SUM_BLOCKS),
            "torch": lambda x: x.sum(),
        }
        yield f"grid_sum {count}", _timed(device, both, sets, samples)
        alone = {"cooperative": lambda x: grid_sum.grid_sum_cooperative(x, SUM_BLOCKS)}
        yield f"grid_sum cooperative {count}", _timed(device, alone, sets, samples)
