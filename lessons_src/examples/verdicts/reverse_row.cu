#include <cuda_runtime.h>

__global__ void reverse_row(const float* x, float* out, int n) {
    __shared__ float tile[64];
    if (threadIdx.x >= n) return;
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
