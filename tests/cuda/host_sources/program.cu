// A program of its own. Its argument chooses the kernel; it prints what came out, or what the error is called and means.
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>

constexpr int kThreads = 64;

// A template with shared memory whose size the launch chooses.
template <int kTimes>
__global__ void reversed(int* out, int n) {
    extern __shared__ __align__(16) int values[];
    int* last = values + n - 1;
    values[threadIdx.x] = kTimes * static_cast<int>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = last[-static_cast<int>(threadIdx.x)];
}

__global__ void barrier(int* out) {
    if (threadIdx.x < 40) {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

__global__ void mask(int* out) {
    if (threadIdx.x % 32 < 8) {
        out[threadIdx.x] = __shfl_sync(0x000001ff, 1, 0);
    }
}

__global__ void claim(int* out) {
    assert(threadIdx.y < 3);
    out[threadIdx.x] = 1;
}

__global__ void nowhere(int* out) { *reinterpret_cast<int*>(size_t{4096} + 4 * threadIdx.x) = *out; }

__device__ int depth(volatile int* out, int n) {
    volatile int room[1024];
    room[n % 1024] = *out;
    return n == 1000 ? room[0] : depth(out, n + 1) + room[n % 1024];
}

__global__ void deep(int* out) { *out = depth(out, 0); }

int main(int count, char** arguments) {
    const char* chosen = count > 1 ? arguments[1] : "";
    int* out = nullptr;
    int got[kThreads] = {};
    if (cudaMalloc(reinterpret_cast<void**>(&out), sizeof got) != cudaSuccess) return 2;
    cudaMemset(out, 0, sizeof got);
    if (!std::strcmp(chosen, "reversed")) reversed<3><<<1, kThreads, sizeof got>>>(out, kThreads);
    if (!std::strcmp(chosen, "barrier")) barrier<<<3, kThreads>>>(out);
    if (!std::strcmp(chosen, "mask")) mask<<<1, kThreads>>>(out);
    if (!std::strcmp(chosen, "claim")) claim<<<1, dim3(16, 4)>>>(out);
    if (!std::strcmp(chosen, "nowhere")) nowhere<<<1, kThreads>>>(out);
    if (!std::strcmp(chosen, "deep")) deep<<<1, 1>>>(out);
    if (!std::strcmp(chosen, "large")) reversed<3><<<1, 2048>>>(out, kThreads);
    const cudaError_t launched = cudaGetLastError();
    const cudaError_t error = launched != cudaSuccess ? launched : cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        std::printf("%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
        return 3;
    }
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    for (int value : got) std::printf("%d ", value);
    return 0;
}
