"""What an operator is: its reference, its implementations, its inputs, its shapes and its tolerance.

Every operator file ends in one `Op` record. Tests, benchmarks and graders read nothing else, so a new operator is
checked and timed as soon as `kernels/ops/registry.py` names it.
"""

from __future__ import annotations

import functools
import importlib
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float16", "bfloat16")
MAX_WARPS = 32  # 1024 threads, the most a CUDA block may have
ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

# Largest relative error of rounding a real number to each type, and the smallest number it still tells from zero
# (float32 and bfloat16: the smallest normal one, because a GPU may flush what lies below it).
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126}


@dataclass(frozen=True)
class Case:
    """A shape, and why it is in the list."""

    shape: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Implementation:
    """One way to compute an operator.

    `call` takes the tensors that `Op.inputs` makes and returns a new tensor. `needs` is "torch", "triton" (a CUDA
    tensor, or Triton's interpreter), "cuda" (the compiled library of `kernels.cuda`), or the name of another package
    that has to be installed. `source` is the reference whose fingerprint decides whether a record of it is stale, ""
    for library code; it reaches the kernels and how they are launched, but no argument check, whose wording costs the
    GPU nothing. `ours` marks code that this project teaches; the others are what it is compared with. `dtypes` are the
    dtype names that `call` accepts.
    """

    name: str
    call: Callable[..., torch.Tensor]
    needs: str
    source: str
    ours: bool = False
    dtypes: tuple[str, ...] = DTYPES


@dataclass(frozen=True)
class Op:
    """An operator's record.

    `reference(*inputs)` returns the result in float64. `inputs(shape, dtype, device, seed, padding)` returns fresh
    seeded tensors; `padding` is the number of NaN behind each row. Benchmarks pass 0 and get contiguous tensors: a
    library that copies a padded input first would be timed with its copy. `bytes_moved` and `flops` count what the
    formula needs, not what a cache saw. `tolerance(dtype, shape)` is (rtol, atol) against `reference`.

    `gradient_tolerance(dtype, shape)` is given where the "triton" implementation records a gradient: (rtol, atol) of
    the gradients of all inputs against those that autograd finds for `reference` in float64. `backward` is the record
    of the operator that computes them, where it has kernels of its own and is not registered itself: its inputs are
    what was saved and the upstream gradient. Where an operator has several results, `reference` and `call` return a
    tuple. `outputs(*inputs)` returns new, uninitialised results for a launcher to write to; it is left out where there
    is one result that is like the first input. `bench_dtypes` are those that a benchmark times unless told otherwise;
    left out, all. `launch` are the choices of the module's launcher that make it this operator and not another one of
    the same kernel.
    """

    name: str
    reference: Callable[..., torch.Tensor]
    implementations: tuple[Implementation, ...]
    inputs: Callable[..., tuple[torch.Tensor, ...]]
    bytes_moved: Callable[[tuple[int, ...], str], int]
    flops: Callable[[tuple[int, ...]], int]
    checks: tuple[Case, ...]
    benches: tuple[Case, ...]
    dtypes: tuple[str, ...]
    tolerance: Callable[[str, tuple[int, ...]], tuple[float, float]]
    gradient_tolerance: Callable[[str, tuple[int, ...]], tuple[float, float]] | None = None
    backward: Op | None = None
    outputs: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]] | None = None
    bench_dtypes: tuple[str, ...] = ()
    launch: Mapping[str, object] = field(default_factory=dict)

    def implementation(self, name: str) -> Implementation:
        """The implementation of that name; KeyError with a sentence that lists the names there are."""
        for implementation in self.implementations:
            if implementation.name == name:
                return implementation
        known = ", ".join(implementation.name for implementation in self.implementations)
        raise KeyError(f"{self.name} has no implementation named {name!r}; it has {known}.")


def tolerance(dtype: str, terms: int = 1, largest_exponent: float = 0.0) -> tuple[float, float]:
    """(rtol, atol) for a float32 computation that ends in one rounding to `dtype`, against float64.

    The float32 result carries one roundoff of float32, and the final rounding one of `dtype`. With `terms` > 1, sums
    add sqrt(terms) roundoffs (the errors of a long sum behave like a random walk), and the few operations around them
    4 more. An exponential turns an absolute error of its argument into a relative error of its value, so an argument
    as large as `largest_exponent` adds that many roundoffs.
    """
    rtol = ROUNDOFF[dtype] + ROUNDOFF["float32"]
    if terms > 1:
        rtol += ROUNDOFF["float32"] * (math.sqrt(terms) + 4 + largest_exponent)
    return rtol, SMALLEST[dtype]


def elements(shape: tuple[int, ...]) -> int:
    """Number of elements of a shape; 1 for the empty shape."""
    return math.prod(shape)


def with_padded_rows(values: torch.Tensor, padding: int) -> torch.Tensor:
    """The same values in rows (last dimension) that are each followed by `padding` NaN.

    A kernel that takes the width for the row stride, or reads past the end of a row, then meets NaN.
    """
    if padding == 0 or values.dim() == 0:
        return values
    width = values.shape[-1]
    buffer = values.new_full((*values.shape[:-1], width + padding), float("nan"))
    buffer[..., :width] = values
    return buffer[..., :width]


def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`function` through torch.compile, compiled at its first call with each shape, stride and dtype.

    One compiled function that meets many shapes would fall back to dynamic shapes, and past the recompile limit to
    eager mode, both slower and without a word; a copy of the code object for each shape has neither problem.
    """

    @functools.cache
    def build(_signature: tuple) -> Callable[..., torch.Tensor]:
        import torch

        copy = types.FunctionType(function.__code__.replace(), function.__globals__, closure=function.__closure__)
        return torch.compile(copy, dynamic=False)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        return build(tuple((t.shape, t.stride(), t.dtype, t.device) for t in tensors))(*tensors)

    return call


def cuda_twin(name: str, source: str = "cuda/kernels.cu", dtypes: tuple[str, ...] = ("float32",)) -> Implementation:
    """The CUDA kernel of that name in that file, called through `kernels.cuda`, or its module named after the file.

    The module is looked up at the first call: the library may not be built, and the machine may have no compiler.
    """
    stem = source.removeprefix("cuda/").removesuffix(".cu")
    module = "kernels.cuda" if stem == "kernels" else f"kernels.cuda.{stem}"

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        return getattr(importlib.import_module(module), name)(*tensors)

    return Implementation(name, call, "cuda", f"{source}:{name}", ours=True, dtypes=dtypes)
