// Asynchronous copies into shared memory: right ones, from which the tests make wrong ones.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

// Each thread brings four floats, and reads what its right-hand neighbour brought.
__global__ void neighbour(const float* x, float* out) {
    __shared__ __align__(16) float tile[256];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(tile + 4 * i, x + 4 * i, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = tile[4 * ((i + 1) % blockDim.x)];
}

// Each thread reads only what it brought itself, so no barrier is needed.
__global__ void own(const float* x, float* out) {
    __shared__ float tile[64];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], x + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = tile[i];
}

// Lanes of one warp: __syncwarp is enough.
__global__ void within_warp(const float* x, float* out) {
    __shared__ float tile[64];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], x + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    out[i] = tile[i ^ 1];
}

// Tiles of 64, two at a time: the next one is on its way while this one is summed.
__global__ void two_stages(const float* x, float* out, int tiles) {
    __shared__ float buffer[2][64];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&buffer[0][i], x + i, 4);
    __pipeline_commit();
    float sum = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) __pipeline_memcpy_async(&buffer[(t + 1) % 2][i], x + 64 * (t + 1) + i, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();  // arrived
        sum += buffer[t % 2][63 - i];
        __syncthreads();  // read
    }
    out[i] = sum;
}

__global__ void tail(const float* x, float* out) {
    __shared__ __align__(16) float tile[8];
    __pipeline_memcpy_async(tile, x, 16, 8);
    __pipeline_memcpy_async(tile + 4, x, 8, 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int k = 0; k < 6; ++k) out[k] = tile[k];
}

__global__ void misaligned(const float* x, float* out) {
    __shared__ __align__(16) float tile[8];
    __pipeline_memcpy_async(tile, x + 1, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[0] = tile[0];
}
