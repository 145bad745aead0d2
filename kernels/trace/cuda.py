"""Traces the CUDA kernels of `cuda/*.cu` on the CPU: which thread read, wrote and updated which element, at which line.

The source itself is compiled for the host (see `cuda/host/`), one fiber a thread, and every access is recorded before
it is made. `trace_cuda` launches a kernel with a grid and block of your choice; `trace_cuda_launcher` calls the host
function that launches it, so that the launch configuration, too, comes from the source.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kernels.sources.closure import project_root
from kernels.trace import cuda_build, cuda_library
from kernels.trace.cuda_build import CompileFailed, HostCompilerMissing, Unavailable, why_not
from kernels.trace.cuda_memory import pack
from kernels.trace.cuda_result import CudaTrace, assemble
from kernels.trace.cuda_translate import Function, NotForHost, Translation, local_headers, translate

__all__ = [
    "CompileFailed",
    "CudaTrace",
    "HostCompilerMissing",
    "NotForHost",
    "Unavailable",
    "trace_cuda",
    "trace_cuda_launcher",
    "why_not",
]

Grid = int | Sequence[int]
one_at_a_time = threading.RLock()  # libraries keep their state in globals


def trace_cuda(
    kernel: str,
    *,
    grid: Grid,
    block: Grid,
    args: Sequence[object],
    source: str | Path = "cuda/kernels.cu",
    shared_bytes: int = 0,
    replace: Mapping[str, str] | None = None,
    max_events: int = 8_000_000,
    max_seconds: float = 10.0,
    order: str = "forward",
) -> CudaTrace:
    """Launch one kernel and record every access of its threads.

    Args:
        kernel: its name, with template arguments where it has some: `"transpose<32>"`.
        grid: one to three numbers of blocks, x first.
        block: one to three numbers of threads, x first.
        args: in the order of the kernel's parameters: numpy arrays for pointers, numbers for numbers. Arrays that the
            kernel may write are updated in place, as device memory would be.
        source: the .cu file that the kernel stands in: a path below the project's folder, or an absolute one.
        shared_bytes: the launch's dynamic shared memory.
        replace: text to exchange in the source first, for variants: `{"kThreads = 256": "kThreads = 128"}`.
        max_events: where to stop a kernel that does not end.
        max_seconds: likewise, in seconds of the CPU.
        order: "forward" runs blocks, warps and lanes in ascending order, "backward" in descending: a result that
            differs depends on an order that nothing fixes.

    Raises CompileFailed, NotForHost, HostCompilerMissing or Unavailable, and TypeError or ValueError where an argument
    does not fit its parameter. What the kernel does wrong is not raised: see `faults()`.
    """
    if isinstance(shared_bytes, bool) or not isinstance(shared_bytes, (int, np.integer)):
        raise TypeError(f"shared_bytes is {shared_bytes!r}; it is a number of bytes, an integer")
    if not 0 <= shared_bytes < 2**63:
        raise ValueError(f"shared_bytes is {shared_bytes}; a launch has 0 bytes of dynamic shared memory or more")
    shape = (_three("grid", grid), _three("block", block), int(shared_bytes))
    return _trace(kernel, True, shape, args, source, replace, max_events, max_seconds, order)


def trace_cuda_launcher(
    launcher: str,
    args: Sequence[object],
    *,
    source: str | Path = "cuda/kernels.cu",
    replace: Mapping[str, str] | None = None,
    max_events: int = 8_000_000,
    max_seconds: float = 10.0,
    order: str = "forward",
) -> CudaTrace:
    """Call a host function of the source, such as `launch_vector_add`, and record what its launches do.

    `trace.launches[0].grid` and `.block` are what the source chose; `trace.result` is what the function returned. A
    stream at the end of the parameters may be left out. The rest is as for `trace_cuda`.
    """
    return _trace(launcher, False, None, args, source, replace, max_events, max_seconds, order)


def _three(name: str, value: Grid) -> tuple[int, int, int]:
    what = f"{name} is {value!r}; it takes one to three integers, x first"
    numbers = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else (value,)
    if any(isinstance(number, bool) or not isinstance(number, (int, np.integer)) for number in numbers):
        raise TypeError(what)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(what)
    if any(not 0 <= number < 2**32 for number in numbers):
        raise ValueError(f"{name} is {value!r}; none of its numbers may be negative, or 2**32 and more")
    return tuple(int(number) for number in (*numbers, 1, 1)[:3])  # type: ignore[return-value]


def _read(source: str | Path, replace: Mapping[str, str] | None) -> tuple[str, str, Path]:
    """The text with replacements made, its name in messages, and its path."""
    path = Path(source)
    if not path.is_absolute():
        path = project_root() / path
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no CUDA source {path}; source is a path below the project's folder, or an absolute one"
        )
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    shown = path.relative_to(project_root()).as_posix() if path.is_relative_to(project_root()) else path.name
    for old, new in (replace or {}).items():
        if old not in text:
            raise ValueError(f"{shown} does not contain {old!r}, so there is nothing to replace")
        text = text.replace(old, new)
    return text, shown, path


def load_kernels(
    name: str, kernel: bool, source: str | Path, replace: Mapping[str, str] | None, traced: bool = True
) -> tuple[cuda_library.Library, Translation, int, Path]:
    text, shown, path = _read(source, replace)
    translation = translate(text, shown, name, local_headers(text, path.parent))
    names = [function.name for function in translation.functions if function.kernel == kernel]
    qualified, bracket, arguments = name.partition("<")
    wanted = qualified.rsplit("::", 1)[-1] + bracket + arguments
    number = next((i for i, f in enumerate(translation.functions) if f.name == wanted and f.kernel == kernel), None)
    if number is None:
        what = "kernel" if kernel else "launcher"
        raise KeyError(
            f"{shown} has no {what} {name!r} that can be called from outside; it has: {', '.join(names) or 'none'}"
        )
    library = cuda_build.build(translation.text, shown, path.parent, traced, translation.headers)
    return cuda_library.load(library, shown), translation, number, path


def _trace(
    name: str,
    kernel: bool,
    shape: tuple[tuple[int, int, int], tuple[int, int, int], int] | None,
    args: Sequence[object],
    source: str | Path,
    replace: Mapping[str, str] | None,
    max_events: int,
    max_seconds: float,
    order: str,
) -> CudaTrace:
    if order not in ("forward", "backward"):
        raise ValueError(f'order is {order!r}; use "forward" or "backward"')
    if isinstance(max_events, bool) or not isinstance(max_events, (int, np.integer)) or not 0 < max_events < 2**40:
        raise ValueError(f"max_events is {max_events!r}; it is a positive integer, the accesses to make room for")
    if not isinstance(max_seconds, (int, float)) or not 0 < max_seconds < float("inf"):
        raise ValueError(f"max_seconds is {max_seconds!r}; it is a positive number of CPU seconds")
    with one_at_a_time:
        library, translation, number, path = load_kernels(name, kernel, source, replace)
        function: Function = translation.functions[number]
        signature = library.signature(number)
        table, buffers, kept = pack(name, function.parameters, signature, args)
        calls = library.calls
        if not calls.kh_begin(max_events, 1, max_seconds):
            raise MemoryError(f"there is no room for max_events={max_events} of up to 40 bytes each")
        calls.kh_reset_launches(int(order == "backward"))
        calls.kh_lane_faults(ctypes.byref(ctypes.c_void_p()), 1)
        try:
            regions = regions_of(library, translation, buffers)
            if kernel:
                grid, block = ((ctypes.c_uint * 3)(*numbers) for numbers in shape[:2])
                getattr(calls, f"kh_kernel_{number}")(table, grid, block, ctypes.c_size_t(shape[2]))
                result = calls.kh_last_error()
            else:
                run = getattr(calls, f"kh_host_{number}")
                run.restype = ctypes.c_longlong
                result = run(table)
            for buffer in buffers:
                buffer.copy_out()
            outputs = [b.name for b in buffers if b.writable]
            return assemble(library, translation, function, regions, outputs, str(path), int(result))
        finally:
            calls.kh_free_allocations()
            calls.kh_free_stacks()
            calls.kh_forget_events()
            del kept


def regions_of(library: cuda_library.Library, translation: Translation, buffers: list) -> list:
    """Tells the library what memory kernels may touch, in the order of the numbers that events will carry."""
    from kernels.trace.cuda_memory import GUARD_BYTES
    from kernels.trace.cuda_result import Region

    regions = []
    for buffer in buffers:
        library.calls.kh_region(buffer.start, buffer.span, GUARD_BYTES, 0, 0)
        regions.append(Region(buffer.name, "global", buffer.span, buffer=buffer))
    home = library.thread_block
    for symbol in library.symbols:
        name = symbol.name
        if symbol.mangled.startswith("_ZGV"):  # the compiler's own note that an object of a class was constructed
            if symbol.thread_local:
                library.calls.kh_region(home + symbol.value, symbol.size, 0, 0, 0)
                regions.append(Region(name, "guard", symbol.size))
        elif symbol.thread_local and symbol.mangled != "kh_anchor":  # kernels have no other thread-local variables
            dynamic = any(array.dynamic for array in translation.shared.get(name, ()))
            owner = symbol.components[-2] if len(symbol.components) > 1 else ""
            library.calls.kh_region(home + symbol.value, symbol.size, 0, 1, int(dynamic))
            regions.append(Region(name, "shared", symbol.size, owner=owner, address=symbol.value, dynamic=dynamic))
        elif not symbol.thread_local and name in translation.tables:
            library.calls.kh_region(library.base + symbol.value, symbol.size, 0, 0, 0)
            space = "constant" if translation.tables[name] == "__constant__" else "global"
            regions.append(Region(name, space, symbol.size))
    return regions
