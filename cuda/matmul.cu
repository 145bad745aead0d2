// The first four rungs of a ladder: c = a * b in float32, each rung with one idea more than the rung before.
//
//   matmul_naive           a thread for an element of c; every factor comes from global memory
//   matmul_tiled           a block keeps tiles of a and b in shared memory and uses each element 32 times
//   matmul_register_tiled  a thread owns 8 x 8 elements of c, so a value from shared memory is used 8 times
//   matmul_async_copy      the next tiles are on their way, 16 bytes a copy, while this one is multiplied
//
// cuda/matmul_wmma.cu goes on, on tensor cores, and cuda/ladder_hopper.cu names the rungs after it.
//
// a is M x K, b is K x N, c is M x N; neighbours in a row are neighbours in memory, and rows are `a_stride`, `b_stride`,
// `c_stride` elements apart. Sums are float32. Extents and offsets are 64-bit. c must not overlap a or b. With K = 0
// every sum is empty and c is zero.

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "matmul.cuh"


// ---------------------------------------------------------------------------------------------
// Naive: one thread, one element, 2 K reads of global memory
// ---------------------------------------------------------------------------------------------

constexpr int kNaiveColumns = 32;  // a warp: its lanes read 32 neighbours of b, and one and the same element of a
constexpr int kNaiveRows = 8;

__global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t M,
                             int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    const int64_t m = static_cast<int64_t>(blockIdx.y) * kNaiveRows + threadIdx.y;
    const int64_t n = static_cast<int64_t>(blockIdx.x) * kNaiveColumns + threadIdx.x;
    if (m >= M || n >= N) {
        return;
    }
    float sum = 0.0f;
    for (int64_t k = 0; k < K; ++k) {
        sum += a[m * a_stride + k] * b[k * b_stride + n];
    }
    c[m * c_stride + n] = sum;
}

// c[m, n] = sum over k of a[m, k] * b[k, n].
extern "C" cudaError_t launch_matmul_naive(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K,
                                           int64_t a_stride, int64_t b_stride, int64_t c_stride, cudaStream_t stream) {
    dim3 grid;
    if (!matmul_is_valid(M, N, K, a_stride, b_stride, c_stride) ||
        !matmul_grid(M, N, kNaiveRows, kNaiveColumns, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;  // a grid of zero blocks is an error to CUDA
    }
    matmul_naive<<<grid, dim3(kNaiveColumns, kNaiveRows), 0, stream>>>(a, b, c, M, N, K, a_stride, b_stride, c_stride);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Tiled: shared memory between the two
// ---------------------------------------------------------------------------------------------

// Changed: a block fetches a tile of a and one of b together and each element of them once. 32 threads then use it, so
// global memory is read a thirty-second as often. Each product still costs two reads, now of shared memory.
constexpr int kTiledSide = 32;

__global__ void __launch_bounds__(kTiledSide* kTiledSide)
    matmul_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t M, int64_t N,
                 int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    // A warp reads one element of a_tile (a broadcast) and a line of b_tile: neither needs padding.
    __shared__ float a_tile[kTiledSide][kTiledSide];
    __shared__ float b_tile[kTiledSide][kTiledSide];

    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int64_t m = static_cast<int64_t>(blockIdx.y) * kTiledSide + y;
    const int64_t n = static_cast<int64_t>(blockIdx.x) * kTiledSide + x;
    float sum = 0.0f;
    for (int64_t first_k = 0; first_k < K; first_k += kTiledSide) {
        // Past an edge a factor is zero, which adds nothing. Every thread stays: it loads for others.
        a_tile[y][x] = m < M && first_k + x < K ? a[m * a_stride + first_k + x] : 0.0f;
        b_tile[y][x] = n < N && first_k + y < K ? b[(first_k + y) * b_stride + n] : 0.0f;
        __syncthreads();  // both tiles are whole before anyone multiplies

#pragma unroll
        for (int k = 0; k < kTiledSide; ++k) {
            sum += a_tile[y][k] * b_tile[k][x];
        }
        __syncthreads();  // everyone is done with the tiles before the next ones replace them
    }
    if (m < M && n < N) {
        c[m * c_stride + n] = sum;
    }
}

// The same product through shared tiles.
extern "C" cudaError_t launch_matmul_tiled(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K,
                                           int64_t a_stride, int64_t b_stride, int64_t c_stride, cudaStream_t stream) {
    dim3 grid;
    if (!matmul_is_valid(M, N, K, a_stride, b_stride, c_stride) ||
        !matmul_grid(M, N, kTiledSide, kTiledSide, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    matmul_tiled<<<grid, dim3(kTiledSide, kTiledSide), 0, stream>>>(a, b, c, M, N, K, a_stride, b_stride, c_stride);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Register tiled: 8 x 8 elements a thread
// ---------------------------------------------------------------------------------------------

// Changed: a thread reads 8 values of a and 8 of b, as four float4, and makes 64 products of them. Shared memory, which
// the rung before had to ask twice a product, is asked for a sixteenth as much.
//
// A block of 256 threads owns 128 x 128 elements. Its warps stand 4 x 2 and own 32 x 64 each; lanes stand 4 x 8.
constexpr int kSgemmM = 128;
constexpr int kSgemmN = 128;
constexpr int kSgemmThreads = 256;
constexpr int kPerThread = 8;

struct SgemmPlace {
    int row, column;  // where the warp's part of the tile begins
    int lane_m, lane_n;
};

// Lane bits 1 and 3 count along m, bits 0, 2 and 4 along n. So lanes 2 i and 2 i + 1 read the same 16 bytes of a, and
// lanes i and i + 2 the same of b: shared memory then serves half a warp at a time where it would serve a quarter.
__device__ __forceinline__ SgemmPlace sgemm_place() {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    return {warp / 2 * 32, warp % 2 * 64, (lane >> 1 & 1) | (lane >> 2 & 2), (lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4)};
}

__device__ __forceinline__ void store_four(float* c_row, int n, int columns, const float* sums, bool wide) {
    if (wide) {
        if (n < columns) {  // columns is a multiple of four, so all four are there or none
            // Counted in float4, so that the compiler sees the alignment: else it may make four stores of it.
            reinterpret_cast<float4*>(c_row)[n / 4] = make_float4(sums[0], sums[1], sums[2], sums[3]);
        }
        return;
    }
    for (int i = 0; i < 4; ++i) {
        if (n + i < columns) {
            c_row[n + i] = sums[i];
        }
    }
}

constexpr int kRegisterK = 8;
// A line of a_tile holds one k, so that a thread's rows are side by side: a is transposed on its way in. Eight lanes then
// write to eight lines; with four floats of padding these are 132 floats, four banks, apart, and nobody waits.
constexpr int kRegisterPitch = kSgemmM + 4;

__global__ void __launch_bounds__(kSgemmThreads)
    matmul_register_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t M,
                          int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride, bool wide) {
    __shared__ __align__(16) float a_tile[kRegisterK][kRegisterPitch];
    __shared__ __align__(16) float b_tile[kRegisterK][kSgemmN];

    const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kSgemmM;
    const int64_t first_n = static_cast<int64_t>(blockIdx.x) * kSgemmN;
    const SgemmPlace place = sgemm_place();
    float sums[kPerThread][kPerThread] = {};
    for (int64_t first_k = 0; first_k < K; first_k += kRegisterK) {
#pragma unroll
        for (int i = threadIdx.x; i < kSgemmM * kRegisterK; i += kSgemmThreads) {
            const int64_t m = first_m + i / kRegisterK;  // eight lanes share a row: 32 bytes, one sector
            const int64_t k = first_k + i % kRegisterK;
            a_tile[i % kRegisterK][i / kRegisterK] = m < M && k < K ? a[m * a_stride + k] : 0.0f;
        }
#pragma unroll
        for (int i = threadIdx.x; i < kRegisterK * kSgemmN; i += kSgemmThreads) {
            const int64_t k = first_k + i / kSgemmN;
            const int64_t n = first_n + i % kSgemmN;
            b_tile[i / kSgemmN][i % kSgemmN] = k < K && n < N ? b[k * b_stride + n] : 0.0f;
        }
        __syncthreads();  // both tiles are whole

#pragma unroll
        for (int k = 0; k < kRegisterK; ++k) {
            float4 left[2];
            float4 right[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                left[half] =
                    *reinterpret_cast<const float4*>(&a_tile[k][place.row + half * 16 + place.lane_m * 4]);
                right[half] =
                    *reinterpret_cast<const float4*>(&b_tile[k][place.column + half * 32 + place.lane_n * 4]);
            }
            const float of_a[] = {left[0].x, left[0].y, left[0].z, left[0].w, left[1].x, left[1].y, left[1].z, left[1].w};
            const float of_b[] = {right[0].x, right[0].y, right[0].z, right[0].w,
                                  right[1].x, right[1].y, right[1].z, right[1].w};
#pragma unroll
            for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
                for (int j = 0; j < kPerThread; ++j) {
                    sums[i][j] += of_a[i] * of_b[j];
                }
            }
        }
        __syncthreads();  // everyone is done with the tiles
    }
    const int columns = static_cast<int>(N - first_n < kSgemmN ? N - first_n : kSgemmN);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const int64_t m = first_m + place.row + i / 4 * 16 + place.lane_m * 4 + i % 4;
        if (m < M) {
            for (int half = 0; half < 2; ++half) {
                const int n = place.column + half * 32 + place.lane_n * 4;
                store_four(c + m * c_stride + first_n, n, columns, &sums[i][half * 4], wide);
            }
        }
    }
}

// The same product, 8 x 8 elements a thread.
extern "C" cudaError_t launch_matmul_register_tiled(const float* a, const float* b, float* c, int64_t M, int64_t N,
                                                    int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride,
                                                    cudaStream_t stream) {
    dim3 grid;
    if (!matmul_is_valid(M, N, K, a_stride, b_stride, c_stride) || !matmul_grid(M, N, kSgemmM, kSgemmN, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    const bool wide = rows_in_pieces(c, N, c_stride, sizeof(float), 16);
    matmul_register_tiled<<<grid, kSgemmThreads, 0, stream>>>(a, b, c, M, N, K, a_stride, b_stride, c_stride, wide);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Asynchronous copies: tiles arrive while one is in use
// ---------------------------------------------------------------------------------------------

// Changed: the hardware copies the next tiles from global to shared memory while this one is multiplied; no register
// holds them on the way, and the wait for memory is over before it matters. There is one barrier a tile instead of two.
// The factors of the next k are fetched from shared memory while these are multiplied, over the end of a tile as well.
//
// A copy of 4 bytes may go anywhere, so a is transposed on its way in, as before; b comes 16 bytes at a time where its rows
// allow that. A thread owns 8 rows and kAsyncPerThread columns.
constexpr int kAsyncPerThread = 16;
constexpr int kAsyncN = 16 * kAsyncPerThread;  // columns of a block: two warps of eight lanes
constexpr int kAsyncQuads = kAsyncPerThread / 4;
constexpr int kAsyncK = 8;
constexpr int kAsyncStages = 3;
constexpr int kAsyncBlocks = 1;  // on one multiprocessor, which leaves 255 registers to a thread
constexpr int kAsyncPitch = kSgemmM + 4;
constexpr int kAsyncStageA = kAsyncK * kAsyncPitch;  // floats
constexpr int kAsyncStageB = kAsyncK * kAsyncN;
constexpr int kAsyncBytes = kAsyncStages * (kAsyncStageA + kAsyncStageB) * static_cast<int>(sizeof(float));

// Brings `kPiece` floats to shared memory; zeros instead where they lie past an edge, from where nothing is read.
template <int kPiece>
__device__ __forceinline__ void copy_or_zero(float* to, const float* from, bool there) {
#ifdef KERNELS_HOST_BUILD
    __pipeline_memcpy_async(to, from, kPiece * sizeof(float), there ? 0 : kPiece * sizeof(float));
#else
    // The instruction can take "do not read" as a predicate. CUDA's function takes a count of zeros, for which the
    // compiler makes two instructions.
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (kPiece == 4) {
        __asm volatile("{\n.reg .pred away;\nsetp.eq.u32 away, %2, 0;\n"
                     "cp.async.cg.shared.global [%0], [%1], 16, away;\n}" ::"r"(shared), "l"(from),
                     "r"(static_cast<unsigned>(there))
                     : "memory");
    } else {
        __asm volatile("{\n.reg .pred away;\nsetp.eq.u32 away, %2, 0;\n"
                     "cp.async.ca.shared.global [%0], [%1], 4, away;\n}" ::"r"(shared), "l"(from),
                     "r"(static_cast<unsigned>(there))
                     : "memory");
    }
#endif
}

// What a thread multiplies for one k.
struct AsyncFactors {
    float of_a[kPerThread];
    float of_b[kAsyncPerThread];
};

// `a_line` and `b_line` hold one k; they begin at the thread's first row and column.
__device__ __forceinline__ void async_load(AsyncFactors& factors, const float* a_line, const float* b_line) {
#pragma unroll
    for (int half = 0; half < kPerThread / 4; ++half) {
        const float4 four = *reinterpret_cast<const float4*>(a_line + half * 16);
        factors.of_a[half * 4] = four.x;
        factors.of_a[half * 4 + 1] = four.y;
        factors.of_a[half * 4 + 2] = four.z;
        factors.of_a[half * 4 + 3] = four.w;
    }
#pragma unroll
    for (int quad = 0; quad < kAsyncQuads; ++quad) {
        const float4 four = *reinterpret_cast<const float4*>(b_line + quad * 32);
        factors.of_b[quad * 4] = four.x;
        factors.of_b[quad * 4 + 1] = four.y;
        factors.of_b[quad * 4 + 2] = four.z;
        factors.of_b[quad * 4 + 3] = four.w;
    }
}

// kPiece is 4 where every row of b and c begins at a multiple of 16 bytes and has whole pieces, and 1 elsewhere.
template <int kPiece>
__global__ void __launch_bounds__(kSgemmThreads, kAsyncBlocks)
    matmul_async_copy(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t M,
                      int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride) {
    extern __shared__ __align__(16) float async_tiles[];
    float* a_tiles = async_tiles;
    float* b_tiles = async_tiles + kAsyncStages * kAsyncStageA;

    // From here on a, b and c are the block's own parts; what is left of the matrices there is counted in 32 bits.
    const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kSgemmM;
    const int64_t first_n = static_cast<int64_t>(blockIdx.x) * kAsyncN;
    a += first_m * a_stride;
    b += first_n;
    c += first_m * c_stride + first_n;
    const int rows = static_cast<int>(M - first_m < kSgemmM ? M - first_m : kSgemmM);
    const int columns = static_cast<int>(N - first_n < kAsyncN ? N - first_n : kAsyncN);

    // A thread copies the same pieces of every tile: it remembers where the next ones are.
    constexpr int kInRowB = kAsyncN / kPiece;
    constexpr int kSector = 8;  // neighbouring lanes that take one sector of a row of a
    constexpr int kStepA = kSgemmThreads / kSector;  // rows of a tile that the block copies at once
    constexpr int kStepB = kSgemmThreads / kInRowB;
    const int a_row = threadIdx.x / kSector;
    const int a_column = threadIdx.x % kSector;
    const int b_row = threadIdx.x / kInRowB;
    const int b_column = threadIdx.x % kInRowB * kPiece;
    const float* a_next = a + a_row * a_stride + a_column;
    const float* b_next = b + b_row * b_stride + b_column;
    const auto copy_tiles = [&](int stage, int64_t left) {  // `left`: how many k are not copied yet
        const int ks = static_cast<int>(left < kAsyncK ? left : kAsyncK);  // none, if all are copied
        float* a_to = a_tiles + stage * kAsyncStageA + a_column * kAsyncPitch + a_row;
        float* b_to = b_tiles + stage * kAsyncStageB + b_row * kAsyncN + b_column;
        const float* from_a = a_next;
#pragma unroll
        for (int i = 0; i < kSgemmM; i += kStepA) {
#pragma unroll
            for (int k = 0; k < kAsyncK; k += kSector) {
                const bool there = a_row + i < rows && a_column + k < ks;
                copy_or_zero<1>(a_to + k * kAsyncPitch + i, from_a + k, there);
            }
            from_a += kStepA * a_stride;
        }
        const float* from_b = b_next;
#pragma unroll
        for (int i = 0; i < kAsyncK; i += kStepB) {
            const bool there = b_row + i < ks && b_column < columns;
            copy_or_zero<kPiece>(b_to + i * kAsyncN, from_b, there);
            from_b += kStepB * b_stride;
        }
        __pipeline_commit();
        a_next += kAsyncK;
        b_next += kAsyncK * b_stride;
    };

#pragma unroll
    for (int stage = 0; stage < kAsyncStages - 1; ++stage) {
        copy_tiles(stage, K - stage * kAsyncK);
    }
    const SgemmPlace place = sgemm_place();
    const int first_row = place.row + place.lane_m * 4;
    const int first_column = place.column * kAsyncPerThread / 8 + place.lane_n * 4;
    float sums[kPerThread][kAsyncPerThread] = {};
    AsyncFactors factors[2];
    const auto load = [&](int stage, int k) {
        async_load(factors[k % 2], a_tiles + stage * kAsyncStageA + k * kAsyncPitch + first_row,
                   b_tiles + stage * kAsyncStageB + k * kAsyncN + first_column);
    };
    __pipeline_wait_prior(kAsyncStages - 2);  // this thread's copies of the first tile are there
    __syncthreads();                          // and everybody's
    load(0, 0);
    int stage = 0;
    for (int64_t left = K; left > 0; left -= kAsyncK) {
        const int next = stage + 1 == kAsyncStages ? 0 : stage + 1;
        copy_tiles(stage == 0 ? kAsyncStages - 1 : stage - 1, left - (kAsyncStages - 1) * kAsyncK);
#pragma unroll
        for (int k = 0; k < kAsyncK; ++k) {
            if (k + 1 < kAsyncK) {
                load(stage, k + 1);
            } else {
                __pipeline_wait_prior(kAsyncStages - 2);
                __syncthreads();  // the next tile is whole, and nobody reads this one any more
                load(next, 0);    // zeros, after the last tile
            }
#pragma unroll
            for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
                for (int j = 0; j < kAsyncPerThread; ++j) {
                    sums[i][j] += factors[k % 2].of_a[i] * factors[k % 2].of_b[j];
                }
            }
        }
        stage = next;
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
        const int m = first_row + i / 4 * 16 + i % 4;
        if (m < rows) {
#pragma unroll
            for (int quad = 0; quad < kAsyncQuads; ++quad) {
                store_four(c + m * c_stride, first_column + quad * 32, columns, &sums[i][quad * 4], kPiece == 4);
            }
        }
    }
}

template <int kPiece>
static cudaError_t run_matmul_async_copy(dim3 grid, const float* a, const float* b, float* c, int64_t M, int64_t N,
                                         int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride,
                                         cudaStream_t stream) {
    // A block gets more than 48 KiB only if the kernel asked for it.
    const cudaError_t allowed =
        cudaFuncSetAttribute(matmul_async_copy<kPiece>, cudaFuncAttributeMaxDynamicSharedMemorySize, kAsyncBytes);
    if (allowed != cudaSuccess) {
        return allowed;
    }
    matmul_async_copy<kPiece><<<grid, kSgemmThreads, kAsyncBytes, stream>>>(a, b, c, M, N, K, a_stride, b_stride, c_stride);
    return cudaGetLastError();
}

// The same product, with copies that run ahead.
extern "C" cudaError_t launch_matmul_async_copy(const float* a, const float* b, float* c, int64_t M, int64_t N,
                                                int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride,
                                                cudaStream_t stream) {
    dim3 grid;
    if (!matmul_is_valid(M, N, K, a_stride, b_stride, c_stride) || !matmul_grid(M, N, kSgemmM, kAsyncN, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    if (rows_in_pieces(b, N, b_stride, sizeof(float), 16) && rows_in_pieces(c, N, c_stride, sizeof(float), 16)) {
        return run_matmul_async_copy<4>(grid, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
    }
    return run_matmul_async_copy<1>(grid, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
}
