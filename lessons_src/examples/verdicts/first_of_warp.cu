#include <cuda_runtime.h>

__global__ void first_of_warp(const float* x, float* out) {
    __shared__ float part[32];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) out[threadIdx.x] = part[threadIdx.x];
}
