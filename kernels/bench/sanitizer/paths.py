"""The kernel paths: every way in which an operator launches, on a shape small enough for a tool that watches all of it.

The ways that share out rows come from the operators' own lists (`PATHS`) and the dtypes from their records; the CUDA
functions are in `cuda_paths`. What an operator has beside that (rows that lie side by side, an optional input, the
paths of the matrix product) is listed here; `tests/bench/test_sanitizer_paths.py` proves that no kernel of
`kernels/ops` is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KernelPath:
    """One way of one operator in one dtype.

    inputs: makes the tensors on the CPU, in the strides that matter. call: launches on those tensors, wherever they
    are, and returns what was written. source: the launcher, as records name it. cuda: the kernel's name where it is a
    CUDA function.
    """

    op: str
    way: str
    dtype: str
    inputs: Callable[[], tuple[Any, ...]]
    call: Callable[..., Any]
    source: str
    cuda: str = ""

    @property
    def name(self) -> str:
        """What a reader calls it: "softmax, joint, float32"."""
        return f"{self.op}, {self.way}, {self.dtype}"


def _turned(*tensors: Any) -> tuple[Any, ...]:
    """The same matrices with neighbouring rows side by side in memory; vectors stay."""
    return tuple(t.t().contiguous().t() if t.dim() == 2 else t for t in tensors)


def _like(x: Any) -> Any:
    import torch

    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _rows(op: str, dtypes: tuple[str, ...], source: str, ways: list[tuple], make: Callable, call: Callable):
    """A path for each way (name, shape, choices, turned) and dtype; `call(tensors, choices)` launches."""
    for name, shape, choices, turned in ways:
        for dtype in dtypes:

            def inputs(shape=shape, dtype=dtype, turned=turned):
                made = make(shape, dtype, "cpu", 0)
                return _turned(*made) if turned else made

            def launch(*tensors, choices=choices):
                return call(tensors, choices)

            yield KernelPath(op, name, dtype, inputs, launch, source)


# Shapes that a path is at home with: ragged, a few programs, and for a loop more than one step of it.
NARROW, WIDE = (17, 127), (3, 2047)
SHAPES = {"twice": (3, 1500), "looped": (3, 5001), "joint": (2, 9001), "split": (2, 9001)}
CHOICES = {"looped": {"block": 1024}}


def _ways(paths: tuple[str, ...], wide_block: bool = True) -> list[tuple]:
    ways = [("block", NARROW, {"path": "block"}, False)] if "block" in paths else []
    if "block" in paths and wide_block:
        ways.append(("block, one row a program", WIDE, {"path": "block"}, False))
    for path in paths:
        if path != "block":
            ways.append((path, SHAPES[path], {"path": path, **CHOICES.get(path, {})}, False))
        if path not in ("looped", "twice"):
            shape = NARROW if path == "block" else (40, 2051)
            ways.append((f"{path}, rows side by side", shape, {"path": path}, True))
    return ways


def _row_operators() -> Iterator[KernelPath]:
    from kernels.ops import row_sum, softmax, softmax_backward, split_softmax

    def summed(tensors, choices):
        (x,) = tensors
        return row_sum.launch_row_sum(x, _like(x[:, 0]), **choices)

    yield from _rows(
        "row_sum", row_sum.OP.dtypes, "kernels.ops.row_sum:_launch", _ways(row_sum.PATHS), row_sum.inputs, summed
    )

    def forward(tensors, choices):
        return softmax.launch_softmax(tensors[0], _like(tensors[0]), **choices)

    def even_rows(shape, dtype, device, seed):
        return softmax.inputs(shape, dtype, device, seed, padding=2)  # pairs are read, so rows begin at even elements

    source = "kernels.ops.softmax:_launch"
    yield from _rows("softmax", softmax.OP.dtypes, source, _ways(softmax.PATHS), softmax.inputs, forward)
    # The smallest tensors that have parts enough for the programs of 132 multiprocessors to be one ahead.
    for dtype, way, shape in (
        ("float32", "one part ahead, few rows", (33, 1 << 18)),
        ("float32", "one part ahead", (250, 36866)),
        ("bfloat16", "one part ahead, few rows", (64, 270338)),
    ):
        yield from _rows("softmax", (dtype,), source, [(way, shape, {}, False)], even_rows, forward)

    def in_splits(tensors, choices):
        return split_softmax.launch_split_softmax(tensors[0], _like(tensors[0]), **choices)

    ways = [("three splits", (5, 3001), {"splits": 3}, False), ("rows side by side", (40, 2051), {"splits": 2}, True)]
    dtypes = split_softmax.OP.dtypes
    yield from _rows(
        "split_softmax", dtypes, "kernels.ops.split_softmax:_launch", ways, split_softmax.inputs, in_splits
    )

    def backward(tensors, choices):
        return softmax_backward.launch_softmax_backward(*tensors, _like(tensors[0]), **choices)

    source, dtypes = "kernels.ops.softmax_backward:_launch", softmax_backward.OP.dtypes
    ways = _ways(softmax_backward.PATHS)
    yield from _rows("softmax_backward", dtypes, source, ways, softmax_backward.inputs, backward)

    def even_gradients(shape, dtype, device, seed):
        return softmax_backward.inputs(shape, dtype, device, seed, padding=2)

    pairs = [("in pairs", (5, 32770), {}, False), ("in pairs, whole parts", (5, 32768), {}, False)]
    yield from _rows("softmax_backward", ("float16", "bfloat16"), source, pairs, even_gradients, backward)


def _rmsnorm() -> Iterator[KernelPath]:
    from kernels.ops import rmsnorm, rmsnorm_backward

    def forward(tensors, choices):
        return rmsnorm.launch_rmsnorm(*tensors, _like(tensors[0]), **choices)

    def plain(tensors, choices):
        return rmsnorm.launch_rmsnorm(tensors[0], None, None, _like(tensors[0]), **choices)

    def kept(tensors, choices):
        x = tensors[0]
        root = _like(x[:, 0]).float()
        rmsnorm._launch(*tensors, _like(x), rmsnorm.EPS, _like(x), root, **choices)

    source, dtypes = "kernels.ops.rmsnorm:_launch", rmsnorm.OP.dtypes
    ways = _ways(rmsnorm.PATHS)
    straight = [way for way in ways if not way[3]]
    named = {
        word: [(f"{way[0]}, {word}", *way[1:]) for way in straight] for word in ("x alone", "kept for the gradient")
    }
    yield from _rows("rmsnorm", dtypes, source, ways, rmsnorm.inputs, forward)
    yield from _rows("rmsnorm", dtypes, source, named["x alone"], rmsnorm.inputs, plain)
    yield from _rows("rmsnorm", dtypes, source, named["kept for the gradient"], rmsnorm.inputs, kept)

    def backward(tensors, choices):
        dweight = _like(tensors[2])
        return rmsnorm_backward.launch_rmsnorm_backward(*tensors, _like(tensors[0]), dweight, **choices)

    def alone(tensors, choices):
        x, _, _, root, dout = tensors
        return rmsnorm_backward.launch_rmsnorm_backward(x, None, None, root, dout, _like(x), None, **choices)

    def with_sum(tensors, choices):
        x, residual, weight, root, dout = tensors
        dweight = _like(weight)
        rmsnorm_backward._launch(x, residual, weight, root, dout, dout, _like(x), dweight, **choices)

    source, dtypes = "kernels.ops.rmsnorm_backward:_launch", rmsnorm_backward.OP.dtypes
    ways = [way for way in _ways(rmsnorm_backward.PATHS) if not way[3] or way[0].startswith("block")]
    straight = [way for way in ways if not way[3]]
    named = {word: [(f"{way[0]}, {word}", *way[1:]) for way in straight] for word in ("x alone", "gradient of the sum")}
    ways.append(("joint, two rows a step", (5, 9001), {"path": "joint", "block_m": 2}, False))
    make = rmsnorm_backward.inputs
    yield from _rows("rmsnorm_backward", dtypes, source, ways, make, backward)
    yield from _rows("rmsnorm_backward", dtypes, source, named["x alone"], make, alone)
    yield from _rows("rmsnorm_backward", dtypes, source, named["gradient of the sum"], make, with_sum)


def _elementwise() -> Iterator[KernelPath]:
    from kernels.ops import add, bias_act, bias_act_backward, histogram

    def total(tensors, choices):
        return add.add(*tensors)

    yield from _rows(
        "add",
        add.OP.dtypes,
        "kernels.ops.add:_launch",
        [("flat", (3, 431), {}, False), ("long and odd", (add.LONG + 431,), {}, False)],
        add.inputs,
        total,
    )
    ways = [
        (f"{activation}{', rows side by side' if turned else ''}", (70, 1025) if not turned else (17, 127),
         {"activation": activation}, turned)
        for activation in ("relu", "gelu") for turned in (False, True)
    ]  # fmt: skip

    def forward(tensors, choices):
        return bias_act.launch_bias_act(*tensors, _like(tensors[0]), **choices)

    yield from _rows("bias_act", bias_act.OP.dtypes, "kernels.ops.bias_act:_launch", ways, bias_act.inputs, forward)

    def backward(tensors, choices):
        gradients = (_like(tensors[0]), _like(tensors[1]))
        return bias_act_backward.launch_bias_act_backward(*tensors, *gradients, **choices)

    source, dtypes = "kernels.ops.bias_act_backward:_launch", bias_act_backward.OP.dtypes
    yield from _rows("bias_act_backward", dtypes, source, ways, bias_act_backward.inputs, backward)

    def count(tensors, choices):
        import torch

        (x,) = tensors
        out = torch.empty((256,), dtype=torch.int64, device=x.device)
        return histogram.launch_histogram(x.reshape(-1), out, **choices)

    ways = [(path, (5001,), {"path": path, **({} if path == "plain" else {"programs": 2, "block": 2048})}, False)
            for path in histogram.PATHS]  # fmt: skip
    source = "kernels.ops.histogram:_launch"
    yield from _rows("histogram", histogram.DTYPES, source, ways, histogram.inputs, count)


def _rings_of_float32() -> Iterator[KernelPath]:
    from kernels.ops import matmul
    from kernels.ops.matmul_tf32_launch import RINGS, launch_tf32

    def even_rows(shape, dtype, device, seed):
        return matmul.inputs(shape, dtype, device, seed, padding=0)

    even = [
        ("written out in Gluon, turns", (256, 512, 160), {"ring": 0}, False),
        ("written out in Gluon, one consumer", (256, 512, 160), {"ring": 1}, False),
    ]
    odd = [("written out in Gluon, odd rows, both turned", (130, 255, 99), {"ring": 0}, True)]
    for record in matmul.MORE:
        precision = record.launch["precision"]

        def product(tensors, choices, precision=precision):
            import torch

            a, b = tensors
            out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
            return launch_tf32(a, b, out, precision, RINGS[precision][choices["ring"]])

        source = "kernels.ops.matmul_tf32_launch:launch_tf32"
        yield from _rows(record.name, record.dtypes, source, even, even_rows, product)
        yield from _rows(record.name, record.dtypes, source, odd, matmul.inputs, product)


def _matrices() -> Iterator[KernelPath]:
    from kernels.ops import fused_gemm, matmul, matmul_train

    def product(tensors, choices):
        import torch

        a, b = tensors
        shape = matmul.require_operands(a, b, choices.get("precision", "ieee"))
        return matmul.launch_matmul(a, b, torch.empty(shape, dtype=a.dtype, device=a.device), **choices)

    source, ragged, even = "kernels.ops.matmul:_launch", (70, 95, 65), (192, 256, 192)
    tiles = [
        ("tiles", ragged, {"path": "tiles"}, False),
        ("tiles, both turned", ragged, {"path": "tiles"}, True),
        ("tiles, a batch", (3, 40, 37, 35), {"path": "tiles"}, False),
        ("tiles, slices", (33, 35, 300), {"path": "tiles", "splits": 2}, False),
    ]
    yield from _rows("matmul", matmul.OP.dtypes, source, tiles, matmul.inputs, product)
    for record in matmul.MORE:
        ways = [(tiles[0][0], ragged, {"path": "tiles", **record.launch}, False)]
        yield from _rows(record.name, record.dtypes, source, ways, matmul.inputs, product)

    def even_rows(shape, dtype, device, seed):
        return matmul.inputs(shape, dtype, device, seed, padding=0)

    fast = {"path": "persistent", "block_m": 64, "block_n": 64, "block_k": 64, "num_warps": 4, "num_stages": 3}
    persistent = [
        ("persistent", even, fast, False),
        ("persistent, both turned", even, fast, True),
        ("persistent, in halves", even, {**fast, "block_m": 128, "block_n": 128, "num_warps": 8, "subtiles": 2}, False),
        ("persistent, slices", even, {**fast, "splits": 2}, False),
        ("persistent, turned around", (16, 256, 512), {**fast, "block_m": 128, "block_n": 16, "turned": True}, False),
    ]
    halves = tuple(dtype for dtype in matmul.OP.dtypes if dtype != "float32")
    yield from _rows("matmul", halves, source, persistent, even_rows, product)
    packed = [("persistent, packed", (130, 127, 129), fast, False)]
    yield from _rows("matmul", halves, source, packed, matmul.inputs, product)

    ring = {"path": "ring", "block_m": 128, "block_n": 256, "block_k": 64, "num_stages": 4, "subtiles": 2}
    ring |= {"consumers": "alone", "early": False}
    turns = {**ring, "block_n": 128, "num_stages": 6, "subtiles": 4, "consumers": "turns"}
    one_round = {**ring, "block_m": 64, "block_n": 128, "block_k": 128, "subtiles": 1, "early": True}
    written_out = [
        ("written out in Gluon", (256, 512, 320), ring, False),
        ("written out in Gluon, both turned", (256, 512, 320), ring, True),
        ("written out in Gluon, turns", (256, 512, 320), turns, False),
        ("written out in Gluon, one round", (256, 512, 320), one_round, False),
        ("written out in Gluon, halves", (256, 512, 320), {**ring, "subtiles": 4, "consumers": "halves"}, False),
    ]
    yield from _rows("matmul", halves, source, written_out, even_rows, product)

    yield from _rings_of_float32()

    def fused(tensors, choices):
        import torch

        a, b, bias = tensors
        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        return fused_gemm.launch_fused_gemm(a, b, bias, out, residual=torch.ones_like(out), **choices)

    source, dtypes = "kernels.ops.fused_gemm:_launch", fused_gemm.OP.dtypes
    ways = [
        ("tiles, gelu", ragged, {"path": "tiles", "activation": "gelu"}, False),
        ("tiles, relu", ragged, {"path": "tiles", "activation": "relu"}, False),
        ("slices, gelu", (33, 35, 300), {"path": "tiles", "splits": 2, "activation": "gelu"}, False),
    ]
    yield from _rows("fused_gemm", dtypes, source, ways, fused_gemm.inputs, fused)

    def even_inputs(shape, dtype, device, seed):
        return fused_gemm.inputs(shape, dtype, device, seed, padding=0)

    ways = [("persistent, relu", even, {**fast, "activation": "relu"}, False)]
    yield from _rows("fused_gemm", halves, source, ways, even_inputs, fused)

    def train(tensors, choices):
        return matmul_train.matmul_train(*tensors)

    ways = [("three products", (300, 40, 24), {}, False)]
    source = "kernels.ops.matmul_train:_launch"
    yield from _rows("matmul_train", matmul_train.OP.dtypes, source, ways, matmul_train.inputs, train)


def _attention() -> Iterator[KernelPath]:
    from kernels.ops import attention, attention_backward

    ways = [
        ("all keys", (1, 2, 1, 70, 70, 40), {}, False),
        ("causal", (1, 2, 2, 70, 90, 64), {"causal": True}, False),
        ("causal, window", (1, 2, 2, 140, 140, 64), {"causal": True, "window": 33}, False),
        ("lengths", (2, 2, 1, 40, 70, 40), {"lengths": True}, False),
    ]

    def numbers(tensors, choices):
        import torch

        q, k, _ = tensors
        lengths = None
        if choices.get("lengths"):
            # The last key is seen: a fault planted behind it would not be met otherwise.
            lengths = torch.full((q.shape[0],), k.shape[2], dtype=torch.int32, device=q.device)
        return lengths, choices.get("causal", False), choices.get("window", 0), q.shape[-1] ** -0.5

    def forward(tensors, choices):
        lengths, causal, window, scale = numbers(tensors, choices)
        return attention._kept(*tensors, lengths, causal, window, scale)

    source, dtypes = "kernels.ops.attention:_launch", attention.OP.dtypes
    yield from _rows("attention", dtypes, source, ways, attention.inputs, forward)

    def backward(tensors, choices):
        import torch

        lengths, causal, window, scale = numbers(tensors, choices)
        q = tensors[0]
        # Numbers of the right kind stand for what the forward kernel leaves: this path is about the other kernels.
        out, lse = torch.zeros_like(q.contiguous()), torch.zeros(q.shape[:3], dtype=torch.float32, device=q.device)
        dout = torch.ones_like(out)
        return attention_backward._forward(*tensors, lengths, out, lse, dout, causal, window, scale)

    source = "kernels.ops.attention_backward:_launch"
    yield from _rows("attention_backward", dtypes, source, ways, attention.inputs, backward)

    def even_inputs(shape, dtype, device, seed):
        return attention.inputs(shape, dtype, device, seed, padding=0)

    halves = tuple(dtype for dtype in dtypes if dtype != "float32")
    ways = [
        ("in Gluon, heads of 64", (1, 2, 1, 140, 300, 64), {}, False),
        ("in Gluon, causal", (1, 2, 2, 140, 300, 128), {"causal": True}, False),
        ("in Gluon, lengths", (2, 2, 1, 140, 300, 64), {"lengths": True}, False),
    ]
    source = "kernels.ops.attention_gluon_launch:launch_ring"
    yield from _rows("attention", halves, source, ways, even_inputs, forward)
    source = "kernels.ops.attention_gluon_backward_launch:launch_one_pass"
    ways = [(f"{way}, one pass", (*shape[:5], 128), *rest) for way, shape, *rest in ways[:2]]
    yield from _rows("attention_backward", halves, source, ways, even_inputs, backward)


def kernel_paths() -> list[KernelPath]:
    """All of them, in an order that does not change: a path's place is its number everywhere."""
    from kernels.bench.sanitizer.cuda_paths import cuda_paths

    return [*_elementwise(), *_row_operators(), *_rmsnorm(), *_matrices(), *_attention(), *cuda_paths()]
