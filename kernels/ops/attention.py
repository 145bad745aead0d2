"""attention: for each query the average of the values, weighted by the softmax of its scores with the keys.

    score[i, j] = scale * sum_d q[i, d] * k[j, d]        out[i] = sum_j softmax_j(score[i, j]) * v[j]

Shapes    q (B, H, Sq, D), k and v (B, Hkv, Sk, D); H is a multiple of Hkv, and H / Hkv neighbouring query heads share a
          head of keys and values. out (B, H, Sq, D). D from 1 to 256. Any of B, H, Sq and Sk may be 0.
Visible   query i stands at key i + length - Sq: the last query at the last key. With `causal` a key is visible up to
          that place; with `window` W beside it, only the last W of those. `lengths` (B,), int32, is the number of keys
          of each batch element, from 0 to Sk; without it, Sk. A query that sees no key gets zeros, and no gradient.
Dtypes    float32, float16, bfloat16; q, k and v have the same one, and so has out.
Strides   any in the first three dimensions, zero and negative ones of a view included, read in place; the last one must
          be 1, and a tensor where it is not is copied first. out is contiguous.
Limits    offsets are 64 bits wide; at most 2**31 - 1 programs a launch; `lengths` is trusted on a GPU, clamped to Sk.
Precision scores, softmax and the average in float32; the weights are rounded to the dtype before they meet the values,
          then one rounding of the result. float32 is multiplied as float32 ("ieee"), without Tensor Cores.
Special   -inf as a score is a masked key, and a query whose visible scores are all -inf sees none. NaN and +inf in a
          visible score make the row NaN, as in PyTorch. NaN or an infinity in v reaches the queries that see its key,
          and may reach others whose tile meets it: they weigh it with 0, and 0 times NaN is NaN.
Gradient  q, k and v, by `kernels.ops.attention_backward`, which says in what order it adds. No second derivative.
"""

import math

import torch
import triton
import triton.language as tl

from kernels.ops import attention_gluon_launch, checks, op
from kernels.ops.attention_backward import attention_backward
from kernels.ops.attention_shared import (
    FARTHEST,
    LOG2_E,
    first_key,
    last_key,
    plan_attention,
    require_lengths,
    require_window,
    seen,
    steps,
    with_unit_columns,
)
from kernels.ops.library import direct, launch, register, wrap_triton

MAX_HEAD = 256
LARGE = 2**26  # scores that the reference holds at a time, several times over, in float64


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    causal: bool = False,
    window: int = 0,
    scale: float | None = None,
) -> torch.Tensor:
    """The formula in float64, with the whole matrix of scores; of large ones, that of one batch element and key head
    at a time."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[1] // max(k.shape[1], 1)
    if q.shape[0] * k.shape[1] > 1 and q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] > LARGE:
        parts = [
            reference(q[b : b + 1, h * group : (h + 1) * group], k[b : b + 1, h : h + 1], v[b : b + 1, h : h + 1],
                      None if lengths is None else lengths[b : b + 1], causal, window, scale)
            for b in range(q.shape[0]) for h in range(k.shape[1])
        ]  # fmt: skip
        return torch.cat(parts, dim=1).view(q.shape)
    k, v = (t.double().repeat_interleave(group, dim=1) for t in (k, v))
    visible = visible_keys(q.shape[0], q.shape[2], k.shape[2], lengths, causal, window, q.device)[:, None]
    score = (q.double() @ k.transpose(-1, -2) * scale).masked_fill(~visible, float("-inf"))
    weight = torch.softmax(score, dim=-1) if k.shape[2] else score
    # A row without a key is softmax of nothing, which is NaN; here it is nothing.
    return torch.where(visible.any(-1, keepdim=True), weight.masked_fill(~visible, 0.0) @ v, 0.0)


def visible_keys(
    B: int, Sq: int, Sk: int, lengths: torch.Tensor | None, causal: bool, window: int, device: torch.device
) -> torch.Tensor:
    """Which key each query sees, as booleans (B, Sq, Sk); what the kernels decide block by block."""
    length = torch.full((B,), Sk, device=device) if lengths is None else lengths.to(device).clamp(0, Sk)
    place = torch.arange(Sq, device=device)[None, :, None] + length[:, None, None] - Sq
    key = torch.arange(Sk, device=device)[None, None, :]
    visible = (key < length[:, None, None]).expand(B, Sq, Sk)
    if causal:
        visible = visible & (key <= place)
    if window:
        visible = visible & (key > place - window)
    return visible


@triton.jit
def _attend(
    acc, maximum, total, q, k_ptr, v_ptr, k_stride, v_stride, m, begin, end, length, shift, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # A stretch of keys, block by block. The maximum so far grows, and what was added up under the
    # old one is brought to the new one: the rule that merges softmax states.
    d = tl.arange(0, BLOCK_D)[None, :]
    rows = (begin + tl.arange(0, BLOCK_N)).to(tl.int64)[:, None]
    k_at, v_at = k_ptr + rows * k_stride + d, v_ptr + rows * v_stride + d
    for start in range(begin, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        inside = (n[:, None] < length) & (d < D)
        k = tl.load(k_at, mask=inside, other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if MASKED:
            score = tl.where(seen(m[:, None], n[None, :], length, shift, CAUSAL, WINDOW), score, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
        # While a row has seen no key, -inf - -inf would be NaN and stay: subtract 0.
        base = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        weight = tl.exp2(score - base[:, None])
        keep = tl.exp2(maximum - base)
        total = total * keep + tl.sum(weight, axis=1)
        v = tl.load(v_at, mask=inside, other=0.0)
        acc = tl.dot(weight.to(v.dtype), v, acc * keep[:, None], input_precision="ieee")
        maximum = new_maximum
        k_at += BLOCK_N * tl.cast(k_stride, tl.int64)
        v_at += BLOCK_N * tl.cast(v_stride, tl.int64)
    return acc, maximum, total


@triton.jit
def _attention_queries(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, lengths_ptr, H, Sq, Sk, group, scale,
    q_stride_b, q_stride_h, q_stride_m, k_stride_b, k_stride_h, k_stride_n, v_stride_b, v_stride_h, v_stride_n,
    D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program owns BLOCK_M queries of one head, and walks along the keys that any of them sees.
    # The last queries first: with `causal` they have the most keys. A compiled graph passes scale as
    # a float64, which would make all that it touches one.
    scale = tl.cast(scale, tl.float32)
    blocks = tl.cdiv(Sq, BLOCK_M)
    block = blocks - 1 - tl.program_id(0) % blocks
    b, h = (tl.program_id(0) // blocks // H).to(tl.int64), (tl.program_id(0) // blocks % H).to(tl.int64)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)[None, :]
    length = Sk
    if RAGGED:
        length = tl.minimum(tl.maximum(tl.load(lengths_ptr + b), 0), Sk)
    shift = length - Sq
    q_at = q_ptr + b * q_stride_b + h * q_stride_h + m.to(tl.int64)[:, None] * q_stride_m + d
    q = tl.load(q_at, mask=(m[:, None] < Sq) & (d < D), other=0.0)
    k_ptr += b * k_stride_b + h // group * k_stride_h
    v_ptr += b * v_stride_b + h // group * v_stride_h
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    # Keys from `begin` to `end` are seen by some query of the block, those from `inner` to `outer` by
    # all of them: only the stretches around need a mask.
    first, last = block * BLOCK_M, tl.minimum(block * BLOCK_M + BLOCK_M, Sq) - 1
    begin = first_key(first, shift, WINDOW) // BLOCK_N * BLOCK_N
    end = last_key(last, length, shift, CAUSAL)
    inner = tl.minimum(tl.cdiv(first_key(last, shift, WINDOW), BLOCK_N) * BLOCK_N, end)
    outer = tl.maximum(last_key(first, length, shift, CAUSAL) // BLOCK_N * BLOCK_N, inner)
    if WINDOW > 0:
        acc, maximum, total = _attend(acc, maximum, total, q, k_ptr, v_ptr, k_stride_n, v_stride_n, m, begin, inner,
                                      length, shift, scale, D, CAUSAL, WINDOW, True, BLOCK_N, BLOCK_D)  # fmt: skip
    acc, maximum, total = _attend(acc, maximum, total, q, k_ptr, v_ptr, k_stride_n, v_stride_n, m, inner, outer,
                                  length, shift, scale, D, CAUSAL, WINDOW, False, BLOCK_N, BLOCK_D)  # fmt: skip
    acc, maximum, total = _attend(acc, maximum, total, q, k_ptr, v_ptr, k_stride_n, v_stride_n, m, outer, end,
                                  length, shift, scale, D, CAUSAL, WINDOW, True, BLOCK_N, BLOCK_D)  # fmt: skip
    nothing = total == 0.0
    out = tl.where(nothing[:, None], 0.0, acc / tl.where(nothing, 1.0, total)[:, None])
    row = (b * H + h) * Sq + m
    # The logarithm (base 2) of each row's sum, for the gradient. +inf makes every weight of a row
    # without a key 0 there.
    lse = tl.where(nothing, float("inf"), maximum + tl.log2(total))
    tl.store(lse_ptr + row, lse, mask=m < Sq)
    tl.store(out_ptr + row[:, None] * D + d, out.to(out_ptr.dtype.element_ty), mask=(m[:, None] < Sq) & (d < D))


def _launch(q, k, v, out, lse, lengths, causal, window, scale):
    B, H, Sq, D = q.shape
    plan = plan_attention(D, q.element_size())
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "BLOCK_D": plan.block_d}
    arguments = (q, k, v, out, lse, out if lengths is None else lengths)
    arguments += (H, Sq, k.shape[2], H // k.shape[1], scale * LOG2_E, *steps(q), *steps(k), *steps(v))
    launch(
        wrap_triton(_attention_queries),
        (B * H * triton.cdiv(Sq, plan.block_m),),
        arguments,
        D=D,
        CAUSAL=causal,
        WINDOW=window,
        RAGGED=lengths is not None,
        **tile,
        num_warps=plan.num_warps,
        num_stages=plan.num_stages,
    )


def _launch_either(q, k, v, out, lse, lengths, causal, window, scale):
    gluon = attention_gluon_launch
    launch_it = gluon.launch_ring if gluon.ENABLED and gluon.refusal(q, k, v, scale) is None else _launch
    launch_it(q, k, v, out, lse, lengths, causal, window, scale)


def _require(q, k, v, lengths, causal: bool, window: int) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        checks.require_tensor(name, tensor, differentiable=True)
        if tensor.dim() != 4:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected (batch, heads, positions, head size).")
        checks.require_alike(name, tensor, "q", q)
    checks.require_same("v", v, "k", k)
    B, H, _, D = q.shape
    if k.shape[0] != B or k.shape[3] != D:
        raise ValueError(
            f"k has shape {tuple(k.shape)} for q of {tuple(q.shape)}; expected ({B}, key heads, positions, {D})."
        )
    if not 1 <= D <= MAX_HEAD:
        raise ValueError(f"q has a head size of {D}; expected 1 to {MAX_HEAD}.")
    if k.shape[1] < 1 or H % k.shape[1]:
        raise ValueError(f"q has {H} heads and k has {k.shape[1]}; expected q's to be a multiple of k's.")
    require_window(window, causal)
    if max(q.shape[2], k.shape[2]) > FARTHEST:
        raise ValueError(f"q has {q.shape[2]} positions and k {k.shape[2]}; expected at most {FARTHEST}.")
    require_lengths(lengths, q, k)
    if q.numel():
        blocks = triton.cdiv(q.shape[2], plan_attention(D, q.element_size()).block_m)
        checks.require_programs("q", q, B * H * blocks)
    checks.require_runnable("q", q, _attention_queries)


def _kept(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None,
    causal: bool,
    window: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """out, and the base-2 logarithm of each query's sum of exponentials, (B, H, Sq) in float32."""
    window = checks.settled(window)
    _require(q, k, v, lengths, causal, window)
    out, lse = _outputs(q, k, v, lengths, causal, window, scale)
    if out.numel():
        q, k, v = (with_unit_columns(tensor) for tensor in (q, k, v))
        _launch_either(q, k, v, out, lse, None if lengths is None else lengths.contiguous(), causal, window, scale)
    return out, lse


def _outputs(q, k, v, lengths, causal, window, scale) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return out, torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def _save(ctx, inputs, output):
    q, k, v, lengths, ctx.causal, ctx.window, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, lengths, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx, dout, _dlse):
    if dout is None:
        return (None,) * 7
    q, k, v, lengths, out, lse = ctx.saved_tensors
    gradients = attention_backward(q, k, v, lengths, out, lse, dout, ctx.causal, ctx.window, ctx.scale)
    return *gradients, None, None, None, None


_attention = register("attention", _kept, _outputs, save=_save, backward=_backward)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    lengths: torch.Tensor | None = None,
    causal: bool = False,
    window: int = 0,
    scale: float | None = None,
) -> torch.Tensor:
    """softmax(scale * q kᵀ) v for every head, as a new contiguous tensor; this module's contract has the rest.

    scale: 1 / sqrt(head size) when not given. Raises TypeError or ValueError for arguments that do not fit,
    RuntimeError on a CPU tensor outside Triton's interpreter; each names the argument, and nothing has been launched.
    The method: Dao, "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023, over the
    merge of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    if not torch.compiler.is_compiling():
        _require(q, k, v, lengths, causal, window)
    scale = float(q.shape[-1] ** -0.5 if scale is None else scale)
    if not torch.compiler.is_compiling() and direct(q, k, v):
        return _kept(q, k, v, lengths, causal, window, scale)[0]
    return _attention(q, k, v, lengths, causal, window, scale)[0]


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """Seeded q, k and v for shape (B, H, Hkv, Sq, Sk, D), with `padding` NaN behind each position.

    One key of each head is long, so that some query has a dominant score.
    """
    B, H, Hkv, Sq, Sk, D = shape
    generator = torch.Generator(device).manual_seed(seed)

    def draw(heads: int, positions: int) -> torch.Tensor:
        values = torch.randn((B, heads, positions, D), generator=generator, device=device)
        if positions > 2:
            values[:, :, positions // 2] *= 4.0
        return op.with_padded_rows(values.to(getattr(torch, dtype)), padding)

    return draw(H, Sq), draw(Hkv, Sk), draw(Hkv, Sk)


def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(rtol, atol): an average of values of up to about 16 by weights that carry one roundoff of the dtype, whose
    scores, of up to about 60, carry the roundoff of float32; the errors of a sum over D and over Sk add up."""
    *_, Sk, D = shape
    rtol, smallest = op.tolerance(dtype, terms=max(Sk, 2), largest_exponent=64 * (1 + math.sqrt(D) / 16))
    return rtol, smallest + 2 * op.ROUNDOFF[dtype] + 2**10 * op.ROUNDOFF["float32"]


def gradient_tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(rtol, atol): weights, their gradients and the kept output are rounded to the dtype before they are multiplied.

    Each of the three is off by a roundoff of a sum over D of products of numbers up to 4 and up to 16; sqrt(D) of it
    remains, which the scale takes back. Over many positions the errors add up as a random walk.
    """
    rtol, atol = tolerance(dtype, shape)
    *_, Sq, Sk, _ = shape
    return 4 * rtol, atol + 64 * op.ROUNDOFF[dtype] * max(1.0, math.sqrt(max(Sq, Sk)) / 8)


def _record(name: str, causal: bool, benches: tuple[op.Case, ...]) -> op.Op:
    def ours(q, k, v):
        return attention(q, k, v, causal=causal)

    def readable(q, k, v):
        scale = q.shape[-1] ** -0.5
        out, lse = _outputs(q, k, v, None, causal, 0, scale)
        if out.numel():
            _launch(*(with_unit_columns(each) for each in (q, k, v)), out, lse, None, causal, 0, scale)
        return out

    def library(q, k, v):
        # PyTorch's causal mask ends at the first key for the first query: the same only where Sq is Sk.
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )

    def formula(q, k, v):
        """As the formula reads, with the whole matrix of scores; for Sq = Sk, as `library`."""
        group = q.shape[1] // k.shape[1]
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            later = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            score = score.masked_fill(later, float("-inf"))
        return torch.softmax(score.float(), dim=-1).to(v.dtype) @ v

    def through(backend: str):
        def call(q, k, v):
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel(getattr(SDPBackend, backend)):
                return library(q, k, v)

        return call

    half = ("float16", "bfloat16")
    return op.Op(
        name=name,
        reference=lambda q, k, v: reference(q, k, v, causal=causal),
        implementations=(
            op.Implementation("triton", ours, "triton", "kernels.ops.attention:_launch_either", ours=True),
            op.Implementation("readable", readable, "triton", "kernels.ops.attention:_launch", ours=True),
            op.Implementation("torch", library, "torch", ""),
            op.Implementation("torch.compile", op.compiled(formula), "torch", ""),
            op.Implementation("cudnn", through("CUDNN_ATTENTION"), "torch", "", dtypes=half),
            op.Implementation("flash", through("FLASH_ATTENTION"), "torch", "", dtypes=half),
        ),
        inputs=inputs,
        # read q, k and v once, write out and the logarithms once
        bytes_moved=lambda shape, dtype: (
            op.ELEMENT_BYTES[dtype] * shape[0] * shape[5] * 2 * (shape[1] * shape[3] + shape[2] * shape[4])
            + 4 * shape[0] * shape[1] * shape[3]
        ),
        # two products; with `causal`, of the visible half
        flops=lambda shape: 4 * shape[0] * shape[1] * shape[3] * shape[4] * shape[5] // (2 if causal else 1),
        checks=(
            op.Case((1, 2, 2, 33, 33, 16), "one past a warp of queries and of keys"),
            op.Case((2, 4, 2, 5, 70, 64), "two query heads a key head; fewer queries than keys"),
            op.Case((1, 1, 1, 1, 130, 32), "one query: decoding"),
            op.Case((1, 2, 1, 40, 7, 24), "fewer keys than queries: causal leaves rows without one; a ragged head"),
            op.Case((1, 1, 1, 3, 1, 1), "one key, one number a head"),
            op.Case((1, 1, 1, 0, 4, 16), "no query"),
            op.Case((1, 1, 1, 4, 0, 16), "no key: every row is nothing"),
        ),
        benches=benches,
        dtypes=op.DTYPES,
        bench_dtypes=half[1:],
        launch={"causal": causal},
        tolerance=tolerance,
        gradient_tolerance=gradient_tolerance,
    )


BENCHES = (
    op.Case((4, 16, 16, 4096, 4096, 128), "a usual training shape"),
    op.Case((1, 16, 16, 16384, 16384, 128), "one long sequence"),
    op.Case((4, 32, 32, 4096, 4096, 64), "small heads: the exponentials weigh twice as much"),
    op.Case((16, 16, 16, 1024, 1024, 128), "short sequences"),
)

OP = _record("attention", True, BENCHES)
MORE = (_record("attention_full", False, BENCHES[:3]),)
