"""Argument checks of the operators: one sentence naming the argument, what it is, and what was expected.

Each function raises before anything is launched: TypeError for a wrong kind or dtype, ValueError for a wrong shape,
device or launch parameter, RuntimeError where the machine cannot run the kernel. None of them copies a tensor.
"""

import math

import torch
import triton
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from triton.runtime.jit import JITFunction

from kernels.ops.interpreter import behave_like_a_gpu
from kernels.ops.op import DTYPES

MAX_EXTENT = 2**31 - 2**20  # rows, or columns: the number of tiles is counted in 32 bits, a tile's size beyond the last
MAX_TILE = 2**20  # elements of a tile, Triton's limit
MAX_PROGRAMS = 2**31 - 1  # of a launch, in its first dimension
if triton.knobs.runtime.interpret:
    behave_like_a_gpu()


def dtype_name(tensor: torch.Tensor) -> str:
    """ "float32" for torch.float32, and so on."""
    return str(tensor.dtype).removeprefix("torch.")


def require_tensor(name: str, value: object, dtypes: tuple[str, ...] = DTYPES, *, differentiable: bool = False) -> None:
    """`value` must be a plain strided tensor of one of `dtypes`, with nothing to record for a gradient.

    With `differentiable` it may require one: the caller sees to it that it is recorded.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a torch.Tensor.")
    if dtype_name(value) not in dtypes:
        raise TypeError(f"{name} has dtype {dtype_name(value)}; expected {_either(dtypes)}.")
    if value.layout != torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise TypeError(f"{name} has layout {layout}; expected a strided tensor, such as {name}.to_dense().")
    if value.is_neg():
        raise ValueError(f"{name} is a view that negates on reading; expected stored values: {name}.resolve_neg().")
    watched = forward_ad._current_level >= 0 and value.is_floating_point()
    if watched and forward_ad.unpack_dual(value).tangent is not None:
        raise ValueError(
            f"{name} carries a forward-mode tangent, which no operator here passes on; "
            f"expected {name} without one, and a gradient by torch.autograd.grad."
        )
    if not differentiable and value.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name} requires a gradient, which this call does not record; "
            f"expected {name}.detach(), or a call under torch.no_grad()."
        )


def require_runnable(name: str, value: torch.Tensor, kernel: object) -> None:
    """`value` must be on a device where `kernel` can run now: a GPU, or the CPU when Triton interprets."""
    if value.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name} is on {value.device}; expected a tensor on cuda, or on cpu under the interpreter.")
    if value.device.type == "cpu" and isinstance(kernel, JITFunction):
        raise RuntimeError(
            f"{name} is on cpu, where a Triton kernel runs only under Triton's interpreter: set the environment "
            f"variable TRITON_INTERPRET=1 before Python starts (TRITON_INTERPRET=1 python ...), "
            f"or pass a tensor on cuda."
        )


def require_memory(name: str, value: torch.Tensor) -> None:
    """`value` must have elements in memory that a kernel can reach now, for a call that is no registered operator.

    torch.compile is no case of it: it finds kernels in a function by itself.
    """
    if torch.compiler.is_compiling():
        return
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(value)
    watched = torch._C._len_torch_dispatch_stack() and (type(value) is FakeTensor or get_proxy_mode() is not None)
    if wrapped or watched:
        by = "torch.func" if wrapped else "a mode that traces"
        raise ValueError(
            f"{name} is held by {by}, which does not see the kernel of this call; expected a call outside of it, or "
            f"the same formula in PyTorch operations."
        )


def require_same(name: str, value: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """`value` must have the shape, dtype and device of `other`: nothing is broadcast, promoted or moved."""
    if value.shape != other.shape:
        expected = f"the shape of {other_name}, {tuple(other.shape)}"
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {expected}: no dimension is broadcast.")
    require_alike(name, value, other_name, other)


def require_alike(name: str, value: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """`value` must have the dtype and the device of `other`, whatever its shape."""
    if value.dtype != other.dtype:
        expected = f"the dtype of {other_name}, {dtype_name(other)}"
        raise TypeError(f"{name} has dtype {dtype_name(value)}; expected {expected}: no dtype is promoted.")
    if value.device != other.device:
        raise ValueError(f"{name} is on {value.device}; expected the device of {other_name}, {other.device}.")


def require_contiguous(name: str, value: torch.Tensor) -> None:
    """`value` must be stored without gaps in row-major order."""
    if not value.is_contiguous():
        raise ValueError(f"{name} has strides {value.stride()} for shape {tuple(value.shape)}; expected it contiguous.")


def require_apart(name: str, out: torch.Tensor, other_name: str, other: torch.Tensor, *, or_same: bool = False) -> None:
    """No element of `out` may lie on one of `other`, in memory; with `or_same` it may be the very same tensor.

    Rows that lie side by side in one buffer, each in columns of its own, are apart.
    """
    if out.numel() == 0 or other.numel() == 0:
        return
    if or_same and out.data_ptr() == other.data_ptr() and out.stride() == other.stride() and out.shape == other.shape:
        return
    (first, last), (start, end) = _span(out), _span(other)
    if last <= start or end <= first or _side_by_side(out, other):
        return
    allowed = f" or {other_name} itself" if or_same else ""
    # Two storages may lie on one memory, as those that NumPy or DLPack lent.
    buffer = min(out.untyped_storage().data_ptr(), other.untyped_storage().data_ptr())
    first, last, start, end = (address - buffer for address in (first, last, start, end))
    raise ValueError(
        f"{name} overlaps {other_name} in memory (bytes {first} to {last} and {start} to {end} of one buffer); "
        f"expected memory of its own{allowed}."
    )


def require_own_rows(name: str, out: torch.Tensor) -> None:
    """Rows of a 2D `out` may not share elements: a row stride below the width would write an element twice."""
    rows, columns = out.shape
    if rows > 1 and columns > 0 and abs(out.stride(0)) < columns:
        raise ValueError(
            f"{name} has a row stride of {out.stride(0)} for rows of {columns} elements, so rows share memory; "
            f"expected a row stride of at least {columns}."
        )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The address of the first byte, and of the byte after the last."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    first = tensor.data_ptr()
    return first, first + (reach + 1) * tensor.element_size()


def _side_by_side(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Two matrices with one row stride whose columns never meet."""
    if one.dim() != 2 or other.dim() != 2 or one.stride(0) != other.stride(0) or one.stride(0) <= 0:
        return False
    if one.stride(1) != 1 or other.stride(1) != 1:
        return False
    width, size = one.stride(0), one.element_size()
    away = other.data_ptr() - one.data_ptr()
    if other.element_size() != size or away % size:
        return False
    apart = away // size % width
    return one.shape[1] <= apart and apart + other.shape[1] <= width


def require_power_of_two(name: str, value: object, largest: int) -> None:
    """`value` must be an int, a power of two, from 1 to `largest`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1 or value > largest or value & (value - 1):
        raise ValueError(f"{name} is {value!r}; expected a power of two from 1 to {largest}.")


def require_count(name: str, value: object, largest: int = 2**31 - 1) -> None:
    """`value` must be an int from 1 to `largest`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise ValueError(f"{name} is {value!r}; expected a whole number, at least 1 and at most {largest}.")


def require_programs(name: str, value: torch.Tensor, programs: int) -> None:
    """A launch for `value` must take at most MAX_PROGRAMS programs."""
    if programs > MAX_PROGRAMS:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, which takes {programs} programs; expected at most {MAX_PROGRAMS}."
        )


def require_flag(name: str, value: object) -> None:
    """`value` must be True or False: a word or a number would be taken for one of them."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; expected True or False.")


def require_tile(rows: int | None, columns: int | None) -> None:
    """A tile of so many rows and columns, where both are given, must be one that Triton takes."""
    if rows and columns and rows * columns > MAX_TILE:
        raise ValueError(f"block_m is {rows} for {columns} columns; expected at most {MAX_TILE} elements in a tile.")


def require_extents(name: str, value: torch.Tensor) -> None:
    """Neither the columns of `value` nor all of its rows together may be more than MAX_EXTENT."""
    for extent, what in ((math.prod(value.shape[:-1]), "rows"), (value.shape[-1], "columns")):
        if extent > MAX_EXTENT:
            raise ValueError(f"{name} has {extent} {what}; expected at most {MAX_EXTENT}.")


def settled(value: object) -> object:
    """`value`; a whole number that torch.compile left open is settled: one graph for each, as for a kernel."""
    return int(value) if isinstance(value, torch.SymInt) else value


def number(name: str, value: object) -> float:
    """`value`, which must be an int or a float, as a float: a kernel is compiled for one kind of argument."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}; expected a number.")
    return float(value)


def _either(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
