"""The timer's device, for an NVIDIA GPU through PyTorch: graphs, events, and errors that arrive late."""

import ctypes
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kernels.bench.timer import DeviceFailure, Mode

_NODE_KINDS = {0: "kernel", 1: "memcpy", 2: "memset"}


def gpu_missing() -> str | None:
    """None where PyTorch sees a GPU; otherwise a sentence that says what is missing."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed here."
    if not torch.cuda.is_available():
        return "PyTorch sees no NVIDIA GPU here."
    return None


class _Graph:
    def __init__(self, graph: Any, outputs: object, nodes: dict[str, int] | None) -> None:
        self.graph, self.outputs, self.nodes = graph, outputs, nodes

    def run(self) -> None:
        self.graph.replay()


class _Dispatch:
    nodes = None

    def __init__(self, calls: Sequence[Callable[[], object]], keep: int) -> None:
        self.calls, self.keep = calls, keep

    def run(self) -> None:
        alive: deque[object] = deque(maxlen=self.keep)
        for call in self.calls:
            alive.append(call())


class CudaDevice:
    """The current CUDA device. Use one per process: an error on the device voids the whole context."""

    where = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.name = properties.name
        self.l2_bytes = int(properties.L2_cache_size)
        self.sm_count = int(properties.multi_processor_count)
        self.memory_bytes = int(properties.total_memory)

    def record(self, calls: Sequence[Callable[[], object]], mode: Mode, keep: int) -> Any:
        if mode == "events":
            return _Dispatch(calls, keep)
        torch = self._torch
        self.synchronize()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        alive: deque[object] = deque(maxlen=keep)
        with self._failures(), torch.cuda.graph(graph):
            for call in calls:
                alive.append(call())
        nodes = _count_nodes(graph.raw_cuda_graph())
        with self._failures():
            graph.instantiate()
        return _Graph(graph, alive, nodes)

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_us(self, start: Any, end: Any) -> float:
        return start.elapsed_time(end) * 1e3

    def synchronize(self) -> None:
        with self._failures():
            self._torch.cuda.synchronize()

    def host_us(self) -> float:
        return time.perf_counter_ns() / 1e3

    def usable(self) -> bool:
        """Whether the context still works after an error."""
        try:
            self.synchronize()
        except DeviceFailure:
            return False
        return True

    def rotated(self, inputs: tuple[object, ...], sets: int) -> list[tuple[object, ...]]:
        """The inputs and `sets - 1` copies of them at other addresses, with the same strides."""
        torch = self._torch

        def copy(value: object) -> object:
            if not isinstance(value, torch.Tensor):
                return value
            made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
            return made.copy_(value)

        return [inputs, *(tuple(copy(value) for value in inputs) for _ in range(sets - 1))]

    def warm_clocks(self, seconds: float = 0.5) -> None:
        """Load memory and multiprocessors until the clocks have left their idle state."""
        torch = self._torch
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(20):
                a @ b
            self.synchronize()

    def _failures(self) -> "_Failures":
        return _Failures(self._torch)


class _Failures:
    """Turns PyTorch's CUDA errors into DeviceFailure."""

    def __init__(self, torch: Any) -> None:
        self.kinds = (getattr(torch, "AcceleratorError", RuntimeError), torch.cuda.CudaError)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, DeviceFailure):
            return
        if isinstance(error, self.kinds) or (isinstance(error, RuntimeError) and "CUDA error" in str(error)):
            first_line = str(error).strip().splitlines()[0]
            raise DeviceFailure(f"The device reported an error after a launch had returned: {first_line}") from error


def _count_nodes(graph: int) -> dict[str, int] | None:
    """Kinds of node in a captured graph, counted by the driver; None where the driver's library cannot be asked."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_size_t(0)
        if driver.cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count)) != 0:
            return None
        nodes = (ctypes.c_void_p * count.value)()
        if driver.cuGraphGetNodes(ctypes.c_void_p(graph), nodes, ctypes.byref(count)) != 0:
            return None
        found: dict[str, int] = {}
        for node in nodes:
            kind = ctypes.c_int(-1)
            if driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) != 0:
                return None
            name = _NODE_KINDS.get(kind.value, "other")
            found[name] = found.get(name, 0) + 1
        return found
    except (OSError, AttributeError):
        return None
