"""How `kernels.ops.rmsnorm` shares out rows among programs: the row plan, and what is different for two tensors."""

import dataclasses

import torch
import triton

from kernels.ops.early import starts_early
from kernels.ops.library import wrap_triton
from kernels.ops.rmsnorm_kernels import _rmsnorm_words
from kernels.ops.row_plan import MAX_BLOCK, RowPlan, plan_for, sm_count

PATHS = ("block", "joint", "split")
JOINT_PART = 8192
WHOLE_BYTES = 65536  # of a row that one program holds without spilling
HELD_PART = 4096  # columns of a part of a row of float32 that does not fit
NARROW_TILE = 2048  # elements of a program of 4 warps


def plan_rmsnorm(
    x: torch.Tensor, path: str | None = None, block: int | None = None, num_warps: int | None = None
) -> RowPlan:
    """The row plan for x (M, N), with what is different here.

    Two tensors are read, so a row is never walked twice by one program: a row that fits is one block, in float32 too.
    Wider than WHOLE_BYTES, a row of float32 does not fit: registers spill. Where launches begin early it is joint, in
    parts of HELD_PART columns, of which several fit on a multiprocessor; elsewhere it stays a block.
    Rows of 1024 columns come in pairs. A program of up to NARROW_TILE elements has 4 warps; a larger one has 16, and so
    8 elements in a thread at 4096 columns: one 16-byte load of each tensor in bfloat16. Beyond 16384 elements of two
    bytes, 32.
    Parts of other joint rows are as wide as for a gradient, JOINT_PART while all of them run at once; those of float32
    are HELD_PART wide as well, where launches begin early. A thread has 32 elements of a part: several programs share
    a multiprocessor, and some read while others wait.
    """
    plan = plan_for(x, path, block, num_warps)
    if plan.path in ("looped", "twice"):
        chosen = path is None and block is None and x.element_size() * x.shape[1] > WHOLE_BYTES
        if chosen and starts_early(wrap_triton(_rmsnorm_words), x.device):
            plan = plan_for(x, "joint", HELD_PART)
        else:
            plan = plan_for(x, "block" if x.shape[1] <= (block or MAX_BLOCK) else "split", block)
    elif plan.path == "joint" and block is None:
        plan = plan_for(x, "joint", held=2)  # the parts of a kernel that reads two tensors
        early = path is None and starts_early(wrap_triton(_rmsnorm_words), x.device)
        fit = plan.block_m == 1 and triton.cdiv(x.shape[1], HELD_PART) <= sm_count(x.device)
        if early and fit and x.element_size() == 4:
            plan = plan_for(x, "joint", min(plan.block_n, HELD_PART))
    rows = plan.block_m
    if plan.path == "block" and block is None:
        rows = max(rows, NARROW_TILE // plan.block_n)
    tile = rows * plan.block_n
    warps = 4 if tile <= NARROW_TILE else min(max(tile // 1024, 4), 16) if plan.path == "joint" else 16
    if tile > 16384 and x.element_size() == 2:
        warps = 32
    warps = num_warps or warps
    return dataclasses.replace(plan, block_m=rows, num_warps=warps)
