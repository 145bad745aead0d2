"""The tiny model that is trained twice: both runs are as near to each other as rounding allows, and no wrong one is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")


from kernels.ops.matmul import matmul  # noqa: E402
from lessons_src.examples import train_tiny  # noqa: E402

pytestmark = pytest.mark.interpreted

ROOT = Path(__file__).resolve().parents[2]
STEPS = 4


def test_the_program_trains_both_models_and_says_that_they_agree():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "lessons_src/examples/train_tiny.py", "--steps", str(STEPS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bit for bit: True" in done.stdout and "allows: True" in done.stdout
    refused = subprocess.run([*command[:-1], "0"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2 and "expected at least 1" in refused.stderr


def test_the_allowance_follows_the_training_that_it_is_for():
    """In float64 the losses of `allowances`, written without autograd, are those of `train`: both round 2**29 finer."""
    weights, batches = train_tiny.draw(STEPS, 3, "cpu")
    double = [w.double() for w in weights], [(x.double(), wanted.double()) for x, wanted in batches]
    exact, allowed = train_tiny.allowances(weights, batches)
    for one, other, most in zip(train_tiny.train(*double, torch.matmul), exact, allowed):
        assert abs(one - other) <= most * 2.0**-29
    assert exact[-1] < exact[0]
    assert all(most < loss / 1000 for most, loss in zip(allowed, exact))  # three digits of a loss are certain


def test_right_products_agree():
    found = train_tiny.compare(STEPS, seed=1)
    assert found.within and train_tiny.same_gradients(seed=1)
    for loss, exact, most in zip(found.ours, found.exact, found.allowed):
        assert abs(loss - exact) <= most


class Wrong(torch.autograd.Function):
    """A product whose gradient for the weight leaves out the last example."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, dout):
        a, b = ctx.saved_tensors
        return dout @ b.t(), a[:-1].t() @ dout[:-1]


WRONG = {
    "rounds its operands to tf32": lambda a, b: matmul(a, b, "tf32"),
    "rounds its result to bfloat16": lambda a, b: matmul(a, b).bfloat16().float(),
    "loses an example in the weight's gradient": Wrong.apply,
    "loses the last of k": lambda a, b: matmul(a[:, :-1], b[:-1]),
}


@pytest.mark.parametrize("product", WRONG.values(), ids=WRONG)
def test_products_that_are_wrong_by_little_are_found(product):
    assert not train_tiny.compare(STEPS, product=product).within
