// A planted fault for compute-sanitizer's racecheck: eight warps write shared memory, and read each other's part with no
// barrier between. The GPU runner builds and runs it, and fails when the tool does not report it.
#include <cstdio>

__global__ void reverse_without_barrier(const float* x, float* out) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    // planted: __syncthreads() is missing here
    out[threadIdx.x] = tile[255 - threadIdx.x];
}

int main() {
    float *x = nullptr, *out = nullptr;
    if (cudaMalloc(&x, 256 * sizeof(float)) != cudaSuccess || cudaMalloc(&out, 256 * sizeof(float)) != cudaSuccess) {
        std::fprintf(stderr, "The plant could not allocate memory on the GPU.\n");
        return 3;
    }
    cudaMemset(x, 0, 256 * sizeof(float));
    reverse_without_barrier<<<1, 256>>>(x, out);
    cudaDeviceSynchronize();
    cudaFree(x);
    cudaFree(out);
    return 0;
}
