#include <cuda_runtime.h>

__global__ void reverse(const float* x, float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
