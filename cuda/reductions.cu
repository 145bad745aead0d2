// Sums over a warp and over a block, by shuffles and through shared memory.
//
//   block_sums_shuffle  five shuffles a warp, one word of shared memory a warp, five shuffles more: 2 barriers
//   block_sums_shared   a tree over 256 words of shared memory: a barrier for every level
//   block_sums_atomic   every thread adds to one shared word
//   warp_exchanges      what each lane gets from four kinds of shuffle
//
// x and out are float32. A block of 256 threads sums 256 neighbouring elements of x; what lies past its end counts as 0.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kBlockSumThreads = 256;
constexpr int kBlockSumWarps = kBlockSumThreads / 32;
constexpr unsigned kSumLanes = 0xffffffffu;

static_assert(kBlockSumThreads % 32 == 0 && kBlockSumWarps <= 32,
              "whole warps, and one warp can add up what they leave");

// The sum of a warp's 32 values, in lane 0. Every lane takes part. The other lanes hold sums of some lanes, which nobody
// should use: beyond lane 31 a shuffle gives a lane its own value.
__device__ __forceinline__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_down_sync(kSumLanes, value, distance);
    }
    return value;
}

// The same sum in every lane: each step exchanges values with the lane whose number differs in one bit.
__device__ __forceinline__ float warp_sum_everywhere(float value) {
    for (int bit = 16; bit > 0; bit /= 2) {
        value += __shfl_xor_sync(kSumLanes, value, bit);
    }
    return value;
}

// The sum of a block's values, in thread 0. A barrier must come between two calls: the first warp is still reading.
__device__ float block_sum(float value, float* warp_sums) {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    value = warp_sum(value);
    if (lane == 0) {
        warp_sums[warp] = value;
    }
    __syncthreads();  // all partial sums are written
    if (warp == 0) {
        value = warp_sum(lane < kBlockSumWarps ? warp_sums[lane] : 0.0f);
    }
    return value;
}

// Sums `rounds` times, so that a timing shows the reduction and not the load. Between two rounds every thread moves half
// the way to the mean, which leaves the sum as it was; the sum itself travels through shared memory in all three.
__device__ __forceinline__ float towards_mean(float value, float sum) {
    return 0.5f * value + sum * (0.5f / kBlockSumThreads);
}

__global__ void block_sums_shuffle(const float* __restrict__ x, float* __restrict__ out, int64_t n, int64_t rounds) {
    __shared__ float warp_sums[kBlockSumWarps];
    __shared__ float sum;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockSumThreads + threadIdx.x;
    float value = i < n ? x[i] : 0.0f;
#pragma unroll 1
    for (int64_t round = 0; round < rounds; ++round) {
        const float total = block_sum(value, warp_sums);
        if (threadIdx.x == 0) {
            sum = total;
        }
        __syncthreads();  // the sum is written, and warp_sums are read
        value = towards_mean(value, sum);
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}

__global__ void block_sums_shared(const float* __restrict__ x, float* __restrict__ out, int64_t n, int64_t rounds) {
    __shared__ float partial[kBlockSumThreads];
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockSumThreads + threadIdx.x;
    float value = i < n ? x[i] : 0.0f;
#pragma unroll 1
    for (int64_t round = 0; round < rounds; ++round) {
        partial[threadIdx.x] = value;
        __syncthreads();
        for (int half = kBlockSumThreads / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) {
                partial[threadIdx.x] += partial[threadIdx.x + half];
            }
            __syncthreads();  // a level is complete before the next one reads it
        }
        value = towards_mean(value, partial[0]);
        __syncthreads();  // everybody has read the sum before the next round overwrites it
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = partial[0];
    }
}

__global__ void block_sums_atomic(const float* __restrict__ x, float* __restrict__ out, int64_t n, int64_t rounds) {
    __shared__ float sum;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockSumThreads + threadIdx.x;
    float value = i < n ? x[i] : 0.0f;
#pragma unroll 1
    for (int64_t round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) {
            sum = 0.0f;
        }
        __syncthreads();
        atomicAdd(&sum, value);
        __syncthreads();
        value = towards_mean(value, sum);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}

// One warp for 32 elements. Row 0 of out (four rows of n) is x of lane `argument`, row 1 x of the lane `argument` further
// on, row 2 x of the lane whose number is this one's ^ `argument`, row 3 the sum of the warp.
__global__ void warp_exchanges(const float* __restrict__ x, float* __restrict__ out, int64_t n, int argument) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockSumThreads + threadIdx.x;
    const float value = i < n ? x[i] : 0.0f;  // no early return: a shuffle waits for all lanes of its mask
    const float broadcast = __shfl_sync(kSumLanes, value, argument);
    const float down = __shfl_down_sync(kSumLanes, value, argument);
    const float crossed = __shfl_xor_sync(kSumLanes, value, argument);
    const float sum = warp_sum_everywhere(value);
    if (i < n) {
        out[i] = broadcast;
        out[n + i] = down;
        out[2 * n + i] = crossed;
        out[3 * n + i] = sum;
    }
}

// The grid of all launchers below; false for lengths that no grid covers.
static bool sum_blocks(int64_t n, unsigned* blocks) {
    if (n < 0 || n > 2147483647ll * kBlockSumThreads) {
        return false;
    }
    *blocks = static_cast<unsigned>((n + kBlockSumThreads - 1) / kBlockSumThreads);
    return true;
}

// out[b] = x[256 b] + ... + x[256 b + 255], computed `rounds` times, 1 or more. out has ceil(n / 256) elements.
extern "C" cudaError_t launch_block_sums_shuffle(const float* x, float* out, int64_t n, int64_t rounds,
                                                 cudaStream_t stream) {
    unsigned blocks;
    if (!sum_blocks(n, &blocks) || rounds < 1) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    block_sums_shuffle<<<blocks, kBlockSumThreads, 0, stream>>>(x, out, n, rounds);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_block_sums_shared(const float* x, float* out, int64_t n, int64_t rounds,
                                                cudaStream_t stream) {
    unsigned blocks;
    if (!sum_blocks(n, &blocks) || rounds < 1) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    block_sums_shared<<<blocks, kBlockSumThreads, 0, stream>>>(x, out, n, rounds);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_block_sums_atomic(const float* x, float* out, int64_t n, int64_t rounds,
                                                cudaStream_t stream) {
    unsigned blocks;
    if (!sum_blocks(n, &blocks) || rounds < 1) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    block_sums_atomic<<<blocks, kBlockSumThreads, 0, stream>>>(x, out, n, rounds);
    return cudaGetLastError();
}

// out has 4 n elements; argument is a lane, a distance and a mask of lane bits at once: 0 to 31.
extern "C" cudaError_t launch_warp_exchanges(const float* x, float* out, int64_t n, int64_t argument,
                                             cudaStream_t stream) {
    unsigned blocks;
    if (!sum_blocks(n, &blocks) || argument < 0 || argument > 31) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    warp_exchanges<<<blocks, kBlockSumThreads, 0, stream>>>(x, out, n, static_cast<int>(argument));
    return cudaGetLastError();
}
