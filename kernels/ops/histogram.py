"""histogram: how often each number from 0 to bins - 1 occurs.

    out[b] = number of i with x[i] == b

Shapes    x of any shape, any size; out (bins,), bins from 1 up to 2**24.
Dtypes    x int8, uint8, int16, int32 or int64; out int64.
Strides   x contiguous, or one-dimensional with any stride, in elements, is read in place; any other layout is copied
          first.
Limits    offsets and counts are 64 bits wide.
Special   a number below 0 or from `bins` up belongs to no bin and is counted nowhere; it is compared in its own dtype,
          so 2**32 + 1 is not taken for 1. An empty x gives zeros.
Gradient  none: counts have no slope.

Integers add up to the same total in any order, so the result is the same in every run although atomics are used.

Three ways to count. plain: every number is added to its bin in global memory. staged: a program counts for itself in
registers first, with tl.histogram. shared: a program counts in shared memory, several copies of each counter, one
atomic a number. Triton has no name for shared memory, nor for an atomic there, so this way says both in PTX, and is for
NVIDIA GPUs only; it is the CUDA kernel `kernels.cuda.histogram.histogram_replicated` told in Triton, and several times
as fast as staged. The record holds both, and measurements show them side by side.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.library import INTERPRETED, direct, launch, register, wrap_triton
from kernels.ops.partials import multiprocessors

DTYPES = ("int32", "int64", "int16", "int8", "uint8")
MAX_BINS = 1 << 24
MAX_STAGED_BINS = 1024  # counters that a program keeps for itself
PATHS = ("plain", "staged", "shared")
BLOCK = 2048
SHARED_BLOCK, SHARED_PROGRAMS = 4096, 4  # numbers a step of 16 warps, and programs a multiprocessor
SHARED_STEPS = 8  # of a program, or there are fewer: each has counters to set to zero and to add up
SHARED_COUNTERS = 8192  # of a program: 32 KiB, so that several programs share a multiprocessor


def reference(x: torch.Tensor, bins: int = 256) -> torch.Tensor:
    """torch.bincount of the numbers that lie in a bin."""
    flat = x.reshape(-1).long()
    return torch.bincount(flat[(flat >= 0) & (flat < bins)], minlength=bins)


@triton.jit
def _inside(x_ptr, offsets, n, stride, bins):
    """The numbers at these offsets, and which of them lie in a bin."""
    value = tl.load(x_ptr + offsets * stride, mask=offsets < n, other=0)
    # Compared before it is narrowed: the low 32 bits of 2**32 + 1 would be a bin.
    inside = (offsets < n) & (value >= 0) & (value < bins)
    return tl.where(inside, value, 0).to(tl.int32), inside


@triton.jit
def _histogram_plain(x_ptr, out_ptr, n, stride, bins, BLOCK_N: tl.constexpr):
    # Every number adds 1 to its bin in global memory. Equal numbers wait for each other there.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    value, inside = _inside(x_ptr, offsets, n, stride, bins)
    tl.atomic_add(out_ptr + value, tl.full([BLOCK_N], 1, tl.int64), mask=inside, sem="relaxed")


@triton.jit
def _histogram_staged(x_ptr, out_ptr, n, stride, bins, BINS: tl.constexpr, BLOCK_N: tl.constexpr):
    # A program counts all of its numbers for itself, and adds each bin to global memory once.
    counts = tl.zeros([BINS], tl.int32)
    lanes = tl.arange(0, BLOCK_N)
    last = tl.cast(n, tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK_N
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK_N, last, step):
        value, inside = _inside(x_ptr, start + lanes, n, stride, bins)
        # The mask, and not an index beyond the last bin, keeps a number out: what tl.histogram
        # does with such an index differs between the interpreter and a GPU.
        counts += tl.histogram(value, BINS, mask=inside)
    b = tl.arange(0, BINS)
    tl.atomic_add(out_ptr + b, counts.to(tl.int64), mask=b < bins, sem="relaxed")


@triton.jit
def _counters():
    # The address of 8192 counters in shared memory, beside what Triton allocates there.
    return tl.inline_asm_elementwise(
        ".shared .align 16 .b32 kernel_lessons_counters[8192]; mov.u32 $0, kernel_lessons_counters;",
        "=r,r", [tl.program_id(0)], dtype=tl.int32, is_pure=False, pack=1)  # fmt: skip


@triton.jit
def _lane(like):
    return tl.inline_asm_elementwise("mov.u32 $0, %laneid;", "=r,r", [like], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def _set_zero(address):
    tl.inline_asm_elementwise(
        "st.shared.u32 [$1], 0; mov.u32 $0, 0;", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _add_one(address, inside):
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.ne.b32 p, $2, 0; @p red.shared.add.u32 [$1], 1; mov.u32 $0, 0; }",
        "=r,r,r", [address, inside.to(tl.int32)], dtype=tl.int32, is_pure=False, pack=1)  # fmt: skip


@triton.jit
def _count_at(address):
    return tl.inline_asm_elementwise(
        "ld.shared.u32 $0, [$1];", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _histogram_shared(x_ptr, out_ptr, n, stride, bins, BINS: tl.constexpr, COPIES: tl.constexpr, BLOCK_N: tl.constexpr):
    # COPIES counters for each bin lie side by side, and a lane adds to its own copy: with 32 copies
    # lane l always meets bank l, whatever its number is, and equal numbers do not wait for each other.
    base = _counters()
    _set_zero(base + tl.arange(0, BINS * COPIES) * 4)
    tl.debug_barrier()
    lanes = tl.arange(0, BLOCK_N)
    own = base + (_lane(tl.zeros([BLOCK_N], tl.int32)) & (COPIES - 1)) * 4
    last = tl.cast(n, tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK_N
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK_N, last, step):
        value, inside = _inside(x_ptr, start + lanes, n, stride, bins)
        _add_one(own + value * (COPIES * 4), inside)
    tl.debug_barrier()
    b = tl.arange(0, BINS)
    copies = _count_at(base + (b[:, None] * COPIES + tl.arange(0, COPIES)[None, :]) * 4)
    counts = tl.sum(copies, axis=1)
    tl.atomic_add(out_ptr + b, counts.to(tl.int64), mask=(b < bins) & (counts != 0), sem="relaxed")


@dataclass(frozen=True)
class HistogramPlan:
    """How numbers are counted, one of PATHS; numbers a step of one program; programs; warps."""

    path: str
    block: int
    programs: int
    num_warps: int


def plan_histogram(
    n: int,
    bins: int,
    multiprocessors: int,
    path: str | None = None,
    block: int | None = None,
    programs: int | None = None,
    num_warps: int | None = None,
    shared: bool = False,
) -> HistogramPlan:
    """The plan for n numbers; a choice that is given is kept. More bins than MAX_STAGED_BINS fit no program.

    shared: whether the kernel is compiled for an NVIDIA GPU, the only place for that path.
    """
    path = path or ("plain" if bins > MAX_STAGED_BINS else "shared" if shared else "staged")
    if path == "shared":
        block = block or SHARED_BLOCK
    block = block or BLOCK
    steps = triton.cdiv(n, block)
    if path == "plain":
        return HistogramPlan(path, block, steps, num_warps or 8)
    known = isinstance(n, int)  # a size that torch.compile left open does not decide the number of programs
    if path == "shared":
        each = max(1, min(SHARED_PROGRAMS, steps // (SHARED_STEPS * multiprocessors))) if known else SHARED_PROGRAMS
        warps = max(1, min(16, block // 256))
    else:
        each, warps = 16, 4
    programs = programs or each * multiprocessors
    return HistogramPlan(path, block, min(programs, steps) if known else programs, num_warps or warps)


def _has_shared(x: torch.Tensor) -> bool:
    """Whether counters can be kept in shared memory: on an NVIDIA GPU, where nothing is interpreted."""
    return x.is_cuda and torch.version.hip is None and not INTERPRETED


def _launch(x, out, path=None, block=None, programs=None, num_warps=None):
    """Count the one-dimensional x into out (bins,), which holds zeros."""
    n, bins = x.shape[0], out.shape[0]
    plan = plan_histogram(n, bins, multiprocessors(x.device), path, block, programs, num_warps, _has_shared(x))
    given = (x, out, n, x.stride(0), bins)
    if plan.path == "plain":
        kernel = wrap_triton(_histogram_plain)
        launch(kernel, (plan.programs,), given, BLOCK_N=plan.block, num_warps=plan.num_warps)
        return
    sizes = {"BINS": max(2, triton.next_power_of_2(bins)), "BLOCK_N": plan.block, "num_warps": plan.num_warps}
    if plan.path == "shared":
        sizes["COPIES"] = min(32, SHARED_COUNTERS // sizes["BINS"])
        launch(wrap_triton(_histogram_shared), (plan.programs,), given, **sizes)
    else:
        launch(wrap_triton(_histogram_staged), (plan.programs,), given, **sizes)


def _require(x: torch.Tensor, bins: int) -> None:
    checks.require_tensor("x", x, DTYPES)
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= MAX_BINS:
        raise ValueError(f"bins is {bins!r}; expected a whole number from 1 to {MAX_BINS}.")
    checks.require_runnable("x", x, _histogram_plain)


def _forward(x: torch.Tensor, bins: int) -> torch.Tensor:
    bins = checks.settled(bins)
    _require(x, bins)
    out = torch.zeros((bins,), dtype=torch.int64, device=x.device)
    if x.numel():
        _launch(x.reshape(-1), out)
    return out


_histogram = register("histogram", _forward, lambda x, bins: torch.empty((bins,), dtype=torch.int64, device=x.device))


def histogram(x: torch.Tensor, bins: int = 256) -> torch.Tensor:
    """How often each number from 0 to bins - 1 occurs in x; this module's contract has shapes, dtypes and limits.

    Raises TypeError for a wrong kind or dtype, ValueError for a number of bins or a device that does not fit,
    RuntimeError on a CPU tensor outside Triton's interpreter; nothing has been launched then. Counting in private
    memory first: Podlozhnyuk, "Histogram calculation in CUDA", NVIDIA, 2007.
    """
    if torch.compiler.is_compiling():
        return _histogram(x, bins)
    if direct(x):
        return _forward(x, bins)
    _require(x, bins)
    return _histogram(x, bins)


def launch_histogram(
    x: torch.Tensor,
    out: torch.Tensor,
    *,
    path: str | None = None,
    block: int | None = None,
    programs: int | None = None,
    num_warps: int | None = None,
) -> torch.Tensor:
    """Write the counts of `x` to `out` and return it, as `plan_histogram` says with the choices given.

    x: one dimension, any stride. out: int64 (bins,), contiguous. path is "plain", "staged" or "shared" (on an NVIDIA
    GPU); block and num_warps are powers of two, at most 8192 and 32. Raises TypeError, ValueError or RuntimeError with
    a sentence before any launch.
    """
    checks.require_tensor("out", out, ("int64",))
    if out.dim() != 1:
        raise ValueError(f"out has shape {tuple(out.shape)}; expected one dimension, (bins,).")
    _require(x, out.shape[0])
    if x.dim() != 1:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected one dimension.")
    checks.require_contiguous("out", out)
    checks.require_apart("out", out, "x", x)
    if out.device != x.device:
        raise ValueError(f"out is on {out.device}; expected the device of x, {x.device}.")
    if path not in (None, *PATHS):
        raise ValueError(f'path is {path!r}; expected "plain", "staged", "shared" or None.')
    if path == "shared" and not _has_shared(x):
        raise ValueError('path is "shared", whose counters are for an NVIDIA GPU; expected path="staged".')
    if path in ("staged", "shared") and out.shape[0] > MAX_STAGED_BINS:
        raise ValueError(f'path is "{path}" for {out.shape[0]} bins; expected at most {MAX_STAGED_BINS}, or "plain".')
    if block is not None:
        checks.require_power_of_two("block", block, 8192)
    if num_warps is not None:
        checks.require_power_of_two("num_warps", num_warps, op.MAX_WARPS)
    if programs is not None:
        checks.require_count("programs", programs)
    plan = plan_histogram(x.shape[0], out.shape[0], 1, path, block, programs, num_warps, _has_shared(x))
    if plan.path == "shared" and plan.block < 32 * plan.num_warps:  # two lanes would hold a number, and both count it
        raise ValueError(f"block is {plan.block} for {plan.num_warps} warps; expected at least {32 * plan.num_warps}.")
    out.zero_()
    if x.numel():
        _launch(x, out, path, block, programs, num_warps)
    return out


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """Seeded numbers of which most lie in 256 bins, and some below 0 or beyond; `padding` leaves gaps between rows.

    In int64 some differ from a bin by 2**32, which their low 32 bits do not show.
    """
    generator = torch.Generator(device).manual_seed(seed)
    info = torch.iinfo(getattr(torch, dtype))
    low, high = max(-16, info.min), min(272, info.max)
    values = torch.randint(low, high + 1, shape, generator=generator, device=device).to(getattr(torch, dtype))
    if dtype == "int64":
        values = torch.where(values % 7 == 3, values + 2**32, values)
    if not padding or values.dim() == 0:
        return (values,)
    buffer = values.new_zeros((*shape[:-1], shape[-1] + padding))
    buffer[..., : shape[-1]] = values
    return (buffer[..., : shape[-1]],)


def equal_inputs(
    shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3
) -> tuple[torch.Tensor, ...]:
    """One seeded number over and over: every atomic meets the same counter."""
    (x,) = inputs(shape, dtype, device, seed, padding)
    return (x.fill_(seed % 100),)


def _library(x: torch.Tensor) -> torch.Tensor:
    """torch.histc, whose last bin holds both of its ends: one more bin than wanted keeps them apart.

    It takes integers on a GPU only.
    """
    return torch.histc(x if x.is_cuda else x.double(), bins=257, min=0, max=257)[:256].long()


def _scattered(x: torch.Tensor) -> torch.Tensor:
    """One addition at a computed place for each number; those outside the bins go to a place of their own."""
    flat = x.reshape(-1).long()
    counts = torch.zeros(257, dtype=torch.int64, device=x.device)
    counts.scatter_add_(0, torch.where((flat >= 0) & (flat < 256), flat, 256), torch.ones_like(flat))
    return counts[:256].clone()


BYTES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}
FILE = "cuda/histogram.cu"


BENCHES = (
    op.Case((1 << 20,), "a short run: merging the counts shows"),
    op.Case((1 << 24,), "64 MiB in int32: about the L2 cache"),
    op.Case((1 << 26,), "several times the L2 cache"),
    op.Case((1 << 28,), "1 GiB in int32"),
)


def _record(name: str, make_inputs, benches: tuple[op.Case, ...], bench_dtypes: tuple[str, ...]) -> op.Op:
    return op.Op(
        name=name,
        reference=reference,
        implementations=(
            op.Implementation("triton", histogram, "triton", "kernels.ops.histogram:_launch", True, DTYPES),
            op.cuda_twin("histogram_replicated", FILE, ("int32",)),
            op.cuda_twin("histogram_shared", FILE, ("int32",)),
            op.cuda_twin("histogram_plain", FILE, ("int32",)),
            op.Implementation("torch", _library, "torch", "", False, ("int32", "int64")),
            op.Implementation("torch.compile", op.compiled(_scattered), "torch", "", False, ("int32",)),
        ),
        inputs=make_inputs,
        outputs=lambda x: torch.empty((256,), dtype=torch.int64, device=x.device),
        # read x once, write the counts once
        bytes_moved=lambda shape, dtype: op.elements(shape) * BYTES[dtype] + 8 * 256,
        flops=lambda shape: op.elements(shape),
        checks=(
            op.Case((31,), "one lane short of a warp"),
            op.Case((1,), "one number"),
            op.Case((2048,), "one whole block: no lane is masked"),
            op.Case((2049,), "one number past a block"),
            op.Case((9000,), "several steps of a program, and a ragged end"),
            op.Case((3, 40), "two dimensions with gaps between the rows"),
            op.Case((0,), "no number: every count is zero"),
        ),
        benches=benches,
        bench_dtypes=bench_dtypes,
        dtypes=DTYPES,
        tolerance=lambda dtype, shape: (0.0, 0.0),  # counts are exact
    )


OP = _record("histogram", inputs, BENCHES, ("int32", "int64", "uint8"))
MORE = (_record("histogram_equal", equal_inputs, (BENCHES[0], BENCHES[3]), ("int32",)),)
