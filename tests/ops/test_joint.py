"""Counters for programs that wait for one another."""

import pytest
import torch
import triton
import triton.language as tl
from triton import jit

from kernels.ops import early, joint, rmsnorm, rmsnorm_kernels, softmax_backward, softmax_backward_pairs

from .shared import assert_matches


@jit
def _kernel(x_ptr):
    tl.store(x_ptr, 1)


def test_counters_begin_at_zero_and_nothing_starts_early_without_a_gpu(device):
    assert joint.counters(5, torch.device(device), False).tolist() == [0] * 5
    assert joint.counters(5, torch.device(device), False).dtype == torch.int32
    if device == "cpu":
        assert not early.starts_early(_kernel, torch.device("cpu"))


def test_a_traced_kernel_does_not_start_early(monkeypatch):
    monkeypatch.setattr(early, "has_early_starts", lambda device: True)
    assert not early.starts_early(object(), torch.device("cuda"))  # what wrap_triton returns while torch traces


@pytest.mark.gpu
def test_counters_that_a_kernel_clears():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    device = torch.device("cuda", torch.cuda.current_device())
    if not early.has_early_starts(device):
        pytest.skip("needs compute capability 9.0")
    for count in (1, 1024, 1025):
        torch.full((count,), 7, dtype=torch.int32, device=device)
        assert not joint.counters(count, device, True).any()


@jit
def _nothing():
    pass


@jit
def _same(pair):
    return pair


@jit
def _sum_of_what_is_there(row_words, parts, ALL_PARTS: tl.constexpr, ONE_WARP: tl.constexpr):
    each = tl.arange(0, ALL_PARTS)
    numbers = (tl.load(row_words + tl.minimum(each, parts - 1)) >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return tl.sum(tl.where(each < parts, numbers, 0.0), axis=0)


@jit
def _packed(low, high, HALF: tl.constexpr):
    if HALF:
        low, high = low.to(tl.float16), high.to(tl.float16)
    else:
        low, high = low.to(tl.bfloat16), high.to(tl.bfloat16)
    return (high.to(tl.int16, bitcast=True).to(tl.int32) << 16) | (low.to(tl.int16, bitcast=True).to(tl.int32) & 65535)


@pytest.fixture
def in_two_turns(monkeypatch):
    """Kernels that wait for words, where programs run one after the other: the second turn finds the first one's."""
    if torch.cuda.is_available():
        pytest.skip("the kernels run as they are: see the tests of the operators")
    for module in (rmsnorm_kernels, softmax_backward_pairs):
        monkeypatch.setattr(module, "gdc_wait", _nothing)
        monkeypatch.setattr(module, "sum_of_words", _sum_of_what_is_there)
    monkeypatch.setattr(softmax_backward_pairs, "_as_read", _same)
    monkeypatch.setattr(softmax_backward_pairs, "_packed", _packed)

    def launch(kernel, programs, *arguments, **constants):
        for _ in range(2):
            kernel[(programs,)](*arguments, **constants)

    return launch


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("N", "turned"), [(300, False), (256, False), (300, True)])
def test_a_row_of_rmsnorm_whose_sum_travels_in_words(N, turned, dtype, in_two_turns):
    M, BLOCK = 3, 128
    x, residual, weight = rmsnorm.inputs((M, N), dtype, "cpu", seed=1)
    if turned:
        x = x.t().contiguous().t()
    parts = triton.cdiv(N, BLOCK)
    for plain in (False, True):
        given = (x, None, None) if plain else (x, residual, weight)
        out, total = (torch.full((M, N), float("nan"), dtype=x.dtype) for _ in range(2))
        root = torch.full((M,), float("nan"))
        words = torch.zeros(M * parts, dtype=torch.int64)
        steps = (*x.stride(), *((0, 0) if plain else residual.stride()), 0 if plain else weight.stride(0))
        flags = {"HAS_RESIDUAL": not plain, "HAS_WEIGHT": not plain, "KEEP_SUM": True, "KEEP_ROOT": True}
        in_two_turns(
            rmsnorm_kernels._rmsnorm_words, M * parts, *given, out, total, root, words, N, *steps, 1e-6, parts,
            **flags, ONE_WARP=False, ALL_PARTS=triton.next_power_of_2(parts), BLOCK_N=BLOCK,
        )  # fmt: skip
        rtol, atol = rmsnorm.OP.tolerance(dtype, (M, N))
        torch.testing.assert_close(out.double(), rmsnorm.reference(*given), rtol=rtol, atol=atol)
        z = x.float() if plain else x.float() + residual.float()
        torch.testing.assert_close(total, z.to(x.dtype), rtol=0, atol=0)
        torch.testing.assert_close(root, torch.rsqrt(z.square().mean(-1) + 1e-6))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("N", "whole"), [(300, False), (256, False), (256, True)])
def test_a_row_of_softmax_backward_in_pairs(N, whole, dtype, in_two_turns):
    M, BLOCK = 3, 128
    y, dy = softmax_backward.inputs((M, N), dtype, "cpu", seed=2, padding=2)
    dx, parts = torch.full((M, N), float("nan"), dtype=y.dtype), triton.cdiv(N, BLOCK)
    words = torch.zeros(M * parts, dtype=torch.int64)
    in_two_turns(
        softmax_backward_pairs._softmax_backward_pairs, M * parts, y, dy, dx, words, N, y.stride(0), dy.stride(0),
        dx.stride(0), parts, ALL_PARTS=triton.next_power_of_2(parts), BLOCK_N=BLOCK, HALF=dtype == "float16",
        WHOLE=whole,
    )  # fmt: skip
    assert_matches(softmax_backward.OP, dx, (y, dy), dtype)
