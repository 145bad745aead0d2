"""Train a tiny model twice, side by side: once with this project's matrix products, once with PyTorch's.

    python lessons_src/examples/train_tiny.py [--steps 20] [--seed 0]

The model has two layers and learns to imitate a fixed one. A layer takes three products a step, those of
`kernels.ops.matmul_train`: out = a @ b on the way forward, da = dout @ b.T and db = a.T @ dout on the way back. The
last two are recorded by `kernels.ops.matmul` as its gradient. Each step has another number of examples, which changes
no kernel: the number of rows is a run-time argument.

Both runs round in float32, each in an order of its own, so their losses differ. By how much they may is computed too;
`allowances` says how. With an NVIDIA GPU the kernels are compiled and run there. Without one, or with
TRITON_INTERPRET=1, Triton's interpreter runs them on the CPU.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    raise SystemExit("This program needs torch and triton: run `make install` in the project's folder first.")

import torch

if __name__ == "__main__" and not torch.cuda.is_available():  # who imports this file chooses for itself
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported, so this comes first

import triton

from kernels.ops.matmul import matmul
from kernels.ops.matmul_train import matmul_train

ROUNDOFF = 2.0**-24  # of float32
FEATURES, HIDDEN, RESULTS = 12, 20, 4
ROWS = (64, 47, 33)  # examples in a step, in turns; no multiple of a tile among the last two
RATE = 0.25

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Batch = tuple[torch.Tensor, torch.Tensor]


def draw(steps: int, seed: int, device: str) -> tuple[list[torch.Tensor], list[Batch]]:
    """The weights to begin with, and a batch (inputs, wanted results) for each step, in float32."""
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator)

    def layers() -> list[torch.Tensor]:
        return [normal(FEATURES, HIDDEN) * FEATURES**-0.5, normal(HIDDEN, RESULTS) * HIDDEN**-0.5]

    teacher, weights = layers(), layers()
    batches = []
    for step in range(steps):
        x = normal(ROWS[step % len(ROWS)], FEATURES)
        batches.append((x.to(device), forward(x, teacher, torch.matmul).to(device)))
    return [w.to(device) for w in weights], batches


def forward(x: torch.Tensor, weights: Sequence[torch.Tensor], product: Product) -> torch.Tensor:
    """Two layers, with z / (1 + |z|) between them: it is smooth, and takes two roundings."""
    z = product(x, weights[0])
    return product(z / (1 + z.abs()), weights[1])


def train(weights: Sequence[torch.Tensor], batches: Sequence[Batch], product: Product) -> list[float]:
    """Gradient descent with autograd; the loss of every step, before its update."""
    weights = [w.clone().requires_grad_() for w in weights]
    losses = []
    for x, wanted in batches:
        loss = (forward(x, weights, product) - wanted).square().mean()
        gradients = torch.autograd.grad(loss, weights)
        weights = [(w - RATE * g).detach().requires_grad_() for w, g in zip(weights, gradients)]
        losses.append(loss.item())
    return losses


class Slack:
    """Notes every place where a run in float32 rounds: a zero that was added there, and how far it may be from zero."""

    def __init__(self) -> None:
        self.zeros: list[torch.Tensor] = []
        self.bounds: list[torch.Tensor] = []

    def note(self, value: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        self.zeros.append(torch.zeros_like(value, requires_grad=True))
        self.bounds.append(bound.detach())
        return value + self.zeros[-1]

    def rounded(self, value: torch.Tensor, times: int = 1) -> torch.Tensor:
        """A value that some operations made, each of which rounds once."""
        return self.note(value, times * ROUNDOFF * value.abs())

    def product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """K products and K - 1 sums, in any order: no term passes more than K roundings; 2 are for errors of errors."""
        return self.note(a @ b, (a.shape[1] + 2) * ROUNDOFF * (a.abs() @ b.abs()))

    def reach(self, loss: torch.Tensor) -> float:
        """By how much the loss changes if every zero is as far off as it may be, each in its worst direction."""
        slopes = torch.autograd.grad(loss, self.zeros, retain_graph=True, allow_unused=True)
        return sum(float((g.abs() * bound).sum()) for g, bound in zip(slopes, self.bounds) if g is not None)


def allowances(weights: Sequence[torch.Tensor], batches: Sequence[Batch]) -> tuple[list[float], list[float]]:
    """The losses in float64, and how far from them a run in float32 may be, step by step.

    The same training, written without autograd so that its gradients are ordinary tensors, with a zero added wherever
    float32 rounds. The slope of a loss in such a zero says what an error there does to this loss, through all the
    updates in between. Slope times the largest rounding error, summed over all places, is the allowance: exact but
    for products of two roundoffs.
    """
    slack = Slack()
    first, second = (w.double().cpu() for w in weights)
    losses, allowed = [], []
    for x, wanted in batches:
        x, wanted = x.double().cpu(), wanted.double().cpu()
        z = slack.product(x, first)
        bend = 1 + z.abs()
        hidden = slack.rounded(z / bend, 2)
        apart = slack.rounded(slack.product(hidden, second) - wanted)
        loss = apart.square().mean()
        losses.append(loss.item())
        # The mean rounds a square and each of its sums, and once more.
        allowed.append(slack.reach(loss) + (apart.numel() + 2) * ROUNDOFF * loss.item())
        dout = slack.rounded(2 * apart / apart.numel(), 2)
        dz = slack.rounded(slack.product(dout, second.t()) / bend.square(), 8)  # autograd goes there in several steps
        changes = slack.product(x.t(), dz), slack.product(hidden.t(), dout)
        first, second = (
            slack.note(w - RATE * g, ROUNDOFF * (w.abs() + 2 * RATE * g.abs()))
            for w, g in zip((first, second), changes)
        )
    return losses, allowed


@dataclass(frozen=True)
class Comparison:
    """The losses of both runs and of the one in float64, and how far a run in float32 may be from the last."""

    ours: list[float]
    torch: list[float]
    exact: list[float]
    allowed: list[float]

    @property
    def used(self) -> float:
        """The largest share of what two such runs may be apart, which is twice what one may be off."""
        return max(abs(a - b) / (2 * most) for a, b, most in zip(self.ours, self.torch, self.allowed))

    @property
    def within(self) -> bool:
        return self.used <= 1.0


def compare(steps: int = 20, seed: int = 0, device: str = "cpu", product: Product = matmul) -> Comparison:
    """Train both models from the same weights on the same batches. `product`: what stands for ours."""
    weights, batches = draw(steps, seed, device)
    exact, allowed = allowances(weights, batches)
    return Comparison(train(weights, batches, product), train(weights, batches, torch.matmul), exact, allowed)


def same_gradients(seed: int = 0, device: str = "cpu") -> bool:
    """Whether autograd through `matmul` makes the gradients of `matmul_train`, bit for bit, for the first layer."""
    (weight, _), [(x, _)] = draw(1, seed, device)
    x, weight = x.requires_grad_(), weight.requires_grad_()
    out = matmul(x, weight)
    dout = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed + 1)).to(device)
    recorded = torch.autograd.grad(out, (x, weight), dout)
    made = matmul_train(x.detach(), weight.detach(), dout)
    return all(torch.equal(one, other) for one, other in zip((out.detach(), *recorded), made))


def main(steps: int = 20, seed: int = 0) -> int:
    device = "cpu" if triton.knobs.runtime.interpret else "cuda"
    print("runs on", torch.cuda.get_device_name() if device == "cuda" else "the CPU, in Triton's interpreter")
    same = same_gradients(seed, device)
    print("autograd's gradients are those of matmul_train, bit for bit:", same)
    found = compare(steps, seed, device)
    print("step  examples  our loss   torch's    apart     may be apart")
    for step in range(steps):
        if step in (0, 1, 2, steps - 1) or step % 5 == 0:
            ours, theirs, most = found.ours[step], found.torch[step], 2 * found.allowed[step]
            print(
                f"{step:4} {ROWS[step % len(ROWS)]:9}  {ours:.6f}  {theirs:.6f}  {abs(ours - theirs):.1e}   {most:.1e}"
            )
    print("every loss is as near to torch's as rounding in float32 allows:", found.within)
    return 0 if same and found.within else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a tiny model with our products beside its PyTorch twin.")
    parser.add_argument("--steps", type=int, default=20, help="updates, at least 1 (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and examples (default 0)")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}; expected at least 1.")
    sys.exit(main(options.steps, options.seed))
