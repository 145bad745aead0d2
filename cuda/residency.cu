// Kernels about how many warps share a multiprocessor, and what that is good for.
//
//   copy_resident     a copy that asks for shared memory which it does not use, so that fewer blocks fit at once
//   copy_resident_4   the same with four loads under way in each thread before the first is used
//   strip_products_B  a kernel that wants many registers, compiled to leave room for B blocks of 256 threads at once
//
// x and out are float32 and do not overlap; lengths are 64-bit.

#include <cuda_runtime.h>

#include <cstdint>

// ---------------------------------------------------------------------------------------------
// Waiting hidden by other warps, or by the thread's own loads
// ---------------------------------------------------------------------------------------------

// Every thread walks the array in steps of the whole grid.
__global__ void copy_resident(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 1  // or the compiler begins four loads before it waits for the first
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += threads) {
        out[i] = x[i];
    }
}

__global__ void copy_resident_4(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (; i + 3 * threads < n; i += 4 * threads) {
        const float a = x[i];
        const float b = x[i + threads];
        const float c = x[i + 2 * threads];
        const float d = x[i + 3 * threads];
        out[i] = a;
        out[i + threads] = b;
        out[i + 2 * threads] = c;
        out[i + 3 * threads] = d;
    }
#pragma unroll 1
    for (; i < n; i += threads) {
        out[i] = x[i];
    }
}

constexpr int64_t kDefaultShared = 48 * 1024;  // what a launch may ask for without saying so first

// `threads` a block, `blocks` in the grid, `shared_bytes` of dynamic shared memory a block. More than 48 KiB must be
// allowed for the kernel before it is launched; `allow` 0 leaves that out, and the launch is refused.
template <typename Kernel>
static cudaError_t launch_resident(Kernel kernel, const float* x, float* out, int64_t n, int64_t blocks, int64_t threads,
                                   int64_t shared_bytes, int64_t allow, cudaStream_t stream) {
    if (n < 0 || blocks < 1 || blocks > 2147483647ll || threads < 1 || threads > 1024 || shared_bytes < 0 ||
        shared_bytes > 1 << 20) {
        return cudaErrorInvalidValue;
    }
    if (allow != 0 && shared_bytes > kDefaultShared) {
        const cudaError_t allowed =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
        if (allowed != cudaSuccess) {
            cudaGetLastError();  // it is returned, and must not be found again after the next launch
            return allowed;
        }
    }
    kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(
        x, out, n);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_copy_resident(const float* x, float* out, int64_t n, int64_t blocks, int64_t threads,
                                            int64_t shared_bytes, int64_t allow, cudaStream_t stream) {
    return launch_resident(copy_resident, x, out, n, blocks, threads, shared_bytes, allow, stream);
}

extern "C" cudaError_t launch_copy_resident_4(const float* x, float* out, int64_t n, int64_t blocks, int64_t threads,
                                              int64_t shared_bytes, int64_t allow, cudaStream_t stream) {
    return launch_resident(copy_resident_4, x, out, n, blocks, threads, shared_bytes, allow, stream);
}

// ---------------------------------------------------------------------------------------------
// Registers
// ---------------------------------------------------------------------------------------------

constexpr int kStrip = 96;         // values that a thread holds at once
constexpr int kBoundThreads = 256;  // threads of a block

// out[i] = sum over lag = 1, 2, 4, ..., 32 of sum over k of v[k] * v[(k + lag) % 96], where v[k] = x[k * n + i]. x is 96
// rows of n. Every value is used by every lag, so all 96 are wanted in registers.
__device__ __forceinline__ void strip_products(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kBoundThreads + threadIdx.x;
    if (i >= n) {
        return;
    }
    float v[kStrip];
#pragma unroll
    for (int k = 0; k < kStrip; ++k) {
        v[k] = x[k * n + i];
    }
    float total = 0.0f;
#pragma unroll
    for (int lag = 1; lag <= 32; lag *= 2) {
#pragma unroll
        for (int k = 0; k < kStrip; ++k) {
            total += v[k] * v[(k + lag) % kStrip];
        }
    }
    out[i] = total;
}

// The second number is how many such blocks must fit on a multiprocessor: the compiler keeps to 65536 / (256 B) registers
// a thread, and puts what does not fit into local memory. 6 such blocks are all that sm_120 has threads for.
__global__ void __launch_bounds__(kBoundThreads, 1)
    strip_products_1(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    strip_products(x, out, n);
}

__global__ void __launch_bounds__(kBoundThreads, 3)
    strip_products_3(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    strip_products(x, out, n);
}

__global__ void __launch_bounds__(kBoundThreads, 4)
    strip_products_4(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    strip_products(x, out, n);
}

__global__ void __launch_bounds__(kBoundThreads, 6)
    strip_products_6(const float* __restrict__ x, float* __restrict__ out, int64_t n) {
    strip_products(x, out, n);
}

// x has 96 n elements, out n.
template <typename Kernel>
static cudaError_t launch_strip(Kernel kernel, const float* x, float* out, int64_t n, cudaStream_t stream) {
    if (n < 0 || n > 2147483647ll * kBoundThreads) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    kernel<<<static_cast<unsigned>((n + kBoundThreads - 1) / kBoundThreads), kBoundThreads, 0, stream>>>(x, out, n);
    return cudaGetLastError();
}

extern "C" cudaError_t launch_strip_products_1(const float* x, float* out, int64_t n, cudaStream_t stream) {
    return launch_strip(strip_products_1, x, out, n, stream);
}

extern "C" cudaError_t launch_strip_products_3(const float* x, float* out, int64_t n, cudaStream_t stream) {
    return launch_strip(strip_products_3, x, out, n, stream);
}

extern "C" cudaError_t launch_strip_products_4(const float* x, float* out, int64_t n, cudaStream_t stream) {
    return launch_strip(strip_products_4, x, out, n, stream);
}

extern "C" cudaError_t launch_strip_products_6(const float* x, float* out, int64_t n, cudaStream_t stream) {
    return launch_strip(strip_products_6, x, out, n, stream);
}
