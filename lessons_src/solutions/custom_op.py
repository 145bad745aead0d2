"""Exercise of Lesson 10: make a PyTorch operator of a kernel.

    out[m, n] = (x[m, n] - shift[n]) * scale

    lessons check custom_op

The kernels and their launches are there, and right. What is missing is all that PyTorch asks of an operator: a forward
pass that keeps its promises, a *fake* one that says what comes out without computing it, and a gradient. Edit only what
lies between the marks. The check runs the kernels in Triton's interpreter and compiles with torch.compile; it needs no
GPU.
"""

import torch
import triton
import triton.language as tl

BLOCK = 256  # elements of one program of the backward pass


@triton.jit
def _shift_scale(x_ptr, shift_ptr, out_ptr, N, x_stride_m, x_stride_n, scale, BLOCK_N: tl.constexpr):
    m, n = tl.program_id(0), tl.arange(0, BLOCK_N)  # a program has one row
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=n < N, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + m * N + n, ((x - shift) * scale).to(out_ptr.dtype.element_ty), mask=n < N)


@triton.jit
def _scaled(dout_ptr, dx_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dout = tl.load(dout_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(dx_ptr + i, (dout * scale).to(dx_ptr.dtype.element_ty), mask=i < n)


def launch_forward(x: torch.Tensor, shift: torch.Tensor, out: torch.Tensor, scale: float) -> None:
    """Writes the formula to out. x (M, N) with any strides; shift (N,) and out (M, N) contiguous; one dtype."""
    M, N = x.shape
    if M and N:
        _shift_scale[(M,)](x, shift, out, N, *x.stride(), scale, BLOCK_N=triton.next_power_of_2(N))


def launch_backward(dout: torch.Tensor, dx: torch.Tensor, scale: float) -> None:
    """Writes dout * scale to dx. Both are contiguous: the kernel goes through their memory from end to end."""
    if n := dout.numel():
        _scaled[(triton.cdiv(n, BLOCK),)](dout, dx, n, scale, BLOCK=BLOCK)


@torch.library.custom_op("lessons::scaled", mutates_args=())
def scaled(dout: torch.Tensor, scale: float) -> torch.Tensor:
    """dout * scale, for a contiguous dout. An operator as well: torch.compile runs backward without numbers, too."""
    dx = torch.empty(dout.shape, dtype=dout.dtype, device=dout.device)
    launch_backward(dout, dx, scale)
    return dx


@scaled.register_fake
def _(dout: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty(dout.shape, dtype=dout.dtype, device=dout.device)


def forward(x: torch.Tensor, shift: torch.Tensor, scale: float) -> torch.Tensor:
    """The result as a new contiguous tensor with the shape and dtype of x. The annotations are the schema."""
    # --- fill in ---
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    launch_forward(x, shift, out, scale)
    return out
    # --- end ---


def fake(x: torch.Tensor, shift: torch.Tensor, scale: float) -> torch.Tensor:
    """What forward returns, without its numbers: an empty tensor of that shape, dtype, device and those strides."""
    # --- fill in ---
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    # --- end ---


def save(ctx, inputs, output) -> None:
    """Keeps on ctx what backward needs. inputs are those of forward, (x, shift, scale)."""
    # --- fill in ---
    ctx.scale = inputs[2]
    # --- end ---


def backward(ctx, dout: torch.Tensor):
    """The gradients of x, shift and scale; None for scale, a number. dout has the shape of out, and any strides."""
    # --- fill in ---
    dx = scaled(dout.contiguous(), ctx.scale)
    dshift = -dx.sum(dim=0)
    return dx, dshift, None
    # --- end ---


def make():
    """The operator lessons::shift_scale, with all that torch.compile and autograd ask for."""
    # --- fill in ---
    operator = torch.library.custom_op("lessons::shift_scale", forward, mutates_args=())
    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=save)
    return operator
    # --- end ---
