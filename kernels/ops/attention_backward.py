"""attention_backward: the gradients of attention, from what it kept of the forward pass.

    weight = 2**(score - lse)      dv = weightᵀ dout      dweight = dout vᵀ
    dscore = weight * (dweight - delta), delta[i] = sum_d out[i, d] * dout[i, d]
    dq = scale * dscore k          dk = scale * dscoreᵀ q

Shapes    q, k, v and out as in `kernels.ops.attention`; dout like out; lse (B, H, Sq), float32, the logarithm (base 2)
          of each query's sum. dq, dk and dv like q, k and v. Who sees which key is said there, too.
Dtypes    float32, float16, bfloat16; all but lse of one.
Strides   those of `kernels.ops.attention` for q, k and v; any of dout, whose last one must be 1 or it is copied first.
          The results are contiguous.
Limits    those of `kernels.ops.attention`.
Precision products accumulate in float32; weights and dscore are rounded to the dtype before they are multiplied.
Order     two passes without atomics: the query heads that share a head of keys are added up by one program, one after
          the other, so the same input gives the same bits. The price is that dscore is computed twice, once for dk and
          once for dq. On compute capability 9.0, where `kernels.ops.attention_gluon_backward_launch` is enabled and
          has no refusal, it is one pass instead, in which dq is added up by atomic additions in float32, in any order:
          its last bits may differ from run to run. `torch.use_deterministic_algorithms(True)` keeps the two passes.
Special   a query that sees no key has lse = +inf, and adds nothing: its gradient is 0, and so is that of a key that no
          query sees. NaN in a visible score spreads as in the formulas.
Gradient  none: a second derivative is refused with a sentence.
"""

import torch
import triton
import triton.language as tl

from kernels.ops import attention_gluon_backward_launch, checks, op
from kernels.ops.attention_shared import (
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

ROWS = 32  # of a program that computes delta


@triton.jit
def _attention_delta(out_ptr, dout_ptr, delta_ptr, rows, H, Sq, dout_stride_b, dout_stride_h, dout_stride_m,
                     D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)[None, :]
    mask = (row[:, None] < rows) & (d < D)
    out = tl.load(out_ptr + row[:, None] * D + d, mask=mask, other=0.0).to(tl.float32)
    at = (row // Sq // H) * dout_stride_b + (row // Sq % H) * dout_stride_h + (row % Sq) * dout_stride_m
    dout = tl.load(dout_ptr + at[:, None] + d, mask=mask, other=0.0).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(out * dout, axis=1), mask=row < rows)


@triton.jit
def _from_queries(
    dk, dv, k, v, q_ptr, dout_ptr, lse_ptr, delta_ptr, q_stride_m, dout_stride_m, n, begin, end, Sq, length, shift,
    scale, D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # A stretch of queries of one head. Scores lie keys by queries, so that weights and dscore are the left operands of
    # the products they go into, as they stand in registers.
    d = tl.arange(0, BLOCK_D)[None, :]
    for start in range(begin, end, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        there = (m[:, None] < Sq) & (d < D)
        queries = m.to(tl.int64)[:, None]
        q = tl.load(q_ptr + queries * q_stride_m + d, mask=there, other=0.0)
        dout = tl.load(dout_ptr + queries * dout_stride_m + d, mask=there, other=0.0)
        lse = tl.load(lse_ptr + m, mask=m < Sq, other=float("inf"))
        delta = tl.load(delta_ptr + m, mask=m < Sq, other=0.0)
        score = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        if MASKED:
            score = tl.where(seen(m[None, :], n[:, None], length, shift, CAUSAL, WINDOW), score, float("-inf"))
        weight = tl.exp2(score - lse[None, :])
        dv = tl.dot(weight.to(dout.dtype), dout, dv, input_precision="ieee")
        dweight = tl.dot(v, tl.trans(dout), input_precision="ieee")
        dscore = weight * (dweight - delta[None, :])
        dk = tl.dot(dscore.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit
def _attention_keys(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, lengths_ptr, H, Sq, Sk, group, scale, factor,
    q_stride_b, q_stride_h, q_stride_m, k_stride_b, k_stride_h, k_stride_n, v_stride_b, v_stride_h, v_stride_n,
    dout_stride_b, dout_stride_h, dout_stride_m,
    D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program owns BLOCK_N keys of one head, and walks along the queries that see any of them, head
    # by head of those that share it. A compiled graph passes scale and factor as float64.
    scale, factor = tl.cast(scale, tl.float32), tl.cast(factor, tl.float32)
    blocks = tl.cdiv(Sk, BLOCK_N)
    block = tl.program_id(0) % blocks
    key_heads = H // group
    b = (tl.program_id(0) // blocks // key_heads).to(tl.int64)
    key_head = (tl.program_id(0) // blocks % key_heads).to(tl.int64)
    n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)[None, :]
    length = Sk
    if RAGGED:
        length = tl.minimum(tl.maximum(tl.load(lengths_ptr + b), 0), Sk)
    shift = length - Sq
    inside = (n[:, None] < length) & (d < D)
    rows = n.to(tl.int64)[:, None]
    k = tl.load(k_ptr + b * k_stride_b + key_head * k_stride_h + rows * k_stride_n + d, mask=inside, other=0.0)
    v = tl.load(v_ptr + b * v_stride_b + key_head * v_stride_h + rows * v_stride_n + d, mask=inside, other=0.0)
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    begin, end = 0, Sq
    if CAUSAL:
        begin = tl.minimum(tl.maximum(block * BLOCK_N - shift, 0), Sq) // BLOCK_M * BLOCK_M
    if WINDOW > 0:
        end = tl.minimum(tl.maximum(block * BLOCK_N + BLOCK_N - 1 - shift + WINDOW, 0), Sq)
    if block * BLOCK_N >= length:
        end = begin
    # Queries from `inner` to `outer` see all keys of the block: only the stretches around need a mask.
    inner, outer = begin, end
    if CAUSAL:
        inner = tl.minimum(tl.cdiv(tl.maximum(block * BLOCK_N + BLOCK_N - 1 - shift, begin), BLOCK_M) * BLOCK_M, end)
    if WINDOW > 0:
        outer = tl.maximum(tl.maximum(block * BLOCK_N + WINDOW - shift, 0) // BLOCK_M * BLOCK_M, inner)
        outer = tl.minimum(outer, end)
    if block * BLOCK_N + BLOCK_N > length:
        inner, outer = end, end
    for g in range(group):
        h = key_head * group + g
        q_head = q_ptr + b * q_stride_b + h * q_stride_h
        dout_head = dout_ptr + b * dout_stride_b + h * dout_stride_h
        kept = (b * H + h) * Sq
        dk, dv = _from_queries(dk, dv, k, v, q_head, dout_head, lse_ptr + kept, delta_ptr + kept, q_stride_m,
                               dout_stride_m, n, begin, inner, Sq, length, shift, scale,
                               D, CAUSAL, WINDOW, True, BLOCK_M, BLOCK_D)  # fmt: skip
        dk, dv = _from_queries(dk, dv, k, v, q_head, dout_head, lse_ptr + kept, delta_ptr + kept, q_stride_m,
                               dout_stride_m, n, inner, outer, Sq, length, shift, scale,
                               D, CAUSAL, WINDOW, False, BLOCK_M, BLOCK_D)  # fmt: skip
        if WINDOW > 0:
            dk, dv = _from_queries(dk, dv, k, v, q_head, dout_head, lse_ptr + kept, delta_ptr + kept, q_stride_m,
                                   dout_stride_m, n, outer, end, Sq, length, shift, scale,
                                   D, CAUSAL, WINDOW, True, BLOCK_M, BLOCK_D)  # fmt: skip
    at = ((b * key_heads + key_head) * Sk + rows) * D + d
    written = (n[:, None] < Sk) & (d < D)
    tl.store(dk_ptr + at, (dk * factor).to(dk_ptr.dtype.element_ty), mask=written)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=written)


@triton.jit
def _from_keys(
    dq, q, dout, lse, delta, k_ptr, v_ptr, k_stride_n, v_stride_n, m, begin, end, length, shift, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # A stretch of keys, masked or not as in the forward kernel.
    d = tl.arange(0, BLOCK_D)[None, :]
    for start in range(begin, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        inside = (n[:, None] < length) & (d < D)
        rows = n.to(tl.int64)[:, None]
        k = tl.load(k_ptr + rows * k_stride_n + d, mask=inside, other=0.0)
        v = tl.load(v_ptr + rows * v_stride_n + d, mask=inside, other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if MASKED:
            score = tl.where(seen(m[:, None], n[None, :], length, shift, CAUSAL, WINDOW), score, float("-inf"))
        weight = tl.exp2(score - lse[:, None])
        dweight = tl.dot(dout, tl.trans(v), input_precision="ieee")
        dscore = weight * (dweight - delta[:, None])
        dq = tl.dot(dscore.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit
def _attention_dq(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr, lengths_ptr, H, Sq, Sk, group, scale, factor,
    q_stride_b, q_stride_h, q_stride_m, k_stride_b, k_stride_h, k_stride_n, v_stride_b, v_stride_h, v_stride_n,
    dout_stride_b, dout_stride_h, dout_stride_m,
    D: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program owns BLOCK_M queries of one head, as in the forward kernel.
    scale, factor = tl.cast(scale, tl.float32), tl.cast(factor, tl.float32)
    blocks = tl.cdiv(Sq, BLOCK_M)
    block = blocks - 1 - tl.program_id(0) % blocks
    b, h = (tl.program_id(0) // blocks // H).to(tl.int64), (tl.program_id(0) // blocks % H).to(tl.int64)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)[None, :]
    length = Sk
    if RAGGED:
        length = tl.minimum(tl.maximum(tl.load(lengths_ptr + b), 0), Sk)
    shift = length - Sq
    there = (m[:, None] < Sq) & (d < D)
    queries = m.to(tl.int64)[:, None]
    q = tl.load(q_ptr + b * q_stride_b + h * q_stride_h + queries * q_stride_m + d, mask=there, other=0.0)
    dout = tl.load(
        dout_ptr + b * dout_stride_b + h * dout_stride_h + queries * dout_stride_m + d, mask=there, other=0.0
    )
    row = (b * H + h) * Sq + m
    lse = tl.load(lse_ptr + row, mask=m < Sq, other=float("inf"))
    delta = tl.load(delta_ptr + row, mask=m < Sq, other=0.0)
    k_ptr += b * k_stride_b + h // group * k_stride_h
    v_ptr += b * v_stride_b + h // group * v_stride_h
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    first, last = block * BLOCK_M, tl.minimum(block * BLOCK_M + BLOCK_M, Sq) - 1
    begin = first_key(first, shift, WINDOW) // BLOCK_N * BLOCK_N
    end = last_key(last, length, shift, CAUSAL)
    inner = tl.minimum(tl.cdiv(first_key(last, shift, WINDOW), BLOCK_N) * BLOCK_N, end)
    outer = tl.maximum(last_key(first, length, shift, CAUSAL) // BLOCK_N * BLOCK_N, inner)
    if WINDOW > 0:
        dq = _from_keys(dq, q, dout, lse, delta, k_ptr, v_ptr, k_stride_n, v_stride_n, m, begin, inner, length, shift,
                        scale, D, CAUSAL, WINDOW, True, BLOCK_N, BLOCK_D)  # fmt: skip
    dq = _from_keys(dq, q, dout, lse, delta, k_ptr, v_ptr, k_stride_n, v_stride_n, m, inner, outer, length, shift,
                    scale, D, CAUSAL, WINDOW, False, BLOCK_N, BLOCK_D)  # fmt: skip
    dq = _from_keys(dq, q, dout, lse, delta, k_ptr, v_ptr, k_stride_n, v_stride_n, m, outer, end, length, shift,
                    scale, D, CAUSAL, WINDOW, True, BLOCK_N, BLOCK_D)  # fmt: skip
    tl.store(dq_ptr + row[:, None] * D + d, (dq * factor).to(dq_ptr.dtype.element_ty), mask=there)


def _launch(q, k, v, lengths, out, lse, dout, dq, dk, dv, causal, window, scale):
    B, H, Sq, D = q.shape
    key_heads, Sk = k.shape[1:3]
    plan = plan_attention(D, q.element_size(), "keys")
    delta = torch.empty_like(lse)
    grid = (triton.cdiv(B * H * Sq, ROWS),)
    arguments = (out, dout, delta, B * H * Sq, H, Sq, *steps(dout))
    launch(wrap_triton(_attention_delta), grid, arguments, D=D, BLOCK_M=ROWS, BLOCK_D=plan.block_d, num_warps=4)
    lengths = {"RAGGED": lengths is not None}, out if lengths is None else lengths
    numbers = (H, Sq, Sk, H // key_heads, scale * LOG2_E, scale, *steps(q), *steps(k), *steps(v), *steps(dout))
    flags = {"D": D, "CAUSAL": causal, "WINDOW": window, **lengths[0]}
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "BLOCK_D": plan.block_d}
    options = {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
    tensors = (q, k, v, dout, lse, delta)
    grid = (B * key_heads * triton.cdiv(Sk, plan.block_n),)
    launch(wrap_triton(_attention_keys), grid, (*tensors, dk, dv, lengths[1], *numbers), **flags, **tile, **options)
    plan = plan_attention(D, q.element_size(), "queries")
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "BLOCK_D": plan.block_d}
    options = {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
    grid = (B * H * triton.cdiv(Sq, plan.block_m),)
    launch(wrap_triton(_attention_dq), grid, (*tensors, dq, lengths[1], *numbers), **flags, **tile, **options)


def _launch_either(q, k, v, lengths, out, lse, dout, dq, dk, dv, causal, window, scale):
    one_pass = attention_gluon_backward_launch
    if one_pass.ENABLED and one_pass.refusal_backward(q, k, v, dout, lengths, window, scale) is None:
        one_pass.launch_one_pass(q, k, v, out, lse, dout, dq, dk, dv, causal, scale)
    else:
        _launch(q, k, v, lengths, out, lse, dout, dq, dk, dv, causal, window, scale)


def _require(q, k, v, lengths, out, lse, dout) -> None:
    """What attention took and kept must fit together: whoever calls the registered operator may bring anything."""
    for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out), ("dout", dout)):
        checks.require_tensor(name, tensor, differentiable=True)
        if tensor.dim() != 4:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected (batch, heads, positions, head size).")
    if (k.shape[0], k.shape[3]) != (q.shape[0], q.shape[3]) or k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"k has shape {tuple(k.shape)}; expected batch and head size of q, {tuple(q.shape)}, and heads of which q "
            f"has a multiple."
        )
    checks.require_alike("k", k, "q", q)
    checks.require_same("v", v, "k", k)
    checks.require_same("out", out, "q", q)
    checks.require_same("dout", dout, "out", out)
    checks.require_contiguous("out", out)
    checks.require_tensor("lse", lse, ("float32",), differentiable=True)
    if lse.shape != q.shape[:3] or lse.device != q.device:
        expected = f"{tuple(q.shape[:3])} on {q.device}"
        raise ValueError(f"lse has shape {tuple(lse.shape)} on {lse.device}; expected {expected}.")
    checks.require_contiguous("lse", lse)
    require_lengths(lengths, q, k)


def _require_programs(q: torch.Tensor, k: torch.Tensor) -> None:
    """Each of the three launches must take at most as many programs as there may be."""
    (B, H, Sq, D), (_, key_heads, Sk, _) = q.shape, k.shape
    keys, queries = (plan_attention(D, q.element_size(), side) for side in ("keys", "queries"))
    if q.numel() and k.numel():
        of_delta = triton.cdiv(B * H * Sq, ROWS)
        checks.require_programs("q", q, max(B * H * triton.cdiv(Sq, queries.block_m), of_delta))
        checks.require_programs("k", k, B * key_heads * triton.cdiv(Sk, keys.block_n))


def _forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None,
    out: torch.Tensor,
    lse: torch.Tensor,
    dout: torch.Tensor,
    causal: bool,
    window: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, contiguous, with the shapes of q, k and v."""
    window = checks.settled(window)
    _require(q, k, v, lengths, out, lse, dout)
    require_window(window, causal)
    _require_programs(q, k)
    checks.require_runnable("q", q, _attention_keys)
    dq, dk, dv = _outputs(q, k, v, lengths, out, lse, dout, causal, window, scale)
    if not (q.numel() and k.numel()):
        return dq.zero_(), dk.zero_(), dv.zero_()
    q, k, v, dout = (with_unit_columns(tensor) for tensor in (q, k, v, dout))
    lengths = None if lengths is None else lengths.contiguous()
    _launch_either(q, k, v, lengths, out, lse, dout, dq, dk, dv, causal, window, scale)
    return dq, dk, dv


def _outputs(q, k, v, lengths, out, lse, dout, causal, window, scale):
    return tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))


attention_backward = register("attention_backward", _forward, _outputs)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """q, k and v as `kernels.ops.attention.inputs` makes them, what causal attention kept of them, and dout.

    That is out, the base-2 logarithm of each row's sum, and the natural one, which libraries keep: (B, H, Sq, 1).
    """
    from kernels.ops import attention

    q, k, v = attention.inputs(shape, dtype, device, seed, padding)
    out, lse = attention._kept(q, k, v, None, True, 0, shape[5] ** -0.5)
    generator = torch.Generator(device).manual_seed(seed + 1)
    dout = torch.randn(out.shape, generator=generator, device=device).to(out.dtype)
    return q, k, v, out, lse, (lse / LOG2_E)[..., None], dout


def reference(q, k, v, _out, _lse, _natural, dout) -> tuple[torch.Tensor, ...]:
    """dq, dk and dv of causal attention in float64, by autograd over the formula."""
    from kernels.ops import attention

    precise = [each.detach().double().requires_grad_() for each in (q, k, v)]
    with torch.enable_grad():
        made = attention.reference(*precise, causal=True)
    if not made.requires_grad:
        return tuple(torch.zeros_like(each) for each in precise)
    found = torch.autograd.grad(made, precise, dout.double(), allow_unused=True)
    return tuple(torch.zeros_like(t) if g is None else g for t, g in zip(precise, found, strict=True))


def _ours(q, k, v, out, lse, _natural, dout):
    compute = _forward if direct(q, k, v, out, dout) else attention_backward
    return compute(q, k, v, None, out, lse, dout, True, 0, q.shape[-1] ** -0.5)


def _two_passes(q, k, v, out, lse, _natural, dout):
    results = _outputs(q, k, v, None, out, lse, dout, True, 0, 0.0)
    if not (q.numel() and k.numel()):
        return tuple(each.zero_() for each in results)
    q, k, v, dout = (with_unit_columns(each) for each in (q, k, v, dout))
    _launch(q, k, v, None, out, lse, dout, *results, True, 0, q.shape[-1] ** -0.5)
    return results


def _formula(q, k, v, out, _lse, natural, dout):
    """The formulas above with whole matrices, for as many keys as queries and as many heads of each."""
    scale = q.shape[-1] ** -0.5
    later = torch.ones((q.shape[2], k.shape[2]), dtype=torch.bool, device=q.device).triu(1)
    weight = torch.exp((q @ k.transpose(-1, -2)).float() * scale - natural).masked_fill(later, 0.0)
    delta = (out.float() * dout.float()).sum(-1, keepdim=True)
    dscore = (weight * ((dout @ v.transpose(-1, -2)).float() - delta) * scale).to(q.dtype)
    return dscore @ k, dscore.transpose(-1, -2) @ q, weight.to(q.dtype).transpose(-1, -2) @ dout


def _cudnn(q, k, v, out, _lse, natural, dout):
    state = torch.zeros((), dtype=torch.int64, device=q.device)
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dout, q, k, v, out, natural, state, state, None, None, None, q.shape[2], k.shape[2], 0.0, True
    )


def _flash(q, k, v, out, _lse, natural, dout):
    state = torch.zeros(2, dtype=torch.uint64, device=q.device)
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(
        dout, q, k, v, out, natural[..., 0], None, None, q.shape[2], k.shape[2], 0.0, True, state, state[:0]
    )


def _tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    from kernels.ops import attention

    return attention.gradient_tolerance(dtype, shape)


HALF = ("float16", "bfloat16")
OP = op.Op(
    name="attention_backward",
    reference=reference,
    implementations=(
        op.Implementation("triton", _ours, "triton", "kernels.ops.attention_backward:_launch_either", ours=True),
        op.Implementation("two passes", _two_passes, "triton", "kernels.ops.attention_backward:_launch", ours=True),
        op.Implementation("torch", _formula, "torch", "kernels.ops.attention_backward:_formula"),
        op.Implementation("torch.compile", op.compiled(_formula), "torch", "kernels.ops.attention_backward:_formula"),
        op.Implementation("cudnn", _cudnn, "torch", "", dtypes=HALF),
        op.Implementation("flash", _flash, "torch", "", dtypes=HALF),
    ),
    inputs=inputs,
    # read q, k, v, out, dout and the logarithms once, write dq, dk and dv once
    bytes_moved=lambda shape, dtype: (
        op.ELEMENT_BYTES[dtype] * shape[0] * shape[5] * 4 * (shape[1] * shape[3] + shape[2] * shape[4])
        + 4 * shape[0] * shape[1] * shape[3]
    ),
    flops=lambda shape: 10 * shape[0] * shape[1] * shape[3] * shape[4] * shape[5] // 2,  # five products, half visible
    checks=(
        op.Case((1, 2, 2, 33, 33, 16), "one past a warp of queries and of keys"),
        op.Case((2, 4, 2, 5, 70, 64), "two query heads a key head; fewer queries than keys"),
        op.Case((1, 2, 1, 40, 7, 24), "fewer keys than queries: rows without one; a ragged head"),
        op.Case((1, 1, 1, 0, 4, 16), "no query"),
    ),
    benches=(
        op.Case((4, 16, 16, 4096, 4096, 128), "a usual training shape"),
        op.Case((4, 32, 32, 4096, 4096, 64), "small heads"),
        op.Case((16, 16, 16, 1024, 1024, 128), "short sequences"),
    ),
    dtypes=op.DTYPES,
    bench_dtypes=HALF[1:],
    launch={"causal": True},
    outputs=lambda q, k, v, *_: tuple(
        torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in (q, k, v)
    ),
    tolerance=_tolerance,
)
