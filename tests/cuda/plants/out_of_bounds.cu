// A planted fault for compute-sanitizer's memcheck: the last thread stores one element past the buffer.
// The GPU runner builds and runs it, and fails when the tool does not report it.
#include <cstdio>

__global__ void store_past_the_end(float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {  // planted: i < n
        out[i] = 1.0f;
    }
}

int main() {
    const int n = 1024;
    float* out = nullptr;
    if (cudaMalloc(&out, n * sizeof(float)) != cudaSuccess) {
        std::fprintf(stderr, "The plant could not allocate memory on the GPU.\n");
        return 3;
    }
    store_past_the_end<<<n / 256 + 1, 256>>>(out, n);
    cudaDeviceSynchronize();
    cudaFree(out);
    return 0;
}
