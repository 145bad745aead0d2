"""Exercise of Lab 5: who takes which tile, and who sums up which part of K.

    lessons check gemm_order

C is cut into tiles_m rows and tiles_n columns of tiles. Programs are numbered from 0. In grouped order they go down
`group` rows of tiles, then one column to the right, and so on to the right edge; then comes the next group of rows. A
group of 1 is the order of reading. Where a sum over K is cut into slices, each slice is a run of whole steps of
block_k, the last one excepted. No library is needed; edit only what lies between the marks.
"""


def tile_of(program, tiles_m, tiles_n, group):
    """(row, column) of the tile that a program takes, in grouped order. The last group may have fewer rows."""
    # --- fill in ---
    first = program // (group * tiles_n) * group
    rows = min(group, tiles_m - first)
    inside = program % (group * tiles_n)
    return first + inside % rows, inside // rows
    # --- end ---


def slice_of(part, slices, K, block_k):
    """(first, last) of the k that slice `part` sums up, last excluded. A slice that gets nothing is (K, K).

    Slices have equally many steps of block_k, rounded up, so the last ones may have fewer, or none.
    """
    # --- fill in ---
    steps = -(-K // block_k)
    length = -(-steps // slices) * block_k
    return min(part * length, K), min((part + 1) * length, K)
    # --- end ---


def rounds(tiles_m, tiles_n, slices, multiprocessors):
    """How many rounds the programs take, one a tile and slice, if each multiprocessor runs one at a time."""
    # --- fill in ---
    return -(-tiles_m * tiles_n * slices // multiprocessors)
    # --- end ---
