// Three ways to count: how often each number from 0 to bins - 1 occurs among n numbers.
//
//   histogram_plain       every number adds 1 to its bin in global memory
//   histogram_shared      a block counts in shared memory, and adds each bin to global memory once
//   histogram_replicated  the same with several copies of the counters, so that lanes with equal
//                         numbers need not wait for each other
//
// `out` holds `bins` counts of 64 bits, which the launchers set to zero first. A number below 0 or
// from `bins` up is counted nowhere. Integers add up to the same total in any order, so atomics
// leave nothing to chance here.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kHistogramThreads = 512;
constexpr int kHistogramWarp = 32;

// What one block may use of the shared memory of a multiprocessor, so that several blocks fit.
// Every GPU allows 48 KiB without being asked for more.
constexpr int kHistogramBytes = 48 * 1024;
constexpr int kHistogramSharedBins = kHistogramBytes / static_cast<int>(sizeof(unsigned));

// A bin is an int, and so is a number that is counted.
constexpr int64_t kHistogramMaxBins = 1 << 24;

__device__ bool is_bin(int value, int bins) {
    // One comparison for both ends: a negative number is a very large one without its sign.
    return static_cast<unsigned>(value) < static_cast<unsigned>(bins);
}


// ---------------------------------------------------------------------------------------------
// Plain: one atomic in global memory for each number
// ---------------------------------------------------------------------------------------------

__global__ void histogram_plain(const int* __restrict__ x, unsigned long long* out, int64_t n, int bins) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        const int value = x[i];
        if (is_bin(value, bins)) {
            atomicAdd(&out[value], 1ull);
        }
    }
}


// ---------------------------------------------------------------------------------------------
// Shared: a block counts for itself first
// ---------------------------------------------------------------------------------------------

__global__ void histogram_shared(const int* __restrict__ x, unsigned long long* out, int64_t n, int bins) {
    extern __shared__ unsigned counts[];
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        counts[bin] = 0;  // shared memory is not zero when a block begins
    }
    __syncthreads();  // no counter is used before it is zero

    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        const int value = x[i];
        if (is_bin(value, bins)) {
            atomicAdd(&counts[value], 1u);
        }
    }
    __syncthreads();  // every number of the block is counted before the counts are read

    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        if (counts[bin] != 0) {
            atomicAdd(&out[bin], static_cast<unsigned long long>(counts[bin]));
        }
    }
}


// ---------------------------------------------------------------------------------------------
// Replicated: lanes of a warp count in copies of their own
// ---------------------------------------------------------------------------------------------

// The copies of one counter lie side by side: counts[bin * copies + copy]. With 32 copies, lane l
// always meets bank l, whatever its number is: no lane ever waits for another one.
__device__ void count_in_copy(unsigned* counts, int value, int bins, int copies, int copy) {
    if (is_bin(value, bins)) {
        atomicAdd(&counts[value * copies + copy], 1u);
    }
}

__global__ void histogram_replicated(const int* __restrict__ x, unsigned long long* out, int64_t n, int bins,
                                     int copies) {
    extern __shared__ unsigned counts[];
    for (int i = threadIdx.x; i < bins * copies; i += blockDim.x) {
        counts[i] = 0;
    }
    __syncthreads();

    // `copies` is a power of two, so this is threadIdx.x modulo copies.
    const int copy = threadIdx.x & (copies - 1);

    // Four numbers to a load. What comes before the first multiple of 16 bytes, and after the
    // last whole load, is less than four numbers each, and block 0 takes it one by one.
    const int64_t misaligned = (reinterpret_cast<uintptr_t>(x) / sizeof(int)) % 4;
    const int64_t head = misaligned == 0 ? 0 : 4 - misaligned;
    const int64_t first = head < n ? head : n;
    const int64_t quads = (n - first) / 4;
    const int4* wide = reinterpret_cast<const int4*>(x + first);
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t quad = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; quad < quads; quad += step) {
        const int4 values = wide[quad];
        count_in_copy(counts, values.x, bins, copies, copy);
        count_in_copy(counts, values.y, bins, copies, copy);
        count_in_copy(counts, values.z, bins, copies, copy);
        count_in_copy(counts, values.w, bins, copies, copy);
    }
    if (blockIdx.x == 0) {
        const int64_t after = first + quads * 4;
        if (threadIdx.x < first) {
            count_in_copy(counts, x[threadIdx.x], bins, copies, copy);
        }
        if (after + threadIdx.x < n) {
            count_in_copy(counts, x[after + threadIdx.x], bins, copies, copy);
        }
    }
    __syncthreads();

    // A group of `copies` neighbouring threads adds up one bin: each takes one copy, and a shuffle
    // folds them. The group is whole in its warp, and all lanes stay in the loop.
    const int groups = blockDim.x / copies;
    for (int start = 0; start < bins; start += groups) {
        const int bin = start + threadIdx.x / copies;
        unsigned total = bin < bins ? counts[bin * copies + copy] : 0;
        for (int distance = copies / 2; distance > 0; distance /= 2) {
            total += __shfl_down_sync(0xffffffffu, total, distance, copies);
        }
        if (copy == 0 && total != 0) {
            atomicAdd(&out[bin], static_cast<unsigned long long>(total));
        }
    }
}


// ---------------------------------------------------------------------------------------------
// Launches
// ---------------------------------------------------------------------------------------------

static cudaError_t histogram_begin(unsigned long long* out, int64_t n, int64_t bins, int64_t blocks,
                                   cudaStream_t stream) {
    if (n < 0 || bins < 1 || bins > kHistogramMaxBins || blocks < 1) {
        return cudaErrorInvalidValue;
    }
    return cudaMemsetAsync(out, 0, static_cast<size_t>(bins) * sizeof(unsigned long long), stream);
}

// A block walks on from where it began, in steps of the whole grid, so a few blocks for each
// multiprocessor are enough for any n.
static unsigned histogram_blocks(int64_t items, int64_t blocks) {
    const int64_t needed = (items + kHistogramThreads - 1) / kHistogramThreads;
    const int64_t few = needed < blocks ? needed : blocks;
    return static_cast<unsigned>(few < 1 ? 1 : few);
}

// out[b] = how often b occurs in x[0 .. n). `blocks` is the largest number of blocks to launch.
extern "C" cudaError_t launch_histogram_plain(const int* x, unsigned long long* out, int64_t n, int64_t bins,
                                              int64_t blocks, cudaStream_t stream) {
    const cudaError_t begun = histogram_begin(out, n, bins, blocks, stream);
    if (begun != cudaSuccess || n == 0) {
        return begun;
    }
    histogram_plain<<<histogram_blocks(n, blocks), kHistogramThreads, 0, stream>>>(x, out, n, static_cast<int>(bins));
    return cudaGetLastError();
}

// The same through shared memory: at most 12288 bins.
extern "C" cudaError_t launch_histogram_shared(const int* x, unsigned long long* out, int64_t n, int64_t bins,
                                               int64_t blocks, cudaStream_t stream) {
    if (bins > kHistogramSharedBins) {
        return cudaErrorInvalidValue;
    }
    const cudaError_t begun = histogram_begin(out, n, bins, blocks, stream);
    if (begun != cudaSuccess || n == 0) {
        return begun;
    }
    const size_t bytes = static_cast<size_t>(bins) * sizeof(unsigned);
    histogram_shared<<<histogram_blocks(n, blocks), kHistogramThreads, bytes, stream>>>(x, out, n,
                                                                                        static_cast<int>(bins));
    return cudaGetLastError();
}

// The same with as many copies of the counters as fit, from 32 for up to 384 bins down to one.
extern "C" cudaError_t launch_histogram_replicated(const int* x, unsigned long long* out, int64_t n, int64_t bins,
                                                   int64_t blocks, cudaStream_t stream) {
    if (bins > kHistogramSharedBins) {
        return cudaErrorInvalidValue;
    }
    const cudaError_t begun = histogram_begin(out, n, bins, blocks, stream);
    if (begun != cudaSuccess || n == 0) {
        return begun;
    }
    int copies = kHistogramWarp;
    while (copies > 1 && bins * copies > kHistogramSharedBins) {
        copies /= 2;
    }
    const unsigned grid = histogram_blocks(n / 4 + 1, blocks);
    const size_t bytes = static_cast<size_t>(bins) * copies * sizeof(unsigned);
    histogram_replicated<<<grid, kHistogramThreads, bytes, stream>>>(x, out, n, static_cast<int>(bins), copies);
    return cudaGetLastError();
}
