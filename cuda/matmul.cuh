// What the launchers of the ladder share: what they refuse, and how they cut c into blocks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// What a launcher refuses: an extent or stride below zero, and rows of c that would overlap.
inline bool matmul_is_valid(int64_t M, int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    if (M < 0 || N < 0 || K < 0 || a_stride < 0 || b_stride < 0 || c_stride < 0) {
        return false;
    }
    return M <= 1 || c_stride >= N;
}

// Blocks of `tile_m` x `tile_n` elements of c, along x in a row of them. Returns false where a grid has too few: it ends
// at 65535 along y.
inline bool matmul_grid(int64_t M, int64_t N, int tile_m, int tile_n, dim3* grid) {
    const int64_t x = (N + tile_n - 1) / tile_n;
    const int64_t y = (M + tile_m - 1) / tile_m;
    *grid = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
    return x <= 2147483647ll && y <= 65535;
}

// Whether rows may be moved `bytes` at a time: they begin at multiples of `bytes`, and hold a whole number of pieces.
inline bool rows_in_pieces(const void* first, int64_t columns, int64_t stride, int64_t element_bytes, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(first) % bytes == 0 && columns * element_bytes % bytes == 0 &&
           stride * element_bytes % bytes == 0;
}

