"""The Gluon kernels run as Python: their own text, with a model of Hopper's asynchronous parts around it.

Triton does not interpret Gluon. Here the kernel's functions run unchanged, each partition as a task, and only one task
at a time; which one goes on, and when a copy lands, is drawn at random, so that many seeds try many orders. The model
keeps the rules that the hardware does not check. It stops with `Broken` when

- a tile is read that has not landed, or is overwritten while a product or a copy still reads it;
- the result of a product is used before it was waited for;
- a tile that was written by threads is copied out without a fence;
- a barrier gets an arrival too many;
- every task waits and no copy is under way: a deadlock.

Products read their operands when they are waited for, as late as they may. Tensor maps are followed address by address,
in 64 bits that wrap around. What it cannot say: anything about layouts, registers, and time.

Here the kernels are loaded and launched; `gluon_machine` is whose turn it is, `gluon_memory` what a program holds, and
`gluon_language` what its text calls.
"""

import ast
from importlib import import_module
from pathlib import Path

import torch

from .gluon_language import language
from .gluon_machine import Broken, Machine
from .gluon_memory import Map, Pointer

__all__ = ["Broken", "Machine", "Map", "Pointer", "attend", "gradients", "load_kernel", "multiply"]

BESIDE = {"matmul_tf32": "matmul_gluon"}  # a kernel's file, and the one whose functions it imports


def load_kernel(
    machine: Machine,
    program: int,
    programs: int,
    group_rows: int,
    changes: tuple = (),
    name: str = "attention_gluon",
    chained: bool = False,
) -> dict:
    """The kernel's functions, as Python functions for one program of the grid.

    name: the file in kernels.ops. changes: pairs of text, the first of which stands once in it and is replaced by
    the second. chained: whether a product may be waited for while another one that it is added to is under way.
    """
    module = import_module(f"kernels.ops.{name}")

    names = language(machine, program, programs, chained)
    text = Path(module.__file__).read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise LookupError(f"{old!r} stands {text.count(old)} times in the kernel; expected once")
        text = text.replace(old, new)
    texts = [Path(module.__file__).with_name(f"{BESIDE[name]}.py").read_text()] if name in BESIDE else []
    for each in (*texts, text):
        tree = ast.parse(each)
        tree.body = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(tree, module.__file__, "exec"), names)
    names["GROUP_ROWS"] = names["ROWS"] = group_rows
    return names


def attend(q, k, v, lengths, causal, window, scale, plan, programs, seed, group_rows, changes=()) -> tuple:
    """out and lse of attention by the kernel, program after program, in tiles of group_rows queries a consumer.

    `kernels.ops.attention_gluon_launch.ROWS` must be group_rows, too.
    """
    from kernels.ops import attention_gluon_launch as host

    B, H, Sq, _ = q.shape
    out = torch.full(q.shape, float("nan"), dtype=q.dtype)
    lse = torch.full((B, H, Sq), float("nan"))
    order = None
    if plan.schedule == "each":
        programs = B * H * -(-Sq // plan.tile_rows)
    elif plan.schedule == "planned":
        work = (B * H, Sq, k.shape[2], causal, window, plan, programs)
        order = torch.tensor(host.planned_order.__wrapped__(*work), dtype=torch.int32)
    values, constants = host.arguments(q, k, v, out, lse, lengths, order, causal, window, scale, plan)
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    for program in range(programs):
        kernel = load_kernel(Machine(seed + program), program, programs, group_rows, changes)
        kernel["_attention_ring"](*values, **constants)
    return out, lse


def gradients(q, k, v, out, lse, dout, causal, scale, seed, changes=()) -> tuple:
    """dq, dk and dv by the kernels of the backward pass: one pass over the model, and those around it interpreted."""
    import triton

    from kernels.ops import attention_gluon_backward_launch as host
    from kernels.ops.attention_shared import steps

    B, H, Sq, D = q.shape
    rows_of, tiles = host.TILE, B * H * -(-Sq // host.TILE)
    rows, sums = torch.full((tiles, 2, rows_of), float("nan")), torch.full((tiles, rows_of * D), float("nan"))
    dq, dk, dv = (torch.full(each.shape, float("nan"), dtype=each.dtype) for each in (q, k, v))
    host._attention_rows[(tiles,)](out, dout, lse, rows, sums, H, Sq, *steps(dout), D=D, BLOCK_M=rows_of)
    values, constants = host.arguments(q, k, v, dout, dk, dv, rows, sums, causal, scale)
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    programs = k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], 2 * rows_of)
    for program in range(programs):
        machine = Machine(seed + program)
        kernel = load_kernel(machine, program, programs, rows_of, changes, "attention_gluon_backward")
        kernel["_attention_one_pass"](*values, **constants)
    host._attention_dq_cast[(tiles,)](sums, dq, Sq, scale, D=D, BLOCK_M=rows_of)
    return dq, dk, dv


def multiply(a, b, out, tile, programs, seed, group_m=2, stages=3, changes=(), **more) -> torch.Tensor:
    """out = a @ b by the Gluon product, program after program; the rest as `kernels.ops.matmul_gluon.ring_launch`."""
    from kernels.ops import matmul_gluon
    from kernels.ops.matmul_launch import _outer_stride

    ways = _outer_stride(a), _outer_stride(b)
    (grid,), values, constants = matmul_gluon.ring_launch(a, b, out, ways, tile, programs, group_m, stages, **more)
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    constants = {name: x for name, x in constants.items() if name not in ("maxnreg", "launch_pdl")}
    for program in range(grid):
        kernel = load_kernel(Machine(seed + program), program, grid, 64, changes, "matmul_gluon", chained=True)
        kernel["_matmul_ring"](*values, **constants)
    return out
