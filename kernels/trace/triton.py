"""Traces a Triton kernel under Triton's interpreter: the kernel itself runs, and every load, store and atomic is noted.

Every tensor that a kernel receives gets an address range of its own, far from all others, in place of its real
address. So an element past the end of one tensor is never mistaken for an element of its neighbour in memory. Just
before the interpreter touches memory, addresses inside a buffer are translated back; elements outside are noted and
left alone: a load yields its `other` value there (0 without one), a store does nothing. A forgotten mask gives a
verdict, not a crash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.trace.calls import Call, describe
from kernels.trace.model import WRITE, Buffer, Launch, Recorder, Trace, shown_path
from kernels.trace.triton_memory import ORIGIN, SPACING, Memory

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TritonTrace(Trace):
    """A trace of Triton programs; everything of `Trace`, and:

    `clashes` lists elements to which one store of one program wrote different values: (launch, block, buffer, element,
    site), each as a number. `semantics` gives the memory order of each atomic by its sequence, `compares` the sequences
    of compare-and-swaps. Row i is element `positions[i]`, counted in C order, of a tensor of pointers whose shape is
    `tensor_shapes[shapes[i]]`. `calls` says how each launch was made.
    """

    clashes: tuple[tuple[int, int, int, int, int], ...] = ()
    semantics: dict[int, str] = field(default_factory=dict, repr=False)
    compares: frozenset[int] = frozenset()
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    shapes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    tensor_shapes: tuple[tuple[int, ...], ...] = ()
    calls: tuple[Call, ...] = ()

    def faults(self, outputs: Sequence[str] | None = None) -> list:
        """Verdicts as of every trace; a store whose lanes write different values to one element is a double write.

        What one program did before an atomic is ordered before what another does after an atomic on the same element.

        Lanes that store equal values to one element are no fault: the result is the same whichever comes last.
        """
        from kernels.trace.faults import faults
        from kernels.trace.order import ProgramOrder

        found = faults(self, outputs, ProgramOrder(self.columns, self.semantics, self.compares))
        first = sum(fault.kind == "out-of-bounds" for fault in found)
        return found[:first] + self._stores_that_clash() + found[first:]

    def _stores_that_clash(self) -> list:
        from kernels.trace.faults import Fault, spans

        groups: dict[tuple[int, int], list[tuple[int, int, int, int, int]]] = {}
        for clash in self.clashes:
            groups.setdefault((clash[0], clash[2]), []).append(clash)
        found = []
        for (launch, number), clashes in groups.items():
            _, block, _, element, site = clashes[0]
            buffer, (file, line) = self.buffers[number], self.sites[site]
            elements = {clash[3] for clash in clashes}
            who, text = self.launches[launch].who(block), buffer.text(element)
            more = f" The same happens to {len(elements)} elements in all ({spans(list(elements))})."
            cause = "lanes share an offset: a division or a remainder in it, or a stride that is too small"
            sentence = (
                f"{text} is written twice by one store of {who}, with different values, and which one stays "
                f"is not defined. Line: {shown_path(file)}:{line}.{more if len(elements) > 1 else ''} "
                f"Likely cause: {cause}."
            )
            masked, count = self.masks.get((site, WRITE)), len(elements)
            fault = Fault("double-write", sentence, buffer.name, element, who, file, line, count, cause, "on", masked)
            found.append(fault)
        return found


def trace_triton(launch: Callable[[], object], buffers: dict[str, Tensor]) -> TritonTrace:
    """Runs `launch()` and returns what the Triton kernels in it touched; each kernel launch is one of `trace.launches`.

    `buffers` names tensors, any shape, strides and dtype, on the CPU or on a GPU (the interpreter copies those).
    Elements are counted in a tensor's items from its first one. A tensor that a kernel receives and that is not named
    is called after the kernel's parameter, without `_ptr`. PyTorch's own work in `launch` is not seen.

    `kernels.trace.lanes.with_lanes(trace)` gives the rows the warps and lanes that the compiler chooses for them.

    Raises RuntimeError where Triton's interpreter is off, TypeError where a buffer is no tensor, and whatever `launch`
    raises; the interpreter is left as it was in every case.
    """
    if not _interpreting():
        raise RuntimeError(
            "Triton kernels are compiled in this process, so their accesses cannot be seen. Start Python with the "
            "environment variable TRITON_INTERPRET=1: Triton reads it when a kernel is defined."
        )
    _check(launch, buffers)
    session = Session(buffers)
    with session.hooked():
        launch()
    return session.trace()


def _check(launch: object, buffers: object) -> None:
    from torch import Tensor

    if not callable(launch):
        raise TypeError(
            f"launch is a {type(launch).__name__}; it is a function without arguments that launches kernels"
        )
    if not isinstance(buffers, Mapping):
        raise TypeError(
            f'buffers is a {type(buffers).__name__}; it is a dict that names tensors: {{"x": x, "out": out}}'
        )
    for name, given in buffers.items():
        if not isinstance(name, str):
            raise TypeError(f"buffer name {name!r} is not a string")
        if isinstance(given, np.ndarray):
            raise TypeError(
                f"buffer {name!r} is a numpy array, which Triton does not take; pass torch.from_numpy(...) of it, "
                "to the launch as well"
            )
        if not isinstance(given, Tensor):
            raise TypeError(
                f"buffer {name!r} is a {type(given).__name__}; it is a torch tensor that the launch works on"
            )


def _interpreting() -> bool:
    from triton import knobs

    chosen = getattr(getattr(knobs, "runtime", None), "interpret", None)
    if chosen is None:
        return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes")
    return bool(chosen)


@dataclass
class _Region:
    """A tensor's address range: `real` is where the tensor's first item lies in host memory during this launch."""

    number: int
    device_pointer: int
    virtual: int
    real: int
    buffer: Buffer

    @property
    def byte_size(self) -> int:
        return max(1, self.buffer.extent * self.buffer.itemsize)


class Session:
    """One trace being taken."""

    def __init__(self, buffers: dict[str, Tensor]) -> None:
        self.recorder = Recorder()
        self.regions: list[_Region] = []
        self.alive: list[object] = list(buffers.values())  # a freed tensor's address could be given to another one
        self.host: dict[int, tuple[_Region, int]] = {}
        self.launch = -1
        self.nowhere = -1
        self.clashes: list[tuple[int, int, int, int, int]] = []
        self.masks: dict[tuple[int, int], bool] = {}
        self.semantics: dict[int, str] = {}
        self.compares: set[int] = set()
        self.positions: list[np.ndarray] = []
        self.shapes: list[np.ndarray] = []
        self.tensor_shapes: dict[tuple[int, ...], int] = {}
        self.calls: list[Call] = []
        for name, tensor in buffers.items():
            self._add_region(name, tensor)

    def trace(self) -> TritonTrace:
        trace = self.recorder.trace()
        positions, shapes = (np.concatenate([np.empty(0, np.int64), *part]) for part in (self.positions, self.shapes))
        return TritonTrace(
            trace.launches,
            trace.buffers,
            trace.sites,
            trace.columns,
            tuple(self.clashes),
            self.semantics,
            frozenset(self.compares),
            positions,
            shapes,
            tuple(self.tensor_shapes),
            tuple(self.calls),
            masks=self.masks,
        )

    def note_position(self, keep: np.ndarray, shape: tuple[int, ...]) -> None:
        """Notes where the rows just added stand in their tensor of pointers."""
        at = np.flatnonzero(keep)
        self.positions.append(at)
        self.shapes.append(np.full(len(at), self.tensor_shapes.setdefault(shape, len(self.tensor_shapes))))

    def _add_region(self, name: str, tensor: Tensor) -> _Region:
        taken = {buffer.name for buffer in self.recorder.buffers}
        unique, copy = name, 2
        while unique in taken:
            unique, copy = f"{name}_{copy}", copy + 1
        buffer = Buffer(
            unique,
            tensor.element_size(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.storage_offset() * tensor.element_size(),
            "global",
            str(tensor.dtype).removeprefix("torch."),
        )
        number, pointer = self.recorder.buffer(buffer), tensor.data_ptr()
        # The low bits stay, because the interpreter checks the alignment of descriptors.
        virtual = ORIGIN + len(self.regions) * SPACING + SPACING // 2 + pointer % 4096
        region = _Region(number, pointer, virtual, pointer, buffer)
        self.regions.append(region)
        return region

    def receive(self, name: str, given: Any, host: Any) -> None:
        """Notes a kernel argument: the tensor as it was given, and the interpreter's copy of it on the host."""
        if isinstance(given, tuple):
            for i, (part, copy) in enumerate(zip(given, host, strict=True)):
                self.receive(f"{name}_{i}", part, copy)
            return
        if type(given).__name__ == "TensorDescriptor":
            given, host = given.base, host.base
        if not hasattr(given, "data_ptr"):
            return
        tensor, copy = getattr(given, "base", given), getattr(host, "base", host)  # a reinterpreted tensor has a base
        self.alive += [tensor, copy]
        region = self._region_of(tensor) or self._add_region(name.removesuffix("_ptr"), tensor)
        offset = tensor.data_ptr() - region.device_pointer
        region.real = copy.data_ptr() - offset
        self.host[copy.data_ptr()] = (region, offset)

    def _region_of(self, tensor: Tensor) -> _Region | None:
        pointer = tensor.data_ptr()
        same = [region for region in self.regions if region.device_pointer == pointer]
        within = [r for r in self.regions if r.device_pointer <= pointer < r.device_pointer + r.byte_size]
        return next(iter(same + within), None)

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """The interpreter with our eyes in it; restored on the way out, whatever happens."""
        from triton.runtime import interpreter

        if isinstance(interpreter._interpreter, Memory):
            raise RuntimeError("a trace is being taken already; a traced launch cannot start another trace")
        executor, convert = interpreter.GridExecutor, interpreter._implicit_cvt
        memory, run, to_host = interpreter._interpreter, executor.__call__, executor._init_args_hst

        def traced_run(this: Any, *args: Any, **kwargs: Any) -> Any:
            code = this.fn.__code__
            before, builder = self.launch, interpreter.interpreter_builder
            name, file, line = this.fn.__name__, code.co_filename, code.co_firstlineno
            given = dict(zip(this.arg_names, args, strict=False)) | kwargs
            self.calls.append(describe(this.fn, this.arg_names, this.constexprs, given))
            number = self.launch = self.recorder.launch(Launch(name, (0, 0, 0), None, "triton", file, line))
            builder.grid_dim = (0, 0, 0)
            try:
                return run(this, *args, **kwargs)
            finally:
                grid = tuple(int(size) for size in builder.grid_dim)
                self.recorder.launches[number] = Launch(name, grid, None, "triton", file, line)
                self.launch = before

        def traced_to_host(this: Any, args: Any, kwargs: Any) -> Any:
            host_args, host_kwargs = to_host(this, args, kwargs)
            for name, given, host in zip(this.arg_names, args, host_args, strict=False):
                self.receive(name, given, host)
            for name, given in kwargs.items():
                self.receive(name, given, host_kwargs[name])
            return host_args, host_kwargs

        def traced_convert(arg: Any) -> Any:
            converted = convert(arg)
            if hasattr(arg, "data_ptr") and arg.data_ptr() in self.host:
                region, offset = self.host[arg.data_ptr()]
                converted.handle.data = np.array([region.virtual + offset], np.uint64)
            return converted

        try:
            interpreter._interpreter = Memory(memory, self, interpreter.interpreter_builder)
            interpreter._implicit_cvt = traced_convert
            executor.__call__, executor._init_args_hst = traced_run, traced_to_host
            yield
        finally:
            executor.__call__, executor._init_args_hst = run, to_host
            interpreter._implicit_cvt, interpreter._interpreter = convert, memory
