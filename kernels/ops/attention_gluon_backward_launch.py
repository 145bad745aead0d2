"""What the Gluon kernel of attention's backward pass takes, and its three launches."""

import torch
import triton

from kernels.ops.attention_gluon_backward import (
    ROWS,
    _attention_dq_cast,
    _attention_one_pass,
    _attention_rows,
)
from kernels.ops.attention_gluon_launch import WARPS, as_heads, describe, refusal
from kernels.ops.attention_shared import LOG2_E, steps

ENABLED = True  # or all is left to the readable kernels

TILE = ROWS.value
STAGES, CAUSAL_STAGES = 2, 3  # of two and three, the faster one on an H200
SECTION = 4  # heads that are worked on side by side
REGISTERS = 168  # of a thread at the start; a consumer's get 240 once the producer has given up its own


def refusal_backward(q, k, v, dout, lengths, window: int, scale: float) -> str | None:
    """Why the kernel cannot compute these gradients, in words, or None where it can."""
    if torch.are_deterministic_algorithms_enabled():
        return "it adds to dq in any order, and torch.use_deterministic_algorithms asks for one"
    if q.shape[3] != 128:
        return f"head size {q.shape[3]}; it takes 128"
    if lengths is not None or window:
        return "lengths or a window; it takes all keys, or causal ones"
    if q.shape[0] * q.shape[1] * triton.cdiv(q.shape[2], TILE) >= 2**31:
        return "too many queries for the numbers of its programs"
    return refusal(q, k, v, scale) or refusal(dout, dout, dout, scale)


def arguments(q, k, v, dout, dk, dv, rows, sums, causal: bool, scale: float) -> tuple[tuple, dict]:
    """The kernel's arguments, in its order, and its constants."""
    values = (
        *(describe(each, TILE) for each in (q, k, v, dout, dk, dv)),
        rows,
        sums,
        k.shape[0] * k.shape[1],
        q.shape[1],
        q.shape[2],
        k.shape[2],
        q.shape[1] // k.shape[1],
        scale * LOG2_E,
        scale,
        *(number for each in (q, k, v, dout) for number in as_heads(each)[2:]),
    )
    return values, {"STAGES": CAUSAL_STAGES if causal else STAGES, "SECTION": SECTION, "CAUSAL": causal}


def launch_one_pass(q, k, v, out, lse, dout, dq, dk, dv, causal: bool, scale: float) -> None:
    """Write dq, dk and dv, as `kernels.ops.attention_backward._launch` does, for what `refusal_backward` lets pass."""
    B, H, Sq, D = q.shape
    tiles = B * H * triton.cdiv(Sq, TILE)
    rows = torch.empty((tiles, 2, TILE), dtype=torch.float32, device=q.device)
    sums = torch.empty((tiles, TILE * D), dtype=torch.float32, device=q.device)
    with torch.cuda.device(q.device):
        _attention_rows[(tiles,)](out, dout, lse, rows, sums, H, Sq, *steps(dout), D=D, BLOCK_M=TILE, num_warps=8)
        values, constants = arguments(q, k, v, dout, dk, dv, rows, sums, causal, scale)
        programs = k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], 2 * TILE)
        _attention_one_pass[(programs,)](*values, **constants, num_warps=WARPS, maxnreg=REGISTERS)
        _attention_dq_cast[(tiles,)](sums, dq, Sq, scale, D=D, BLOCK_M=TILE, num_warps=8)
