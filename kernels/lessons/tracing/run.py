"""The run behind `lessons trace`: a CUDA kernel or a Triton operator, on the CPU, on inputs that are made for it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.lessons import registered

if TYPE_CHECKING:
    from kernels.trace import Trace

CUDA_FILES = ("cuda/kernels.cu", "cuda/patterns.cu")
MOST_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Traced:
    """A trace, the kernel's name, its source file below the project, and the shape of the work.

    A Triton trace has threads where the compiler was asked for them.
    """

    trace: Trace
    kernel: str
    source: str
    shape: tuple[int, ...]

    @property
    def who(self) -> str:
        return "program" if self.trace.launches[0].language == "triton" else "block"

    @property
    def files(self) -> str:
        """The files that the numbers of lines are of: the kernel's own, then those of functions that it calls."""
        from kernels.trace.model import shown_path

        others = sorted({shown_path(file) for file, _ in self.trace.sites} - {self.source})
        return ", and of ".join([self.source, *others])

    @property
    def threads(self) -> int:
        """Threads a block or program, 0 where the trace does not show them."""
        return self.trace.launches[0].threads


def trace_kernel(kernel: str, rows: int, columns: int, block_size: int | None = None, lanes: bool = False) -> Traced:
    """Trace a CUDA kernel of `CUDA_FILES` with its own launch, or a Triton operator, on seeded float32 inputs.

    A kernel that takes a vector gets `columns` elements, one that takes a matrix `rows` × `columns`. `block_size` is
    for Triton operators whose launcher takes one. With `lanes` a Triton kernel is compiled as well, for sm_90, and its
    accesses get the threads that the compiler chose.

    Raises:
        KeyError: there is no such kernel or operator; the message lists those there are.
        ValueError: a size is below one or too large, or the kernel takes something that is not made here.
        RuntimeError: Triton kernels are compiled in this process; or the compiler, for `lanes`, is missing or fails.
    """
    for option, number in (("--rows", rows), ("--cols (or --n)", columns)):
        if number < 1:
            raise ValueError(f"{option} is {number}; it must be at least 1.")
    if rows * columns > MOST_ELEMENTS:
        times = f"{rows:,} × {columns:,} = " if rows > 1 else ""
        raise ValueError(
            f"{times}{rows * columns:,} elements are too many; every access is recorded, so {MOST_ELEMENTS:,} are the "
            "most. A small size with the same remainder shows the same."
        )
    launchers = _launchers()
    if kernel in launchers:
        if block_size is not None:
            raise ValueError(f"--block-size is for Triton operators; {kernel} is CUDA, and its source fixes the block.")
        return _trace_cuda(kernel, *launchers[kernel], rows, columns)
    names = _operators()
    if kernel not in names:
        raise KeyError(
            f"there is no kernel {kernel!r} to trace. CUDA kernels: {', '.join(sorted(launchers))}. "
            f"Triton operators: {', '.join(names)}."
        )
    return _trace_triton(kernel, rows, columns, block_size, lanes)


def why_not(kernel: str) -> str:
    """Why this machine cannot trace that kernel, "" where it can. A Triton operator needs no compiler."""
    from kernels.lessons.machine import Machine

    need = "cxx" if kernel in _launchers() else "triton" if kernel in _operators() else "cpu"
    return Machine().ability(need).reason


def _launchers() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Kernel -> (file, the (type, name) of each of its launcher's parameters but the stream)."""
    from kernels.sources import project_root

    found = {}
    for file in CUDA_FILES:
        path = project_root() / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for name, inside in re.findall(r'extern "C" \w+ launch_(\w+)\(([^)]*)\)', text):
            given = [" ".join(part.split()).rpartition(" ") for part in inside.split(",")]
            found[name] = file, [(kind, word) for kind, _, word in given if kind != "cudaStream_t"]
    return found


def _operators() -> list[str]:
    """The Triton operators that the registry names; read and not imported: Triton may be missing, and it is slow."""
    from kernels.sources import project_root

    path = project_root() / "kernels/ops/registry.py"
    return [*registered.names(path.read_text(encoding="utf-8"))] if path.is_file() else []


def _trace_cuda(kernel: str, file: str, parameters: list[tuple[str, str]], rows: int, columns: int) -> Traced:
    from kernels.trace.cuda import trace_cuda_launcher

    generator = np.random.default_rng(0)
    names = {name for _, name in parameters}
    if "n" in names and rows > 1:
        raise ValueError(f"--rows is for kernels that take a matrix; {kernel} takes vectors of --n elements.")
    shape = (columns,) if "n" in names else (rows, columns)
    arrays: dict[str, np.ndarray] = {}
    for kind, name in parameters:
        if kind not in ("const float*", "float*"):
            continue
        written, flipped = kind == "float*", kernel.startswith("transpose")
        its = shape[::-1] if written and flipped else shape
        if len(its) == 2 and f"{name}_stride" not in names:
            its = (rows,)  # one number a row
        values = generator.standard_normal(its, dtype=np.float32)
        arrays[name] = np.full(its, np.nan, np.float32) if written else values
    sizes = {"n": columns, "rows": rows, "columns": columns}
    sizes |= {f"{name}_stride": array.shape[-1] for name, array in arrays.items()}
    unknown = [f"{kind} {name}" for kind, name in parameters if name not in arrays and name not in sizes]
    if unknown:
        raise ValueError(
            f"launch_{kernel} takes {', '.join(unknown)}, which this command cannot make up; trace it from Python with "
            "kernels.trace.cuda.trace_cuda_launcher."
        )
    arguments = [arrays[name] if name in arrays else sizes[name] for _, name in parameters]
    trace = trace_cuda_launcher(f"launch_{kernel}", arguments, source=file)
    if not trace.launches:
        raise ValueError(f"launch_{kernel} refused {rows} rows of {columns} columns (error {trace.result}).")
    return Traced(trace, kernel, file, shape)


def _trace_triton(name: str, rows: int, columns: int, block_size: int | None, lanes: bool) -> Traced:
    import importlib
    import inspect

    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton decides when it is imported
    import torch

    from kernels.ops.registry import get
    from kernels.trace.triton import trace_triton

    operator, module = get(name), importlib.import_module(f"kernels.ops.{name}")
    shape = (columns,) if rows == 1 else (rows, columns)
    made = operator.inputs(shape, "float32" if "float32" in operator.dtypes else operator.dtypes[0], "cpu", 0)
    # Contiguous, for else some operators copy what they are given, and the copy is what the kernel reads.
    inputs = [value.contiguous() if isinstance(value, torch.Tensor) else value for value in made]
    call = operator.implementation("triton").call
    buffers = dict(zip(inspect.signature(call).parameters, inputs, strict=False))
    if block_size is None:
        trace = trace_triton(lambda: call(*inputs), buffers)
    else:
        launch = getattr(module, f"launch_{name}", None)
        if launch is None or "block_size" not in inspect.signature(launch).parameters:
            raise ValueError(f"--block-size: {name} chooses its block from the shape, and takes none.")
        out = torch.full(shape, float("nan"))
        trace = trace_triton(lambda: launch(*buffers.values(), out, block_size=block_size), buffers | {"out": out})
    if lanes and trace.launches:
        from kernels.trace.lanes import with_lanes

        trace = with_lanes(trace)
    if not trace.launches:
        raise ValueError(f"{name} launches nothing for the shape {shape}.")
    return Traced(trace, name, f"kernels/ops/{name}.py", shape)
