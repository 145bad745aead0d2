"""The tile walk: which tiles a program loads, what a mask cut off of them, and what went past the edge."""

import math
import re

import numpy as np
import pytest
from test_figures import Reader

from kernels.figures import tile_walk
from kernels.figures.tiles import walk
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.model import READ, WRITE
from kernels.trace.triton import TritonTrace

M, N, K, TILE = 5, 7, 3, (4, 4, 2)  # 2 × 2 programs, 2 steps; ragged in all three
KINDS = ((4, 2), (2, 4), (4, 4))  # shapes of a tile of A, of B, of C


def traced(b_strides=(N, 1), mask_k=True):
    """What a tiled matrix multiplication does, access by access; `mask_k` is the mask along K of the load of A."""
    recorder, positions, shapes = Recorder(), [], []
    for name, shape, strides in (("a", (M, K), (K, 1)), ("b", (K, N), b_strides), ("c", (M, N), (N, 1))):
        recorder.buffer(Buffer(name, 4, shape, strides))
    recorder.launch(Launch("k", (4, 1, 1), None, "triton"))
    site = recorder.site("k.py", 1)
    tile_m, tile_n, tile_k = TILE

    def touch(program, number, what, rows, columns, strides, active):
        element = rows[:, None] * strides[0] + columns[None, :] * strides[1]
        recorder.add(launch=0, block=program, what=what, buffer=number, element=element.ravel(), size=4, site=site,
                     active=active.ravel())  # fmt: skip
        positions.append(np.arange(element.size))
        shapes.append(np.full(element.size, KINDS.index(element.shape)))

    for program in range(4):
        m, n = program // 2 * tile_m + np.arange(tile_m), program % 2 * tile_n + np.arange(tile_n)
        for first in range(0, K, tile_k):
            k = first + np.arange(tile_k)
            active = (m < M)[:, None] & ((k < K) | (not mask_k))[None, :]
            touch(program, 0, READ, m, k, (K, 1), active)
            touch(program, 1, READ, k, n, b_strides, (k < K)[:, None] & (n < N)[None, :])
        touch(program, 2, WRITE, m, n, (N, 1), (m < M)[:, None] & (n < N)[None, :])
    trace = recorder.trace()
    return TritonTrace(trace.launches, trace.buffers, trace.sites, trace.columns, positions=np.concatenate(positions),
                       shapes=np.concatenate(shapes), tensor_shapes=KINDS)  # fmt: skip


def test_the_last_program_loads_ragged_tiles_in_order():
    seen = [(v.buffer, v.rows, v.columns, v.inside, v.masked, v.beyond) for v in walk(traced(), 3)]
    assert seen == [
        ("a", (4, 7), (0, 1), 2, 6, 0),
        ("b", (0, 1), (4, 7), 6, 2, 0),
        ("a", (4, 7), (2, 3), 1, 7, 0),
        ("b", (2, 3), (4, 7), 3, 5, 0),
        ("c", (4, 7), (4, 7), 3, 13, 0),
    ]


def test_every_product_needs_one_element_of_each_and_all_are_walked():
    trace = traced()
    walks = [walk(trace, program) for program in range(4)]
    read = {name: sum(v.inside for steps in walks for v in steps if v.buffer == name) for name in ("a", "b", "c")}
    tiles_m, tiles_n = math.ceil(M / TILE[0]), math.ceil(N / TILE[1])
    assert read == {"a": M * K * tiles_n, "b": K * N * tiles_m, "c": M * N}


def test_a_transposed_matrix_has_the_same_walk():
    assert walk(traced(b_strides=(1, K)), 3) == walk(traced(), 3)


def test_a_dropped_mask_is_past_the_edge_even_where_the_memory_is_the_matrix_own():
    last = [v for v in walk(traced(mask_k=False), 0) if v.buffer == "a"][-1]
    assert (last.inside, last.masked, last.beyond) == (4, 0, 4)  # a[0, 3] is a[1, 0]: no address out of bounds but one
    html = tile_walk(traced(mask_k=False), 0)
    assert "kl-several" in html and "past the edge of the matrix" in Reader(html).text
    assert "kl-several" not in tile_walk(traced(), 0)


def test_the_figure_says_in_words_what_it_draws():
    html = tile_walk(traced(), 3)
    text = Reader(html).text
    assert "reads rows 4, columns 2 of a: 1 element, 7 masked off" in text
    assert "Program 3 in 2 steps: it reads 3 elements of a and 9 of b, and writes 3 of c. Hatched" in text
    assert len(re.findall("<tr>", html)) == 1 + 5  # a heading, and each load and store
    assert html == tile_walk(traced(), 3)
    assert not re.search(r"#[0-9a-f]{6}|<script", html)
    assert {"b, 3 × 7", "c, 5 × 7"} <= set(re.findall(r">(\w, \d × \d)<", html))


def test_ids_differ_between_programs():
    ids = Reader(tile_walk(traced(), 0) + tile_walk(traced(), 3)).ids
    assert len(ids) == len(set(ids))


def test_what_does_not_fit_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="do not fit together"):
        tile_walk(traced(), 0, a="b", b="a")
    with pytest.raises(ValueError, match="program 9 touched none of a, b and c"):
        tile_walk(traced(), 9)
