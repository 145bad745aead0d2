"""add: the sum of two tensors, element by element.

    out[i] = x[i] + y[i]

Shapes    any, scalars and empty tensors included; x and y have the same shape, nothing is broadcast.
Dtypes    float32, float16, bfloat16; x and y have the same one, and so has out.
Strides   any. The kernel reads element i at offset i, so an x or y that is not contiguous is copied first (one more
          read and write of that tensor). out is always contiguous, and never x or y.
Limits    offsets are 64 bits wide: more than 2**31 elements are fine.
Precision the sum is formed in float32 and rounded once to the dtype.
Special   infinities and NaN as IEEE 754 says (inf + -inf is NaN); an empty input launches nothing.
Gradient  none is recorded: a tensor that requires one is refused.
"""

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op

BLOCK_SIZE, NUM_WARPS = 1024, 4  # 8 elements a thread: two 16-byte loads of each float32 input
LONG = 1 << 20  # elements from which on a ragged end is kept apart
MAX_BLOCK_SIZE = 65536


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x + y in float64."""
    return x.double() + y.double()


@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    # One program owns BLOCK_SIZE neighbouring elements. 64 bits: program * BLOCK_SIZE can pass
    # 2**31.
    start = tl.program_id(0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n  # the last program may own fewer
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    total = x.to(tl.float32) + y.to(tl.float32)
    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _add_long(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    # For an n that is no multiple of 16. In _add the mask could then end anywhere within a 16-byte
    # access, so the compiler has to load element by element. Here all blocks but the last need none.
    start = tl.program_id(0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    if start + BLOCK_SIZE <= n:
        total = tl.load(x_ptr + offsets).to(tl.float32) + tl.load(y_ptr + offsets).to(tl.float32)
        tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty))
    else:
        mask = offsets < n
        total = tl.load(x_ptr + offsets, mask=mask).to(tl.float32) + tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
        tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=mask)


def _launch(x, y, out, block_size=BLOCK_SIZE, num_warps=NUM_WARPS):
    if n := x.numel():
        kernel = _add_long if n % 16 and n >= LONG else _add
        with torch.cuda.device_of(x):  # the tensor's GPU, which need not be the current one
            kernel[(triton.cdiv(n, block_size),)](x, y, out, n, BLOCK_SIZE=block_size, num_warps=num_warps)


def launch_add(
    x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, *, block_size: int = BLOCK_SIZE, num_warps: int = NUM_WARPS
) -> torch.Tensor:
    """Write x + y to `out` and return it: one program for every `block_size` elements, `num_warps` warps each.

    x, y, out: contiguous, of one shape, dtype and device; `out` may be `x` or `y`. block_size and num_warps are powers
    of two, at most 65536 and 32. Raises TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    for name, tensor in (("x", x), ("y", y), ("out", out)):
        checks.require_tensor(name, tensor)
        checks.require_memory(name, tensor)
        checks.require_same(name, tensor, "x", x)
        checks.require_contiguous(name, tensor)
    for name, tensor in (("x", x), ("y", y)):
        checks.require_apart("out", out, name, tensor, or_same=True)
    checks.require_power_of_two("block_size", block_size, MAX_BLOCK_SIZE)
    checks.require_power_of_two("num_warps", num_warps, op.MAX_WARPS)
    checks.require_programs("x", x, triton.cdiv(x.numel(), block_size))
    checks.require_runnable("x", x, _add)
    _launch(x, y, out, block_size, num_warps)
    return out


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x + y as a new contiguous tensor; shapes, dtypes, strides and limits are in this module's contract.

    Raises TypeError for a wrong kind or dtype, ValueError for shapes or devices that differ, RuntimeError on a CPU
    tensor outside Triton's interpreter; each names the argument, and nothing has been launched.
    """
    checks.require_tensor("x", x)
    checks.require_tensor("y", y)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return launch_add(x.contiguous(), y.contiguous(), out)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x and y of `shape`, seeded, with `padding` NaN behind each row. Their scales differ: x + x would show."""
    generator = torch.Generator(device).manual_seed(seed)

    def draw(scale: float) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, device=device) * scale
        return op.with_padded_rows(values.to(getattr(torch, dtype)), padding)

    return draw(1.0), draw(100.0)


def _library(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.add(x, y)


OP = op.Op(
    name="add",
    reference=reference,
    implementations=(
        op.Implementation("triton", add, "triton", "kernels.ops.add:_launch", ours=True),
        op.cuda_twin("vector_add"),
        op.Implementation("torch", _library, "torch", ""),
        op.Implementation("torch.compile", op.compiled(_library), "torch", ""),
    ),
    inputs=inputs,
    bytes_moved=lambda shape, dtype: 3 * op.elements(shape) * op.ELEMENT_BYTES[dtype],  # read x, read y, write out
    flops=op.elements,
    checks=(
        op.Case((257,), "one past a block of 256: a second program with a single element"),
        op.Case((1024,), "exactly one default block: no lane is masked"),
        op.Case((1025,), "one past the default block"),
        op.Case((1,), "one element, 1023 masked lanes"),
        op.Case((), "a scalar: no dimension at all"),
        op.Case((0,), "empty: nothing to launch"),
        op.Case((4, 0), "empty in the last dimension only"),
        op.Case((3, 31), "ragged rows"),
        op.Case((2, 3, 5), "three dimensions"),
    ),
    benches=(
        op.Case((1 << 12,), "tiny: the launch costs more than the memory"),
        op.Case((1 << 20,), "4 MiB a tensor in float32: fits in the L2 cache"),
        op.Case((98_765_431,), "large and odd: the last program is partly masked"),
        op.Case((1 << 28,), "1 GiB a tensor in float32: the rate of memory"),
    ),
    dtypes=op.DTYPES,
    tolerance=lambda dtype, shape: op.tolerance(dtype),
)
