"""Offsets beyond 2**32 elements in the CUDA kernels: on a GPU as they are, on the CPU with rows that lie near."""

import math

import pytest

torch = pytest.importorskip("torch")

from far_matrices import ALL, FAR, HOPPER, LEFT, RUNGS, check, product, rows_apart  # noqa: E402

from kernels.trace.cuda import trace_cuda_launcher, why_not  # noqa: E402
from kernels.trace.hopper import hopper_on_cpu  # noqa: E402

NEAR = 2 * LEFT
traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory):
    """What launches a kernel on the CPU; for the rungs on Hopper by what each instruction does there."""
    hopper = hopper_on_cpu(tmp_path_factory.mktemp("hopper"))

    def launcher_of(work):
        more = {"source": work.source}
        if work.kernel in HOPPER:
            one_block = {"constexpr int kHopperCluster = 2;": "constexpr int kHopperCluster = 1;"}
            more = {"source": hopper, "replace": one_block}

        def launch(tensors, numbers):
            half = work.dtype == torch.bfloat16
            arrays = [(each.view(torch.uint16) if half else each).numpy() for each in tensors]
            trace = trace_cuda_launcher(f"launch_{work.kernel}", [*arrays, *numbers], max_seconds=60.0, **more)
            assert trace.result == 0

        return launch

    return launcher_of


def on_the_gpu(work):
    from kernels.cuda.call import _launch
    from kernels.cuda.essentials import ESSENTIALS
    from kernels.cuda.ladder import HOPPER as HOPPER_LADDER
    from kernels.cuda.ladder import LADDER, run_launcher

    name = f"launch_{work.kernel}"
    if work.source == "cuda/patterns.cu":
        return lambda tensors, numbers: _launch(name, tuple(tensors), numbers)
    library = HOPPER_LADDER if work.kernel in HOPPER else LADDER if work.source != "cuda/transposes.cu" else ESSENTIALS
    return lambda tensors, numbers: run_launcher(library, name, tuple(tensors), numbers)


@pytest.mark.gpu
@pytest.mark.parametrize("work", ALL, ids=str)
def test_a_row_that_begins_beyond_32_bits_is_read_and_written(work):
    if work.kernel in HOPPER and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("These instructions exist on GPUs of compute capability 9.0 only.")
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] / 1e9 < work.gigabytes + 2:
        pytest.skip(f"This needs {math.ceil(work.gigabytes) + 2} GB of free GPU memory.")
    check(work, on_the_gpu(work), "cuda")


# ---- what can be held without a GPU: these launches are right where rows lie near, and a wrong offset is found ----


def test_what_32_bits_leave_of_the_offset_lies_between_the_rows():
    assert FAR % 2**32 == LEFT and (FAR + 2**31) % 2**32 - 2**31 == LEFT
    assert all(FAR % 8 == 0 and work.shapes[work.far][0] == 2 for work in ALL)
    flat = rows_apart(torch.arange(6.0).reshape(2, 3), NEAR)
    assert flat.nelement() == NEAR + 3 and flat[:3].tolist() == [0, 1, 2] and flat[NEAR:].tolist() == [3, 4, 5]
    assert flat[3:NEAR].isnan().all()


@traced
@pytest.mark.parametrize("work", ALL, ids=str)
def test_the_launch_is_right_where_rows_lie_near(on_the_cpu, work):
    check(work, on_the_cpu(work), "cpu", gap=NEAR)


@traced
@pytest.mark.parametrize(
    "work", [each for each in ALL if each.kernel not in RUNGS or each.kernel == "matmul_naive"], ids=str
)
def test_an_offset_that_was_cut_off_is_found(on_the_cpu, work):
    """The launcher is told what 32 bits leave of the stride: as if the kernel had lost the rest."""
    with pytest.raises(AssertionError, match="not close"):
        check(work, on_the_cpu(work), "cpu", gap=NEAR, told=LEFT)


def test_every_rung_has_each_of_its_matrices_far():
    assert {str(product(kernel, far)) for kernel in RUNGS for far in "abc"} <= {str(work) for work in ALL}
