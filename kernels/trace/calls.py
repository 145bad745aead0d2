"""How a Triton kernel was launched, in words that a compiler in another process understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.sources import project_root
from kernels.trace.page_kernels import as_python

_TYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """How a kernel was launched, in the words of `kernels.inspect.TritonRequest`; `unsaid` tells what has none.

    A kernel that is written on a page has the page's path as `page`, and as `text` a Python file that holds it.
    """

    kernel: str
    signature: dict[str, str | int | float | bool | None]
    num_warps: int = 4
    num_stages: int = 3
    unsaid: str = ""
    page: str = ""
    text: str = field(default="", repr=False)


def describe(function: Any, names: Sequence[str], constants: Sequence[str], given: Mapping[str, Any]) -> Call:
    """A launch as a request for the compiler: which kernel, and the type or value of each argument."""
    file, name = Path(function.__code__.co_filename), function.__name__
    inside = file.resolve().is_relative_to(project_root())
    place = file.resolve().relative_to(project_root()).as_posix() if inside else str(file)
    if place.startswith("kernels/"):
        place = place.removesuffix(".py").replace("/", ".")
    signature: dict[str, Any] = {}
    unsaid = text = ""
    if file.suffix != ".py" or not file.exists():
        try:
            text = as_python(function)
        except ValueError as reason:
            unsaid = f"{name} of {file.name} cannot be compiled for its lanes: {reason}"
    for parameter in names:
        if parameter in given:
            said = _said(given[parameter], parameter in constants)
            if said is ...:
                kind = type(given[parameter]).__name__
                unsaid = (
                    f"{parameter} of {name} is a {kind}, which cannot be handed to the process that compiles; "
                    "a trace with lanes takes tensors, descriptors, numbers, booleans, strings and None."
                )
            else:
                signature[parameter] = said
    if (given.get("num_ctas") or 1) != 1:
        unsaid = f"{name} is launched with num_ctas={given['num_ctas']}; lanes are known for one block a program only."
    warps, stages = (given.get(key) or default for key, default in (("num_warps", 4), ("num_stages", 3)))
    if text or unsaid:
        return Call(name, signature, warps, stages, unsaid, str(file), text)
    return Call(f"{place}:{name}", signature, warps, stages)


def _said(value: Any, constant: bool) -> Any:
    """An argument as `TritonRequest` says it, or `...` where it has no word for it."""
    value = getattr(value, "value", value) if constant else value
    if type(value) is int and not constant and value != 1:  # all that a launch compiles for, so that more are alike
        kind = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        return kind + (":16" if value % 16 == 0 else "")
    if value is None or isinstance(value, (bool, int, float)) or (constant and isinstance(value, str)):
        return value
    if type(value).__name__ == "TensorDescriptor":
        kind = _TYPES.get(str(value.base.dtype).removeprefix("torch."))
        return f"tensordesc<{kind}[{', '.join(map(str, value.block_shape))}]>" if kind else ...
    if hasattr(value, "data_ptr"):
        kind = _TYPES.get(str(value.dtype).removeprefix("torch."))
        tensor = getattr(value, "base", value)  # a reinterpreted tensor has a base
        # A GPU's allocations are aligned; what may not be is a view's first element.
        aligned = tensor.storage_offset() * tensor.element_size() % 16 == 0
        return f"*{kind}{'' if aligned else ':1'}" if kind else ...
    return ...
