"""Workshop I2: the gradients of softmax and of RMSNorm.

    softmax    dx[n] = y[n] * (dy[n] - sum_k y[k] * dy[k])                       y: the weights that softmax gave
    RMSNorm    normed[n] = x[n] * root                                           root: one number a row
               dx[n] = root * (dout[n] * weight[n] - normed[n] * mean_k(dout[k] * weight[k] * normed[k]))
               dweight[n] = sum over all rows of dout[n] * normed[n]

    lessons check row_gradients

Edit only what lies between the marks. The weight's gradient is a sum over *all* rows, so programs must bring their
shares together, and the result must have the same bits in every run: each program leaves one row of `partial`, and a
second kernel adds those rows up. The check runs your kernels in Triton's interpreter and looks at what they touch.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax_backward_rows(
    y_ptr, dy_ptr, dx_ptr, N, y_stride_m, dy_stride_m, dy_stride_n, dx_stride_m, BLOCK_N: tl.constexpr
):  # fmt: skip
    # --- fill in ---
    m = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    y = tl.load(y_ptr + m * y_stride_m + n, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + m * dy_stride_m + n * dy_stride_n, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, axis=0))
    tl.store(dx_ptr + m * dx_stride_m + n, dx, mask=mask)
    # --- end ---


def softmax_backward(y: torch.Tensor, dy: torch.Tensor, dx: torch.Tensor) -> None:
    """Writes the gradient of the scores to dx.

    y, dy, dx: (M, N) of one dtype. The elements of a row are neighbours in y and in dx; dy has any strides.
    """
    M, N = y.shape
    if M:
        _softmax_backward_rows[(M,)](
            y, dy, dx, N, y.stride(0), *dy.stride(), dx.stride(0), BLOCK_N=triton.next_power_of_2(N)
        )


@triton.jit
def _rmsnorm_backward_rows(
    x_ptr, weight_ptr, root_ptr, dout_ptr, dx_ptr, partial_ptr, M, N,
    x_stride_m, dout_stride_m, dout_stride_n, dx_stride_m, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Program p takes rows p, p + programs, p + 2 * programs, and so on, and writes row p of partial, in float32.
    # --- fill in ---
    program = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    weight = tl.load(weight_ptr + n, mask=mask, other=0.0).to(tl.float32)
    share = tl.zeros([BLOCK_N], tl.float32)
    for row in range(program, M, tl.num_programs(0)):
        m = tl.cast(row, tl.int64)
        root = tl.load(root_ptr + m)
        normed = tl.load(x_ptr + m * x_stride_m + n, mask=mask, other=0.0).to(tl.float32) * root
        dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0).to(tl.float32)
        scaled = dout * weight
        dx = root * (scaled - normed * (tl.sum(scaled * normed, axis=0) / N))
        tl.store(dx_ptr + m * dx_stride_m + n, dx, mask=mask)
        share += dout * normed
    tl.store(partial_ptr + program * N + n, share, mask=mask)
    # --- end ---


@triton.jit
def _sum_rows(partial_ptr, out_ptr, parts, N, BLOCK_N: tl.constexpr):
    # Program p adds up columns p * BLOCK_N to (p + 1) * BLOCK_N - 1 of all rows of partial, in their order.
    # --- fill in ---
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = n < N
    total = tl.zeros([BLOCK_N], tl.float32)
    for part in range(0, parts):
        total += tl.load(partial_ptr + part * N + n, mask=mask, other=0.0)
    tl.store(out_ptr + n, total, mask=mask)
    # --- end ---


def rmsnorm_backward(
    x: torch.Tensor,
    weight: torch.Tensor,
    root: torch.Tensor,
    dout: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor,
    programs: int = 4,
) -> None:
    """Writes the gradient of the input to dx and that of the weight to dweight.

    x, dout, dx: (M, N); weight, dweight: (N,); all of one dtype. root: float32 (M,), what the forward pass multiplied
    each row by. dout has any strides; elsewhere the elements of a row are neighbours. programs: how many share the
    rows, 1 or more.
    """
    M, N = x.shape
    # --- fill in ---
    parts = max(1, min(programs, M))
    partial = torch.empty((parts, N), dtype=torch.float32, device=x.device)
    steps = (x.stride(0), *dout.stride(), dx.stride(0))
    block = triton.next_power_of_2(N)
    _rmsnorm_backward_rows[(parts,)](x, weight, root, dout, dx, partial, M, N, *steps, BLOCK_N=block)
    _sum_rows[(triton.cdiv(N, 64),)](partial, dweight, parts, N, BLOCK_N=64)
    # --- end ---
