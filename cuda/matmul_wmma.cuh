// What the two rungs on WMMA share: a warp's part of c, how they grow, and how they are written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

constexpr int kWmmaSide = 16;
constexpr int kWmmaWarpM = 64;  // rows and columns of the part of c that a warp owns
constexpr int kWmmaWarpN = 64;
constexpr int kWmmaDown = kWmmaWarpM / kWmmaSide;  // fragments of it, one below the other
constexpr int kWmmaAcross = kWmmaWarpN / kWmmaSide;
constexpr int kWmmaPitchC = kWmmaSide + 4;  // floats; of the patch in which a warp turns a fragment into rows
constexpr int kWmmaPatch = kWmmaSide * kWmmaPitchC;

using WmmaSum = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kWmmaSide, kWmmaSide, kWmmaSide, float>;

constexpr int kWmmaBand = 8;  // tiles of c, from top to bottom, that are worked on side by side

struct WmmaPlace {
    int64_t m, n;  // the first element of a block's tile of c
};

// Blocks that run at the same time cover a near square of c, so that they share tiles of a and b in the L2 cache: they go
// down a band of kWmmaBand tiles, then one to the right.
template <int kTileM, int kTileN>
__device__ __forceinline__ WmmaPlace wmma_place() {
    const unsigned in_band = kWmmaBand * gridDim.x;
    const unsigned number = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned top = number / in_band * kWmmaBand;
    const unsigned height = gridDim.y - top < kWmmaBand ? gridDim.y - top : kWmmaBand;
    return {static_cast<int64_t>(top + number % in_band % height) * kTileM,
            static_cast<int64_t>(number % in_band / height) * kTileN};
}

struct alignas(16) EightBfloat16 {
    __nv_bfloat162 pairs[4];
};

__device__ __forceinline__ void wmma_clear(WmmaSum (&sums)[kWmmaDown][kWmmaAcross]) {
#pragma unroll
    for (int i = 0; i < kWmmaDown; ++i) {
#pragma unroll
        for (int j = 0; j < kWmmaAcross; ++j) {
            nvcuda::wmma::fill_fragment(sums[i][j], 0.0f);
        }
    }
}

// wmma::load_matrix_sync from shared memory. For bfloat16, nvcc 13.0 does not say in PTX that the memory is shared, and
// ptxas then makes loads of 4 bytes of it; told so, it makes LDSM, which fetches a fragment at once.
#ifdef KERNELS_HOST_BUILD
template <int kPitch, typename Fragment>
__device__ __forceinline__ void wmma_load_shared(Fragment& fragment, const __nv_bfloat16* from) {
    nvcuda::wmma::load_matrix_sync(fragment, from, kPitch);
}
#else
#define WMMA_LOAD_SHARED(use, letter)                                                                                 \
    template <int kPitch>                                                                                             \
    __device__ __forceinline__ void wmma_load_shared(                                                                 \
        nvcuda::wmma::fragment<use, kWmmaSide, kWmmaSide, kWmmaSide, __nv_bfloat16, nvcuda::wmma::row_major>& fragment, \
        const __nv_bfloat16* from) {                                                                                  \
        int* bits = reinterpret_cast<int*>(&fragment);                                                                \
        __asm volatile("wmma.load." letter ".sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"      \
                       : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])                                   \
                       : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from))), "r"(kPitch)                      \
                       : "memory");                                                                                   \
    }
WMMA_LOAD_SHARED(nvcuda::wmma::matrix_a, "a")
WMMA_LOAD_SHARED(nvcuda::wmma::matrix_b, "b")
#undef WMMA_LOAD_SHARED
#endif

// The fragments of a and b for 16 k.
struct WmmaFactors {
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kWmmaSide, kWmmaSide, kWmmaSide, __nv_bfloat16, nvcuda::wmma::row_major>
        left[kWmmaDown];
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kWmmaSide, kWmmaSide, kWmmaSide, __nv_bfloat16, nvcuda::wmma::row_major>
        right[kWmmaAcross];
};

template <int kPitchA, int kPitchB>
__device__ __forceinline__ void wmma_load(WmmaFactors& factors, const __nv_bfloat16* a_part, const __nv_bfloat16* b_part,
                                          int k) {
#pragma unroll
    for (int i = 0; i < kWmmaDown; ++i) {
        wmma_load_shared<kPitchA>(factors.left[i], a_part + i * kWmmaSide * kPitchA + k);
    }
#pragma unroll
    for (int j = 0; j < kWmmaAcross; ++j) {
        wmma_load_shared<kPitchB>(factors.right[j], b_part + k * kPitchB + j * kWmmaSide);
    }
}

// sums += the products of the fragments for 16 k.
__device__ __forceinline__ void wmma_product(WmmaSum (&sums)[kWmmaDown][kWmmaAcross], const WmmaFactors& factors) {
#pragma unroll
    for (int i = 0; i < kWmmaDown; ++i) {
#pragma unroll
        for (int j = 0; j < kWmmaAcross; ++j) {
            nvcuda::wmma::mma_sync(sums[i][j], factors.left[i], factors.right[j], sums[i][j]);
        }
    }
}

// Writes the sums to c[m ...][n ...], rounded. A fragment is stored as 16 rows of floats into `patch`, kWmmaPatch floats
// of the warp's own; then a lane takes half a row of it. kWide: a row of c may be written 16 bytes at a time.
template <bool kWide>
__device__ __forceinline__ void wmma_store(const WmmaSum (&sums)[kWmmaDown][kWmmaAcross], float* patch,
                                           __nv_bfloat16* c, int64_t first_m, int64_t first_n, int64_t M, int64_t N,
                                           int64_t c_stride) {
    const int row = threadIdx.x % 32 / 2;
    const int column = threadIdx.x % 2 * 8;
#pragma unroll
    for (int i = 0; i < kWmmaDown; ++i) {
#pragma unroll
        for (int j = 0; j < kWmmaAcross; ++j) {
            nvcuda::wmma::store_matrix_sync(patch, sums[i][j], kWmmaPitchC, nvcuda::wmma::mem_row_major);
            __syncwarp();  // the whole patch is written
            const int64_t m = first_m + i * kWmmaSide + row;
            const int64_t n = first_n + j * kWmmaSide + column;
            const float4 near = *reinterpret_cast<const float4*>(patch + row * kWmmaPitchC + column);
            const float4 far = *reinterpret_cast<const float4*>(patch + row * kWmmaPitchC + column + 4);
            if (kWide) {
                if (m < M && n < N) {  // N is a multiple of eight, so all eight are there or none
                    const EightBfloat16 eight = {
                        {__floats2bfloat162_rn(near.x, near.y), __floats2bfloat162_rn(near.z, near.w),
                         __floats2bfloat162_rn(far.x, far.y), __floats2bfloat162_rn(far.z, far.w)}};
                    __stwb(reinterpret_cast<uint4*>(c + m * c_stride + n), *reinterpret_cast<const uint4*>(&eight));
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
