"""The record every operator ends in, the registry, and the tolerance."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from kernels.ops import op as op_module
from kernels.ops.op import DTYPES, ROUNDOFF, compiled, tolerance, with_padded_rows
from kernels.ops.registry import NAMES, OPS, get
from kernels.ops.unmeasured import NAMES as UNMEASURED
from kernels.ops.unmeasured import find

ROOT = Path(__file__).parents[2]
NOT_OPERATORS = {
    "__init__", "op", "checks", "interpreter", "library", "registry", "row_plan", "joint", "partials",
    "rmsnorm_shared", "rmsnorm_kernels", "rmsnorm_plan",
    "rmsnorm_backward_wide", "softmax_parts", "softmax_backward_pairs", "error_budget", "matmul_kernels",
    "matmul_launch", "matmul_plan",
    "matmul_tuning", "interpreter_dot", "closed", "unmeasured", "matmul_gluon", "matmul_tf32", "matmul_tf32_launch",
    "attention_shared", "attention_gluon", "attention_gluon_launch",
    "attention_gluon_backward", "attention_gluon_backward_launch", "early", "softmax_ahead",
}  # fmt: skip
FUSED_TORCH = ("fused_gemm", "torch")  # on a CPU its GELU is not the tanh approximation
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")


def several(value):
    return value if isinstance(value, tuple) else (value,)


def of_rows(op):
    """Whether an operator works on rows and columns: any (..., N) is a shape of it."""
    return len(op.benches[0].shape) <= 2


def small_shape(op, rows=(7, 260)):
    """Some rows; or, for an operator of another kind, the first shape with several elements that it is checked at."""
    return rows if of_rows(op) else next(case.shape for case in op.checks if math.prod(case.shape) > 1)


def every_implementation():
    return [pytest.param(o, i, id=f"{o.name}-{i.name}") for o in OPS.values() for i in o.implementations]


def test_every_operator_file_is_registered_under_its_own_name_and_tested():
    files = {path.stem for path in (ROOT / "kernels" / "ops").glob("*.py")} - NOT_OPERATORS
    assert files == {*NAMES, *UNMEASURED} and set(NAMES) <= set(OPS)
    assert all(record.name == name for name, record in OPS.items())
    assert all((ROOT / "tests" / "ops" / f"test_{name}.py").is_file() for name in files)


def test_an_operator_without_measurements_is_found_by_name_and_is_in_no_list():
    assert not set(UNMEASURED) & set(OPS)
    assert all(find(name).name == name for name in (*UNMEASURED, "add", "matmul_tf32"))
    with pytest.raises(KeyError, match="There is no operator named 'matmuls'"):
        find("matmuls")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(KeyError, match=f"There is no operator named 'sofmax'; there are {', '.join(OPS)}"):
        get("sofmax")
    with pytest.raises(KeyError, match="add has no implementation named 'numpy'; it has triton, vector_add, torch"):
        get("add").implementation("numpy")
    assert get("add").implementation("torch").name == "torch"


@pytest.mark.parametrize("name", [*OPS, *UNMEASURED, "matmul_tf32", "matmul_tf32x3", "fused_gemm_relu"])
def test_a_record_is_complete(name):
    op = find(name)
    names = [implementation.name for implementation in op.implementations]
    assert len(names) == len(set(names))
    assert names[0] == "triton" and op.implementations[0].ours
    assert {"torch", "torch.compile"} <= set(names)
    assert set(op.dtypes) <= set(DTYPES) or set(op.dtypes) <= set(INTEGERS)
    # A second record of the same kernels need not be timed at every shape again.
    least = (3 if of_rows(op) else 2) if name in {*NAMES, *UNMEASURED} else 1
    for cases, most_left_out in ((op.checks, 3), (op.benches, least)):
        assert len({case.shape for case in cases}) == len(cases) > most_left_out
        assert all(case.reason for case in cases)
    assert set(op.bench_dtypes) <= set(op.dtypes)


@pytest.mark.parametrize("op,implementation", every_implementation())
def test_a_source_reference_names_something_that_exists(op, implementation):
    assert implementation.needs in ("torch", "triton", "cuda", "liger_kernel")
    assert set(implementation.dtypes) <= set(op.dtypes)
    if implementation.source == "":
        assert not implementation.ours
        return
    where, symbol = implementation.source.split(":")
    path = ROOT / (where if where.endswith(".cu") else where.replace(".", "/") + ".py")
    text = path.read_text()
    assert f"{symbol}(" in text, f"{path.name} has no {symbol}"


@pytest.mark.parametrize("name", NAMES)
def test_a_records_source_covers_kernels_and_plan_but_no_argument_check(name):
    from kernels.sources import explain

    reached = set(explain(OPS[name].implementations[0].source))
    module = f"kernels.ops.{name}"
    kernels = {f"{module}:{line.split('def ')[1].split('(')[0]}" for line in kernel_lines(name)}
    assert kernels <= reached and (kernels or any(symbol.split(":")[1].startswith("_") for symbol in reached))
    # Kernels with a product are interpreted by a patch that their module makes; it counts with the module.
    patch = set() if of_rows(OPS[name]) else {"kernels.ops.interpreter_dot", "kernels.ops.interpreter"}
    modules = {symbol.split(":")[0] for symbol in reached} - patch
    assert not {each for each in modules if each.startswith(("kernels.ops.checks", "kernels.ops.interpreter"))}
    if name in ("row_sum", "softmax_backward", "rmsnorm"):
        assert "kernels.ops.row_plan:plan_rows" in reached
    if name == "rmsnorm_backward":
        assert "kernels.ops.rmsnorm_backward_wide:rmsnorm_backward_joint" in reached


def kernel_lines(name: str) -> list[str]:
    lines = (ROOT / "kernels" / "ops" / f"{name}.py").read_text().splitlines()
    return [after for line, after in pairwise(lines) if line == "@triton.jit"]


@pytest.mark.parametrize(
    "op,implementation,dtype",
    [
        pytest.param(*param.values, dtype, id=f"{param.id}-{dtype}")
        for param in every_implementation()
        for dtype in param.values[1].dtypes
    ],
)
def test_every_implementation_agrees_with_the_reference(op, implementation, dtype, device):
    if implementation.needs == "cuda":
        from kernels import cuda

        if cuda.why_not():
            pytest.skip(cuda.why_not())
    if implementation.name == "torch.compile" and device == "cpu":
        pytest.skip("torch.compile is compared on a GPU")
    if device == "cpu" and (implementation.name in ("cudnn", "flash") or (op.name, implementation.name) == FUSED_TORCH):
        pytest.skip(f"PyTorch has {op.name}'s {implementation.name} on a GPU only")
    if implementation.needs == "liger_kernel":
        pytest.importorskip("liger_kernel")
    if op.name == "rmsnorm_backward" and implementation.name == "torch" and device == "cpu":
        pytest.skip("PyTorch has this kernel on a GPU only")
    shape = small_shape(op)
    inputs = op.inputs(shape, dtype, device, seed=8, padding=0)
    rtol, atol = op.tolerance(dtype, shape)
    for result, expected in zip(several(implementation.call(*inputs)), several(op.reference(*inputs)), strict=True):
        room = atol
        if implementation.needs == "torch" and result.is_cuda and result.is_floating_point() and expected.numel():
            # PyTorch's kernels round what stands between in the dtype, as our contract does not: a few roundings of
            # the largest number.
            room = max(atol, 8 * torch.finfo(getattr(torch, dtype)).eps * expected.abs().max().item())
        torch.testing.assert_close(result.double(), expected.double(), rtol=rtol, atol=room)


@pytest.mark.parametrize("name", OPS)
def test_outputs_are_like_what_is_returned(name, device):
    op = OPS[name]
    for shape in ((6, 40), (0, 8)) if of_rows(op) else [case.shape for case in op.checks[:2]]:
        inputs = op.inputs(shape, op.dtypes[0], device, seed=1)
        made = several(op.outputs(*inputs) if op.outputs else torch.empty_like(inputs[0]).contiguous())
        for new, result in zip(made, several(op.implementations[0].call(*inputs)), strict=True):
            assert (new.shape, new.dtype, new.device) == (result.shape, result.dtype, result.device)
            assert new.is_contiguous() and result.is_contiguous()


@pytest.mark.parametrize("name", OPS)
def test_inputs_are_seeded_padded_and_typed(name, device):
    op = OPS[name]
    shape = small_shape(op, (6, 40))
    for dtype in op.dtypes:
        first, again = (op.inputs(shape, dtype, device, seed=1) for _ in range(2))
        other = op.inputs(shape, dtype, device, seed=2)
        for x, same, differs in zip(first, again, other):
            assert x.device.type == device
            assert torch.equal(x, same) and not torch.equal(x, differs)
            if not of_rows(op):
                assert x.dtype in (getattr(torch, dtype), torch.float32)  # a logarithm that was kept is float32
                continue
            if x.dim() == 1:  # a number a column, or one a row
                assert x.shape[0] in (6, 40)
                continue
            assert x.shape == (6, 40) and x.dtype == getattr(torch, dtype)
            assert x.stride() == (43, 1)
            gaps = x.as_strided((5, 3), (43, 1), 40)
            assert gaps.isnan().all() if x.is_floating_point() else (gaps == gaps[0, 0]).all()
        assert all(x.is_contiguous() for x in op.inputs(shape, dtype, device, seed=1, padding=0))


def test_softmax_rows_lie_near_minus_100_0_and_100(device):
    (x,) = OPS["softmax"].inputs((2, 3, 400), "float32", device, seed=1)
    assert [round(mean / 100) for mean in x.mean(-1).flatten().tolist()] == [-1, 0, 1, -1, 0, 1]


def test_bytes_and_flops_are_integers_by_formula():
    n = 2**28
    assert OPS["add"].bytes_moved((n,), "float32") == 3221225472  # two reads, one write, four bytes
    assert OPS["add"].flops((n,)) == n
    assert OPS["softmax"].bytes_moved((4096, 1024), "bfloat16") == 2 * 4096 * 1024 * 2
    assert OPS["softmax"].flops((4096, 1024)) == 5 * 4096 * 1024
    assert OPS["add"].bytes_moved((), "float32") == 12 and OPS["add"].bytes_moved((4, 0), "float32") == 0


def test_the_tolerance_is_a_few_roundoffs_and_grows_with_the_reduction():
    assert tolerance("float32")[0] == 2 * ROUNDOFF["float32"]
    for dtype in DTYPES:
        eps = torch.finfo(getattr(torch, dtype)).eps
        assert ROUNDOFF[dtype] == eps / 2
        assert ROUNDOFF[dtype] < tolerance(dtype)[0] <= eps
        assert tolerance(dtype, 100)[0] < tolerance(dtype, 10000)[0] < 3 * max(eps / 2, 110 * 2.0**-24)
    assert tolerance("float16")[1] == torch.finfo(torch.float16).smallest_normal * torch.finfo(torch.float16).eps
    assert tolerance("float32")[1] == torch.finfo(torch.float32).smallest_normal


def test_the_largest_exponent_of_softmax_is_where_float32_ends():
    assert math.exp(-104) < 2.0**-149 < math.exp(-103)


def test_padding_is_nan_behind_each_row():
    values = torch.arange(6.0).reshape(2, 3)
    padded = with_padded_rows(values, 2)
    assert torch.equal(padded, values) and padded.stride() == (5, 1)
    assert with_padded_rows(values, 0) is values
    assert with_padded_rows(torch.tensor(1.0), 2).shape == ()


def test_compiled_builds_once_a_shape_and_only_when_called(monkeypatch):
    built = []

    def fake(function, *, dynamic):
        assert dynamic is False
        built.append(function.__code__)
        return function

    monkeypatch.setattr(torch, "compile", fake)
    call = compiled(_double)
    assert built == []
    for n in (2, 3, 2):
        assert torch.equal(call(torch.ones(n)), torch.full((n,), 2.0))
    call(torch.ones(2).half())
    assert len(built) == 3
    assert len({id(code) for code in [*built, _double.__code__]}) == 4  # one recompile budget each


def _double(x):
    return x + x


def test_a_cuda_twin_is_looked_up_when_called(monkeypatch):
    import sys
    import types

    twin = op_module.cuda_twin("vector_add")
    assert twin.dtypes == ("float32",) and twin.needs == "cuda" and twin.source == "cuda/kernels.cu:vector_add"
    fake = types.ModuleType("kernels.cuda")
    fake.vector_add = lambda x, y: x - y
    monkeypatch.setitem(sys.modules, "kernels.cuda", fake)
    assert twin.call(torch.tensor(5.0), torch.tensor(3.0)).item() == 2
    other = op_module.cuda_twin("count", "cuda/counting.cu", ("int32",))
    assert other.dtypes == ("int32",) and other.source == "cuda/counting.cu:count"
    fake = types.ModuleType("kernels.cuda.counting")
    fake.count = lambda x: x * 2
    monkeypatch.setitem(sys.modules, "kernels.cuda.counting", fake)
    assert other.call(torch.tensor(5)).item() == 10


@pytest.mark.parametrize("op,implementation", [*every_implementation()])
def test_every_implementation_can_be_called(op, implementation):
    assert callable(implementation.call) and isinstance(implementation.name, str)
