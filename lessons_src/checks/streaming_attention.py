"""What `lessons check streaming_attention` looks at."""

from kernels.exercises import Exercise, close, traced

EXERCISE = Exercise(
    lesson="workshops/a3-streaming-attention.md#exercise",
    task="Attention, one block of keys after the other: mask, running maximum, and what was summed brought to it.",
    needs="triton",
    hints=(
        "It is the merge of Workshop A2, with a vector in the place of the sum: acc is what total is, with values as "
        "factors. Whatever total is multiplied by, acc is multiplied by as well.",
        "In order: put -inf where the query does not see the key; take the new maximum; weights are exp(score - "
        "maximum); what is old is multiplied by exp(old maximum - new maximum). Where a row has seen no key yet, "
        "subtract 0 and not -inf. After the loop, a row whose total is 0 gets zeros.",
        "base = tl.where(new_maximum == float('-inf'), 0.0, new_maximum); weight = tl.exp(score - base[:, None]); "
        "keep = tl.exp(maximum - base); total = total * keep + tl.sum(weight, axis=1); "
        "acc = acc * keep[:, None] + tl.dot(weight.to(v.dtype), v, input_precision='ieee'); maximum = new_maximum.",
    ),
    explain=(
        "After each block, (maximum, total, acc) describe the softmax over all keys so far: total is the sum of "
        "exp(score - maximum), acc the sum of exp(score - maximum) * v. A new block may raise the maximum. Then "
        "everything summed before is multiplied by one number a row, exp(old - new), which is 1 where nothing changed. "
        "A hidden key has score −∞ and weight exp(−∞) = 0. A row without any visible key keeps the maximum −∞, where a "
        "difference would be NaN; subtracting 0 instead gives weights of 0, a total of 0, and zeros for that row."
    ),
)


def drawn(Sq, Sk, D=16, dtype="float32", spread=1.0):
    """q, k, v; a later key is long, so that the maximum grows while the kernel walks along."""
    import torch

    generator = torch.Generator().manual_seed(Sq * 1000 + Sk)
    q, k, v = (torch.randn(rows, D, generator=generator) for rows in (Sq, Sk, Sk))
    k[Sk * 2 // 3] *= 3.0
    return [each.to(getattr(torch, dtype)) for each in (spread * q, k, v)]


def attended(answer, q, k, v, what, length=None, causal=False):
    """Runs the answer under the trace and compares with the formula in float64."""
    import torch

    from kernels.ops.attention import reference
    from kernels.ops.op import ROUNDOFF

    Sq, D = q.shape
    Sk, found = k.shape[0], {}
    count = Sk if length is None else length
    given = f"{Sq} queries, {Sk} keys, D = {D}, {what}"

    def launch():
        found["out"] = answer.attention(q, k, v, length, causal)

    if length is not None:  # what lies behind the keys that count must not be looked at
        k, v = k.clone(), v.clone()
        k[count:], v[count:] = float("nan"), float("nan")
    trace = traced(launch, {"q": q, "k": k, "v": v}, outputs=[], given=given)
    assert trace is not None
    keys, values = (each[None, None, :count] for each in (k, v))
    expected = reference(q[None, None], keys, values, None, causal)[0, 0]
    # A weight carries a roundoff of its dtype and, through the exponential, those of a score of up to `largest`.
    kind = str(q.dtype).removeprefix("torch.")
    largest = float((q.float().norm(dim=1).max() * k[:count].float().norm(dim=1).max()) * D**-0.5) if count else 0.0
    relative = ROUNDOFF["float32"] * (2 * largest * D**0.5 + count**0.5 + 8)
    relative += 0.0 if kind == "float32" else 2 * ROUNDOFF[kind]
    highest = float(v[:count].float().abs().max()) if count else 0.0
    cause = (
        "" if not torch.isnan(found["out"]).any() else "NaN comes from -inf - -inf, from 0 / 0, or from a hidden key"
    )
    close(found["out"], expected, relative * highest, given=given, owner=lambda m, d: f"program {m // 16}", cause=cause)


@EXERCISE.check("one block of keys", cause="Scores, maximum, weights, sum, and the division at the end.")
def one_block(answer):
    attended(answer, *drawn(16, 16), "all seen")


@EXERCISE.check(
    "several blocks of keys",
    cause="A new maximum changes what total and acc were summed under.",
    hint="exp(old maximum - new maximum), for both of them.",
    anchor="#the-merge-with-a-vector-in-it",
)
def several_blocks(answer):
    attended(answer, *drawn(16, 64), "all seen")
    attended(answer, *drawn(32, 48, 32), "all seen")


@EXERCISE.check("large scores", cause="Without the maximum, the exponential of a large score is inf.")
def large(answer):
    attended(answer, *drawn(16, 48, spread=30.0), "scores of some hundreds")


@EXERCISE.check(
    "extents that fill no block",
    cause="A key that does not exist has a score of 0 here, and a weight, unless its score is made -inf.",
    anchor="#which-keys-a-query-sees",
)
def ragged(answer):
    for Sq, Sk in ((16, 17), (5, 16), (19, 37), (1, 40), (3, 1)):
        attended(answer, *drawn(Sq, Sk), "all seen")


@EXERCISE.check(
    "fewer keys count than there are", cause="length ends the row, not Sk.", anchor="#which-keys-a-query-sees"
)
def shorter(answer):
    for length in (40, 33, 16, 1):
        attended(answer, *drawn(19, 48), f"of which {length} count", length)


@EXERCISE.check(
    "causal",
    cause="Query i stands at key i + shift, and sees that one too.",
    hint="n <= m + shift, with n lying flat and m standing upright.",
    anchor="#which-keys-a-query-sees",
)
def causal(answer):
    attended(answer, *drawn(32, 32), "causal", causal=True)
    attended(answer, *drawn(19, 19), "causal", causal=True)
    attended(answer, *drawn(5, 40), "causal, the last query at the last key", causal=True)


@EXERCISE.check(
    "queries that see no key",
    cause="Such a row has the maximum -inf and the total 0: neither may be subtracted or divided by.",
    anchor="#fully-masked-rows",
)
def unseeing(answer):
    attended(answer, *drawn(40, 7), "causal: the first 33 queries see nothing", causal=True)
    attended(answer, *drawn(19, 48), "none of which counts", 0)
    attended(answer, *drawn(19, 48), "causal, of which 3 count", 3, True)


@EXERCISE.check("half precision", cause="Maximum, total and acc are float32; weights meet the values in their dtype.")
def half(answer):
    attended(answer, *drawn(19, 37, 32, "float16"), "causal, float16", causal=True)


def timed(answer, device):
    """What `lessons scratch` times: one head of 4096 queries and keys on a GPU, of 48 in the interpreter."""
    import torch

    rows = 4096 if device == "cuda" else 48
    q, k, v = (torch.randn(rows, 64, device=device) for _ in range(3))
    return lambda: answer.attention(q, k, v, None, True)
