// The rung of the ladder that leads from WMMA to Hopper (sm_90a): matmul_tma.
//
// a is M x K, b is K x N, c is M x N, all bfloat16, summed in float32; neighbours in a row are neighbours in memory, and
// rows are `a_stride`, `b_stride`, `c_stride` elements apart. The copy unit wants a and b to begin at a multiple of 16
// bytes, and their strides to be multiples of 8 elements; M, N and K are free, since it fills in zeros past an edge. c
// must not overlap a or b.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "hopper_operands.cuh"
#include "matmul_wmma.cuh"

// Changed against matmul_wmma: no thread computes addresses or masks. One of them names a box, and a barrier tells all
// when its bytes are there. The copy unit cannot pad a row; a box that is 8 numbers too wide makes the same room, at the
// price of fetching them twice.
constexpr int kTmaM = 256;
constexpr int kTmaN = 128;
constexpr int kTmaK = 64;
constexpr int kTmaStages = 4;
constexpr int kTmaBlocks = 1;  // on one multiprocessor
constexpr int kTmaWarpsN = kTmaN / kWmmaWarpN;
constexpr int kTmaThreads = kTmaM / kWmmaWarpM * kTmaWarpsN * 32;
constexpr int kTmaPitchA = kTmaK + 8;
constexpr int kTmaPitchB = kTmaN + 8;
constexpr int kTmaBytesA = kTmaM * kTmaPitchA * 2;
constexpr int kTmaBytesB = kTmaK * kTmaPitchB * 2;
constexpr int kTmaBarriers = kTmaStages * (kTmaBytesA + kTmaBytesB);  // where the barriers lie
constexpr int kTmaBytes = kTmaBarriers + kTmaStages * 8;
constexpr int kTmaSteps = kTmaK / kWmmaSide;

template <bool kWide>
__global__ void __launch_bounds__(kTmaThreads, kTmaBlocks)
    matmul_tma(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int64_t M,
               int64_t N, int64_t K, int64_t c_stride) {
    unsigned char* a_tiles = hopper_shared;
    unsigned char* b_tiles = hopper_shared + kTmaStages * kTmaBytesA;
    uint64_t* full = reinterpret_cast<uint64_t*>(hopper_shared + kTmaBarriers);
    const WmmaPlace place = wmma_place<kTmaM, kTmaN>();
    const int first_m = static_cast<int>(place.m);
    const int first_n = static_cast<int>(place.n);
    const int tiles = static_cast<int>((K + kTmaK - 1) / kTmaK);
    const auto fetch = [&](int tile, int stage) {
        barrier_expect(&full[stage], kTmaBytesA + kTmaBytesB);  // a box counts in full, zeros included
        copy_box(a_tiles + stage * kTmaBytesA, a, &full[stage], first_m, tile * kTmaK);
        copy_box(b_tiles + stage * kTmaBytesB, b, &full[stage], tile * kTmaK, first_n);
    };

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kTmaStages; ++stage) {
            barrier_init(&full[stage], 1);
        }
        barrier_init_done();
        for (int tile = 0; tile < kTmaStages && tile < tiles; ++tile) {
            fetch(tile, tile);
        }
    }
    __syncthreads();  // the barriers are there before anyone waits at them

    const int warp = threadIdx.x / 32;
    const int warp_m = warp / kTmaWarpsN * kWmmaWarpM;
    const int warp_n = warp % kTmaWarpsN * kWmmaWarpN;
    WmmaSum sums[kWmmaDown][kWmmaAcross];
    wmma_clear(sums);
    WmmaFactors factors[2];
    const auto load = [&](int stage, int step) {
        const auto* a_tile = reinterpret_cast<const __nv_bfloat16*>(a_tiles + stage * kTmaBytesA);
        const auto* b_tile = reinterpret_cast<const __nv_bfloat16*>(b_tiles + stage * kTmaBytesB);
        wmma_load<kTmaPitchA, kTmaPitchB>(factors[step % 2], a_tile + warp_m * kTmaPitchA, b_tile + warp_n,
                                          step * kWmmaSide);
    };
    barrier_wait(&full[0], 0);
    load(0, 0);
    int stage = 0;
    uint32_t parity = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        const int next = stage + 1 == kTmaStages ? 0 : stage + 1;
        parity ^= next == 0;
#pragma unroll
        for (int step = 0; step < kTmaSteps; ++step) {
            if (step + 1 < kTmaSteps) {
                load(stage, step + 1);
            } else if (tile + 1 < tiles) {
                barrier_wait(&full[next], parity);
                load(next, 0);
            }
            wmma_product(sums, factors[step % 2]);
        }
        // What was read has been multiplied, so it has arrived. The barrier orders the threads among themselves; the copy unit,
        // which may write over the stage now, is none of them.
        __syncthreads();
        if (threadIdx.x == 0 && tile + kTmaStages < tiles) {
            fetch(tile + kTmaStages, stage);
        }
        __syncwarp();  // the lane that fetched was alone, and the next load is of the whole warp
        stage = next;
    }
    // Every box has arrived and was read, so the tiles' memory may hold sums.
    wmma_store<kWide>(sums, reinterpret_cast<float*>(hopper_shared) + warp * kWmmaPatch, c, first_m + warp_m,
                      first_n + warp_n, M, N, c_stride);
}

// c = a * b, fetched by the copy unit.
extern "C" cudaError_t launch_matmul_tma(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t M,
                                         int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride,
                                         cudaStream_t stream) {
    dim3 grid;
    if (!hopper_is_valid(a, b, M, N, K, a_stride, b_stride, c_stride) || !matmul_grid(M, N, kTmaM, kTmaN, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    if (K == 0) {
        return clear_rows(c, M, N, c_stride, stream);
    }
    TensorMap a_map;
    TensorMap b_map;
    cudaError_t status = encode_boxes(&a_map, a, M, K, map_stride(a_stride, K), kTmaM, kTmaPitchA, Swizzle::off);
    if (status == cudaSuccess) {
        status = encode_boxes(&b_map, b, K, N, map_stride(b_stride, N), kTmaK, kTmaPitchB, Swizzle::off);
    }
    if (status != cudaSuccess) {
        return status;
    }
    const bool wide = rows_in_pieces(c, N, c_stride, sizeof(*c), 16);
    const auto kernel = wide ? matmul_tma<true> : matmul_tma<false>;
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kTmaBytes);
    if (status != cudaSuccess) {
        return status;
    }
    kernel<<<grid, kTmaThreads, kTmaBytes, stream>>>(a_map, b_map, c, M, N, K, c_stride);
    return cudaGetLastError();
}
