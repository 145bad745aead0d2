"""Triton's interpreter converts bfloat16 as a GPU does, and is silent about infinities."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernels.ops.interpreter import behave_like_a_gpu, from_bfloat16_bits, to_bfloat16_bits
from kernels.ops.registry import OPS
from kernels.ops.softmax import launch_softmax, softmax


@triton.jit
def _copy(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32), mask=offsets < n)


VALUES = torch.tensor(
    [0.0, -0.0, 1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 1.0 + 2**-8 + 2**-20, -1.0 - 3 * 2**-8, 3.3e38, 3.4e38, 1e-30, 255.9]
)


def test_a_float32_stored_as_bfloat16_rounds_to_nearest_even(device):
    x = VALUES.to(device)
    out = torch.full(x.shape, 9.0, dtype=torch.bfloat16, device=device)
    _copy[(1,)](x, out, x.numel(), BLOCK_SIZE=16)
    assert torch.equal(out.view(torch.int16), x.bfloat16().view(torch.int16))


def test_random_bits_convert_as_pytorch_has_it():
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32)
    values = bits.view(np.float32)
    expected = torch.from_numpy(values.copy()).bfloat16()
    got = torch.from_numpy(to_bfloat16_bits(values).view(np.int16)).view(torch.bfloat16)
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got[~got.isnan()], expected[~expected.isnan()])


def test_a_nan_with_a_low_payload_stays_nan():
    low = np.array([0x7F800001, 0xFFFFFFFF], dtype=np.uint32).view(np.float32)
    assert np.isnan(from_bfloat16_bits(to_bfloat16_bits(low))).all()


def test_every_bfloat16_widens_exactly():
    bits = np.arange(2**16, dtype=np.uint16)
    expected = torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16).float().numpy()
    assert np.array_equal(from_bfloat16_bits(bits), expected, equal_nan=True)


def test_a_masked_row_warns_of_nothing_and_numpy_stays_as_it_was(device):
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert softmax(torch.full((1, 3), float("-inf"), device=device)).isnan().all()
        assert softmax(torch.full((1, 4), float("nan"), device=device)).isnan().all()
    assert np.geterr() == before


def test_a_loop_up_to_a_run_time_width_warns_of_nothing(device):
    x = torch.randn(2, 40, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = launch_softmax(x, torch.empty_like(x), path="looped", block=16)
    torch.testing.assert_close(out, torch.softmax(x, dim=-1))


def test_installing_twice_changes_nothing(device):
    from triton.runtime.interpreter import InterpreterBuilder

    if device == "cuda":
        pytest.skip("the interpreter is not in use")
    once = InterpreterBuilder.cast_impl
    behave_like_a_gpu()
    assert InterpreterBuilder.cast_impl is once


def test_without_the_variable_a_cpu_tensor_gets_one_sentence_that_says_how(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    code = """
import torch
from kernels.ops.registry import OPS
for op in OPS.values():
    try:
        shape = (2, 3) if len(op.benches[0].shape) <= 2 else op.checks[1].shape
        op.implementations[0].call(*op.inputs(shape, op.dtypes[0], "cpu", 1))
    except RuntimeError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = (
        " is on cpu, where a Triton kernel runs only under Triton's interpreter: set the environment variable "
        "TRITON_INTERPRET=1 before Python starts (TRITON_INTERPRET=1 python ...), or pass a tensor on cuda."
    )
    first = {"softmax_backward": "y"}
    letters = {"matmul": "a", "fused": "a", "attention": "q"}
    first |= {name: letters[kind] for name in OPS for kind in letters if kind in name}
    assert done.stdout.splitlines() == [first.get(name, "x") + expected for name in OPS]
