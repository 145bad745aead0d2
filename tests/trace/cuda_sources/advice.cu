// Kernels that are right, for the advice on what they cost.
#include <cuda_runtime.h>

__global__ void one_column(const float* x, float* out, int n, int stride) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i * stride];  // each sector once: no kernel needs fewer
}

__global__ void strided(const float* x, float* out, int n, int step) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < step; ++k) {
        if (i < n) out[i] = x[(i * step + k) % (n * step)];  // a piece for each thread
    }
}

__global__ void dealt(const float* x, float* out, int n, int at) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i + at];
}

__global__ void bytes(const unsigned char* x, unsigned char* out, int n, int at) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i + at];
}

__global__ void quads(const float4* x, float4* out, int n, int step) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i * step % n];
}

__global__ void gather(const int* index, const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[index[i]];
}

__global__ void histogram(const int* x, int* bins, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i] * 16], 1);
}

template <typename T>
__global__ void shared_step(const T* x, float* out, int step, int lanes) {
    __shared__ T words[1024];
    const int lane = threadIdx.x;
    if (lane < lanes) {
        words[lane * step % 1024] = x[lane];  // a constant would be stored in pieces
        out[lane] = 1.0f;
    }
}

template __global__ void shared_step<float>(const float*, float*, int, int);
template __global__ void shared_step<float2>(const float2*, float*, int, int);
template __global__ void shared_step<float4>(const float4*, float*, int, int);
