// One kernel for each thing that a recorder of memory accesses easily gets wrong.
#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>

__constant__ float plain_table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__constant__ const float const_table[4] = {10.0f, 20.0f, 30.0f, 40.0f};
static __device__ const int device_table[4] = {100, 200, 300, 400};

__global__ void copy_float4(const float4* x, float4* out) {
    float4 v = x[threadIdx.x];
    v.y += 1.0f;
    out[threadIdx.x] = v;
}

__global__ void copy_bytes(const float* x, float* out) {
    std::memcpy(out + 4 * threadIdx.x, x + 4 * threadIdx.x, 16);
}

__global__ void lookup(float* out) {
    const int i = threadIdx.x;
    out[i] = plain_table[i % 4] + const_table[i % 4] + device_table[i % 4];
}

__global__ void square(const float* x, float* out) {
    const int i = threadIdx.x;
    out[i] = x[i] * x[i];
    out[i] = out[i] + x[0];
}

__global__ void twice(float* out) {
    *out = 1.0f;
    *out = 2.0f;
}

__global__ void hinted(const float* x, float* out) {
    __stcs(out + threadIdx.x, __ldg(x + threadIdx.x) + __ldcs(x + threadIdx.x));
}

__global__ void atomics(int* i, unsigned* u, float* f, unsigned long long* l) {
    const int t = threadIdx.x;
    atomicAdd(&i[0], 1);
    atomicMax(&i[1], t);
    atomicMin(&i[2], -t);
    atomicExch(&u[0], 7u);
    atomicCAS(&u[1], static_cast<unsigned>(t), static_cast<unsigned>(t + 1));
    atomicInc(&u[2], 9u);
    atomicAdd(f, 0.5f);
    atomicAdd(l, 1ull << 33);
}

__global__ void volumes(int* out) {
    const dim3 size = gridDim;
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    out[(z * size.y * blockDim.y + y) * size.x * blockDim.x + x] = 100 * z + 10 * y + x;
}

__global__ void reversed(const float* x, float* out) {
    extern __shared__ float line[];
    line[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = line[blockDim.x - 1 - threadIdx.x];
}

constexpr int kTile = 32;

template <int PAD>
__global__ void transpose(const float* __restrict__ x, float* __restrict__ out) {
    __shared__ float tile[kTile][kTile + PAD];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * kTile + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * kTile + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void shuffles(int* up, int* down, int* flipped, int* picked, double* wide) {
    const int t = threadIdx.x;
    up[t] = __shfl_up_sync(0xffffffffu, t, 3);
    down[t] = __shfl_down_sync(0xffffffffu, t, 5, 16);
    flipped[t] = __shfl_xor_sync(0xffffffffu, t, 6, 8);
    picked[t] = __shfl_sync(0xffffffffu, t, 9, 8);
    wide[t] = __shfl_down_sync(0xffffffffu, t + 0.25, 1);
}

__global__ void votes(unsigned* ballot, int* any, int* all, int* count) {
    const int t = threadIdx.x;
    ballot[t] = __ballot_sync(0xffffffffu, t % 3 == 0);
    any[t] = __any_sync(0xffffffffu, t == 40);
    all[t] = __all_sync(0xffffffffu, t < 32);
    count[t] = __syncthreads_count(t % 5 == 0) * 4 + __syncthreads_and(t >= 0) * 2 + __syncthreads_or(t > 99);
}

// Lanes of one warp hand values over through shared memory. Right with __syncwarp(), a race without.
__global__ void neighbours(int* out) {
    __shared__ int slot[64];
    slot[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = slot[threadIdx.x ^ 1];
}

// ---- what is wrong ----

__global__ void forever(int* out) {
    volatile int spin = 1;
    while (spin) {
    }
    out[0] = 1;
}

__global__ void hog(int* out) {
    for (;;) {
        out[0] = out[0] + 1;
    }
}

__device__ int deeper(int depth) {
    volatile int here[64];
    here[depth % 64] = depth;
    return depth < 0 ? 0 : deeper(depth + 1) + here[(depth + 1) % 64];
}
__global__ void recursive(int* out) { out[0] = deeper(1); }

__global__ void divides(int* out, int by) { out[threadIdx.x] = 100 / by; }

__global__ void through_null(int* out) { *out = 1; }

__global__ void far_away(float* out) { out[100000000] = 1.0f; }

__global__ void past_shared(float* out) {
    __shared__ float few[4];
    few[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = few[threadIdx.x % 4];
}

__global__ void unset(float* out) {
    __shared__ float slot[32];
    if (blockIdx.x == 0 || threadIdx.x == 0) {
        slot[threadIdx.x] = 7.0f;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = slot[threadIdx.x];
}

__global__ void asserts(int* out) {
    assert(threadIdx.x != 3);
    out[threadIdx.x] = 1;
}

__global__ void traps(int* out) {
    if (threadIdx.x == 2) __trap();
}

__global__ void prints(int* out) {
    printf("thread %d\n", threadIdx.x);
    out[threadIdx.x] = 1;
}

__global__ void misaligned(const float* x, float4* out) { out[0] = *reinterpret_cast<const float4*>(x + 1); }

__global__ void two_barriers(int* out) {
    if (threadIdx.x < 40) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

__global__ void half_warp(int* out) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1, 1);
    }
}

__global__ void narrow_mask(int* out) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = __shfl_down_sync(0x0000ffffu, 1, 1);
    }
}

__global__ void outside_mask(int* out) { out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0); }

__global__ void all_write(int* out) { out[threadIdx.x / 2] = threadIdx.x; }

__global__ void below(int* out) { out[static_cast<int>(threadIdx.x) - 2] = 1; }

// ---- launchers ----

extern "C" cudaError_t launch_two(const float* x, float* out, int n, cudaStream_t stream) {
    float* between = nullptr;
    if (cudaMalloc(&between, n * sizeof(float)) != cudaSuccess) return cudaErrorMemoryAllocation;
    square<<<dim3(1), /* a comment, with <<< and >>> */ n, 0, stream>>>(x, between);
    square<<<1, (n > 0) ? n : 1,
             0, stream>>>(between, out);
    cudaFree(between);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_transpose(const float* x, float* out) {
    transpose<1><<<1, dim3(kTile, kTile)>>>(x, out);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_too_many(int* out) {
    all_write<<<1, 2048>>>(out);
    return cudaGetLastError();
}
