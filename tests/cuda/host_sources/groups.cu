// Cooperative groups: blocks, tiles, coalesced threads, reductions, and copies by a group.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void ranks(int* out) {
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const auto small = cg::tiled_partition<2>(tile);
    int* mine = out + 8 * block.thread_rank();
    mine[0] = static_cast<int>(block.size());
    mine[1] = static_cast<int>(tile.thread_rank());
    mine[2] = static_cast<int>(tile.meta_group_rank());
    mine[3] = static_cast<int>(tile.meta_group_size());
    mine[4] = static_cast<int>(small.meta_group_rank());
    mine[5] = static_cast<int>(block.thread_index().y);
    mine[6] = static_cast<int>(cg::this_grid().thread_rank());
    mine[7] = static_cast<int>(small.size());
}

struct Best { float value; int where; double weight; };

template <unsigned N>
__global__ void tiles(const int* x, int* sums, int* largest, unsigned* ballots, int* firsts, int* votes, double* best) {
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<N>(block);
    const int i = block.thread_rank(), v = x[i];
    sums[i] = cg::reduce(tile, v, cg::plus<int>());
    largest[i] = cg::reduce(tile, v, cg::greater<int>());
    ballots[i] = tile.ballot(v % 2);
    firsts[i] = tile.shfl(v, 0) + 1000 * tile.shfl_down(v, 1) + 1000000 * tile.shfl_up(v, 1);
    votes[i] = tile.any(v == 7) + 2 * tile.all(v < 30);
    const Best moved = tile.shfl_xor(Best{static_cast<float>(v), i, 0.5 * v}, N / 2);
    best[i] = moved.weight + moved.where + moved.value;
}

__global__ void coalesced(const int* x, int* out, unsigned* ballots) {
    const int i = threadIdx.x, v = x[i];
    if (v % 3 == 0) {
        const cg::coalesced_group active = cg::coalesced_threads();
        out[4 * i] = static_cast<int>(active.thread_rank());
        out[4 * i + 1] = static_cast<int>(active.size());
        out[4 * i + 2] = cg::reduce(active, v, cg::plus<int>());
        out[4 * i + 3] = active.shfl(v, 1);
        ballots[i] = active.ballot(v % 2 == 0);
    }
}

__global__ void halves(const int* x, int* out) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int v = x[threadIdx.x];
    const auto side = cg::binary_partition(warp, v % 2 != 0);
    out[threadIdx.x] = cg::reduce(side, v, cg::plus<int>());
}

__global__ void tile_memory(const float* x, float* out) {
    __shared__ float line[64];
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    line[threadIdx.x] = x[threadIdx.x];
    tile.sync();
    out[threadIdx.x] = line[threadIdx.x ^ 3];
}

__global__ void block_memory(const float* x, float* out) {
    extern __shared__ float tile[];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, x, sizeof(float) * 70);
    cg::wait(block);
    out[threadIdx.x] = tile[69 - threadIdx.x];
}
