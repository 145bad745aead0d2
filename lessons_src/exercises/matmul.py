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
    # How many tiles lie below each other, and how many side by side? The last of either may be ragged.
    raise NotImplementedError("program_count: return how many tiles C has")
    # --- end ---


def tile_of(program, N, tile):
    """(first row, first column) of the tile that a program owns. Numbers run along a row of tiles, then to the next."""
    tile_m, tile_n, _ = tile
    # --- fill in ---
    # How many tiles does a row of tiles have? Then which row of tiles is the program in, and which place in it?
    raise NotImplementedError("tile_of: return the first row and the first column of the program's tile")
    # --- end ---


def tile_program(program, A, B, C, M, N, K, a_strides, b_strides, c_strides, tile):
    """What one program does: it reads A and B, and writes its tile of C, each element once."""
    tile_m, tile_n, tile_k = tile
    first_m, first_n = tile_of(program, N, tile)
    # --- fill in ---
    # Which rows and columns of C are really there? Keep a sum for each. Then, step by step along K: load a tile of A
    # and a tile of B, add their products to the sums. At the end store each sum, by the strides of C.
    raise NotImplementedError("tile_program: compute and store the program's tile of C")
    # --- end ---
