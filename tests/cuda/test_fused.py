"""cuda/fused.cu: right values, a quarter of the instructions for the same bytes, and what is refused."""

import numpy as np
import pytest

from kernels.inspect import compile_cuda
from kernels.trace.cuda import trace_cuda_launcher, why_not

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = "cuda/fused.cu"
KERNELS = ("fused_bias_relu_scale", "fused_bias_gelu")
SHAPES = [
    (1, 1, 0),  # one thread
    (3, 257, 3),  # one column past a block, rows off the 16-byte boundary
    (5, 1028, 4),  # a multiple of four, and one thread of a second block of float4
]


def reference(kernel, value):
    if kernel.startswith("fused_bias_relu"):
        return np.where(value < 0, 0, value) * 0.5
    return 0.5 * value * (1 + np.tanh(np.sqrt(2 / np.pi) * (value + 0.044715 * value**3)))


def run(kernel, rows, columns, padding=0, **more):
    rng = np.random.default_rng(columns)
    x = np.full((rows, columns + padding), 1e30, np.float32)
    x[:, :columns] = rng.normal(size=(rows, columns)) * 3
    x[0, 0] = np.nan
    bias = rng.normal(size=columns).astype(np.float32)
    out = np.full((rows, columns + padding), -7, np.float32)
    numbers = [rows, columns, columns + padding, columns + padding]
    numbers += [0.5] if "relu" in kernel else []
    trace = trace_cuda_launcher(f"launch_{kernel}", [x, bias, out, *numbers], source=SOURCE, **more)
    return out, reference(kernel, x[:, :columns].astype(float) + bias), trace


@traced
def test_a_block_goes_on_to_later_rows():
    """The grid has at most 65,535 rows of blocks; the row behind them is somebody's second one."""
    out, want, trace = run("fused_bias_gelu", 65537, 1)
    assert trace.faults() == [] and np.allclose(out, want, rtol=1e-4, atol=1e-5, equal_nan=True)


@traced
@pytest.mark.parametrize(("rows", "columns", "padding"), SHAPES)
@pytest.mark.parametrize("form", ["", "_float4"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_element_is_right_and_nan_stays_nan(kernel, form, rows, columns, padding):
    out, want, trace = run(kernel + form, rows, columns, padding)
    if form and columns % 4:
        assert (trace.result, trace.launches) == (1, ())  # refused: rows are no whole pieces of 16 bytes
        return
    assert trace.result == 0 and trace.faults(outputs=()) == []
    np.testing.assert_allclose(out[:, :columns], want, rtol=2e-6, atol=2e-6)
    assert (out[:, columns:] == -7).all()


@traced
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_sectors_with_a_quarter_of_the_requests(kernel):
    one, four = (run(kernel + form, 4, 1024)[2] for form in ("", "_float4"))
    for buffer, what in (("x", "read"), ("out", "write")):
        narrow, wide = (trace.requests(buffer=buffer, what=what) for trace in (one, four))
        assert (len(narrow), len(wide)) == (4 * 1024 // 32, 4 * 1024 // 128)
        assert ({len(r.sectors) for r in narrow}, {len(r.sectors) for r in wide}) == ({4}, {16})


@traced
def test_a_forgotten_mask_and_a_wrong_alignment_show():
    _, _, trace = run("fused_bias_gelu", 3, 257, replace={"column >= columns": "column > columns"})
    assert "out-of-bounds" in {fault.kind for fault in trace.faults(outputs=())}
    x, bias, out = (np.zeros(9, np.float32) for _ in range(3))
    for buffers in ([x[1:], bias, out], [x, bias[1:], out], [x, bias, out[1:]]):
        trace = trace_cuda_launcher("launch_fused_bias_gelu_float4", [*buffers, 1, 8, 8, 8], source=SOURCE)
        assert (trace.result, trace.launches) == (1, ())
    assert trace_cuda_launcher("launch_fused_bias_gelu", [x, bias, out, -1, 8, 8, 8], source=SOURCE).result == 1
    assert trace_cuda_launcher("launch_fused_bias_gelu", [x, bias, out, 2, 4, 4, 3], source=SOURCE).result == 1


@pytest.mark.nvcc
def test_the_wide_form_has_wide_instructions():
    for kernel in KERNELS:
        wide = compile_cuda(f"{kernel}_float4", arch=90, source=SOURCE)
        narrow = compile_cuda(kernel, arch=90, source=SOURCE)
        assert wide.spill_store_bytes == narrow.spill_store_bytes == 0
        assert wide.instructions("LDG.E.128") and wide.instructions("STG.E.128")
        assert not narrow.instructions("LDG.E.128")


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS)
def test_values_on_the_gpu(kernel):
    import torch

    from kernels.cuda import fused

    x, bias = torch.randn(300, 1028, device="cuda"), torch.randn(1028, device="cuda")
    numbers = (0.5,) if "relu" in kernel else ()
    want = reference(kernel, (x + bias).double().cpu().numpy())
    for form in ("", "_float4"):
        got = getattr(fused, kernel + form)(x, bias, *numbers)
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=3e-6, atol=3e-6)
