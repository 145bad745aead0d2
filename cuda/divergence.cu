// One kernel whose warps diverge or not, depending on its data alone.
//
//   two_paths   out[i] = one long chain of operations where kind[i] is 0, another where it is not
//
// The chains are loops that the compiler cannot run side by side: it must branch, and a warp whose lanes disagree goes
// through both. The launch is the same for every layout of `kind`. All arrays have n elements.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kPathThreads = 256;

__global__ void two_paths(const float* __restrict__ x, const int* __restrict__ kind, float* __restrict__ out, int64_t n,
                          int64_t steps) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kPathThreads + threadIdx.x;
    if (i < n) {
        float value = x[i];
        if (kind[i] == 0) {
            for (int64_t step = 0; step < steps; ++step) {
                value = value * 0.5f + 1.0f;  // towards 2
            }
            out[i] = value;
        } else {
            for (int64_t step = 0; step < steps; ++step) {
                value = value * -0.5f + 3.0f;  // towards 2 as well, from both sides
            }
            out[i] = -value;
        }
    }
}

extern "C" cudaError_t launch_two_paths(const float* x, const int* kind, float* out, int64_t n, int64_t steps,
                                        cudaStream_t stream) {
    if (n < 0 || n > 2147483647ll * kPathThreads || steps < 0) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    two_paths<<<static_cast<unsigned>((n + kPathThreads - 1) / kPathThreads), kPathThreads, 0, stream>>>(x, kind, out, n,
                                                                                                        steps);
    return cudaGetLastError();
}
