"""cuda/kernels.cu: it compiles for every architecture without a warning; on a GPU it agrees with float64 arithmetic."""

import re
from pathlib import Path

import pytest

from kernels import cuda
from kernels.cuda.building import build
from kernels.inspect import InspectionFailed, compile_cuda

SOURCE = Path(__file__).parents[2] / "cuda" / "kernels.cu"
CODE = re.sub(r"//[^\n]*", "", SOURCE.read_text(encoding="utf-8"))
SOFTMAXES = ("softmax_serial", "softmax_parallel", "softmax_online", "softmax_online_scalar")


def test_the_block_size_stands_in_one_place():
    numbers = re.findall(r"(?<![\w.])\d+(?![\w.])", CODE)
    assert numbers.count("256") == 1 and "8" not in numbers and "128" not in numbers
    assert "constexpr int kThreads = 256;" in CODE and "constexpr int kWarps = kThreads / 32;" in CODE


def test_every_kernel_has_a_launcher_and_a_function():
    kernels = set(re.findall(r"__global__ void (\w+)\(", CODE))
    assert kernels == {"vector_add", *SOFTMAXES}
    assert set(re.findall(r'extern "C" cudaError_t launch_(\w+)\(', CODE)) == kernels
    assert all(callable(getattr(cuda, name)) for name in kernels)


@pytest.mark.nvcc
def test_the_library_compiles_for_each_architecture_without_a_warning(tmp_path, monkeypatch):
    # -Werror is among the flags, so a warning is an error.
    assert build(archs=(80, 90, 120)).exists()


@pytest.mark.nvcc
def test_a_warning_stops_the_build():
    with pytest.raises(cuda.BuildFailed, match="never referenced"):
        build(
            archs=(90,), replace={"    float row_max = -INFINITY;": "    int unused;\n    float row_max = -INFINITY;"}
        )


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("threads", "reason"),
    [(100, "whole number of 32-thread warps"), (0, "whole number"), (2048, "at most 1024")],
)
def test_an_impossible_block_size_does_not_compile(threads, reason):
    with pytest.raises(InspectionFailed, match=reason):
        compile_cuda("vector_add", replace={"constexpr int kThreads = 256;": f"constexpr int kThreads = {threads};"})


# ---- refusals that need no GPU -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax_says_what_it_needs(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed.")
    softmax = getattr(cuda, name)
    with pytest.raises(TypeError, match=f"{name} needs a tensor, and x is of type list"):
        softmax([1.0])
    with pytest.raises(ValueError, match=rf"{name} runs on a CUDA GPU, and x is on cpu\. Pass x\.cuda\(\)\."):
        softmax(torch.zeros(2, 3))


def test_vector_add_says_what_it_needs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed.")
    with pytest.raises(ValueError, match="x is on cpu"):
        cuda.vector_add(torch.zeros(3), torch.zeros(3))


def test_why_not_is_a_sentence_or_nothing():
    reason = cuda.why_not()
    assert cuda.available() == (reason is None)
    assert reason is None or (reason[0].isupper() and reason.endswith("."))


# ---- on a GPU ------------------------------------------------------------------------------------------------------

SHAPES = [
    ((1,), 0, "a single score"),
    ((33,), 0, "one dimension, one column past a warp"),
    ((7, 33), 5, "ragged, padded rows"),
    ((5, 1028), 1, "a multiple of four, rows not aligned"),
    ((3, 5, 1000), 0, "three dimensions"),
    ((2, 8192), 0, "wide"),
    ((70000, 3), 0, "more rows than a grid has in y"),
]


def scores(torch, shape, padding, seed=0):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    wide = (*shape[:-1], shape[-1] + padding)
    x = torch.randn(wide, generator=generator, device="cuda") * 3
    if len(shape) > 1:
        x += torch.tensor([-100.0, 0.0, 100.0], device="cuda")[torch.arange(shape[-2], device="cuda") % 3][:, None]
    x[..., shape[-1] :] = float("nan")
    return x[..., : shape[-1]]


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOFTMAXES)
@pytest.mark.parametrize(("shape", "padding", "reason"), SHAPES, ids=[reason for *_, reason in SHAPES])
def test_softmax_agrees_with_float64(name, shape, padding, reason):
    import torch

    x = scores(torch, shape, padding)
    out = getattr(cuda, name)(x)
    assert out.is_contiguous() and out.shape == x.shape
    torch.testing.assert_close(out.double(), torch.softmax(x.double(), -1), rtol=3e-6, atol=1e-30)
    ones = torch.ones(shape[:-1], dtype=torch.float64, device="cuda")
    torch.testing.assert_close(out.double().sum(-1), ones, rtol=3e-6, atol=0.0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOFTMAXES)
@pytest.mark.parametrize("width", [32, 33, 1024])
def test_special_values_are_those_of_torch(name, width):
    import torch

    inf, nan = float("inf"), float("nan")
    x = torch.zeros(7, width, device="cuda")
    x[0, : width // 2] = -inf  # partly masked
    x[1, 1:] = -inf  # all but one masked
    x[2] = -inf  # wholly masked
    x[3, width // 2] = nan
    x[4, width // 2] = inf
    x[5, : width - 1], x[5, width - 1] = -inf, nan
    x[6, 0] = 3e38
    torch.testing.assert_close(getattr(cuda, name)(x), torch.softmax(x, -1), equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOFTMAXES)
def test_empty_rows_expanded_rows_and_an_offset_start(name):
    import torch

    softmax = getattr(cuda, name)
    for shape in ((0, 5), (5, 0), (0,), (2, 0, 3)):
        assert softmax(torch.empty(shape, device="cuda")).shape == shape
    row = torch.randn(1, 64, device="cuda")
    torch.testing.assert_close(softmax(row.expand(5, 64)), torch.softmax(row.expand(5, 64), -1))  # row stride 0
    shifted = torch.randn(4 * 64 + 1, device="cuda")[1:].view(4, 64)  # begins 4 bytes past an aligned address
    torch.testing.assert_close(softmax(shifted), torch.softmax(shifted, -1))


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOFTMAXES)
def test_what_cannot_be_read_in_place_is_refused(name):
    import torch

    softmax = getattr(cuda, name)
    x = torch.randn(6, 8, device="cuda")
    with pytest.raises(TypeError, match=r"float32, and x is torch\.float16"):
        softmax(x.half())
    with pytest.raises(ValueError, match="the last stride of x is 8"):
        softmax(x.t())
    with pytest.raises(ValueError, match="rows that are one stride apart"):
        softmax(torch.randn(4, 6, 8, device="cuda")[:, :4])
    with pytest.raises(ValueError, match="x has no dimension"):
        softmax(torch.tensor(1.0, device="cuda"))
    with pytest.raises(ValueError, match="has no backward pass"):
        softmax(x.clone().requires_grad_())


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1,), (257,), (3, 5), (1000003,), (0,), ()])
def test_vector_add_is_exact(shape):
    import torch

    x, y = torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda")
    assert torch.equal(cuda.vector_add(x, y), x + y)


@pytest.mark.gpu
def test_vector_add_refuses_what_differs():
    import torch

    x = torch.randn(4, 6, device="cuda")
    with pytest.raises(ValueError, match=r"x is \(4, 6\) and y is \(6,\)"):
        cuda.vector_add(x, x[0])
    with pytest.raises(ValueError, match=r"y has strides \(1, 4\)"):
        cuda.vector_add(x, torch.randn(6, 4, device="cuda").t())
    with pytest.raises(TypeError, match=r"y is torch\.float64"):
        cuda.vector_add(x, x.double())


@pytest.mark.gpu
def test_offsets_pass_two_to_the_31():
    import torch

    rows, stride = 2, 2**31 + 64
    if torch.cuda.mem_get_info()[0] < 4 * (rows * stride) + 2**30:
        pytest.skip("This needs 17 GB of free GPU memory.")
    x = torch.empty(rows * stride, device="cuda").as_strided((rows, 100), (stride, 1))
    x.copy_(torch.randn(rows, 100, device="cuda"))
    for name in SOFTMAXES:
        torch.testing.assert_close(getattr(cuda, name)(x), torch.softmax(x, -1))


@pytest.mark.gpu
def test_the_work_goes_to_the_current_stream():
    import torch

    x = torch.ones(1 << 20, device="cuda")
    cuda.library()  # built before the wait below begins
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # about 0.1 s; a kernel on another stream would overtake the fill
        x.fill_(2.0)
        out = cuda.vector_add(x, x)
    stream.synchronize()
    assert torch.equal(out, torch.full_like(out, 4.0))


@pytest.mark.gpu
def test_a_refused_launch_is_a_sentence():
    import torch

    from kernels.cuda.call import _launch

    x = torch.ones(4, device="cuda")
    with pytest.raises(RuntimeError, match=r"launch_vector_add was refused by CUDA: invalid argument \(error 1\)"):
        _launch("launch_vector_add", (x, x, x), (-1,))


@pytest.mark.gpu
def test_the_second_gpu_is_used_for_its_own_tensors():
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("This machine has one GPU.")
    x = torch.randn(3, 100, device="cuda:1")
    torch.testing.assert_close(cuda.softmax_online(x), torch.softmax(x, -1))
