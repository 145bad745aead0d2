"""Loads without `other` yield NaN while `undefined_is_nan` lasts; what is defined stays as it is."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels.trace.triton import trace_triton  # noqa: E402
from kernels.trace.undefined import undefined_is_nan  # noqa: E402

pytestmark = pytest.mark.triton


@triton.jit
def copy_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if PADDED:
        x = tl.load(x_ptr + i, mask=i < n, other=7)
    elif MASKED:
        x = tl.load(x_ptr + i, mask=i < n)
    else:
        x = tl.load(x_ptr + i)  # UNMASKED
    tl.store(out_ptr + i, x)


def copied(dtype=torch.float32, masked=True, padded=False):
    x, out = torch.arange(5).to(dtype), torch.zeros(8, dtype=dtype)
    trace = trace_triton(
        lambda: copy_block[(1,)](x, out, 5, BLOCK=8, MASKED=masked, PADDED=padded), {"x": x, "out": out}
    )
    return out, trace


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_load_without_other_yields_nan_where_its_mask_is_off(dtype):
    with undefined_is_nan():
        out, _ = copied(dtype)
    assert out[:5].tolist() == [0, 1, 2, 3, 4]
    assert out[5:].isnan().all()


def test_integers_stay_zero():
    with undefined_is_nan():
        out, _ = copied(torch.int32)
    assert out.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]


def test_a_load_with_other_yields_that():
    with undefined_is_nan():
        out, _ = copied(padded=True)
    assert out.tolist() == [0, 1, 2, 3, 4, 7, 7, 7]


def test_the_interpreter_is_left_as_it_was():
    with pytest.raises(ZeroDivisionError), undefined_is_nan():
        raise ZeroDivisionError
    out, _ = copied()
    assert out.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]


def test_a_verdict_still_names_the_line_of_the_kernel_and_that_it_has_no_mask():
    with undefined_is_nan():
        _, trace = copied(masked=False)
    (fault,) = trace.faults(outputs=["out"])
    assert fault.kind == "out-of-bounds" and fault.masked is False
    line = Path(__file__).read_text().splitlines()[fault.line - 1]
    assert fault.file == __file__ and "UNMASKED" in line


def test_numpy_makes_no_noise():
    with undefined_is_nan(), np.errstate(all="raise"):
        copied()
