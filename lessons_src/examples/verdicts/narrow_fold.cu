#include <cuda_runtime.h>

__global__ void narrow_fold(const float* x, float* out) {
    float value = x[threadIdx.x];
    if (threadIdx.x < 16) value += __shfl_down_sync(0x0000ffffu, value, 8);
    out[threadIdx.x] = value;
}
