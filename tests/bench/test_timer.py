"""The timer over a device whose clock the test moves."""

import itertools

import pytest
from fake_device import FakeDevice, Mark

from kernels.bench.rates import median, rates
from kernels.bench.timer import (
    MAX_BUFFER_SETS,
    MAX_LAUNCHES,
    Arm,
    DeviceFailure,
    Implausible,
    buffer_sets,
    check_plausible,
    first_call,
    launches_for,
    measure,
)


def arm(device: FakeDevice, name: str, us: float) -> Arm:
    return Arm(name, lambda *_: device.busy(us, name))


def test_times_the_kernel_and_not_its_launch() -> None:
    device = FakeDevice()  # every launch takes the host 5 µs
    found = measure(device, [arm(device, "empty", 0.001), arm(device, "spin", 5000.0)], [()], samples=5)
    assert median(found[1].samples_us) == pytest.approx(5000.0, rel=0.05)
    assert median(found[0].samples_us) == pytest.approx(0.001, rel=0.05)


def test_time_grows_with_the_work() -> None:
    device = FakeDevice()
    sizes = [512, 1024, 2048, 4096]
    found = measure(device, [arm(device, str(n), 2 * n**3 / 700e6) for n in sizes], [()], samples=3)
    times = [median(result.samples_us) for result in found]
    assert [b / a for a, b in itertools.pairwise(times)] == pytest.approx([8.0] * 3)


def test_the_timed_region_holds_exactly_the_counted_launches() -> None:
    device = FakeDevice()
    found = measure(device, [arm(device, "a", 40.0), arm(device, "b", 40.0)], [(), (), ()], samples=4, warm_up_us=0.0)
    assert found[0].launches == 51  # 2000 µs over 40 µs, rounded up to whole rotations of three
    assert found[0].nodes == {"kernel": 51}
    assert len(found[0].samples_us) == 4
    timed = [name for name in device.launches if name == "a"][-4 * 51 :]
    assert len(timed) == 4 * 51
    # Before them, for each arm: two plain calls, two runs of one rotation.
    assert device.launches.count("a") == 2 + 2 * 3 + 4 * 51


def test_arms_take_turns() -> None:
    device = FakeDevice()
    measure(device, [arm(device, "a", 2000.0), arm(device, "b", 2000.0)], [()], samples=3, warm_up_us=0.0)
    assert device.launches[-6:] == ["a", "b", "b", "a", "a", "b"]


def test_buffers_rotate() -> None:
    device, seen = FakeDevice(), []
    measure(device, [Arm("a", lambda i: (seen.append(i), device.busy(1000.0)))], [(0,), (1,), (2,)], samples=1)
    assert seen[-3:] == [0, 1, 2]


def test_a_late_error_fails_the_run() -> None:
    device = FakeDevice()

    def call() -> None:
        device.busy(10.0)
        if len(device.launches) > 100:
            device.failing = "an illegal memory access was encountered"

    with pytest.raises(DeviceFailure, match="illegal memory access"):
        measure(device, [Arm("bad", call)], [()], samples=5)


@pytest.mark.parametrize("samples", [0, -1])
def test_no_samples_is_refused(samples: int) -> None:
    with pytest.raises(ValueError, match="At least one sample"):
        measure(FakeDevice(), [], [()], samples=samples)


def test_one_sample_is_enough() -> None:
    device = FakeDevice()
    assert measure(device, [arm(device, "a", 10.0)], [()], samples=1)[0].samples_us == [pytest.approx(10.0)]


def test_a_slow_arm_takes_fewer_samples_and_the_others_all() -> None:
    device = FakeDevice()
    found = measure(device, [arm(device, "slow", 900_000.0), arm(device, "fast", 10.0)], [()], samples=20)
    assert [len(result.samples_us) for result in found] == [3, 20]


def test_compiling_is_apart_from_the_call() -> None:
    device, state = FakeDevice(), {"compiled": False}

    def call() -> None:
        if not state["compiled"]:
            device.wall_us += 800_000.0
            device.device_us = device.wall_us  # it idles meanwhile
            state["compiled"] = True
        device.busy(2000.0)

    empty_cache = first_call(device, call)
    filled_cache = first_call(device, call)
    assert empty_cache.compile_ms == pytest.approx(800.0, abs=0.5)
    assert empty_cache.first_call_ms == pytest.approx(802.0, abs=0.5)
    assert filled_cache.compile_ms == pytest.approx(0.0, abs=0.01)
    again = measure(device, [Arm("a", call)], [()], samples=3)[0]
    assert median(again.samples_us) == pytest.approx(2000.0)


def test_rotation_goes_past_three_times_the_cache() -> None:
    l2 = 60 * 2**20
    for moved in (2**20, 33 * 10**6, 10**9):
        sets, note = buffer_sets(moved, l2, "cold")
        assert sets * moved > 3 * l2 and sets >= 2 and note is None
    assert buffer_sets(2**20, l2, "warm") == (1, None)


def test_a_tiny_input_says_that_it_stays_in_the_cache() -> None:
    sets, note = buffer_sets(12, 60 * 2**20, "cold")
    assert sets == MAX_BUFFER_SETS
    assert "warm time" in note


@pytest.mark.parametrize(("call_us", "sets"), [(0.0, 1), (0.0, MAX_BUFFER_SETS), (10.0, 7), (1e6, 2), (1.0, 1000)])
def test_launches_are_whole_rotations_within_bounds(call_us: float, sets: int) -> None:
    count = launches_for(call_us, sets)
    assert count % sets == 0 and sets <= count <= max(MAX_LAUNCHES, sets)


def test_a_clock_that_stopped_early_is_refused() -> None:
    size = 4096
    tflop_per_s = rates(0, 2 * size**3, 10.0).tflop_per_s
    assert tflop_per_s == pytest.approx(13_744, abs=1)
    with pytest.raises(Implausible, match="13744 TFLOP/s is above"):
        check_plausible("NVIDIA H200", "float16", False, None, tflop_per_s)
    with pytest.raises(Implausible):
        check_plausible("A card nobody has listed", "float16", False, None, tflop_per_s)


def test_memory_rates_have_a_ceiling_and_a_cache_a_higher_one() -> None:
    check_plausible("NVIDIA H200", "float32", False, 4400.0, None)
    with pytest.raises(Implausible, match="6000 GB/s is above the 4917 GB/s"):
        check_plausible("NVIDIA H200", "float32", False, 6000.0, None)
    check_plausible("NVIDIA H200", "float32", True, 6000.0, None)


class QueuedDevice(FakeDevice):
    """Work begins when it was enqueued and what is in front of it has ended: an idle device waits for the host."""

    def busy(self, us: float, name: str = "") -> None:
        self.wall_us += 5.0
        self.device_us = max(self.device_us, self.wall_us) + us

    def mark(self) -> Mark:
        self.device_us = max(self.device_us, self.wall_us)
        return Mark(self.device_us)


def test_ordinary_dispatch_shows_the_hosts_time_whoever_ran_before():
    device = QueuedDevice()
    arms = [Arm("slow", lambda: device.busy(100.0)), Arm("quick", lambda: device.busy(1.0))]
    slow, quick = measure(device, arms, [()], mode="events", samples=6)
    assert all(99.0 < us < 106.0 for us in slow.samples_us)
    assert all(4.9 < us < 5.2 for us in quick.samples_us), "calls that wait in a queue cost the host nothing to see"
