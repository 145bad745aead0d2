"""The tuned tile: each configuration is right on its own, the winner is kept by kind, and the first call is right."""

import math
from types import SimpleNamespace

import pytest
import torch
import triton

from kernels.ops import matmul_tuning as module
from kernels.ops.matmul import OP, launch_matmul, sum_tolerance
from kernels.ops.matmul_tuning import CONFIGURATIONS, Tuned, kind

NAN = float("nan")
IDS = ["x".join(map(str, each.values())) for each in CONFIGURATIONS]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=IDS)
def test_every_configuration_is_right_on_a_ragged_shape(configuration, dtype, device):
    shape = (127, 255, 65)
    a, b = OP.inputs(shape, dtype, device, seed=1)
    if device == "cuda" and configuration not in module.fitting(
        a.element_size(), "ieee", torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    ):
        pytest.skip("this GPU has too little shared memory for it, and the tuner leaves it out")
    out = torch.full((127, 255), NAN, dtype=a.dtype, device=device)
    launch_matmul(a, b, out, path="tiles", splits=1, **configuration)
    rtol, atol = sum_tolerance(dtype, 65)
    torch.testing.assert_close(out.double(), OP.reference(a, b), rtol=rtol, atol=atol)


def test_interpreted_it_is_one_tile_and_no_driver_is_asked(device, monkeypatch, poisoned):
    if device == "cuda":
        pytest.skip("about a machine without a GPU")
    monkeypatch.setattr(triton.testing, "do_bench", None)
    for shape in [(1, 1, 1), (33, 17, 65), (2, 9, 8, 7), (3, 2, 0), (0, 2, 3)]:
        a, b = OP.inputs(shape, "float32", device, seed=2)
        torch.testing.assert_close(Tuned("ieee")(a, b), a @ b, rtol=1e-5, atol=1e-5)
        assert Tuned("ieee").configuration(a, b) == {}


class Card:
    """Stands for a GPU: times configurations by a table, and runs them for real, into the caller's output."""

    def __init__(self, monkeypatch, times, limit=232448):
        self.runs = 0
        self.times = iter(times)
        monkeypatch.setattr(module, "_winners", {})
        monkeypatch.setattr(module, "JITFunction", object)  # as if the kernel were compiled
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        card = SimpleNamespace(shared_memory_per_block_optin=limit)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
        monkeypatch.setattr(torch.cuda, "device", lambda _: torch.no_grad())
        monkeypatch.setattr(triton.testing, "do_bench", self.bench)
        self.capturing = False

    def bench(self, run, **_):
        run()
        run()
        self.runs += 1
        return next(self.times)


@pytest.fixture
def on_cpu(device):
    if device == "cuda":
        pytest.skip("the GPU is played by a table of times")


def test_the_fastest_is_kept_and_the_first_call_is_right(on_cpu, monkeypatch):
    card = Card(monkeypatch, [5, 4, 3, 9, 9, 9, 9, 9])
    a, b = (torch.ones(16, 64), torch.ones(64, 16))
    tuned = Tuned("tf32")
    assert tuned.configuration(a, b) == {} and tuned.tune_ms(a, b) is None
    fits = module.fitting(4, "tf32", 232448)
    for _ in range(2):
        assert (tuned(a, b) == 64.0).all()  # the call that tunes, and the next one
    assert card.runs == len(fits) < 8
    assert tuned.configuration(a, b) == fits[2] and tuned.tune_ms(a, b) > 0
    assert (a == 1).all() and (b == 1).all()


def test_another_number_of_rows_does_not_tune_again(on_cpu, monkeypatch):
    card = Card(monkeypatch, [1.0] * 100)
    tuned, b = Tuned("ieee"), torch.ones(8, 4)
    for rows in (5, 6, 7, 8):
        assert (tuned(torch.ones(rows, 8), b) == 8.0).all()
    first = card.runs
    assert first == len(module.fitting(4, "ieee", 232448))
    tuned(torch.ones(9, 8), b)  # past a power of two
    tuned(torch.ones(8, 8), b.t().contiguous().t())  # lies another way
    assert card.runs == 3 * first


def test_what_fails_to_fit_loses_and_all_failing_says_so(on_cpu, monkeypatch):
    Card(monkeypatch, [math.inf, math.inf, 2.0])
    a, b = torch.ones(16, 16), torch.ones(16, 16)
    tuned = Tuned("ieee")
    assert (tuned(a, b) == 16).all()
    assert tuned.configuration(a, b) == module.fitting(4, "ieee", 232448)[2]

    def out_of_resources(run, **_):
        raise triton.runtime.errors.OutOfResources(300000, 232448, "shared memory")

    Card(monkeypatch, [])
    monkeypatch.setattr(triton.testing, "do_bench", out_of_resources)
    with pytest.raises(RuntimeError, match="None of matmul's 3 configurations runs on cpu"):
        tuned(a, b)


def test_nothing_is_timed_while_a_graph_is_captured(on_cpu, monkeypatch):
    card = Card(monkeypatch, [])
    card.capturing = True
    a, b = torch.ones(16, 16), torch.ones(16, 16)
    assert (Tuned("ieee")(a, b) == 16).all()
    assert card.runs == 0 and Tuned("ieee").configuration(a, b) == {}


def test_kinds(device):
    a, b = torch.ones(16, 16, device=device), torch.ones(16, 16, device=device)
    assert kind(a, b, "ieee") == kind(a.clone(), b.clone(), "ieee") == kind(torch.ones_like(a)[:9], b, "ieee")
    tall, odd = torch.ones(17, 16, device=device), torch.ones(16, 17, device=device)[:, :16]
    others = [(a.t(), b, "ieee"), (a, b, "tf32"), (a.half(), b.half(), "ieee"), (tall, b, "ieee"), (odd, b, "ieee")]
    assert len({kind(*each) for each in [(a, b, "ieee"), *others]}) == 6
