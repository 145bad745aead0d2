"""histogram: values outside the bins, wide integers, layouts, and both paths."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import histogram as module
from kernels.ops.histogram import (
    DTYPES,
    MAX_BINS,
    MORE,
    OP,
    HistogramPlan,
    histogram,
    inputs,
    launch_histogram,
    plan_histogram,
    reference,
)

from .shared import Banded, whole_storage

RECORDS = [OP, *MORE]
CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
PATHS = [
    pytest.param({"path": "staged"}, id="staged"),
    pytest.param({"path": "staged", "block": 8, "programs": 2}, id="staged, blocks of 8"),
    pytest.param({"path": "plain"}, id="plain"),
    pytest.param({"path": "plain", "block": 8}, id="plain, blocks of 8"),
]


def cuda_twins():
    from kernels import cuda

    if cuda.why_not():
        pytest.skip(cuda.why_not())
    from kernels.cuda import histogram as twins

    return [twins.histogram_plain, twins.histogram_shared, twins.histogram_replicated]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CASES)
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_matches_the_reference_and_leaves_its_input_alone(record, shape, dtype, device):
    (x,) = record.inputs(shape, dtype, device, seed=1)
    before = whole_storage(x)
    out = histogram(x)
    assert out.dtype == torch.int64 and out.shape == (256,)
    assert torch.equal(out, record.reference(x))
    assert torch.equal(whole_storage(x), before)


OUTSIDE = [
    ([0, 1, 2, 3, 4, 4, 5, -1], 4, [1, 1, 1, 1]),
    ([21, 298, 408, 131, 315, 104, 149, 4], 8, [0, 0, 0, 0, 1, 0, 0, 0]),
    ([0, 1, 1, 3, 3], 4, [1, 2, 0, 2]),  # five numbers: three lanes of a block of eight have none
    ([], 4, [0, 0, 0, 0]),
    ([2**31 - 1, -(2**31), 3, 3], 4, [0, 0, 0, 2]),
    ([0, 0, 1], 1, [2]),
    ([4, 5, 6, 6], 7, [0, 0, 0, 0, 1, 1, 2]),
]


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize(("numbers", "bins", "expected"), OUTSIDE)
def test_numbers_outside_the_bins_are_counted_nowhere(numbers, bins, expected, choice, device):
    x = torch.tensor(numbers, dtype=torch.int32, device=device)
    banded = Banded((bins,), torch.int64, device)
    assert launch_histogram(x, banded.out, **choice).tolist() == expected
    banded.assert_bands_untouched()
    assert histogram(x, bins).tolist() == expected


@pytest.mark.parametrize("choice", PATHS)
def test_a_wide_number_is_not_taken_for_its_low_bits(choice, device):
    x = torch.tensor([2**32 + 1, 1, -(2**32) + 1, 2**63 - 1], dtype=torch.int64, device=device)
    assert launch_histogram(x, torch.empty(4, dtype=torch.int64, device=device), **choice).tolist() == [0, 1, 0, 0]


def test_256_zeros_of_one_byte_each(device):
    for dtype in (torch.int8, torch.uint8):
        assert histogram(torch.zeros(256, dtype=dtype, device=device), 4).tolist() == [256, 0, 0, 0]
    assert histogram(torch.full((300,), 255, dtype=torch.uint8, device=device))[255] == 300


@pytest.mark.gpu
@pytest.mark.parametrize(("numbers", "bins", "expected"), OUTSIDE)
def test_the_cuda_twins_count_the_same(numbers, bins, expected):
    for twin in cuda_twins():
        x = torch.tensor([7, *numbers], dtype=torch.int32, device="cuda")[1:]  # off a 16-byte boundary too
        assert twin(x, bins).tolist() == expected


def test_the_first_call_of_a_process_counts_once():
    # Something that tries several launches on the caller's tensors adds their counts up.
    code = """
import torch
from kernels.ops.histogram import histogram
device = "cuda" if torch.cuda.is_available() else "cpu"
print(histogram(torch.zeros(4096, dtype=torch.int32, device=device), 4).tolist())
print(histogram(torch.zeros(33, 5, dtype=torch.int64, device=device), 3).tolist())
"""
    environment = {**os.environ}
    if not torch.cuda.is_available():
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split("\n")[:2] == ["[4096, 0, 0, 0]", "[165, 0, 0]"]


def test_any_layout(device):
    base = torch.arange(48, dtype=torch.int32, device=device).reshape(6, 8) % 7
    for x in (base.t(), base[::2], base[:, ::3], base[0].expand(5, 8), base[:, 2], base.flatten()[1:], base[0, 0]):
        assert histogram(x, 7).tolist() == torch.bincount(x.flatten().long(), minlength=7).tolist()


@settings(deadline=None, max_examples=15, derandomize=True)
@given(numbers=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 20), max_size=60), bins=st.integers(1, 40))
def test_order_does_not_matter_and_parts_add_up(device, numbers, bins):
    x = torch.tensor(numbers, dtype=torch.int32, device=device)
    out = histogram(x, bins)
    assert out.sum() == sum(0 <= number < bins for number in numbers)
    assert torch.equal(histogram(x.flip(0), bins), out)
    half = len(numbers) // 2
    assert torch.equal(histogram(x[:half], bins) + histogram(x[half:], bins), out)


def test_many_bins_take_the_plain_way(device):
    x = torch.tensor([0, 1025, 4999, 5000], dtype=torch.int32, device=device)
    out = histogram(x, 5000)
    assert out.sum() == 3 and out[[0, 1025, 4999]].tolist() == [1, 1, 1]


def test_opcheck_and_one_graph(device):
    x = torch.tensor([[0, 1, 5], [1, 1, -1]], dtype=torch.int32, device=device)
    for view in (x, x.t(), x[:0]):
        assert set(torch.library.opcheck(torch.ops.kernel_lessons.histogram.default, (view, 4)).values()) == {"SUCCESS"}
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(lambda t: histogram(t + 1, 4) * 2, fullgraph=True, backend=backend)
    assert compiled(x).tolist() == [2, 2, 6, 0]


def test_an_empty_input_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    assert histogram(torch.empty((0, 3), dtype=torch.int32, device=device), 2).tolist() == [0, 0]


def test_what_is_refused(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x = torch.zeros(8, dtype=torch.int32, device=device)
    for arguments, kind, message in [
        ((x.float(), 4), TypeError, "x has dtype float32; expected int32, int64, int16, int8 or uint8."),
        ((x, 0), ValueError, f"bins is 0; expected a whole number from 1 to {MAX_BINS}."),
        ((x, MAX_BINS + 1), ValueError, f"bins is {MAX_BINS + 1}; expected a whole number from 1 to {MAX_BINS}."),
        ((x, True), ValueError, f"bins is True; expected a whole number from 1 to {MAX_BINS}."),
        (([1], 4), TypeError, "x is a list; expected a torch.Tensor."),
    ]:
        with pytest.raises(kind) as error:
            histogram(*arguments)
        assert str(error.value) == message
    out = torch.empty(4, dtype=torch.int64, device=device)
    for numbers, target, choice, message in [
        (x, out, {"path": "sharp"}, "path is 'sharp'"),
        (x, torch.empty(2000, dtype=torch.int64, device=device), {"path": "staged"}, 'path is "staged" for 2000 bins'),
        (x, out, {"block": 3}, "block is 3"),
        (x, out, {"programs": 0}, "programs is 0"),
        (x.view(2, 4), out, {}, "expected one dimension"),
        (out, out, {}, "out overlaps x in memory"),
    ]:
        with pytest.raises(ValueError, match=message):
            launch_histogram(numbers, target, **choice)


def test_counters_in_shared_memory_are_for_a_gpu(device):
    assert plan_histogram(1 << 28, 256, 132, shared=True) == HistogramPlan("shared", 4096, 528, 16)
    assert plan_histogram(1 << 20, 256, 132, shared=True) == HistogramPlan("shared", 4096, 132, 16)
    assert plan_histogram(5000, 256, 132, shared=True).programs == 2
    assert plan_histogram(1 << 28, 256, 132).path == "staged"
    assert plan_histogram(1 << 28, 1025, 132, shared=True).path == "plain"
    if device == "cpu":
        x, out = torch.zeros(5, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)
        with pytest.raises(ValueError, match='path is "shared", whose counters are for an NVIDIA GPU'):
            launch_histogram(x, out, path="shared")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "bins"), [(1, 1), (5001, 256), (1_000_003, 7), (3_000_001, 1024), (40_000, 2)])
def test_counters_in_shared_memory_match_the_reference(dtype, n, bins):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: the interpreter has no shared memory")
    (x,) = inputs((n,), dtype, "cuda", 3)
    for values in (x, x[: n // 2 + 1], x.flip(0)[::2], torch.full_like(x, bins - 1 if bins < 128 else 100)):
        out = torch.full((bins,), -7, dtype=torch.int64, device="cuda")
        assert torch.equal(launch_histogram(values, out, path="shared"), reference(values, bins))
    with pytest.raises(ValueError, match="block is 64 for 4 warps; expected at least 128"):
        launch_histogram(x, out, path="shared", block=64, num_warps=4)
