"""Exercise of Lesson 6: one program of a tiled matrix multiplication, in plain Python.

    lessons check matmul

C = A @ B, where A is M × K, B is K × N and C is M × N. The matrices are flat memories: element (m, k) of A lies at
m * a_strides[0] + k * a_strides[1]. A program owns one tile of C, `tile[0]` rows by `tile[1]` columns, fewer where C
ends. It walks along K in steps of `tile[2]`, and each step loads a tile of A and a tile of B *once* and uses them for
all the products that need them. Reading or writing past the edge of a matrix fails the check, also where the result
does not show it.

Edit only what lies between the marks.
"""


def program_count(M, N, tile):
    """How many programs C takes: one for each tile, the ragged ones at the edges included."""
    tile_m, tile_n, _ = tile
    # --- fill in ---
    return -(-M // tile_m) * -(-N // tile_n)
    # --- end ---


def tile_of(program, N, tile):
    """(first row, first column) of the tile that a program owns. Numbers run along a row of tiles, then to the next."""
    tile_m, tile_n, _ = tile
    # --- fill in ---
    tiles_n = -(-N // tile_n)
    return program // tiles_n * tile_m, program % tiles_n * tile_n
    # --- end ---


def tile_program(program, A, B, C, M, N, K, a_strides, b_strides, c_strides, tile):
    """What one program does: it reads A and B, and writes its tile of C, each element once."""
    tile_m, tile_n, tile_k = tile
    first_m, first_n = tile_of(program, N, tile)
    # --- fill in ---
    rows = range(first_m, min(first_m + tile_m, M))
    columns = range(first_n, min(first_n + tile_n, N))
    totals = [[0.0 for _ in columns] for _ in rows]
    for first_k in range(0, K, tile_k):
        steps = range(first_k, min(first_k + tile_k, K))
        a = [[A[m * a_strides[0] + k * a_strides[1]] for k in steps] for m in rows]
        b = [[B[k * b_strides[0] + n * b_strides[1]] for n in columns] for k in steps]
        for i in range(len(rows)):
            for j in range(len(columns)):
                totals[i][j] += sum(a[i][s] * b[s][j] for s in range(len(steps)))
    for i, m in enumerate(rows):
        for j, n in enumerate(columns):
            C[m * c_strides[0] + n * c_strides[1]] = totals[i][j]
    # --- end ---
