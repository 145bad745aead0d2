// The rung of the ladder that leads from cuda/matmul.cu to the tensor cores: matmul_wmma.
//
// a is M x K, b is K x N, c is M x N, all bfloat16; sums are float32 and rounded once. Neighbours in a row are neighbours
// in memory, and rows are `a_stride`, `b_stride`, `c_stride` elements apart. c must not overlap a or b. The stages take
// 204 KiB of shared memory, which a block gets on sm_90 and sm_100; elsewhere the launcher returns cudaErrorInvalidValue.

#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "matmul.cuh"
#include "matmul_wmma.cuh"

// Changed: a warp multiplies 16 x 16 x 16 at a time on a tensor core, and owns 64 x 64 elements of c: 4 x 4 fragments.
// Nobody but the hardware knows which lane holds which element. Copies run ahead as in matmul_async_copy, further.
constexpr int kWmmaM = 128;
constexpr int kWmmaN = 256;
constexpr int kWmmaK = 64;
constexpr int kWmmaStages = 4;
constexpr int kWmmaBlocks = 1;  // on one multiprocessor
constexpr int kWmmaWarpsN = kWmmaN / kWmmaWarpN;
constexpr int kWmmaThreads = kWmmaM / kWmmaWarpM * kWmmaWarpsN * 32;
// Eight rows of 16 bytes are read at once: with 8 numbers of padding they lie in different banks, for both tiles.
constexpr int kWmmaPitchA = kWmmaK + 8;
constexpr int kWmmaPitchB = kWmmaN + 8;
constexpr int kWmmaStageA = kWmmaM * kWmmaPitchA;
constexpr int kWmmaStageB = kWmmaK * kWmmaPitchB;
constexpr int kWmmaBytes = kWmmaStages * (kWmmaStageA + kWmmaStageB) * static_cast<int>(sizeof(__nv_bfloat16));
constexpr int kWmmaSteps = kWmmaK / kWmmaSide;  // products of fragments that a tile is deep

// Brings 16 bytes to shared memory; zeros instead where they lie past an edge, from where nothing is read.
__device__ __forceinline__ void wmma_copy_piece(__nv_bfloat16* to, const __nv_bfloat16* from, bool there) {
#ifdef KERNELS_HOST_BUILD
    __pipeline_memcpy_async(to, from, 16, there ? 0 : 16);
#else
    // The instruction can take "do not read" as a predicate. CUDA's function takes a count of zeros, for which the
    // compiler makes two instructions.
    __asm volatile("{\n.reg .pred away;\nsetp.eq.u32 away, %2, 0;\n"
                   "cp.async.cg.shared.global [%0], [%1], 16, away;\n}" ::"r"(
                       static_cast<unsigned>(__cvta_generic_to_shared(to))),
                   "l"(from), "r"(static_cast<unsigned>(there))
                   : "memory");
#endif
}

// Part `part` of kWmmaSteps of the copies of a tile of kRows x kColumns numbers, of which `rows` x `columns` are there. A
// thread copies the same pieces of every tile. kWide: every row begins at a multiple of 16 bytes and has whole pieces of
// 16 bytes. Elsewhere the numbers come one by one, since the smallest asynchronous copy has four bytes.
template <bool kWide, int kRows, int kColumns, int kPitch>
__device__ __forceinline__ void wmma_copy_part(__nv_bfloat16* tile, const __nv_bfloat16* from, int64_t stride, int rows,
                                               int columns, int part) {
    constexpr int kPiece = kWide ? 8 : 1;
    constexpr int kInRow = kColumns / kPiece;
    constexpr int kStep = kWmmaThreads / kInRow;  // rows that the block copies at once
    constexpr int kPart = kRows / kWmmaSteps;
    static_assert(kStep * kInRow == kWmmaThreads && kPart % kStep == 0, "the threads copy whole rows, and parts are equal");
    const int row = threadIdx.x / kInRow + part * kPart;
    const int column = threadIdx.x % kInRow * kPiece;
    const __nv_bfloat16* next = from + row * stride + column;
    __nv_bfloat16* target = tile + row * kPitch + column;
#pragma unroll(kWide ? kPart / kStep : 4)
    for (int i = 0; i < kPart; i += kStep) {
        const bool there = row + i < rows && column < columns;
        if (kWide) {
            wmma_copy_piece(target + i * kPitch, next, there);
        } else {
            target[i * kPitch] = there ? *next : __float2bfloat16(0.0f);
        }
        next += kStep * stride;
    }
}

template <bool kWide>
__global__ void __launch_bounds__(kWmmaThreads, kWmmaBlocks)
    matmul_wmma(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, __nv_bfloat16* __restrict__ c,
                int64_t M, int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    extern __shared__ __align__(16) __nv_bfloat16 wmma_tiles[];
    __nv_bfloat16* a_tiles = wmma_tiles;
    __nv_bfloat16* b_tiles = wmma_tiles + kWmmaStages * kWmmaStageA;

    const WmmaPlace place = wmma_place<kWmmaM, kWmmaN>();
    const int64_t first_m = place.m;
    const int64_t first_n = place.n;
    const int rows = static_cast<int>(M - first_m < kWmmaM ? M - first_m : kWmmaM);
    const int columns = static_cast<int>(N - first_n < kWmmaN ? N - first_n : kWmmaN);
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / kWmmaWarpsN * kWmmaWarpM;
    const int warp_n = warp % kWmmaWarpsN * kWmmaWarpN;
    const __nv_bfloat16* a_next = a + first_m * a_stride;
    const __nv_bfloat16* b_next = b + first_n;
    int64_t left = K;  // k that are not copied yet
    const auto copy_part = [&](int stage, int part) {
        const int ks = static_cast<int>(left < kWmmaK ? left : kWmmaK);  // none, if all are copied
        wmma_copy_part<kWide, kWmmaM, kWmmaK, kWmmaPitchA>(a_tiles + stage * kWmmaStageA, a_next, a_stride, rows, ks, part);
        wmma_copy_part<kWide, kWmmaK, kWmmaN, kWmmaPitchB>(b_tiles + stage * kWmmaStageB, b_next, b_stride, ks, columns,
                                                           part);
    };
    const auto copied = [&]() {
        __pipeline_commit();
        a_next += kWmmaK;
        b_next += kWmmaK * b_stride;
        left -= kWmmaK;
    };

    for (int stage = 0; stage < kWmmaStages - 1; ++stage) {
#pragma unroll
        for (int part = 0; part < kWmmaSteps; ++part) {
            copy_part(stage, part);
        }
        copied();
    }
    WmmaSum sums[kWmmaDown][kWmmaAcross];
    wmma_clear(sums);
    WmmaFactors factors[2];
    const auto load = [&](int stage, int step) {
        wmma_load<kWmmaPitchA, kWmmaPitchB>(factors[step % 2], a_tiles + stage * kWmmaStageA + warp_m * kWmmaPitchA,
                                            b_tiles + stage * kWmmaStageB + warp_n, step * kWmmaSide);
    };
    __pipeline_wait_prior(kWmmaStages - 2);
    __syncthreads();  // the first tile is whole
    load(0, 0);
    int stage = 0;
    int free = kWmmaStages - 1;
    for (int64_t first_k = 0; first_k < K; first_k += kWmmaK) {
        const int next = stage + 1 == kWmmaStages ? 0 : stage + 1;
        // The fragments of the next 16 k are fetched before those of these are multiplied, and the copies of a later tile
        // are begun a part at a time: the tensor cores wait for neither.
#pragma unroll
        for (int step = 0; step < kWmmaSteps; ++step) {
            if (step + 1 < kWmmaSteps) {
                load(stage, step + 1);
                copy_part(free, step);
            } else {
                copy_part(free, step);
                copied();
                __pipeline_wait_prior(kWmmaStages - 2);
                __syncthreads();  // the next tile is whole, and nobody reads this one any more
                load(next, 0);    // zeros, after the last tile
            }
            wmma_product(sums, factors[step % 2]);
        }
        free = stage;
        stage = next;
    }
    __pipeline_wait_prior(0);  // the zeros after the last tile
    __syncthreads();           // no tile is read or written any more: its memory may hold sums
    wmma_store<kWide>(sums, reinterpret_cast<float*>(wmma_tiles) + warp * kWmmaPatch, c, first_m + warp_m,
                      first_n + warp_n, M, N, c_stride);
}

template <bool kWide>
static cudaError_t run_matmul_wmma(dim3 grid, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c,
                                   int64_t M, int64_t N, int64_t K, int64_t a_stride, int64_t b_stride,
                                   int64_t c_stride, cudaStream_t stream) {
    // A block gets more than 48 KiB only if the kernel asked for it.
    const cudaError_t allowed =
        cudaFuncSetAttribute(matmul_wmma<kWide>, cudaFuncAttributeMaxDynamicSharedMemorySize, kWmmaBytes);
    if (allowed != cudaSuccess) {
        return allowed;
    }
    matmul_wmma<kWide><<<grid, kWmmaThreads, kWmmaBytes, stream>>>(a, b, c, M, N, K, a_stride, b_stride, c_stride);
    return cudaGetLastError();
}

// c = a * b in bfloat16, summed in float32 and rounded once.
extern "C" cudaError_t launch_matmul_wmma(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t M,
                                          int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride,
                                          cudaStream_t stream) {
    dim3 grid;
    if (!matmul_is_valid(M, N, K, a_stride, b_stride, c_stride) || !matmul_grid(M, N, kWmmaM, kWmmaN, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    if (rows_in_pieces(a, K, a_stride, sizeof(*a), 16) && rows_in_pieces(b, N, b_stride, sizeof(*b), 16) &&
        rows_in_pieces(c, N, c_stride, sizeof(*c), 16)) {
        return run_matmul_wmma<true>(grid, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
    }
    return run_matmul_wmma<false>(grid, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
}
