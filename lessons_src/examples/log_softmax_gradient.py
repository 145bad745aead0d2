"""The gradient of log-softmax: Workshop I2's second exercise, one answer to it.

    l[n] = log(y[n]), which is what the forward pass stored        dx[n] = dl[n] - exp(l[n]) * sum_k dl[k]

The sum goes over the upstream gradient alone: the logarithm has divided the weight away.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _log_softmax_backward_rows(
    l_ptr, dl_ptr, dx_ptr, N, l_stride_m, dl_stride_m, dl_stride_n, dx_stride_m, BLOCK_N: tl.constexpr
):
    m = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    # Any padding will do for l, since its exponential is multiplied and never stored; dl joins a sum: 0.
    logarithm = tl.load(l_ptr + m * l_stride_m + n, mask=mask, other=0.0).to(tl.float32)
    dl = tl.load(dl_ptr + m * dl_stride_m + n * dl_stride_n, mask=mask, other=0.0).to(tl.float32)
    dx = dl - tl.exp(logarithm) * tl.sum(dl, axis=0)
    tl.store(dx_ptr + m * dx_stride_m + n, dx, mask=mask)


def log_softmax_backward(logarithms: torch.Tensor, dl: torch.Tensor, dx: torch.Tensor) -> None:
    """Writes the gradient of the scores to dx.

    logarithms, dl, dx: (M, N) of one dtype, N from 1 up. The elements of a row are neighbours in logarithms and in dx;
    dl has any strides.
    """
    M, N = logarithms.shape
    if M:
        steps = (logarithms.stride(0), *dl.stride(), dx.stride(0))
        block = triton.next_power_of_2(N)
        _log_softmax_backward_rows[(M,)](logarithms, dl, dx, N, *steps, BLOCK_N=block)
