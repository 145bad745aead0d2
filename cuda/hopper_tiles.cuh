// What the rungs on wgmma share: tiles, stages, the order of tiles, one tile a block, and the launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "hopper_operands.cuh"

// Two warpgroups own 64 x 256 elements of c each, 128 sums a thread. A tile of a is one box of 128 rows and 64 k; a tile
// of b is four boxes of 64 k and 64 columns. Rows of a box have 128 bytes, swizzled by the copy unit as wgmma reads them.
constexpr int kHopperM = 128;
constexpr int kHopperN = 256;
constexpr int kHopperK = 64;
constexpr int kHopperStages = 4;
constexpr int kHopperBox = 64;  // columns: 128 bytes
constexpr int kHopperBoxes = kHopperN / kHopperBox;
constexpr int kHopperRow = kHopperBox * 2;  // bytes
constexpr int kHopperBytesA = kHopperM * kHopperRow;
constexpr int kHopperBytesBox = kHopperK * kHopperRow;
constexpr int kHopperStage = kHopperBytesA + kHopperBoxes * kHopperBytesBox;
constexpr int kHopperBarriers = kHopperStages * kHopperStage;
constexpr int kHopperBytes = kHopperBarriers + 2 * kHopperStages * 8;
constexpr int kHopperWarps = 8;  // that multiply, in two warpgroups
constexpr int kHopperSums = kHopperN / 2;
constexpr int kHopperBand = 16;  // tiles of c, from top to bottom, that are worked on side by side

constexpr bool kHopperSendsBoxes = true;  // sums leave through the copy unit where c allows it

struct HopperPlace {
    int m, n;  // the first element of a tile of c
};

// Tile number `tile` of the order in which c is worked on, for blocks in clusters of `cluster` that stand on top of each
// other. Blocks that run at the same time cover a near square of c, so that they share tiles of a and b in the L2 cache:
// tiles go down a band of kHopperBand tiles, then one to the right. `tiles_m` is a multiple of `cluster`.
__host__ __device__ inline HopperPlace hopper_place(int tile, int tiles_m, int tiles_n) {
    const int in_band = kHopperBand * tiles_n;
    const int first = tile / in_band * kHopperBand;
    const int height = tiles_m - first < kHopperBand ? tiles_m - first : kHopperBand;
    const int at = tile % in_band;
    return {(first + at % height) * kHopperM, at / height * kHopperN};
}

// Blocks count their stages and phases by this.
struct HopperStage {
    int number = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void advance() {
        number = number + 1 == kHopperStages ? 0 : number + 1;
        parity ^= number == 0;
    }
};

// One thread fetches a block's tiles of a and b for 64 k. With kCluster blocks, each brings the same boxes of b for all.
template <int kCluster>
__device__ __forceinline__ void hopper_fetch(const TensorMap& a, const TensorMap& b, uint64_t* full, int stage,
                                             HopperPlace place, int k) {
    unsigned char* a_tile = hopper_shared + stage * kHopperStage;
    unsigned char* b_tile = a_tile + kHopperBytesA;
    barrier_expect(&full[stage], kHopperStage);
    copy_box(a_tile, a, &full[stage], place.m, k);
    if (kCluster == 1) {
#pragma unroll
        for (int box = 0; box < kHopperBoxes; ++box) {
            copy_box(b_tile + box * kHopperBytesBox, b, &full[stage], k, place.n + box * kHopperBox);
        }
        return;
    }
    constexpr int kOwn = kHopperBoxes / kCluster;
    const int first = static_cast<int>(cluster_rank()) * kOwn;
#pragma unroll
    for (int box = first; box < first + kOwn; ++box) {
        copy_box_to_all(b_tile + box * kHopperBytesBox, b, &full[stage], k, place.n + box * kHopperBox,
                        static_cast<uint16_t>((1 << kCluster) - 1));
    }
}

// The number of the warpgroup, taken from a lane, so that the compiler knows it to be one for the whole warp.
__device__ __forceinline__ int hopper_warpgroup() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 128), 0);
}

// Begins a warpgroup's products of one stage.
__device__ __forceinline__ void hopper_multiply(float (&sums)[kHopperSums], int stage, int warpgroup) {
    const unsigned char* a_tile = hopper_shared + stage * kHopperStage + warpgroup * 64 * kHopperRow;
    const unsigned char* b_tile = hopper_shared + stage * kHopperStage + kHopperBytesA;
    const uint64_t a = describe(a_tile, 16, 8 * kHopperRow);
    const uint64_t b = describe(b_tile, kHopperBytesBox, 8 * kHopperRow);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kHopperK; k += 16) {
        // 16 k are 32 bytes further in the rows of a, and 16 rows further down in b. Descriptors count 16 bytes.
        wgmma_64x256x16(sums, a + k * 2 / 16, b + k * kHopperRow / 16);
    }
    wgmma_commit();
}

// A warp is done with a stage: it tells every block whose copies write there.
template <int kCluster>
__device__ __forceinline__ void hopper_release(uint64_t* empty, int stage) {
    if (threadIdx.x % 32 < kCluster) {
        barrier_arrive(&empty[stage], threadIdx.x % 32);
    }
}

__device__ __forceinline__ void hopper_store(const float (&sums)[kHopperSums], __nv_bfloat16* c, HopperPlace place,
                                             int warpgroup, int64_t M, int64_t N, int64_t c_stride, bool pairs) {
    const int thread = threadIdx.x % 128;
#pragma unroll
    for (int below = 0; below < 2; ++below) {
        const int64_t m = place.m + warpgroup * 64 + thread / 32 * 16 + thread % 32 / 4 + below * 8;
        if (m >= M) {
            continue;
        }
        __nv_bfloat16* row = c + m * c_stride;
#pragma unroll
        for (int j = 0; j < kHopperSums / 4; ++j) {
            const int64_t n = place.n + j * 8 + thread % 4 * 2;
            const float first = sums[4 * j + 2 * below];
            const float second = sums[4 * j + 2 * below + 1];
            if (pairs) {
                if (n < N) {
                    *reinterpret_cast<__nv_bfloat162*>(row + n) = __floats2bfloat162_rn(first, second);
                }
                continue;
            }
            if (n < N) {
                row[n] = __float2bfloat16(first);
            }
            if (n + 1 < N) {
                row[n + 1] = __float2bfloat16(second);
            }
        }
    }
}

// A warpgroup hands its 64 x 256 sums to the copy unit, in boxes of 64 rows and 64 columns: whole lines of 128 bytes go to
// memory, and what lies outside c is dropped. `boxes` has room for kBuffers of them, and takes them in turns.
constexpr int kOutBytes = 64 * kHopperRow;

template <int kBuffers>
__device__ __forceinline__ void hopper_store_boxes(const float (&sums)[kHopperSums], const TensorMap& c,
                                                   HopperPlace place, int warpgroup, unsigned char* boxes) {
    const int lane = threadIdx.x % 32;
    const int first_row = threadIdx.x % 128 / 32 * 16;
    // Of the four matrices that a lane helps to store, l / 8 is its own: below is rows 8 to 15, right the next 8 columns.
    const int row = first_row + lane / 8 % 2 * 8 + lane % 8;
    const int right = lane / 16;
#pragma unroll
    for (int box = 0; box < kHopperBoxes; ++box) {
        unsigned char* out = boxes + box % kBuffers * kOutBytes;
        if (box == 0 || kBuffers < kHopperBoxes) {
            if (threadIdx.x % 128 == 0) {
                store_wait<kBuffers < kHopperBoxes ? kBuffers - 1 : 0>();  // nothing reads this buffer any more
            }
            warpgroup_sync(1 + warpgroup);
        }
#pragma unroll
        for (int piece = 0; piece < 8; piece += 2) {  // 16 columns
            uint32_t pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* two = &sums[box * 32 + (piece + i / 2) * 4 + i % 2 * 2];
                const __nv_bfloat162 pair = __floats2bfloat162_rn(two[0], two[1]);
                pairs[i] = *reinterpret_cast<const uint32_t*>(&pair);
            }
            store_matrices(out + row * kHopperRow + ((piece + right) ^ (row % 8)) * 16, pairs);
        }
        shared_written();
        warpgroup_sync(1 + warpgroup);
        if (threadIdx.x % 128 == 0) {
            store_box(c, out, place.m + warpgroup * 64, place.n + box * kHopperBox);
        }
    }
}

// `full` of a stage: one arrival, of the thread that fetches, and the stage's bytes. `empty`: one arrival of each warp
// that multiplies, in each block of the cluster.
template <int kCluster>
__device__ __forceinline__ void hopper_begin(uint64_t* full, uint64_t* empty) {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kHopperStages; ++stage) {
            barrier_init(&full[stage], 1);
            barrier_init(&empty[stage], kHopperWarps * kCluster);
        }
        barrier_init_done();
    }
    if (kCluster > 1) {
        cluster_sync();  // no copy arrives at a barrier that is not there yet
    } else {
        __syncthreads();
    }
}

constexpr int kHopperThreads = kHopperWarps * 32;
constexpr int kHopperCluster = 2;  // blocks, one below the other, that share tiles of b where a rung wants it

// One tile a block; thread 0 fetches ahead.
template <int kCluster>
__device__ __forceinline__ void hopper_one_tile(const TensorMap& a, const TensorMap& b, const TensorMap& c_map,
                                                __nv_bfloat16* c, int64_t M, int64_t N, int64_t K, int64_t c_stride,
                                                int tiles_m, int tiles_n, bool boxes, bool pairs) {
    uint64_t* full = reinterpret_cast<uint64_t*>(hopper_shared + kHopperBarriers);
    uint64_t* empty = full + kHopperStages;
    const HopperPlace place = hopper_place(static_cast<int>(blockIdx.x), tiles_m, tiles_n);
    const int steps = static_cast<int>((K + kHopperK - 1) / kHopperK);
    const int warpgroup = hopper_warpgroup();
    hopper_begin<kCluster>(full, empty);
    if (threadIdx.x == 0) {
        for (int step = 0; step < kHopperStages && step < steps; ++step) {
            hopper_fetch<kCluster>(a, b, full, step, place, step * kHopperK);
        }
    }
    __syncwarp();

    float sums[kHopperSums] = {};
    HopperStage stage;
    HopperStage last;  // the stage of the step before
    for (int step = 0; step < steps; ++step) {
        barrier_wait(&full[stage.number], stage.parity);
        hopper_multiply(sums, stage.number, warpgroup);
        wgmma_wait<1>();  // the products of the step before are done; those of this one go on
        if (step > 0) {
            hopper_release<kCluster>(empty, last.number);
            const int next = step - 1 + kHopperStages;
            if (threadIdx.x == 0 && next < steps) {
                barrier_wait(&empty[last.number], last.parity);
                hopper_fetch<kCluster>(a, b, full, last.number, place, next * kHopperK);
            }
            __syncwarp();
            last.advance();
        }
        stage.advance();
    }
    wgmma_wait<0>();
    if (boxes) {
        __syncthreads();  // no stage is read or written any more: their memory may hold sums
        hopper_store_boxes<kHopperBoxes>(sums, c_map, place, warpgroup,
                                         hopper_shared + warpgroup * kHopperBoxes * kOutBytes);
        if (threadIdx.x % 128 == 0) {
            store_wait<0>();  // shared memory is there until the last box has been read
        }
    } else {
        hopper_store(sums, c, place, warpgroup, M, N, c_stride, pairs);
    }
    if (kCluster > 1) {
        cluster_sync();  // the other block may still arrive at barriers of this one
    }
}


// ---------------------------------------------------------------------------------------------
// Launches
// ---------------------------------------------------------------------------------------------

using HopperKernel = void (*)(TensorMap, TensorMap, TensorMap, __nv_bfloat16*, int64_t, int64_t, int64_t, int64_t, int,
                              int, bool, bool);

// A product cut into tiles, ready to be launched. `tiles` = 0: there is nothing to do, or it is done.
struct HopperProduct {
    TensorMap a, b, c;
    int tiles_m, tiles_n;
    int64_t tiles;
    bool boxes;  // c may be written by the copy unit: its rows are whole pieces of 16 bytes
    bool pairs;  // or else two numbers at a time
};

inline cudaError_t hopper_product(HopperProduct* product, int cluster, const __nv_bfloat16* a, const __nv_bfloat16* b,
                                  __nv_bfloat16* c, int64_t M, int64_t N, int64_t K, int64_t a_stride, int64_t b_stride,
                                  int64_t c_stride, cudaStream_t stream) {
    product->tiles = 0;
    if (!hopper_is_valid(a, b, M, N, K, a_stride, b_stride, c_stride)) {
        return cudaErrorInvalidValue;
    }
    // Blocks of a cluster stand on top of each other; one that lies below c computes zeros and writes nothing.
    const int64_t tiles_m = ((M + kHopperM - 1) / kHopperM + cluster - 1) / cluster * cluster;
    const int64_t tiles_n = (N + kHopperN - 1) / kHopperN;
    if (tiles_m * tiles_n > 1ll << 30) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    if (K == 0) {
        return clear_rows(c, M, N, c_stride, stream);
    }
    cudaError_t status = encode_boxes(&product->a, a, M, K, map_stride(a_stride, K), kHopperM, kHopperBox, Swizzle::on);
    if (status != cudaSuccess) {
        return status;
    }
    product->boxes = kHopperSendsBoxes && rows_in_pieces(c, N, c_stride, sizeof(*c), 16);
    product->pairs = rows_in_pieces(c, N, c_stride, sizeof(*c), 4);
    product->c = product->a;  // any map, where none is used
    if (product->boxes) {
        status = encode_boxes(&product->c, c, M, N, map_stride(c_stride, N), 64, kHopperBox, Swizzle::on);
        if (status != cudaSuccess) {
            return status;
        }
    }
    product->tiles_m = static_cast<int>(tiles_m);
    product->tiles_n = static_cast<int>(tiles_n);
    product->tiles = tiles_m * tiles_n;
    return encode_boxes(&product->b, b, K, N, map_stride(b_stride, N), kHopperK, kHopperBox, Swizzle::on);
}

// One tile a block.
inline cudaError_t run_hopper(HopperKernel kernel, int cluster, const __nv_bfloat16* a, const __nv_bfloat16* b,
                              __nv_bfloat16* c, int64_t M, int64_t N, int64_t K, int64_t a_stride, int64_t b_stride,
                              int64_t c_stride, cudaStream_t stream) {
    HopperProduct product;
    const cudaError_t status =
        hopper_product(&product, cluster, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
    if (status != cudaSuccess || product.tiles == 0) {
        return status;
    }
    return launch_clusters(kernel, static_cast<unsigned>(product.tiles), kHopperThreads, kHopperBytes, cluster, stream,
                           product.a, product.b, product.c, c, M, N, K, c_stride, product.tiles_m, product.tiles_n,
                           product.boxes, product.pairs);
}
