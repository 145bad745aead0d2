// What every rung on Hopper asks of its matrices, and c for K = 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "hopper.cuh"
#include "matmul.cuh"

// What a launcher refuses beyond matmul_is_valid: rows that the copy unit cannot fetch, and extents that do not fit
// its 32-bit coordinates.
inline bool hopper_is_valid(const __nv_bfloat16* a, const __nv_bfloat16* b, int64_t M, int64_t N, int64_t K,
                            int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    constexpr int64_t kLargest = 1ll << 30;
    return matmul_is_valid(M, N, K, a_stride, b_stride, c_stride) && M <= kLargest && N <= kLargest && K <= kLargest &&
           reinterpret_cast<uintptr_t>(a) % 16 == 0 && reinterpret_cast<uintptr_t>(b) % 16 == 0 && a_stride % 8 == 0 &&
           b_stride % 8 == 0 && (M <= 1 || a_stride >= K) && (K <= 1 || b_stride >= N);
}

// A stride that a tensor map takes also where there is one row and the stride is never used.
inline int64_t map_stride(int64_t stride, int64_t columns) {
    const int64_t least = (columns + 7) / 8 * 8;
    return stride < least ? least : stride;
}

// c = 0, for K = 0. The bits of zero are zeros.
inline cudaError_t clear_rows(__nv_bfloat16* c, int64_t M, int64_t N, int64_t c_stride, cudaStream_t stream) {
    const size_t width = static_cast<size_t>(N) * sizeof(*c);
    const size_t pitch = M == 1 ? width : static_cast<size_t>(c_stride) * sizeof(*c);
    return cudaMemset2DAsync(c, pitch, 0, width, static_cast<size_t>(M), stream);
}
