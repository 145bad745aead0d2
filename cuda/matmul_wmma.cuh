// What the two rungs on WMMA share: a warp's 64 x 64 elements of c, how they grow, and how they are written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

constexpr int kWmmaSide = 16;
constexpr int kWmmaWarpSide = 64;  // of the part of c that a warp owns
constexpr int kWmmaFragments = kWmmaWarpSide / kWmmaSide;
constexpr int kWmmaPitchC = kWmmaSide + 4;  // floats; of the patch in which a warp turns a fragment into rows
constexpr int kWmmaPatch = kWmmaSide * kWmmaPitchC;

using WmmaSum = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kWmmaSide, kWmmaSide, kWmmaSide, float>;

struct alignas(16) EightBfloat16 {
    __nv_bfloat162 pairs[4];
};

__device__ __forceinline__ void wmma_clear(WmmaSum (&sums)[kWmmaFragments][kWmmaFragments]) {
#pragma unroll
    for (int i = 0; i < kWmmaFragments; ++i) {
#pragma unroll
        for (int j = 0; j < kWmmaFragments; ++j) {
            nvcuda::wmma::fill_fragment(sums[i][j], 0.0f);
        }
    }
}

// sums += 64 rows of `a_part` times 64 columns of `b_part`, kDepth numbers deep. Both lie in shared memory, row by row.
template <int kDepth, int kPitchA, int kPitchB>
__device__ __forceinline__ void wmma_multiply(WmmaSum (&sums)[kWmmaFragments][kWmmaFragments],
                                              const __nv_bfloat16* a_part, const __nv_bfloat16* b_part) {
    using namespace nvcuda;
#pragma unroll
    for (int k = 0; k < kDepth; k += kWmmaSide) {
        wmma::fragment<wmma::matrix_a, kWmmaSide, kWmmaSide, kWmmaSide, __nv_bfloat16, wmma::row_major>
            left[kWmmaFragments];
        wmma::fragment<wmma::matrix_b, kWmmaSide, kWmmaSide, kWmmaSide, __nv_bfloat16, wmma::row_major>
            right[kWmmaFragments];
#pragma unroll
        for (int i = 0; i < kWmmaFragments; ++i) {
            wmma::load_matrix_sync(left[i], a_part + i * kWmmaSide * kPitchA + k, kPitchA);
            wmma::load_matrix_sync(right[i], b_part + k * kPitchB + i * kWmmaSide, kPitchB);
        }
#pragma unroll
        for (int i = 0; i < kWmmaFragments; ++i) {
#pragma unroll
            for (int j = 0; j < kWmmaFragments; ++j) {
                wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
            }
        }
    }
}

// Writes the sums to c[m ...][n ...], rounded. A fragment is stored as 16 rows of floats into `patch`, kWmmaPatch floats
// of the warp's own; then a lane takes half a row of it. kWide: a row of c may be written 16 bytes at a time.
template <bool kWide>
__device__ __forceinline__ void wmma_store(const WmmaSum (&sums)[kWmmaFragments][kWmmaFragments], float* patch,
                                           __nv_bfloat16* c, int64_t first_m, int64_t first_n, int64_t M, int64_t N,
                                           int64_t c_stride) {
    const int row = threadIdx.x % 32 / 2;
    const int column = threadIdx.x % 2 * 8;
#pragma unroll
    for (int i = 0; i < kWmmaFragments; ++i) {
#pragma unroll
        for (int j = 0; j < kWmmaFragments; ++j) {
            nvcuda::wmma::store_matrix_sync(patch, sums[i][j], kWmmaPitchC, nvcuda::wmma::mem_row_major);
            __syncwarp();  // the whole patch is written
            const int64_t m = first_m + i * kWmmaSide + row;
            const int64_t n = first_n + j * kWmmaSide + column;
            const float4 near = *reinterpret_cast<const float4*>(patch + row * kWmmaPitchC + column);
            const float4 far = *reinterpret_cast<const float4*>(patch + row * kWmmaPitchC + column + 4);
            if (kWide) {
                if (m < M && n < N) {  // N is a multiple of eight, so all eight are there or none
                    *reinterpret_cast<EightBfloat16*>(c + m * c_stride + n) = {
                        {__floats2bfloat162_rn(near.x, near.y), __floats2bfloat162_rn(near.z, near.w),
                         __floats2bfloat162_rn(far.x, far.y), __floats2bfloat162_rn(far.z, far.w)}};
                }
            } else {
                const float values[] = {near.x, near.y, near.z, near.w, far.x, far.y, far.z, far.w};
                for (int at = 0; at < 8; ++at) {
                    if (m < M && n + at < N) {
                        c[m * c_stride + n + at] = __float2bfloat16(values[at]);
                    }
                }
            }
            __syncwarp();  // the patch is read before the next fragment takes its place
        }
    }
}
