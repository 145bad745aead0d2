"""What rmsnorm and its gradient share: how a row is read and written, one check, and inputs for both."""

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op


@triton.jit
def read_sum(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL: tl.constexpr):
    """x, plus the residual where there is one, in float32: the sum is never rounded."""
    z = tl.load(x_ptr + x_offset, mask=mask, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        z += tl.load(residual_ptr + residual_offset, mask=mask, other=0.0).to(tl.float32)
    return z


@triton.jit
def read_row(
    x_ptr, residual_ptr, dout_ptr, root_ptr, m, n, M, N, x_stride_m, x_stride_n, residual_stride_m, residual_stride_n,
    dout_stride_m, dout_stride_n, HAS_RESIDUAL: tl.constexpr
):  # fmt: skip
    mask = (m < M) & (n < N)
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = read_sum(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL)
    dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0)
    root = tl.load(root_ptr + m, mask=m < M, other=0.0)
    return z * root, dout, root


@triton.jit
def read_weight(weight_ptr, n, N, weight_stride, BLOCK_N: tl.constexpr, HAS_WEIGHT: tl.constexpr):
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + n * weight_stride, mask=n < N, other=0.0).to(tl.float32)
    else:
        weight = tl.full([1, BLOCK_N], 1.0, tl.float32)
    return weight


@triton.jit
def write_row(
    dx, dsum_ptr, dx_ptr, m, n, M, N, dsum_stride_m, dsum_stride_n, HAS_DSUM: tl.constexpr
):  # fmt: skip
    mask = (m < M) & (n < N)
    if HAS_DSUM:  # the other output is z itself: its gradient goes on unchanged
        dx += tl.load(dsum_ptr + m * dsum_stride_m + n * dsum_stride_n, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx_ptr + m * N + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)


def strides(tensor: torch.Tensor | None) -> tuple[int, ...]:
    return (0, 0) if tensor is None else tensor.stride()


def require_weight(x: torch.Tensor, weight: torch.Tensor | None) -> None:
    """A weight has one number a column of x, and its dtype and device."""
    if weight is None:
        return
    checks.require_tensor("weight", weight, differentiable=True)
    if weight.shape != x.shape[-1:]:
        expected = f"one number a column of x, ({x.shape[-1]},)"
        raise ValueError(f"weight has shape {tuple(weight.shape)}; expected {expected}.")
    checks.require_alike("weight", weight, "x", x)


def rows_of(tensor: torch.Tensor | None, N: int) -> torch.Tensor | None:
    """The tensor as (rows, N); a copy only where its leading dimensions do not merge."""
    return None if tensor is None else tensor.reshape(-1, N)


def forward_inputs(
    shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3
) -> tuple[torch.Tensor, ...]:
    """x and residual of `shape` with `padding` NaN behind each row, and a weight near 1, seeded.

    Rows are scaled by 1/64, 1 and 64 in turn, so that a root taken over the wrong row or the wrong number of columns
    shows. The residual is 64 times smaller than x: a sum that is rounded too early loses part of it.
    """
    generator = torch.Generator(device).manual_seed(seed)
    as_dtype = getattr(torch, dtype)
    scale = 64.0 ** (torch.arange(op.elements(shape[:-1]), device=device) % 3 - 1).reshape(*shape[:-1], 1)
    x = (torch.randn(shape, generator=generator, device=device) * scale).to(as_dtype)
    residual = (torch.randn(shape, generator=generator, device=device) * scale / 64).to(as_dtype)
    weight = (1 + 0.25 * torch.randn(shape[-1:], generator=generator, device=device)).to(as_dtype)
    return op.with_padded_rows(x, padding), op.with_padded_rows(residual, padding), weight
