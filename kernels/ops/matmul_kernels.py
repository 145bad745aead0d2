"""The kernels of matrix products: one that takes any operands, one for operands that the copy engine reads, and the
small ones around them. `kernels.ops.matmul_launch` calls them; `kernels.ops.matmul_plan` says which, and in what tiles.

All of them compute act(a @ b + bias) * scale + residual, whose parts may be left out, and round once, at the end. A sum
over k may be cut into slices: a slice is a product of its own in float32, and `_add_slices` adds the slices up in their
order, so a result never depends on who came first.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.ops.bias_act_backward import doubled_argument
from kernels.ops.interpreter_dot import dot_like_a_gpu

if triton.knobs.runtime.interpret:
    dot_like_a_gpu()


@triton.jit
def _tile_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    # Tiles are numbered down GROUP_M rows of tiles, then one to the right, so that programs that run together
    # read few rows of a and few columns of b. GROUP_M = 1 is the order of reading, row by row.
    group = GROUP_M * tiles_n
    first = tile // group * GROUP_M
    rows = tl.minimum(tiles_m - first, GROUP_M)
    return first + tile % group % rows, tile % group // rows


@triton.jit
def _epilogue(
    total, m, n, M, N, bias_ptr, residual_ptr, bias_stride, residual_stride_m, residual_stride_n, scale,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    # What follows the sum, in float32. m is (rows, 1), n is (1, columns).
    if bias_ptr is not None:
        total += tl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(tl.float32)
    if ACTIVATION == "relu":
        total = tl.where(total <= 0, 0.0, total)  # asked this way round, NaN stays NaN
    elif ACTIVATION == "gelu":
        total = total * tl.sigmoid(doubled_argument(total))
    total = total * tl.cast(scale, tl.float32)  # torch.compile hands it over as float64
    if residual_ptr is not None:
        at = residual_ptr + m * residual_stride_m + n * residual_stride_n
        total += tl.load(at, mask=(m < M) & (n < N), other=0.0).to(tl.float32)
    return total


@triton.jit
def _matmul_tiles(
    a_ptr, b_ptr, out_ptr, bias_ptr, residual_ptr, M, N, K, inner, a_stride_o, a_stride_i, a_stride_m, a_stride_k,
    b_stride_o, b_stride_i, b_stride_k, b_stride_n, out_stride_m, out_stride_n, bias_stride, residual_stride_m,
    residual_stride_n, scale, slice_k, SPLITS: tl.constexpr, SLICED: tl.constexpr, ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    # One program computes one tile of one product, or one slice of it. The products of a batch lie at
    # (o, i); there are `inner` of them for each o.
    if OVERLAP:
        gdc_launch_dependents()
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = _tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP_M)
    part = tl.program_id(0) // (tiles_m * tiles_n) % SPLITS
    item = (tl.program_id(0) // (tiles_m * tiles_n) // SPLITS).to(tl.int64)
    # 64 bits: m * stride can pass 2**31.
    m = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    first = part * slice_k
    last = tl.minimum(first + slice_k, K)
    a_at = a_ptr + item // inner * a_stride_o + item % inner * a_stride_i
    b_at = b_ptr + item // inner * b_stride_o + item % inner * b_stride_i
    a_at += m * a_stride_m + (first + k[None, :]) * a_stride_k
    b_at += (first + k[:, None]) * b_stride_k + n * b_stride_n
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(first, last, BLOCK_K):
        # Zeros beyond the edges add nothing; a NaN read there would.
        inside = k < last - start
        a = tl.load(a_at, mask=(m < M) & inside[None, :], other=0.0)
        b = tl.load(b_at, mask=inside[:, None] & (n < N), other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        a_at += BLOCK_K * tl.cast(a_stride_k, tl.int64)
        b_at += BLOCK_K * tl.cast(b_stride_k, tl.int64)
    if not SLICED:
        total = _epilogue(
            total, m, n, M, N, bias_ptr, residual_ptr, bias_stride, residual_stride_m, residual_stride_n, scale,
            ACTIVATION,
        )  # fmt: skip
    # Slices and products lie one behind the other, M * N elements each.
    out_at = out_ptr + (item * SPLITS + part) * M * N + m * out_stride_m + n * out_stride_n
    tl.store(out_at, total.to(out_ptr.dtype.element_ty), mask=(m < M) & (n < N))


@triton.jit
def _matmul_persistent(
    a_desc, b_desc, out_desc, out_ptr, bias_ptr, residual_ptr, M, N, K, out_stride_m, out_stride_n, bias_stride,
    residual_stride_m, residual_stride_n, scale, slice_k, programs, SPLITS: tl.constexpr, SLICED: tl.constexpr,
    ACTIVATION: tl.constexpr, PRECISION: tl.constexpr, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    SUBTILES: tl.constexpr, OVERLAP: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    # As many programs as run at once; each takes every `programs`-th tile, and fetches for its next tile while
    # it writes the last one. The copy engine reads whole tiles by their descriptor and puts zeros beyond the
    # edges. A_TURNED: a is stored column by column, so what its descriptor describes is a's transpose.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tiles = tiles_m * tiles_n
    if OVERLAP or EARLY:
        gdc_launch_dependents()  # what is launched next may be set up from now on; it waits for the end of this
    if EARLY:
        gdc_wait()  # for the end of what was launched before
    for turn in tl.range(tl.program_id(0), tiles * SPLITS, programs, flatten=True):
        tile_m, tile_n = _tile_of(turn % tiles, tiles_m, tiles_n, GROUP_M)
        part = turn // tiles
        first_m, first_n = tile_m * BLOCK_M, tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(part * slice_k, tl.minimum(part * slice_k + slice_k, K), BLOCK_K):
            a = a_desc.load([start, first_m]).T if A_TURNED else a_desc.load([first_m, start])
            b = b_desc.load([first_n, start]).T if B_TURNED else b_desc.load([start, first_n])
            total = tl.dot(a, b, total, input_precision=PRECISION)
        if SUBTILES == 2:
            # Half of the columns at a time: half as much shared memory for what is on its way out.
            left, right = total.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
            _write(
                left, out_desc, out_ptr, bias_ptr, residual_ptr, first_m, first_n, part, M, N, out_stride_m,
                out_stride_n, bias_stride, residual_stride_m, residual_stride_n, scale, SLICED, ACTIVATION,
                BLOCK_M, BLOCK_N // 2,
            )  # fmt: skip
            _write(
                right, out_desc, out_ptr, bias_ptr, residual_ptr, first_m, first_n + BLOCK_N // 2, part, M, N,
                out_stride_m, out_stride_n, bias_stride, residual_stride_m, residual_stride_n, scale, SLICED,
                ACTIVATION, BLOCK_M, BLOCK_N // 2,
            )  # fmt: skip
        else:
            _write(
                total, out_desc, out_ptr, bias_ptr, residual_ptr, first_m, first_n, part, M, N, out_stride_m,
                out_stride_n, bias_stride, residual_stride_m, residual_stride_n, scale, SLICED, ACTIVATION,
                BLOCK_M, BLOCK_N,
            )  # fmt: skip


@triton.jit
def _write(
    total, out_desc, out_ptr, bias_ptr, residual_ptr, first_m, first_n, part, M, N, out_stride_m, out_stride_n,
    bias_stride, residual_stride_m, residual_stride_n, scale, SLICED: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # A tile of sums: to its slice as it is, or finished and rounded to the output, by descriptor where there is
    # one (a row that is no multiple of 16 bytes long has none).
    m = first_m.to(tl.int64) + tl.arange(0, BLOCK_M)[:, None]
    n = first_n.to(tl.int64) + tl.arange(0, BLOCK_N)[None, :]
    if not SLICED:
        total = _epilogue(
            total, m, n, M, N, bias_ptr, residual_ptr, bias_stride, residual_stride_m, residual_stride_n, scale,
            ACTIVATION,
        )  # fmt: skip
    if out_desc is not None:
        out_desc.store([first_m, first_n], total.to(out_ptr.dtype.element_ty))
    else:
        out_at = out_ptr + part.to(tl.int64) * M * N + m * out_stride_m + n * out_stride_n
        tl.store(out_at, total.to(out_ptr.dtype.element_ty), mask=(m < M) & (n < N))


@triton.jit
def _add_slices(
    slices_ptr, out_ptr, bias_ptr, residual_ptr, M, N, rows, bias_stride, residual_stride_m,
    residual_stride_n, scale, SPLITS: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    # One program finishes a tile of the output: slice by slice, in this order everywhere. Row m of all products
    # is row m % M of product m // M; a residual belongs to a single product.
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = (tl.program_id(0) // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = (tl.program_id(0) % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (m < rows) & (n < N)
    slice_size = tl.cast(M, tl.int64) * N
    at = slices_ptr + m // M * (SPLITS * slice_size) + m % M * N + n
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if OVERLAP:
        gdc_wait()  # until every slice has been written
    for part in range(SPLITS):
        total += tl.load(at + part * slice_size, mask=mask, other=0.0)
    total = _epilogue(
        total, m, n, rows, N, bias_ptr, residual_ptr, bias_stride, residual_stride_m, residual_stride_n, scale,
        ACTIVATION,
    )  # fmt: skip
    tl.store(out_ptr + m * N + n, total.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _pack(
    x_ptr, out_ptr, rows, columns, x_stride_r, x_stride_c, out_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    # The same rows, each beginning at a multiple of 16 bytes, with zeros behind: what the copy engine can read.
    tiles = tl.cdiv(out_stride, BLOCK_N)
    r = (tl.program_id(0) // tiles).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    c = (tl.program_id(0) % tiles).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    x = tl.load(x_ptr + r * x_stride_r + c * x_stride_c, mask=(r < rows) & (c < columns), other=0.0)
    tl.store(out_ptr + r * out_stride + c, x, mask=(r < rows) & (c < out_stride))
