// One sum over all blocks of a grid, and ways to wait for each other. A third, grid_sum_cooperative, has a file of its own.
//
//   grid_sum_two_launches  the blocks leave partial sums; a second launch, which begins when all of them have ended, adds up
//   grid_sum_last_block    each block takes a ticket when its partial sum is written; who has the last one adds up
//
// x has n float32. out is one float32. partials has a float32 for each block, of which there are `blocks`, and tickets is
// one unsigned number, which the launcher sets to zero. The order in which partial sums are added is that of the blocks, so
// the result is the same in every run.

#include <cuda_runtime.h>

#include <cstdint>

#include "grid_sum.cuh"

__global__ void sum_partials(const float* x, float* partials, int64_t n) { leave_partial(x, partials, n); }
__global__ void sum_of_partials(const float* partials, float* out, int blocks) { add_partials(partials, out, blocks); }

__global__ void grid_sum_last_block(const float* x, float* partials, unsigned* tickets, float* out, int64_t n) {
    __shared__ bool last;
    leave_partial(x, partials, n);
    if (threadIdx.x == 0) {
        __threadfence();  // the partial sum is seen by whoever sees the ticket
        last = atomicAdd(tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        add_partials(partials, out, static_cast<int>(gridDim.x));
    }
}

// *out = x[0] + ... + x[n - 1], by two launches.
extern "C" cudaError_t launch_grid_sum_two_launches(const float* x, float* partials, float* out, int64_t n,
                                                    int64_t blocks, cudaStream_t stream) {
    if (!grid_sum_is_valid(n, blocks)) {
        return cudaErrorInvalidValue;
    }
    sum_partials<<<static_cast<unsigned>(blocks), kSumThreads, 0, stream>>>(x, partials, n);
    sum_of_partials<<<1, kSumThreads, 0, stream>>>(partials, out, static_cast<int>(blocks));
    return cudaGetLastError();
}

// The same by tickets.
extern "C" cudaError_t launch_grid_sum_last_block(const float* x, float* partials, unsigned* tickets, float* out,
                                                  int64_t n, int64_t blocks, cudaStream_t stream) {
    if (!grid_sum_is_valid(n, blocks)) {
        return cudaErrorInvalidValue;
    }
    const cudaError_t begun = cudaMemsetAsync(tickets, 0, sizeof(unsigned), stream);
    if (begun != cudaSuccess) {
        return begun;
    }
    grid_sum_last_block<<<static_cast<unsigned>(blocks), kSumThreads, 0, stream>>>(x, partials, tickets, out, n);
    return cudaGetLastError();
}
