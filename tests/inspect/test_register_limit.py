"""-maxrregcount limits what has no launch bounds, and leaves alone what has."""

import pytest

from kernels.inspect import InspectionFailed
from kernels.inspect.register_limit import with_register_limit

pytestmark = pytest.mark.nvcc
FREE = {"__launch_bounds__(kBoundThreads, 1)\n    strip_products_1": "strip_products_1"}


def test_a_limit_is_kept_and_paid_for():
    free = with_register_limit("cuda/residency.cu", None, replace=FREE)["strip_products_1"]
    limited = with_register_limit("cuda/residency.cu", 64, replace=FREE)
    assert free.registers > 96 and not free.spill_store_bytes
    assert limited["strip_products_1"].registers <= 64 and limited["strip_products_1"].spill_store_bytes
    assert limited["copy_resident"].spill_store_bytes == 0


def test_launch_bounds_win_over_the_option():
    assert with_register_limit("cuda/residency.cu", 64)["strip_products_1"].registers > 64


def test_a_bound_that_no_multiprocessor_can_keep_is_ignored():
    eight = {"(kBoundThreads, 6)": "(kBoundThreads, 8)"}
    assert with_register_limit("cuda/residency.cu", None, replace=eight)["strip_products_6"].registers == 32
    # 8 blocks of 256 threads are more than the 1536 of sm_120
    assert with_register_limit("cuda/residency.cu", None, arch=120, replace=eight)["strip_products_6"].registers > 96


def test_a_source_that_does_not_compile_is_said():
    with pytest.raises(InspectionFailed, match=r"could not compile cuda/residency\.cu for sm_90"):
        with_register_limit("cuda/residency.cu", None, replace={"float total = 0.0f;": "float total = ;"})
