// The last rung of the ladder, with warps for copies and blocks that stay (sm_90a): matmul_persistent.
//
// a is M x K, b is K x N, c is M x N, all bfloat16, summed in float32; neighbours in a row are neighbours in memory, and
// rows are `a_stride`, `b_stride`, `c_stride` elements apart. The copy unit wants a and b to begin at a multiple of 16
// bytes, and their strides to be multiples of 8 elements; M, N and K are free, since it fills in zeros past an edge. c
// must not overlap a or b.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "hopper_tiles.cuh"

// Changed: a third warpgroup does nothing but fetch, and gives its registers to the two that multiply. There are as many
// blocks as multiprocessors and each takes one tile after another; while its sums are written, the copies for the next
// tile are under way. Sums leave through the copy unit as well, where the rows of c allow it: whole lines of 128 bytes,
// and a warp goes on before they have arrived.
constexpr int kPersistentThreads = kHopperThreads + 128;
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128 * (40 + 2 * 232) are at most the 65536 of a multiprocessor

// Each warpgroup has kOutBuffers boxes for sums, and fills one while another is written.
constexpr int kOutBuffers = 2;
constexpr int kOutBoxes = kHopperBarriers;  // where they lie: behind the stages
constexpr int kPersistentBarriers = kOutBoxes + 2 * kOutBuffers * kOutBytes;
constexpr int kPersistentBytes = kPersistentBarriers + 2 * kHopperStages * 8;

__global__ void __launch_bounds__(kPersistentThreads, 1)
    matmul_persistent(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                      const __grid_constant__ TensorMap c_map, __nv_bfloat16* c, int64_t M, int64_t N, int64_t K,
                      int64_t c_stride, int tiles_m, int tiles_n, bool boxes, bool pairs) {
    uint64_t* full = reinterpret_cast<uint64_t*>(hopper_shared + kPersistentBarriers);
    uint64_t* empty = full + kHopperStages;
    const int tiles = tiles_m * tiles_n;
    const int steps = static_cast<int>((K + kHopperK - 1) / kHopperK);
    hopper_begin<kHopperCluster>(full, empty);

    if (threadIdx.x >= kHopperThreads) {
        give_registers<kProducerRegisters>();
        if (threadIdx.x == kHopperThreads) {
            HopperStage stage;
            for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
                const HopperPlace place = hopper_place(tile, tiles_m, tiles_n);
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(&empty[stage.number], stage.parity ^ 1);  // at first, nobody has used it
                    hopper_fetch<kHopperCluster>(a, b, full, stage.number, place, step * kHopperK);
                    stage.advance();
                }
            }
        }
    } else {
        take_registers<kConsumerRegisters>();
        const int warpgroup = hopper_warpgroup();
        HopperStage stage;
        for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
            const HopperPlace place = hopper_place(tile, tiles_m, tiles_n);
            float sums[kHopperSums] = {};
            int last = 0;
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&full[stage.number], stage.parity);
                hopper_multiply(sums, stage.number, warpgroup);
                wgmma_wait<1>();
                if (step > 0) {
                    hopper_release<kHopperCluster>(empty, last);
                }
                last = stage.number;
                stage.advance();
            }
            wgmma_wait<0>();
            hopper_release<kHopperCluster>(empty, last);
            if (boxes) {
                hopper_store_boxes<kOutBuffers>(sums, c_map, place, warpgroup,
                                                hopper_shared + kOutBoxes + warpgroup * kOutBuffers * kOutBytes);
            } else {
                hopper_store(sums, c, place, warpgroup, M, N, c_stride, pairs);
            }
        }
        if (threadIdx.x % 128 == 0) {
            store_wait<0>();  // shared memory is there until the last box has been read
        }
    }
    __syncwarp();    // the lane that fetched was alone
    cluster_sync();  // the other block may still arrive at barriers of this one
}

// The same with warps for copies, and blocks that stay.
extern "C" cudaError_t launch_matmul_persistent(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c,
                                                int64_t M, int64_t N, int64_t K, int64_t a_stride, int64_t b_stride,
                                                int64_t c_stride, cudaStream_t stream) {
    int device = 0;
    int multiprocessors = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) {
        status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    HopperProduct product;
    if (status == cudaSuccess) {
        status = hopper_product(&product, kHopperCluster, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
    }
    if (status != cudaSuccess || product.tiles == 0) {
        return status;
    }
    const int64_t most = multiprocessors / kHopperCluster * kHopperCluster;
    return launch_clusters(matmul_persistent, static_cast<unsigned>(product.tiles < most ? product.tiles : most),
                           kPersistentThreads, kPersistentBytes, kHopperCluster, stream, product.a, product.b, product.c, c,
                           M, N, K, c_stride, product.tiles_m, product.tiles_n, product.boxes, product.pairs);
}
