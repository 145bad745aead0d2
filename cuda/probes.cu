// Probes of the memory hierarchy: how long one access takes, and how many bytes a second arrive, level by level.
//
//   chase_global   one thread follows a chain of indices; each load waits for the one before, so a step is a latency
//   chase_l2       the same past the L1 cache
//   chase_shared   the same in shared memory
//   read_global    all threads read a region again and again, 16 bytes a load; how large it is decides which cache has it
//   read_l2        the same past the L1 cache
//   read_shared    each block reads its own shared memory again and again
//   fma_chain      each thread multiplies and adds in registers, in several chains
//
// Which level answers is decided by the size of what is read, and by nothing in the source.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kProbeThreads = 1024;
constexpr int kProbeWords = 8192;  // 32 KiB of shared memory

// ---------------------------------------------------------------------------------------------
// Latency: next[p] is where to go from p
// ---------------------------------------------------------------------------------------------

__global__ void chase_global(const int* next, int* out, int64_t steps) {
    int at = 0;
    for (int64_t step = 0; step < steps; ++step) {
        at = __ldca(next + at);
    }
    out[0] = at;  // without this the compiler would leave the loop out
}

__global__ void chase_l2(const int* next, int* out, int64_t steps) {
    int at = 0;
    for (int64_t step = 0; step < steps; ++step) {
        at = __ldcg(next + at);
    }
    out[0] = at;
}

__global__ void chase_shared(const int* next, int* out, int64_t n, int64_t steps) {
    __shared__ int chain[kProbeWords];
    for (int64_t i = 0; i < n; ++i) {
        chain[i] = next[i];
    }
    int at = 0;
    for (int64_t step = 0; step < steps; ++step) {
        at = chain[at];
    }
    out[0] = at;
}

// next has `n` elements, each from 0 to n - 1; out one. The shared chain has at most 8192.
extern "C" cudaError_t launch_chase_global(const int* next, int* out, int64_t n, int64_t steps, cudaStream_t stream) {
    if (n < 1 || steps < 0) {
        return cudaErrorInvalidValue;
    }
    chase_global<<<1, 1, 0, stream>>>(next, out, steps);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_chase_l2(const int* next, int* out, int64_t n, int64_t steps, cudaStream_t stream) {
    if (n < 1 || steps < 0) {
        return cudaErrorInvalidValue;
    }
    chase_l2<<<1, 1, 0, stream>>>(next, out, steps);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_chase_shared(const int* next, int* out, int64_t n, int64_t steps, cudaStream_t stream) {
    if (n < 1 || n > kProbeWords || steps < 0) {
        return cudaErrorInvalidValue;
    }
    chase_shared<<<1, 1, 0, stream>>>(next, out, n, steps);
    return cudaGetLastError();
}

// ---------------------------------------------------------------------------------------------
// Bandwidth
// ---------------------------------------------------------------------------------------------

// A region of `quads` pieces of 16 bytes for each of `regions` groups of blocks: block b reads region b % regions. With one
// region all blocks share it; with as many regions as blocks each has its own. A block begins at a place of its own, so
// that blocks do not ask for the same piece at the same time, and goes around `rounds` times.
template <typename Load>
__device__ __forceinline__ float read_region(const float4* x, int64_t quads, int64_t regions, int64_t rounds, Load load) {
    const float4* region = x + static_cast<int64_t>(blockIdx.x % regions) * quads + threadIdx.x;
    const int pieces = static_cast<int>(quads / kProbeThreads);  // a piece is one load of every thread
    const int sharing = static_cast<int>((gridDim.x + regions - 1) / regions);
    int at = static_cast<int>(blockIdx.x / regions * static_cast<int64_t>(pieces) / sharing);
    float total = 0.0f;
    for (int64_t left = rounds * pieces; left > 0; --left) {
        const float4 value = load(region + static_cast<int64_t>(at) * kProbeThreads);
        total += value.x + value.y + value.z + value.w;
        at = at + 1 == pieces ? 0 : at + 1;
    }
    return total;
}

struct ThroughL1 {
    __device__ __forceinline__ float4 operator()(const float4* from) const { return __ldca(from); }
};

struct PastL1 {
    __device__ __forceinline__ float4 operator()(const float4* from) const { return __ldcg(from); }
};

__global__ void __launch_bounds__(kProbeThreads, 1)
    read_global(const float* x, float* out, int64_t quads, int64_t regions, int64_t rounds) {
    const float total = read_region(reinterpret_cast<const float4*>(x), quads, regions, rounds, ThroughL1());
    out[static_cast<int64_t>(blockIdx.x) * kProbeThreads + threadIdx.x] = total;
}

__global__ void __launch_bounds__(kProbeThreads, 1)
    read_l2(const float* x, float* out, int64_t quads, int64_t regions, int64_t rounds) {
    const float total = read_region(reinterpret_cast<const float4*>(x), quads, regions, rounds, PastL1());
    out[static_cast<int64_t>(blockIdx.x) * kProbeThreads + threadIdx.x] = total;
}

__global__ void __launch_bounds__(kProbeThreads, 1) read_shared(const float* x, float* out, int64_t rounds) {
    __shared__ float4 words[kProbeWords / 4];
    const float4* from = reinterpret_cast<const float4*>(x);
#pragma unroll 1
    for (int quad = threadIdx.x; quad < kProbeWords / 4; quad += kProbeThreads) {
        words[quad] = from[quad];
    }
    __syncthreads();
    float total = 0.0f;
    int at = threadIdx.x;
#pragma unroll 8
    for (int round = 0; round < static_cast<int>(rounds); ++round) {
        const float4 value = words[at];
        total += value.x + value.y + value.z + value.w;
        at = (at + 32) & (kProbeWords / 4 - 1);  // another warp's piece: a lane keeps to its banks
    }
    out[static_cast<int64_t>(blockIdx.x) * kProbeThreads + threadIdx.x] = total;
}

// x holds regions * quads * 4 elements and begins at a multiple of 16 bytes; out has blocks * 1024. quads is a multiple of
// 1024.
extern "C" cudaError_t launch_read_global(const float* x, float* out, int64_t blocks, int64_t quads, int64_t regions,
                                          int64_t rounds, cudaStream_t stream) {
    if (blocks < 1 || blocks > 65535 || quads < kProbeThreads || quads > 1ll << 40 || quads % kProbeThreads != 0 || regions < 1 ||
        rounds < 0 || reinterpret_cast<uintptr_t>(x) % 16 != 0) {
        return cudaErrorInvalidValue;
    }
    read_global<<<static_cast<unsigned>(blocks), kProbeThreads, 0, stream>>>(x, out, quads, regions, rounds);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_read_l2(const float* x, float* out, int64_t blocks, int64_t quads, int64_t regions,
                                      int64_t rounds, cudaStream_t stream) {
    if (blocks < 1 || blocks > 65535 || quads < kProbeThreads || quads > 1ll << 40 || quads % kProbeThreads != 0 || regions < 1 ||
        rounds < 0 || reinterpret_cast<uintptr_t>(x) % 16 != 0) {
        return cudaErrorInvalidValue;
    }
    read_l2<<<static_cast<unsigned>(blocks), kProbeThreads, 0, stream>>>(x, out, quads, regions, rounds);
    return cudaGetLastError();
}

// x has 8192 elements and begins at a multiple of 16 bytes; out has blocks * 1024.
extern "C" cudaError_t launch_read_shared(const float* x, float* out, int64_t blocks, int64_t rounds,
                                          cudaStream_t stream) {
    if (blocks < 1 || blocks > 65535 || rounds < 0 || rounds > 1ll << 30 || reinterpret_cast<uintptr_t>(x) % 16 != 0) {
        return cudaErrorInvalidValue;
    }
    read_shared<<<static_cast<unsigned>(blocks), kProbeThreads, 0, stream>>>(x, out, rounds);
    return cudaGetLastError();
}

// ---------------------------------------------------------------------------------------------
// Registers
// ---------------------------------------------------------------------------------------------

// kChains chains of a = a * 0.5 + 1 in each thread; a step of a chain waits for the step before.
template <int kChains>
__device__ __forceinline__ void fma_chains(const float* x, float* out, int64_t steps) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    float value[kChains];
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) {
        value[chain] = x[i] + chain;
    }
#pragma unroll 16
    for (int step = 0; step < static_cast<int>(steps); ++step) {
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) {
            value[chain] = value[chain] * 0.5f + 1.0f;
        }
    }
    float total = 0.0f;
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) {
        total += value[chain];
    }
    out[i] = total;
}

__global__ void fma_chain_1(const float* x, float* out, int64_t steps) { fma_chains<1>(x, out, steps); }

__global__ void fma_chain_4(const float* x, float* out, int64_t steps) { fma_chains<4>(x, out, steps); }

// x and out have blocks * threads elements; chains is 1 or 4.
extern "C" cudaError_t launch_fma_chain(const float* x, float* out, int64_t blocks, int64_t threads, int64_t chains,
                                        int64_t steps, cudaStream_t stream) {
    if (blocks < 1 || blocks > 65535 || threads < 1 || threads > 1024 || (chains != 1 && chains != 4) || steps < 0 ||
        steps > 1ll << 30) {
        return cudaErrorInvalidValue;
    }
    const unsigned grid = static_cast<unsigned>(blocks), block = static_cast<unsigned>(threads);
    if (chains == 1) {
        fma_chain_1<<<grid, block, 0, stream>>>(x, out, steps);
    } else {
        fma_chain_4<<<grid, block, 0, stream>>>(x, out, steps);
    }
    return cudaGetLastError();
}
