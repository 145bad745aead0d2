"""Inputs for the small kernels of `small.cu` and `small.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kernels.mutants.cases import draw, padded
from kernels.mutants.model import Case, Problem

ROUNDING = 1e-5  # of a float32 sum of some hundred terms


def _cases(make: Any, reasons: dict[str, tuple]) -> tuple[Case, ...]:
    return tuple(
        Case(name, reason, partial(make, *what), trivial=what[0] == 0) for name, (*what, reason) in reasons.items()
    )


def _values(n: int, low: int, high: int) -> np.ndarray:
    return np.random.default_rng(n).integers(low, high, n, dtype=np.int32)


HISTOGRAMS = {
    "inside": (1000, 0, 10, "every value has a bin"),
    "crowded": (300, 3, 4, "every value is the same"),
    "apart": (1, 2, 3, "a single value"),
    "outside": (500, -3, 14, "values below zero and past the last bin"),
}


def histogram_cuda() -> tuple[Case, ...]:
    def make(n: int, low: int, high: int) -> Problem:
        values, counts, bins = _values(n, low, high), np.zeros(10, np.int32), 10
        buffers, expected = {"values": values, "counts": counts}, {"counts": _counted(values, bins)}
        return Problem(buffers, [values, counts, n, bins], expected, whole=False)

    return _cases(make, HISTOGRAMS)


def _counted(values: np.ndarray, bins: int) -> np.ndarray:
    return np.bincount(values[(values >= 0) & (values < bins)], minlength=bins)


def histogram_triton() -> tuple[Case, ...]:
    def make(n: int, low: int, high: int) -> Problem:
        import torch

        values, counts = torch.from_numpy(_values(n, low, high)), torch.zeros(10, dtype=torch.int32)

        def call(module: Any, given: dict[str, Any]) -> None:
            module.histogram(given["values"], given["counts"], block=256)

        return Problem(
            {"values": values, "counts": counts}, call, {"counts": _counted(values.numpy(), 10)}, whole=False
        )

    return _cases(make, HISTOGRAMS)


TRANSPOSES = {
    "whole": (32, 32, "four whole tiles; as many rows as columns"),
    "ragged": (20, 37, "tiles that stick out on both sides"),
    "wide": (16, 48, "whole tiles, more columns than rows"),
    "one": (1, 1, "a single element"),
}


def transpose_cuda() -> tuple[Case, ...]:
    """Cases for the launchers of `cuda/patterns.cu`, whose tiles have 32 rows and columns."""

    def make(rows: int, columns: int, x_padding: int, out_padding: int) -> Problem:
        values = draw(rows, columns)
        x, out = padded(values, x_padding), padded(np.full((columns, rows), np.nan, np.float32), out_padding)
        call = [x, out, rows, columns, columns + x_padding, rows + out_padding]
        return Problem({"x": x, "out": out}, call, {"out": values.T.astype(np.float64)})

    reasons = {
        "whole": (64, 64, 0, 0, "four whole tiles; as many rows as columns"),
        "ragged": (20, 37, 0, 0, "tiles that stick out on both sides"),
        "wide": (32, 96, 0, 0, "whole tiles, more columns than rows"),
        "padded": (40, 33, 3, 5, "rows with padding, of another length in x than in out"),
        "one": (1, 1, 0, 0, "a single element"),
        "empty": (0, 5, 0, 0, "nothing to launch"),
    }
    return _cases(make, reasons)


def copy_cuda() -> tuple[Case, ...]:
    def make(rows: int, columns: int, x_padding: int, out_padding: int) -> Problem:
        values = draw(rows, columns)
        x, out = padded(values, x_padding), padded(np.full_like(values, np.nan), out_padding)
        call = [x, out, rows, columns, columns + x_padding, columns + out_padding]
        return Problem({"x": x, "out": out}, call, {"out": values.astype(np.float64)})

    reasons = {
        "whole": (64, 64, 0, 0, "four whole tiles"),
        "ragged": (20, 37, 0, 0, "tiles that stick out on both sides"),
        "padded": (33, 40, 3, 5, "rows with padding, of another length in x than in out"),
    }
    return _cases(make, reasons)


def add_next() -> tuple[Case, ...]:
    def make(n: int) -> Problem:
        x, out = draw(n), np.full(n, np.nan, np.float32)
        blocks = x.reshape(-1, 128)
        expected = {"out": (blocks + np.roll(blocks, -1, axis=1).astype(np.float64)).reshape(-1)}
        return Problem({"x": x, "out": out}, [x, out, n], expected, ROUNDING, ROUNDING)

    return _cases(make, {"one block": (128, "four warps"), "two blocks": (256, "eight warps")})


def transpose_triton() -> tuple[Case, ...]:
    def make(rows: int, columns: int) -> Problem:
        import torch

        x, out = torch.from_numpy(draw(rows, columns)), torch.full((columns, rows), float("nan"))

        def call(module: Any, given: dict[str, Any]) -> None:
            module.transpose(given["x"], given["out"], block=16)

        return Problem({"x": x, "out": out}, call, {"out": x.numpy().T.astype(np.float64)})

    return _cases(make, TRANSPOSES)


def group_sum() -> tuple[Case, ...]:
    def make(groups: int) -> Problem:
        x, out = draw(groups, 8), np.full(groups, np.nan, np.float32)
        expected = {"out": x.astype(np.float64).sum(axis=1)}
        return Problem({"x": x, "out": out}, [x, out, groups], expected, ROUNDING, ROUNDING)

    return _cases(make, {"whole": (32, "two whole blocks"), "ragged": (19, "spare lanes in the last warp")})


def reverse_in_warps() -> tuple[Case, ...]:
    def make(n: int) -> Problem:
        x, out = draw(n), np.full(n, np.nan, np.float32)
        return Problem({"x": x, "out": out}, [x, out, n], {"out": x.reshape(-1, 32)[:, ::-1].reshape(-1).astype(float)})

    return _cases(make, {"one block": (128, "four warps"), "two blocks": (256, "eight warps")})


SHIFTS = {
    "one block": (100, "a single block, and ragged"),
    "ragged": (300, "three blocks, the last one ragged"),
    "one": (1, "a single element"),
}


def shift_left() -> tuple[Case, ...]:
    def make(n: int) -> Problem:
        x, out = draw(n), np.full(n, np.nan, np.float32)
        return Problem({"x": x, "out": out}, [x, out, n], {"out": np.append(x[1:], 0).astype(np.float64)})

    return _cases(make, SHIFTS)


def shift_triton() -> tuple[Case, ...]:
    def make(n: int) -> Problem:
        import torch

        x, out = torch.from_numpy(draw(n)), torch.full((n,), float("nan"))

        def call(module: Any, given: dict[str, Any]) -> None:
            module.shift_left(given["x"], given["out"], block=128)

        return Problem({"x": x, "out": out}, call, {"out": np.append(x.numpy()[1:], 0).astype(np.float64)})

    return _cases(make, SHIFTS)


def sum_in_one_launch() -> tuple[Case, ...]:
    def make(n: int) -> Problem:
        x, partials = draw(n), np.full(-(-n // 128), np.nan, np.float32)
        tickets, total = np.zeros(1, np.int32), np.full(1, np.nan, np.float32)
        buffers = {"x": x, "partials": partials, "tickets": tickets, "total": total}
        expected = {
            "total": np.array([x.astype(np.float64).sum()]),
            "partials": np.array([part.astype(np.float64).sum() for part in np.split(x, range(128, n, 128))]),
            "tickets": np.array([len(partials)]),
        }
        return Problem(buffers, [x, partials, tickets, total, n], expected, ROUNDING, ROUNDING)

    return _cases(make, {"several blocks": (600, "five blocks"), "one block": (100, "a single block, and ragged")})


def variance() -> tuple[Case, ...]:
    def make(rows: int, columns: int, level: float) -> Problem:
        x = draw(rows, columns) + np.float32(level)
        variances = np.full(rows, np.nan, np.float32)
        expected = {"variances": x.astype(np.float64).var(axis=1)}
        return Problem({"x": x, "variances": variances}, [x, variances, rows, columns], expected, 1e-4, 1e-6)

    reasons = {
        "around zero": (5, 40, 0.0, "a mean near 0: even a careless formula is good enough"),
        "far from zero": (5, 40, 1000.0, "a mean of 1000 beside a spread of 1"),
    }
    return _cases(make, reasons)
