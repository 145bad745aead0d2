"""The only timer of the project.

It times work on the device's own clock, never the time that a launch takes to return. One sample is a run of
`launches` calls back to back: a CUDA graph's replay, or ordinary dispatch between two events. Buffers rotate, so that
each call finds its data in memory and not in the L2 cache (`cold`), or stay the same (`warm`). Arms take turns within
every round, so that a clock that drifts drifts for all of them. What the device is, is behind the small `Device`
protocol: the tests give one with a clock that they move themselves.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Mode = Literal["graph", "events"]
Cache = Literal["cold", "warm"]

MAX_BUFFER_SETS = 1024
MAX_LAUNCHES = 2048
BUDGET_US = 1_000_000.0  # of samples for one arm; an arm too slow for it takes fewer, and at least MIN_SAMPLES
MIN_SAMPLES = 3
SAMPLE_US = 2000.0  # a sample lasts at least about this long, so that starting it is under a percent of it
L2_FACTOR = 3  # rotated buffers together are more than this many times the L2 cache


class DeviceFailure(RuntimeError):
    """An error that the device reported after a launch had returned: the run is void, and so is the context."""


class Implausible(ValueError):
    """A rate above what the card can do: the timing is wrong, whatever it says."""


class Sequenced(Protocol):
    """Work that was recorded once and can be run again."""

    nodes: dict[str, int] | None

    def run(self) -> None:
        """Enqueue all of it; return at once."""


class Device(Protocol):
    """What the timer needs of a GPU."""

    name: str
    l2_bytes: int

    def record(self, calls: Sequence[Callable[[], object]], mode: Mode, keep: int) -> Sequenced:
        """Prepare `calls`, in this order; the results of the last `keep` stay alive, so that outputs rotate."""

    def mark(self) -> Any:
        """A time stamp that the device takes when it gets there."""

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Between two marks that the device has passed, on the device's clock."""

    def synchronize(self) -> None:
        """Wait for everything enqueued. Raises DeviceFailure where any of it failed."""

    def host_us(self) -> float:
        """A host clock, for first calls."""


@dataclass(frozen=True)
class Arm:
    """One contender: a name, and a call to be made on one set of inputs."""

    name: str
    call: Callable[..., object]


@dataclass
class Measured:
    """What was measured for one arm. `launches` calls make a sample; `samples_us` are already divided by it."""

    name: str
    launches: int
    buffer_sets: int
    samples_us: list[float] = field(default_factory=list)
    nodes: dict[str, int] | None = None


@dataclass(frozen=True)
class FirstCall:
    """The first call of a process, with all that it compiles and loads, and how much of it was not the call itself."""

    first_call_ms: float
    compile_ms: float


def first_call(device: Device, call: Callable[[], object], again: int = 3) -> FirstCall:
    """Time the first call apart from the others, on the host's clock with the device waited for.

    `compile_ms` is the first call less the fastest of `again` later ones: compiling, loading the module, creating
    handles.
    """

    def once() -> float:
        device.synchronize()
        start = device.host_us()
        call()
        device.synchronize()
        return (device.host_us() - start) / 1e3

    first = once()
    later = [once()]
    while len(later) < again and sum(later) < 500.0:
        later.append(once())
    return FirstCall(first, max(0.0, first - min(later)))


def buffer_sets(bytes_per_call: int, l2_bytes: int, cache: Cache) -> tuple[int, str | None]:
    """How many copies of the inputs to rotate, and a sentence where `cold` cannot be had with any number of them."""
    if cache == "warm" or bytes_per_call <= 0:
        return 1, None
    wanted = max(2, L2_FACTOR * l2_bytes // bytes_per_call + 2)
    if wanted <= MAX_BUFFER_SETS:
        return wanted, None
    return MAX_BUFFER_SETS, (
        f"{MAX_BUFFER_SETS} sets of {bytes_per_call} bytes stay in the L2 cache ({l2_bytes} bytes): a warm time."
    )


def launches_for(call_us: float, sets: int) -> int:
    """Calls in one sample: a whole number of rotations, at least SAMPLE_US long where MAX_LAUNCHES allows."""
    rotations = max(1, math.ceil(SAMPLE_US / max(call_us, 0.1) / sets))
    return max(sets, min(rotations * sets, MAX_LAUNCHES // sets * sets))


def measure(
    device: Device,
    arms: Sequence[Arm],
    inputs: Sequence[tuple[object, ...]],
    *,
    mode: Mode = "graph",
    samples: int = 50,
    warm_up_us: float = 20_000.0,
) -> list[Measured]:
    """Time the arms against each other on the same rotated `inputs` (one tuple of arguments a buffer set).

    Every arm must have been called before (see `first_call`): compiling is not part of any sample. Raises ValueError
    for no samples or no inputs, DeviceFailure where the device reports an error at any time of the run.
    """
    if samples < 1:
        raise ValueError(f"At least one sample is needed; got {samples}.")
    if not inputs:
        raise ValueError("At least one set of inputs is needed.")
    sets = len(inputs)

    def calls(arm: Arm, count: int) -> list[Callable[[], object]]:
        return [lambda a=arm.call, i=inputs[index % sets]: a(*i) for index in range(count)]

    found: list[Measured] = []
    recorded: list[Sequenced] = []
    wanted: list[int] = []
    for arm in arms:
        for call in calls(arm, min(2, sets)):
            call()  # a copy may be aligned better than the original, which compiles again: not while capturing
        device.synchronize()
        probe = device.record(calls(arm, sets), mode, sets)
        call_us = _one(device, probe) / sets  # the first run of a graph also uploads it
        if call_us < SAMPLE_US:
            call_us = min(call_us, _one(device, probe) / sets)
        count = launches_for(call_us, sets)
        affordable = int(BUDGET_US / max(call_us * count, 1.0))
        wanted.append(min(samples, max(MIN_SAMPLES, affordable)))
        work = probe if count == sets else device.record(calls(arm, count), mode, sets)
        del probe
        recorded.append(work)
        found.append(Measured(arm.name, count, sets, nodes=work.nodes))

    _keep_busy(device, recorded, warm_up_us)
    for index in range(max(wanted, default=0)):
        marks = []
        for turn in range(len(recorded)):
            at = (index + turn) % len(recorded)  # every arm comes first in turn
            if index >= wanted[at]:
                continue
            if mode == "events":
                # Calls that are queued behind the arm before would be ready in time, whatever the host takes for
                # them: its time shows only where the device waits for it.
                device.synchronize()
            start = device.mark()
            recorded[at].run()
            marks.append((at, start, device.mark()))
        device.synchronize()
        for at, start, end in marks:
            found[at].samples_us.append(device.elapsed_us(start, end) / found[at].launches)
    return found


def _one(device: Device, work: Sequenced) -> float:
    start = device.mark()
    work.run()
    end = device.mark()
    device.synchronize()
    return device.elapsed_us(start, end)


def _keep_busy(device: Device, recorded: Sequence[Sequenced], for_us: float) -> None:
    """Run the arms themselves until the clocks have had `for_us` of load."""
    spent = 0.0
    while spent < for_us:
        step = sum(_one(device, work) for work in recorded)
        if not step > 0.0:
            return
        spent += step


@dataclass(frozen=True)
class Peaks:
    """What a card can do at most: GB/s of its memory, TFLOP/s of its fastest unit for the dtype."""

    gb_per_s: float | None
    tflop_per_s: float | None


# Dense peaks without sparsity, from the vendor's data sheets; the memory's from its pins (clock, width, two transfers).
_MEMORY_PEAK = {"NVIDIA H200": 4917.0, "NVIDIA H100 80GB HBM3": 3430.0, "NVIDIA A100-SXM4-80GB": 2040.0}
_MATRIX_PEAK = {
    "NVIDIA H200": {"float16": 990.0, "bfloat16": 990.0, "float32": 495.0, "float64": 67.0},
    "NVIDIA H100 80GB HBM3": {"float16": 990.0, "bfloat16": 990.0, "float32": 495.0, "float64": 67.0},
    "NVIDIA A100-SXM4-80GB": {"float16": 312.0, "bfloat16": 312.0, "float32": 156.0, "float64": 19.5},
}
_ANY_CARD = Peaks(
    gb_per_s=20_000.0, tflop_per_s=10_000.0
)  # nothing on sale comes near; still catches a clock that stopped
_CACHE_FACTOR = 4.0  # data in the L2 cache arrives faster than memory can; more than this it does not


def peaks(gpu: str, dtype: str) -> Peaks:
    """The ceilings used by the plausibility check; for a card that is not listed, ceilings above every card's."""
    return Peaks(_MEMORY_PEAK.get(gpu, _ANY_CARD.gb_per_s), _MATRIX_PEAK.get(gpu, {}).get(dtype, _ANY_CARD.tflop_per_s))


def check_plausible(gpu: str, dtype: str, in_l2: bool, gb_per_s: float | None, tflop_per_s: float | None) -> None:
    """Raises Implausible with a sentence where a rate is above the card's peak."""
    top = peaks(gpu, dtype)
    memory = top.gb_per_s * (_CACHE_FACTOR if in_l2 else 1.0) if top.gb_per_s else None
    if gb_per_s is not None and memory is not None and gb_per_s > memory:
        raise Implausible(
            f"{gb_per_s:.0f} GB/s is above the {memory:.0f} GB/s that {gpu} can move: the clock stopped before the "
            "kernel did, or the work was not done."
        )
    if tflop_per_s is not None and top.tflop_per_s is not None and tflop_per_s > top.tflop_per_s:
        raise Implausible(
            f"{tflop_per_s:.0f} TFLOP/s is above the {top.tflop_per_s:.0f} TFLOP/s of {gpu} in {dtype}: the clock "
            "stopped before the kernel did, or the work was not done."
        )
