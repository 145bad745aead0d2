"""Exercise of Workshop A3: attention that walks along the keys and never stores a row of scores.

    score = scale * q kᵀ    out = softmax(score) v    query i sees key j < length, with CAUSAL j <= i + shift

    lessons check streaming_attention

Edit only what lies between the marks: which keys a query sees, what happens to the running maximum, sum and output at
each block of keys, and the last division. The check runs your kernel in Triton's interpreter, so it needs no GPU; it
looks at the result, and at every element that the kernel touched.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _attend(
    q_ptr, k_ptr, v_ptr, out_ptr, Sq, length, shift, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program owns BLOCK_M queries. All four matrices have rows of D numbers, one behind the other.
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < Sq, other=0.0)
    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, length, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < length, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < length, other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        # --- fill in ---
        visible = (n < length)[None, :]
        if CAUSAL:
            visible = visible & (n[None, :] <= m[:, None] + shift)
        score = tl.where(visible, score, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
        base = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        weight = tl.exp(score - base[:, None])
        keep = tl.exp(maximum - base)
        total = total * keep + tl.sum(weight, axis=1)
        acc = acc * keep[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        maximum = new_maximum
        # --- end ---
    out = acc
    # --- fill in ---
    out = tl.where((total == 0.0)[:, None], 0.0, acc / tl.where(total == 0.0, 1.0, total)[:, None])
    # --- end ---
    tl.store(out_ptr + m[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty), mask=m[:, None] < Sq)


def attention(q, k, v, length: int | None = None, causal: bool = False) -> torch.Tensor:
    """The average of v for each query, weighted by the softmax of its scores with the keys it sees.

    q: (Sq, D), k and v: (Sk, D), contiguous, of one dtype; Sq and Sk from 1 up, D a power of two from 16 up. `length`
    keys count, from 0 to Sk; without it, all. The last query stands at the last key that counts, so with `causal` query
    i sees keys up to i + length - Sq. A query that sees no key gets zeros.
    """
    Sq, D = q.shape
    length = k.shape[0] if length is None else length
    out = torch.full_like(q, float("nan"))
    constants = {"D": D, "CAUSAL": causal, "BLOCK_M": 16, "BLOCK_N": 16}
    _attend[(triton.cdiv(Sq, 16),)](q, k, v, out, Sq, length, length - Sq, D**-0.5, **constants)
    return out
