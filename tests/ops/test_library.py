"""Registration: what an operator promises to PyTorch, tried on one whose kernel is three lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernels.ops import library
from kernels.ops.library import direct, launch, register, wrap_triton


@triton.jit
def _scale(x_ptr, out_ptr, M, N, x_stride_m, x_stride_n, factor, BLOCK_N: tl.constexpr):
    m = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=n < N)
    tl.store(out_ptr + m * N + n, x * factor, mask=n < N)


def _forward(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        _launch(x, out, factor)
    return out


def _launch(x, out, factor):
    M, N = x.shape
    block = triton.next_power_of_2(int(N))
    launch(wrap_triton(_scale), (M,), (x, out, M, N, *x.stride(), factor), BLOCK_N=block, num_warps=1)


def _save(ctx, inputs, output):
    ctx.factor = inputs[1]


_scaled_back = register("test_scaled_backward", _forward, lambda x, factor: x.new_empty(x.shape))
_scaled = register(
    "test_scaled",
    _forward,
    lambda x, factor: x.new_empty(x.shape),
    save=_save,
    backward=lambda ctx, gradient: (_scaled_back(gradient, ctx.factor), None),
)


def scaled(x, factor=3.0):
    return _forward(x, factor) if direct(x) else _scaled(x, factor)


def views(device):
    base = torch.randn(4, 6, generator=torch.Generator(device).manual_seed(1), device=device)
    return {
        "contiguous": base,
        "transposed": base.t(),
        "no rows": base[:0],
        "one column": base[:, :1],
    }


@pytest.mark.parametrize("name", views("cpu"))
def test_opcheck(name, device):
    x = views(device)[name].detach().requires_grad_()
    found = torch.library.opcheck(_scaled, (x, 3.0))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", views("cpu"))
def test_one_graph_forward_and_backward(name, device):
    def twice(x):
        return scaled(torch.relu(scaled(x)), 0.5)

    compiled = torch.compile(twice, fullgraph=True, backend="aot_eager")
    results = []
    for function in (twice, compiled):
        x = views(device)[name].detach().clone().requires_grad_()
        out = function(x)
        out.sum().backward()
        results.append((out, x.grad))
        assert out.is_contiguous()
    torch.testing.assert_close(results[1], (results[0][0], results[0][1]))
    assert torch.equal(results[0][1], (x > 0) * 1.5)


def test_a_gradient_of_any_layout(device):
    x = torch.tensor([[1.0, -2.0], [3.0, 4.0]], device=device, requires_grad=True)
    zeros = torch.zeros(2, 2, device=device)
    weights = torch.tensor([[1.0, 2.0, 30.0, 40.0], [5.0, 7.0, 50.0, 60.0]], device=device)
    (torch.cat([scaled(x), zeros], 1) * weights).sum().backward()  # arrives with strides (4, 1)
    assert torch.equal(x.grad, 3 * weights[:, :2])
    x.grad = None
    scaled(x).sum().backward()  # arrives with strides (0, 0)
    assert torch.equal(x.grad, torch.full_like(x, 3.0))


def test_the_second_derivative_is_refused(device):
    x = torch.ones(2, 2, device=device, requires_grad=True)
    (first,) = torch.autograd.grad(scaled(x).pow(2).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="the gradient that test_scaled computed has no derivative"):
        torch.autograd.grad(first.sum(), x)


def test_who_goes_the_direct_way(device):
    x = torch.ones(2, 2, device=device)
    assert direct(x, None) and direct(torch.nn.Parameter(x, requires_grad=False))
    wants = torch.ones(2, 2, device=device, requires_grad=True)
    assert not direct(wants) and not direct(x, wants)
    with torch.no_grad():
        assert direct(wants)
    with torch._subclasses.FakeTensorMode():
        assert not direct(torch.ones(2))
        assert not direct(x)
    seen = []
    torch.func.vmap(lambda row: seen.append(direct(row)) or row)(x)
    with torch.autograd.forward_ad.dual_level():
        seen.append(direct(x))
    torch.compile(lambda t: t + direct(t), backend="eager")(x)
    assert seen == [False, False]


def test_a_call_is_recorded_only_where_it_can_be(device, monkeypatch):
    monkeypatch.setattr(library, "_launch_here", None)
    monkeypatch.setitem(globals(), "_scaled", None)  # the operator is not asked
    x = torch.ones(2, 2, device=device)
    if device == "cpu":
        assert scaled(x).tolist() == [[3.0, 3.0]] * 2


class Compiled:
    """Stands for a compiled kernel: remembers what it was launched with."""

    def __init__(self):
        self.launches = []

    def __getitem__(self, grid):
        return lambda *arguments: self.launches.append((grid, arguments))


def test_a_repeated_launch_skips_the_lookup(monkeypatch):
    looked_up, compiled = [], Compiled()

    class Kernel:
        arg_names = ("x_ptr", "N", "BLOCK_N", "FLAG")

        def __getitem__(self, grid):
            return lambda *arguments, **constants: looked_up.append((grid, arguments, constants)) or compiled

    monkeypatch.setattr(library, "_ready", {})
    kernel, x = Kernel(), torch.ones(64)
    constants = {"FLAG": True, "BLOCK_N": 8, "num_warps": 2}
    first, second, third = (library._launch_here(kernel, (5,), (x, 7), constants, 0) for _ in range(3))
    assert looked_up == [((5,), (x, 7), constants)]
    assert compiled.launches == [((5, 1, 1), (x, 7, 8, True))] * 2
    assert first is None and callable(second)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    other = torch.zeros(64)
    third(other)
    assert compiled.launches.pop()[1][0] is other
    library._launch_here(kernel, (5,), (x, 8), constants, 0)  # another number
    library._launch_here(kernel, (5,), (x[1:], 7), constants, 0)  # another alignment
    library._launch_here(kernel, (5,), (x.half(), 7), constants, 0)  # another dtype
    library._launch_here(kernel, (5,), (x, 7), constants, 1)  # another GPU
    library._launch_here(kernel, (5,), (x, 7), {**constants, "num_warps": 4}, 0)
    assert len(looked_up) == 6 and len(compiled.launches) == 2
    monkeypatch.setattr(library, "MAX_READY", 6)
    library._launch_here(kernel, (5,), (x, 9), constants, 0)
    assert len(library._ready) == 1


def test_a_compiled_operator_opens_and_names_its_kernels():
    """In a process that does not interpret: no GPU is needed to trace with fake tensors."""
    script = Path(__file__).with_name("trace_operators.py")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(script.parents[2]), environment.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "kernels named: ['_scale']" in done.stdout
    assert "kernels in the graphs: 2" in done.stdout
    assert "graphs for four numbers of rows: 1 1" in done.stdout
    for name in ("bins", "splits", "window"):
        assert f"graphs for three numbers of {name}: 3\n" in done.stdout
