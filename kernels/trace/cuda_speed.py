"""What tracing a CUDA kernel on the CPU costs: recording, the trace and the verdicts, beside the kernel alone."""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.trace import cuda
from kernels.trace.cuda_memory import pack
from kernels.trace.cuda_result import CudaTrace, assemble

_MAX_SECONDS = 600.0
_FIBERS = """\
__global__ void nothing(int rounds) {}
__global__ void barriers(int rounds) {
    for (int i = 0; i < rounds; ++i) __syncthreads();
}
__global__ void shuffles(int rounds) {
    for (int i = 0; i < rounds; ++i) __shfl_xor_sync(0xffffffffu, i, 16);
}
extern "C" int launch_nothing(int blocks, int rounds) { nothing<<<blocks, 256>>>(rounds); return 0; }
extern "C" int launch_barriers(int blocks, int rounds) { barriers<<<blocks, 256>>>(rounds); return 0; }
extern "C" int launch_shuffles(int blocks, int rounds) { shuffles<<<blocks, 256>>>(rounds); return 0; }
"""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one launch on one core, the smallest of several runs.

    `accesses` are rows of the trace, a `float4` being one; `events` also counts barriers, shuffles and fences.
    `recorded_s`: the kernel runs and all is written down. `traced_s`: that, and the `Trace` is made. `judged_s`: that,
    and `faults()`. `silent_s`: the same code runs and nothing is written down. `plain_s`: compiled with -O2 and without
    the calls that record.
    """

    case: str
    accesses: int
    events: int
    recorded_s: float
    traced_s: float
    judged_s: float
    silent_s: float
    plain_s: float

    @property
    def recorded_per_s(self) -> float:
        return self.accesses / self.recorded_s

    @property
    def traced_per_s(self) -> float:
        return self.accesses / self.traced_s

    @property
    def judged_per_s(self) -> float:
        return self.accesses / self.judged_s

    @property
    def ns_per_access(self) -> float:
        """What an access costs more, as a row of a trace, than in the kernel that nobody records."""
        return (self.traced_s - self.plain_s) / self.accesses * 1e9


def cost(
    case: str,
    launcher: str,
    args: Sequence[object],
    *,
    source: str | Path = "cuda/kernels.cu",
    repeat: int = 5,
    max_events: int = 40_000_000,
) -> Cost:
    """Measure one call of a launcher. `args` as for `trace_cuda_launcher`; RuntimeError where a launch is stopped."""
    runs = []
    for _ in range(repeat):
        times, trace = _run(launcher, args, source, max_events)
        if trace.stopped:
            raise RuntimeError(f"{case} cannot be measured: {trace.stopped}")
        runs.append(times)
    recorded, traced, judged = map(min, zip(*runs, strict=True))
    silent = min(_untold(launcher, args, source, True) for _ in range(repeat))
    plain = min(_untold(launcher, args, source, False) for _ in range(repeat))
    events = len(trace) + len(trace.steps["what"]) + len(trace.fences["what"])
    return Cost(case, len(trace), events, recorded, traced, judged, silent, plain)


def fiber_costs(repeat: int = 5) -> dict[str, float]:
    """Nanoseconds of a thread that does nothing, and of a thread's barrier and shuffle: each leaves and comes back."""
    blocks, rounds = 512, 20
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "fibers.cu"
        source.write_text(_FIBERS, encoding="utf-8")

        def once(launcher: str, rounds: int) -> float:
            return min(_untold(launcher, [blocks, rounds], source, False) for _ in range(repeat))

        threads = blocks * 256
        empty = once("launch_nothing", 0)
        found = {"thread_ns": empty / threads * 1e9}
        for what in ("barrier", "shuffle"):
            found[f"{what}_ns"] = (once(f"launch_{what}s", rounds) - empty) / threads / rounds * 1e9
    return found


def _timed(call: Callable[[], object]) -> tuple[float, object]:
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def _begin(launcher: str, args: Sequence[object], source: str | Path, traced: bool, limit: int) -> tuple:
    library, translation, number, path = cuda.load_kernels(launcher, False, source, None, traced)
    function = translation.functions[number]
    table, buffers, kept = pack(launcher, function.parameters, library.signature(number), args)
    if not library.calls.kh_begin(limit, int(limit > 0), _MAX_SECONDS):
        raise MemoryError(f"there is no room for {limit} events")
    library.calls.kh_reset_launches(0)
    library.calls.kh_lane_faults(ctypes.byref(ctypes.c_void_p()), 1)
    regions = cuda.regions_of(library, translation, buffers)
    run = getattr(library.calls, f"kh_host_{number}")
    run.restype = ctypes.c_longlong
    return library, lambda: run(table), (translation, function, regions, buffers, str(path), kept)


def _run(
    launcher: str, args: Sequence[object], source: str | Path, limit: int
) -> tuple[tuple[float, float, float], CudaTrace]:
    """Seconds until recorded, traced and judged, and the trace."""
    with cuda.one_at_a_time:
        library, launch, (translation, function, regions, buffers, path, _) = _begin(
            launcher, args, source, True, limit
        )
        try:
            recorded, result = _timed(launch)
            outputs = [buffer.name for buffer in buffers if buffer.writable]
            made, trace = _timed(lambda: assemble(library, translation, function, regions, outputs, path, int(result)))
        finally:
            _end(library)
    judged, _ = _timed(trace.faults)
    return (recorded, recorded + made, recorded + made + judged), trace


def _untold(launcher: str, args: Sequence[object], source: str | Path, traced: bool) -> float:
    """Seconds of a launch that writes nothing down."""
    with cuda.one_at_a_time:
        library, launch, _ = _begin(launcher, args, source, traced, 0)
        try:
            return _timed(launch)[0]
        finally:
            _end(library)


def _end(library) -> None:
    library.calls.kh_free_allocations()
    library.calls.kh_free_stacks()
    library.calls.kh_forget_events()
