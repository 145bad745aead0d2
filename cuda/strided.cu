// Copies that differ in how far apart the lanes of a warp read.
//
//   copy_strided   out[i] = x[first + i * stride]: stride 1 is coalesced, stride 8 opens a sector for every lane
//   copy_float4    out[i] = x[i], 16 bytes a lane: the same bytes with a quarter of the instructions
//
// x and out are float32 and do not overlap. Lengths, strides and offsets are 64-bit, in elements.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kStridedThreads = 256;
constexpr int64_t kStridedMost = 2147483647ll * kStridedThreads;  // blocks of a grid, times threads

__global__ void copy_strided(const float* __restrict__ x, float* __restrict__ out, int64_t n, int64_t stride,
                             int64_t first) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = x[first + i * stride];
    }
}

__global__ void copy_float4(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n) {
        const float4 value = *reinterpret_cast<const float4*>(x + i);
        // A plain assignment may become four stores of 4 bytes: the compiler does not see the alignment.
        __stwb(reinterpret_cast<float4*>(out + i), value);
    } else {
#pragma unroll 1
        for (int64_t tail = i; tail < n; ++tail) {  // the last one to three elements, by one thread
            out[tail] = x[tail];
        }
    }
}

// out has n elements; x has first + (n - 1) * stride + 1. A stride of 0 reads one element n times.
extern "C" cudaError_t launch_copy_strided(const float* x, float* out, int64_t n, int64_t stride, int64_t first,
                                           cudaStream_t stream) {
    if (n < 0 || n > kStridedMost || stride < 0 || first < 0) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;  // a grid of zero blocks is an error to CUDA
    }
    const unsigned blocks = static_cast<unsigned>((n + kStridedThreads - 1) / kStridedThreads);
    copy_strided<<<blocks, kStridedThreads, 0, stream>>>(x, out, n, stride, first);
    return cudaGetLastError();
}

// x and out begin at multiples of 16 bytes; n is any length.
extern "C" cudaError_t launch_copy_float4(const float* x, float* out, int64_t n, cudaStream_t stream) {
    const uintptr_t both = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out);
    if (n < 0 || n > kStridedMost || both % 16 != 0) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    const int64_t quads = (n + 3) / 4;
    const unsigned blocks = static_cast<unsigned>((quads + kStridedThreads - 1) / kStridedThreads);
    copy_float4<<<blocks, kStridedThreads, 0, stream>>>(x, out, n);
    return cudaGetLastError();
}
