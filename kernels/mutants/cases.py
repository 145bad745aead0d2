"""The inputs that every mutant meets: whole and ragged shapes, padded rows, masked, extreme and special values."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kernels.mutants.model import Case, Problem

SEED = 20
FAR = 1 << 30  # elements between rows: a row number times this passes 2**31
TRIVIAL = ("no row", "no column")


def add_cuda() -> tuple[Case, ...]:
    def make(n: int) -> Problem:
        x, y = draw(n), draw(n, seed=1) * 100
        out = np.full(n, np.nan, np.float32)
        expected = x.astype(np.float64) + y
        return Problem({"x": x, "y": y, "out": out}, [x, y, out, n], {"out": expected}, *_add_tolerance("float32"))

    reasons = {
        "ragged": (257, "one element past a block: 255 spare threads"),
        "whole": (512, "two whole blocks: nobody is spare"),
        "several blocks": (1000, "four blocks, the last one ragged"),
        "one": (1, "a single element: less than a block"),
        "empty": (0, "nothing to launch"),
    }
    return tuple(Case(name, reason, partial(make, n), trivial=n == 0) for name, (n, reason) in reasons.items())


def add_triton() -> tuple[Case, ...]:
    def make(n: int, dtype: str, block_size: int) -> Problem:
        import torch

        x = torch.from_numpy(draw(n)).to(getattr(torch, dtype))
        y = (torch.from_numpy(draw(n, seed=1)) * 100).to(x.dtype)
        out = torch.full_like(x, float("nan"))
        buffers = {"x": x, "y": y, "out": out}
        expected = (x.double() + y.double()).numpy()

        def call(module: Any, given: dict[str, Any]) -> None:
            module.launch_add(given["x"], given["y"], given["out"], block_size=block_size)

        return Problem(buffers, call, {"out": expected}, *_add_tolerance(dtype))

    reasons = {
        "ragged": (257, "float32", 256, "one element past a block of 256"),
        "whole": (512, "float32", 256, "two whole programs: nothing is masked"),
        "one": (1, "float32", 256, "a single element: less than a block"),
        "float16": (1000, "float16", 256, "half precision, four programs, the last one ragged"),
        "bfloat16": (100, "bfloat16", 64, "bfloat16, two programs"),
        "empty": (0, "float32", 256, "nothing to launch"),
    }
    return tuple(
        Case(name, reason, partial(make, *what), trivial=what[0] == 0) for name, (*what, reason) in reasons.items()
    )


def softmax_cuda(a_thread_a_row: bool = False) -> tuple[Case, ...]:
    """Cases for the launchers of `cuda/kernels.cu`; with `a_thread_a_row` also many rows and one very long one."""

    def make(values: Callable[[], np.ndarray], x_padding: int = 0, out_padding: int = 0, shift: int = 0) -> Problem:
        scores = values()
        rows, columns = scores.shape
        x = padded(scores, x_padding, shift)
        out = padded(np.full_like(scores, np.nan), out_padding)
        strides = [columns + x_padding, columns + out_padding]
        call = [x, out, rows, columns, *strides]
        return Problem({"x": x, "out": out}, call, {"out": _softmax(scores)}, *_softmax_tolerance("float32", columns))

    def far_rows() -> Problem:
        scores = _rows(3, 8, 0.0)
        x, out = _sparse(3, 8, FAR), np.full_like(scores, np.nan)
        x[...] = scores
        call = [x, out, 3, 8, FAR, 8]
        return Problem({"x": x, "out": out}, call, {"out": _softmax(scores)}, *_softmax_tolerance("float32", 8))

    plain = {
        name: (partial(make, values, x_padding, out_padding), reason)
        for name, (values, x_padding, out_padding, reason) in _softmax_cases(1028).items()
    }
    plain["far rows"] = (far_rows, "rows 2³⁰ elements apart: the third begins at 2³¹")
    plain["shifted base"] = (partial(make, partial(_rows, 2, 64), shift=1), "x begins one element into its memory")
    if a_thread_a_row:
        plain["many rows"] = (partial(make, partial(_rows, 300, 5)), "more rows than a block has threads")
        reason = "8191 weights, each too small to change a sum of 1 in float32, and together not"
        plain["long row"] = (partial(make, partial(_one_ahead, 8192, 17.3)), reason)
    return tuple(Case(name, reason, function, name in TRIVIAL) for name, (function, reason) in plain.items())


def softmax_triton(path: str, block: int | None = None) -> tuple[Case, ...]:
    """Cases for `launch_softmax` on one path; `block` is the looped kernel's chunk in columns."""

    def make(
        values: Callable[[], np.ndarray], x_padding: int = 0, out_padding: int = 0, dtype: str = "float32", flip=False
    ) -> Problem:
        import torch

        scores = torch.from_numpy(values()).to(getattr(torch, dtype))
        x, out = (_padded_tensor(torch, t, p) for t, p in ((scores, x_padding), (scores, out_padding)))
        if flip:
            x = scores.t().contiguous().t()
        out.fill_(float("nan"))

        def call(module: Any, given: dict[str, Any]) -> None:
            module.launch_softmax(given["x"], given["out"], path=path, block=block)

        expected = {"out": _softmax(scores.float().numpy())}
        return Problem({"x": x, "out": out}, call, expected, *_softmax_tolerance(dtype, scores.shape[1]))

    def far_rows() -> Problem:
        import torch

        values = torch.from_numpy(_rows(3, 8, 0.0)).bfloat16()
        x = torch.from_numpy(_sparse(3, 8, FAR, np.int16)).view(torch.bfloat16)
        x.copy_(values)
        out = torch.full((3, 8), float("nan"), dtype=x.dtype)

        def call(module: Any, given: dict[str, Any]) -> None:
            module.launch_softmax(given["x"], given["out"], path=path, block=block)

        expected = {"out": _softmax(values.float().numpy())}
        return Problem({"x": x, "out": out}, call, expected, *_softmax_tolerance("bfloat16", 8))

    made = {
        name: (partial(make, values, x_padding, out_padding), reason)
        for name, (values, x_padding, out_padding, reason) in _softmax_cases(300).items()
    }
    rows = partial(_rows, 3, 40)
    made["transposed"] = (partial(make, rows, flip=True), "columns lie a stride apart")
    made["far rows"] = (far_rows, "rows 2³⁰ elements apart: the third begins at 2³¹")
    made["float16"] = (partial(make, rows, 3, 1, "float16"), "half precision, padded rows")
    made["bfloat16"] = (partial(make, rows, dtype="bfloat16"), "bfloat16")
    if path == "block":
        made["row of programs"] = (partial(make, partial(_rows, 130, 24)), "more rows than one program takes")
    return tuple(Case(name, reason, function, name in TRIVIAL) for name, (function, reason) in made.items())


def _softmax_cases(widest: int) -> dict[str, tuple[Callable[[], np.ndarray], int, int, str]]:
    """Name: values, padding behind the rows of x and of out, and the reason."""
    return {
        "ragged": (partial(_rows, 3, 33), 0, 0, "one column past a warp; rows follow each other"),
        "padded": (partial(_rows, 3, 33), 3, 7, "rows with padding, of another length in x than in out"),
        "whole": (partial(_rows, 2, 256), 0, 0, "as many columns as a block has threads"),
        "odd stride": (partial(_rows, 3, 32), 1, 0, "whole vectors of four, but row 1 does not begin at one"),
        "odd stride out": (partial(_rows, 3, 32), 0, 1, "the same in the output"),
        "wide": (partial(_rows, 2, widest), 0, 4, "several columns a thread, or several chunks"),
        "one column": (partial(_rows, 3, 1), 0, 0, "every weight is 1"),
        "negative": (partial(_rows, 1, 50, -100.0), 0, 0, "all scores near -100: a maximum of 0 would hide them"),
        "large": (partial(_rows, 1, 50, 100.0), 0, 0, "all scores near 100: exp overflows without a maximum"),
        "masked": (partial(_masked, 200, 300), 0, 0, "the first 200 scores are -inf: whole chunks without weight"),
        "all masked": (partial(_masked, 40, 40), 0, 0, "every score is -inf: the row is NaN"),
        "NaN": (partial(_special, np.nan), 0, 0, "a NaN makes its row NaN, and no other"),
        "infinity": (partial(_special, np.inf), 0, 0, "a +inf makes its row NaN"),
        "no row": (partial(_rows, 0, 8), 0, 0, "nothing to launch"),
        "no column": (partial(_rows, 4, 0), 0, 0, "nothing to launch"),
    }


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(SEED + seed).standard_normal(shape, dtype=np.float32)


def _rows(rows: int, columns: int, level: float | None = None) -> np.ndarray:
    """Rows around -100, 0 and 100 in turn, or all around `level`."""
    levels = (np.arange(rows) % 3 - 1) * 100.0 if level is None else np.full(rows, level)
    return draw(rows, columns) + levels.astype(np.float32)[:, None]


def _masked(masked: int, columns: int) -> np.ndarray:
    scores = draw(2, columns)
    scores[1, :masked] = -np.inf
    return scores


def _one_ahead(columns: int, lead: float) -> np.ndarray:
    scores = np.zeros((1, columns), np.float32)
    scores[0, 0] = lead
    return scores


def _special(value: float) -> np.ndarray:
    scores = draw(3, 40)
    scores[1, 7] = value
    return scores


def padded(values: np.ndarray, padding: int, shift: int = 0) -> np.ndarray:
    """The values as a view of rows that are each followed by NaN, `shift` items into a 256-byte aligned memory."""
    rows, columns = values.shape
    memory = np.full(rows * (columns + padding) + shift, np.nan, np.float32)
    view = memory[shift:].reshape(rows, columns + padding)[:, :columns]
    view[...] = values
    return view


def _sparse(rows: int, columns: int, stride: int, dtype: type = np.float32) -> np.ndarray:
    """Rows `stride` items apart, in memory that is reserved and not filled: only the pages that are touched exist."""
    itemsize = np.dtype(dtype).itemsize
    size = ((rows - 1) * stride + columns) * itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, size, flags=flags)
    return np.ndarray((rows, columns), dtype, memory, 0, (stride * itemsize, itemsize))


def _padded_tensor(torch: Any, values: Any, padding: int) -> Any:
    rows, columns = values.shape
    memory = torch.full((rows, columns + padding), float("nan"), dtype=values.dtype)
    memory[:, :columns] = values
    return memory[:, :columns]


def _softmax(scores: np.ndarray) -> np.ndarray:
    if not scores.size:
        return scores.astype(np.float64)
    with np.errstate(all="ignore"):
        weights = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)


def _add_tolerance(dtype: str) -> tuple[float, float]:
    from kernels.ops import add

    return add.OP.tolerance(dtype, ())


def _softmax_tolerance(dtype: str, columns: int) -> tuple[float, float]:
    from kernels.ops import softmax

    return softmax.OP.tolerance(dtype, (1, max(1, columns)))
