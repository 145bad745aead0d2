// Reverses 256 floats through a dynamic shared array. How large the array is, the launch says: 1024 bytes are needed.
#include <cuda_runtime.h>

__global__ void reverse(const float* x, float* out) {
    extern __shared__ float held[];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}
