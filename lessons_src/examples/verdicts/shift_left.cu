#include <cuda_runtime.h>

__global__ void shift_left(float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n) x[i] = x[i + 1];
}
