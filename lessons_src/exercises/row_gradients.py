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
    # One program, one row. Which value of the spare places adds nothing to the sum?
    raise NotImplementedError("the kernel: load a row of y and of dy, one sum, store dx")
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
    # The weight and this program's share of its gradient stay in registers while the program walks down its rows.
    # A row of x and dout is read once and serves both gradients.
    raise NotImplementedError("the kernel: dx of each of this program's rows, and one row of partial")
    # --- end ---


@triton.jit
def _sum_rows(partial_ptr, out_ptr, parts, N, BLOCK_N: tl.constexpr):
    # Program p adds up columns p * BLOCK_N to (p + 1) * BLOCK_N - 1 of all rows of partial, in their order.
    # --- fill in ---
    # float32 to the end, and one rounding in the store.
    raise NotImplementedError("the kernel: add the rows of partial up, in order")
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
    # partial: one row of float32 for each program that runs. No more programs than rows, and at least one: where there
    # are no rows, the gradient of the weight is zero.
    raise NotImplementedError("the launch of both kernels")
    # --- end ---
