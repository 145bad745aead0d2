"""A device whose clock the tests move: launches return at once, the work takes device time, errors arrive late."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from kernels.bench.timer import DeviceFailure


class FakeGraph:
    def __init__(self, device: "FakeDevice", calls: Sequence[Callable[[], object]]) -> None:
        self.device, self.calls, self.nodes = device, calls, {"kernel": len(calls)}

    def run(self) -> None:
        for call in self.calls:
            call()


@dataclasses.dataclass
class Mark:
    at_us: float


class FakeDevice:
    """`busy(us)` is a kernel: it returns at once and keeps the device busy for `us`."""

    name = "NVIDIA H200"
    where = "cpu"
    sm_count, l2_bytes, memory_bytes = 132, 60 * 2**20, 141 * 10**9

    def __init__(self) -> None:
        self.device_us = 0.0
        self.wall_us = 0.0
        self.launches: list[str] = []
        self.failing: str | None = None
        self.dead = False

    def busy(self, us: float, name: str = "") -> None:
        self.launches.append(name)
        self.device_us += us
        self.wall_us += 5.0  # what the launch costs the host, whatever the kernel does

    def record(self, calls: Sequence[Callable[[], object]], mode: str, keep: int) -> FakeGraph:
        return FakeGraph(self, calls)

    def mark(self) -> Mark:
        return Mark(self.device_us)

    def elapsed_us(self, start: Mark, end: Mark) -> float:
        return end.at_us - start.at_us

    def synchronize(self) -> None:
        self.wall_us = max(self.wall_us, self.device_us)
        if self.failing:
            self.dead, sentence = True, self.failing
            raise DeviceFailure(sentence)

    def host_us(self) -> float:
        return self.wall_us

    def usable(self) -> bool:
        return not self.dead

    def rotated(self, inputs: tuple[Any, ...], sets: int) -> list[tuple[Any, ...]]:
        return [inputs] * sets

    def warm_clocks(self, seconds: float = 0.5) -> None:
        self.busy(seconds * 1e6)
