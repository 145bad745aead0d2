// What the sums over a grid share: what a block does with its part of x, and with the partial sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kSumThreads = 256;
constexpr int kSumWarps = kSumThreads / 32;

// The sum over the block's threads, in thread 0.
__device__ __forceinline__ float sum_of_block(float value) {
    __shared__ float scratch[kSumWarps];
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    __syncthreads();  // whoever read scratch for an earlier sum is done
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = value;
    }
    __syncthreads();  // every warp's sum is there
    float sum = 0.0f;
    if (threadIdx.x == 0) {
        for (int warp = 0; warp < kSumWarps; ++warp) {
            sum += scratch[warp];
        }
    }
    return sum;
}

__device__ __forceinline__ void leave_partial(const float* x, float* partials, int64_t n) {
    float sum = 0.0f;
    const int64_t step = static_cast<int64_t>(gridDim.x) * kSumThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x; i < n; i += step) {
        sum += x[i];
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
    }
}

// By one block. The partial sums are read past the L1 cache, in which another block's are not to be found.
__device__ __forceinline__ void add_partials(const float* partials, float* out, int blocks) {
    float sum = 0.0f;
    for (int block = threadIdx.x; block < blocks; block += kSumThreads) {
        sum += __ldcg(&partials[block]);
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

inline bool grid_sum_is_valid(int64_t n, int64_t blocks) { return n >= 0 && blocks >= 1 && blocks <= 1 << 20; }
