"""What the forward and the backward kernels of attention share: which keys a query sees, and how work is cut up."""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.ops import checks
from kernels.ops.interpreter_dot import dot_like_a_gpu

if triton.knobs.runtime.interpret:
    dot_like_a_gpu()

LOG2_E = math.log2(math.e)  # kernels compute 2**x, so scores are scaled by it
FARTHEST = 2**30  # positions, and keys of a window: sums of them fit into 32 bits


@triton.jit
def seen(m, n, length, shift, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Which of the keys n each of the queries m sees; one is a row, the other a column. Query i is at key i + shift."""
    visible = (n < length) & (m >= 0)
    if CAUSAL:
        visible &= n <= m + shift
    if WINDOW > 0:
        visible &= n > m + shift - WINDOW
    return visible


@triton.jit
def first_key(m, shift, WINDOW: tl.constexpr):
    """The first key that query m may see."""
    first = 0
    if WINDOW > 0:
        first = tl.maximum(m + shift - WINDOW + 1, 0)
    return first


@triton.jit
def last_key(m, length, shift, CAUSAL: tl.constexpr):
    """One past the last key that query m may see."""
    last = length
    if CAUSAL:
        last = tl.minimum(tl.maximum(m + shift + 1, 0), length)
    return last


@dataclass(frozen=True)
class AttentionPlan:
    """Queries, keys and head elements of a program's tiles, its warps, and the steps of its software pipeline."""

    block_m: int
    block_n: int
    block_d: int
    num_warps: int
    num_stages: int


def plan_attention(D: int, element_bytes: int, gradient: str | None = None) -> AttentionPlan:
    """Tiles by head size and element size; the head is padded with zeros to a power of two, at least 16.

    gradient: None for the forward kernel, "keys" or "queries" for those of the backward pass. Each of theirs holds two
    products of its tile's size in registers: larger tiles spill, on compute capability 9.0. Query, key and value tiles
    of a program, the latter num_stages times, lie in shared memory: 228 KiB of a multiprocessor of compute capability
    9.0, of which a block gets 227.
    """
    block_d = max(16, triton.next_power_of_2(D))
    if element_bytes == 4:  # no Tensor Cores: registers hold the operands of every product
        side = 16 if block_d > 128 else 32
        return AttentionPlan(side, side, block_d, 8, 1)
    if gradient is not None:
        if block_d > 128:
            return AttentionPlan(32, 64, block_d, 8, 1)
        if gradient == "keys":
            return AttentionPlan(64, 64, block_d, 4, 2)
        return AttentionPlan(128, 64, block_d, 8, 3)
    if block_d > 128:
        return AttentionPlan(128, 32, block_d, 8, 2)
    return AttentionPlan(128, 64, block_d, 8 if block_d > 64 else 4, 3)


def steps(tensor: torch.Tensor) -> tuple[int, int, int]:
    """Strides of batch, head and position, in elements."""
    return tensor.stride()[:3]


def with_unit_columns(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy where the elements of a head do not lie side by side."""
    return tensor if tensor.stride(3) == 1 else tensor.contiguous()


def require_window(window: object, causal: object) -> None:
    """`causal` must be a flag, and `window` a number of keys up to a query; raises with a sentence."""
    checks.require_flag("causal", causal)
    if not isinstance(window, int) or isinstance(window, bool) or not 0 <= window <= FARTHEST:
        raise ValueError(f"window is {window!r}; expected a number of keys up to {FARTHEST}, or 0 for all.")
    if window and not causal:
        raise ValueError(f"window is {window} without causal; a window is the last keys up to a query: causal=True.")


def require_lengths(lengths: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor) -> None:
    """`lengths` must be None, or say for each batch element how many keys there are; raises with a sentence."""
    if lengths is None:
        return
    checks.require_tensor("lengths", lengths, ("int32",))
    if lengths.shape != q.shape[:1]:
        raise ValueError(
            f"lengths has shape {tuple(lengths.shape)}; expected ({q.shape[0]},): one for each batch element."
        )
    if lengths.device != q.device:
        raise ValueError(f"lengths is on {lengths.device}; expected the device of q, {q.device}.")
    if not lengths.is_cuda and q.shape[0] and not 0 <= int(lengths.min()) <= int(lengths.max()) <= k.shape[2]:
        raise ValueError(f"lengths is {lengths.tolist()}; expected numbers from 0 to {k.shape[2]}, k's positions.")
