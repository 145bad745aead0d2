"""Finds out what an operator launches for a shape, with no GPU, in a process of its own: JSON on stdin and stdout.

The operator runs on tensors that have a shape, strides and a device, but no memory (PyTorch's fake tensors), and what
would go to the GPU is noted instead. Nothing of the operator is written down a second time: its own plan decides, from
the shape, the dtype and the number of multiprocessors. Started by `kernels.inspect.launches`, without TRITON_INTERPRET.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

from kernels.inspect.facts import InspectionFailed
from kernels.inspect.triton_worker import answer_requests

_POINTERS = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "i1",
}


class Recorder:
    """Stands where Triton launches, and notes kernel, grid, arguments and warps."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []

    def note(self, kernel: Any, grid: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> None:
        while not hasattr(kernel, "params"):
            kernel = kernel.fn
        names = [parameter.name for parameter in kernel.params]
        defaults = (("num_warps", 4), ("num_stages", 3), ("maxnreg", None))
        options = {name: keywords.get(name, default) for name, default in defaults}
        given = dict(zip(names, arguments)) | {name: value for name, value in keywords.items() if name in names}
        if callable(grid):
            grid = grid(given)
        self.launches.append(
            {
                "kernel": f"{kernel.fn.__module__}:{kernel.fn.__name__}",
                "signature": {name: _described(kernel, name, value) for name, value in given.items()},
                "grid": [int(size) for size in (*grid, 1, 1)[:3]],
                **options,
            }
        )


def _described(kernel: Any, name: str, value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        kind = _POINTERS.get(str(value.dtype).removeprefix("torch."))
        if kind is None:
            raise InspectionFailed(
                f"{kernel.fn.__name__} takes {name}, a tensor of {value.dtype}: no type for it here."
            )
        return f"*{kind}" if value.storage_offset() * value.element_size() % 16 == 0 else f"*{kind}:1"
    if type(value).__name__ == "TensorDescriptor":
        kind = f"{_POINTERS[str(value.base.dtype).removeprefix('torch.')]}{list(value.block_shape)}"
        return f"tensordesc<{kind},{value.layout!r}>" if hasattr(value, "layout") else f"tensordesc<{kind}>"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "value"):  # a constexpr
        return value.value
    raise InspectionFailed(f"{kernel.fn.__name__} takes {name} = {value!r}, which no signature can say.")


@functools.cache
def stand_ins() -> tuple[Recorder, types.SimpleNamespace]:
    """Puts a recorder where launches go, and a card that can be changed where one is asked for; once for the process.

    Operators import what they call by name, so it has to stand there before the first of them is imported.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from triton.runtime.jit import JITFunction

    from kernels.ops import checks, library

    recorder, card = Recorder(), types.SimpleNamespace(name="none", multi_processor_count=0, major=0, minor=0)
    torch.cuda.get_device_properties = lambda *_: card
    torch.cuda.get_device_capability = lambda *_: (card.major, card.minor)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_of = torch.cuda.device = lambda *_: contextlib.nullcontext()
    # Fake tensors all say that they lie at address 0: whether two overlap cannot be asked of them.
    checks.require_apart = lambda *_, **__: None
    # Inputs that are another operator's results come from its launcher, on tensors that say they are on a CPU.
    checks.require_runnable = checks.require_memory = lambda *_: None
    library.direct = lambda *_: True
    library.PLAIN_TYPES = (*library.PLAIN_TYPES, FakeTensor)  # elsewhere they mean that somebody traces
    library.wrap_triton = lambda kernel: kernel
    library.launch = lambda kernel, grid, arguments, **constants: recorder.note(kernel, grid, arguments, constants)
    JITFunction.run = lambda self, *arguments, grid, warmup=False, **keywords: recorder.note(
        self, grid, arguments, keywords
    )
    return recorder, card


def fake_inputs(op: Any, shape: tuple[int, ...], dtype: str) -> tuple[Any, ...]:
    """The operator's own inputs of that shape, as tensors without memory that say they are on a GPU."""
    import torch

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cuda:0")

    return tuple(fake(value) for value in op.inputs(shape, dtype, "cpu", seed=0, padding=0))


def launches_of(request: dict[str, Any]) -> dict[str, Any]:
    """The launches of one request, in their order. Raises InspectionFailed with a sentence."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    recorder, card = stand_ins()
    from kernels.ops import matmul_launch, row_plan, unmeasured

    recorder.launches = []
    card.name, card.multi_processor_count = f"sm_{request['arch']}", request["sm_count"]
    card.major, card.minor = divmod(request["arch"], 10)
    row_plan.sm_count.cache_clear()
    matmul_launch._may_describe.cache_clear()
    matmul_launch._may_ring.cache_clear()
    shape = tuple(request["shape"])
    try:
        op = unmeasured.find(request["op"])
        implementation = op.implementation("triton")
    except KeyError as error:
        raise InspectionFailed(error.args[0]) from None
    if request["dtype"] not in op.dtypes:
        raise InspectionFailed(f"{op.name} does not take {request['dtype']!r}; it takes {', '.join(op.dtypes)}.")
    try:
        with FakeTensorMode(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about addresses of fake tensors
            given = fake_inputs(op, shape, request["dtype"])
            recorder.launches = []  # what made the inputs is not the operator's
            implementation.call(*given)
    except InspectionFailed:
        raise
    except Exception as error:
        size = "x".join(map(str, shape)) or "scalar"
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise InspectionFailed(
            f"What {op.name} launches for {request['dtype']} {size} could not be found out: "
            f"{type(error).__name__}: {first}"
        ) from error
    return {"launches": recorder.launches}


if __name__ == "__main__":
    sys.exit(answer_requests(launches_of))
