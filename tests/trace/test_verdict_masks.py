"""A verdict says what the mask did: let the access happen, held it back, or was not there; and what explains it."""

import os

import pytest

from kernels.trace import Fault
from kernels.trace.faults import VERDICTS

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels.trace.triton import trace_triton  # noqa: E402

pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(
        os.environ.get("TRITON_INTERPRET") != "1",
        reason="Triton is compiled in this run; with TRITON_INTERPRET=1 its kernels are traced.",
    ),
]


@triton.jit
def copies(x_ptr, out_ptr, n, reach, kept, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < reach) if MASKED else tl.load(x_ptr + i)
    tl.store(out_ptr + i, x, mask=i < kept)


def verdicts(n=20, reach=20, kept=20, masked=True, programs=2):
    x, out = torch.zeros(n), torch.full((n,), torch.nan)
    launch = lambda: copies[(programs,)](x, out, n, reach, kept, BLOCK=16, MASKED=masked)  # noqa: E731
    return trace_triton(launch, {"x": x, "out": out}).faults(outputs=["out"])


def test_a_load_without_a_mask_is_told_from_one_whose_mask_is_wrong():
    (dropped,) = verdicts(masked=False)
    assert (dropped.kind, dropped.mask, dropped.masked, dropped.element) == ("out-of-bounds", "on", False, 20)
    assert "has no mask, so nothing guards the tail" in dropped.cause
    (wide,) = verdicts(reach=25)
    assert (wide.kind, wide.mask, wide.masked, wide.count) == ("out-of-bounds", "on", True, 5)
    assert "it is true for elements of the tail" in wide.cause


def test_a_mask_that_lets_all_through_is_a_mask():
    (all_on,) = verdicts(reach=1000)
    assert (all_on.masked, all_on.count) == (True, 12)


def test_an_element_that_a_mask_held_back_names_its_holder():
    (held,) = verdicts(kept=18)
    assert (held.kind, held.element, held.count) == ("unwritten", 18, 2)
    assert (held.mask, held.masked, held.who) == ("off", True, "program 1")
    (nobody,) = verdicts(programs=1)
    assert (nobody.element, nobody.mask, nobody.masked, nobody.who) == (16, "", None, "")


@triton.jit
def halves(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i // 2, i.to(tl.float32), mask=i < n)


def test_lanes_of_one_store_that_clash_had_their_mask_on():
    out = torch.zeros(8)
    (clash,) = trace_triton(lambda: halves[(1,)](out, 16, BLOCK=16), {"out": out}).faults()
    assert (clash.kind, clash.mask, clash.masked, clash.count) == ("double-write", "on", True, 8)


def test_a_fault_is_made_as_before_and_explained_by_its_kind():
    fault = Fault("unwritten", "out[1] is never written.", "out", 1, "", "", 0, 1, "")
    assert (fault.mask, fault.masked, fault.explanation) == ("", None, "unwritten")
    assert fault.explanation in VERDICTS
