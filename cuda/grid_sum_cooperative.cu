// The sum of cuda/grid_sum.cu with a barrier of the whole grid: all blocks are on the GPU at once and meet there; then block
// 0 adds up. Arguments are those of grid_sum_two_launches.

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "grid_sum.cuh"

__global__ void grid_sum_cooperative(const float* x, float* partials, float* out, int64_t n) {
    leave_partial(x, partials, n);
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0) {
        add_partials(partials, out, static_cast<int>(gridDim.x));
    }
}

// The same with a barrier of the grid. More blocks than fit on the GPU at once are refused: some would never arrive.
extern "C" cudaError_t launch_grid_sum_cooperative(const float* x, float* partials, float* out, int64_t n, int64_t blocks,
                                                   cudaStream_t stream) {
    if (!grid_sum_is_valid(n, blocks)) {
        return cudaErrorInvalidValue;
    }
    void* arguments[] = {&x, &partials, &out, &n};
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(grid_sum_cooperative),
                                       dim3(static_cast<unsigned>(blocks)), dim3(kSumThreads), arguments, 0, stream);
}
