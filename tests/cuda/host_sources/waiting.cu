// Right kernels whose threads or blocks wait for each other without a barrier, and shuffles of any width.
#include <cuda_runtime.h>

// A sum over the blocks before: each waits for the one in front of it.
__global__ void chained(const int* x, int* out, int* carry, unsigned* ready) {
    int before = 0;
    if (blockIdx.x) {
        while (atomicAdd(ready, 0u) != blockIdx.x) {}
        __threadfence();
        before = carry[blockIdx.x - 1];
    }
    carry[blockIdx.x] = out[blockIdx.x] = before + x[blockIdx.x];
    __threadfence();
    atomicExch(ready, blockIdx.x + 1);
}

// The first warp fills, the others wait for its flag; or the last one does, and the others wait.
__global__ void warp_flag(const int* x, int* out, int producer) {
    __shared__ int values[32];
    __shared__ int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    if (threadIdx.x / 32 == producer) {
        values[lane] = x[lane];
        __threadfence_block();
        __syncwarp();
        if (lane == 0) atomicExch(&flag, 1);
    } else {
        if (lane == 0) {
            while (atomicAdd(&flag, 0) == 0) __threadfence_block();
        }
        __syncwarp();
        __threadfence_block();
        out[threadIdx.x] = values[31 - lane];
    }
}

// Thread 0 and thread 1 hand a turn to each other; the flag is volatile.
__global__ void turns(volatile int* turn, int* count, int times) {
    for (int i = 0; i < times; ++i) {
        while (turn[0] % 2 != threadIdx.x) {}
        atomicAdd(count, 1);
        turn[0] = turn[0] + 1;
    }
}

// Asks the same element many times, and finds it unchanged, without waiting for anybody.
__global__ void largest(const int* x, int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicMax(out, x[i]);
}

__global__ void fold(const int* x, int* out, int width) {
    out[threadIdx.x] = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 1, width);
}
