#include <cuda_runtime.h>

__global__ void pieces(const float* x, float* out, int n) {
    const int i = blockIdx.x * (blockDim.x - 1) + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}
