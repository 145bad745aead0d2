// Small kernels with what the kernels of the lessons do not have: atomics, exchanges inside a warp, dynamic shared
// memory, asynchronous copies, a result that passes from one block to another. Each is right; the catalogue beside this
// file makes them wrong.

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kThreads = 128;
constexpr unsigned kAllLanes = 0xffffffffu;

static unsigned blocks_for(int n, int each) { return static_cast<unsigned>((n + each - 1) / each); }

// counts[v] += 1 for each v in [0, bins); other values are left out. One atomic a value, all in global memory.
__global__ void histogram(const int* values, int* counts, int n, int bins) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int value = values[i];
        if (value >= 0 && value < bins) {
            atomicAdd(&counts[value], 1);
        }
    }
}

extern "C" void launch_histogram(const int* values, int* counts, int n, int bins) {
    histogram<<<blocks_for(n, kThreads), kThreads>>>(values, counts, n, bins);
}

// The same, counted in the block's own memory first. `bins` integers of dynamic shared memory come with the launch.
__global__ void histogram_shared(const int* values, int* counts, int n, int bins) {
    extern __shared__ int mine[];
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        mine[bin] = 0;
    }
    __syncthreads();  // all counters are zero before anyone counts
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && values[i] >= 0 && values[i] < bins) {
        atomicAdd(&mine[values[i]], 1);
    }
    __syncthreads();  // everybody has counted before the counters are read
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        atomicAdd(&counts[bin], mine[bin]);
    }
}

extern "C" void launch_histogram_shared(const int* values, int* counts, int n, int bins) {
    histogram_shared<<<blocks_for(n, kThreads), kThreads, bins * sizeof(int)>>>(values, counts, n, bins);
}

// out[g] is the sum of the eight values of group g: eight lanes of a warp share a group.
__global__ void group_sum(const float* x, float* out, int groups) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = i < groups * 8 ? x[i] : 0.0f;  // a spare lane still takes part in the shuffle
    for (int distance = 4; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kAllLanes, value, distance, 8);
    }
    if (i < groups * 8 && threadIdx.x % 8 == 0) {
        out[i / 8] = value;
    }
}

extern "C" void launch_group_sum(const float* x, float* out, int groups) {
    group_sum<<<blocks_for(groups * 8, kThreads), kThreads>>>(x, out, groups);
}

// Each warp reverses its own 32 values through shared memory.
__global__ void reverse_in_warps(const float* x, float* out) {
    __shared__ float held[kThreads];
    const int i = blockIdx.x * kThreads + threadIdx.x;
    held[threadIdx.x] = x[i];
    __syncwarp();  // the warp's 32 values are there before they are read
    out[i] = held[threadIdx.x ^ 31];
}

extern "C" void launch_reverse_in_warps(const float* x, float* out, int n) {
    reverse_in_warps<<<n / kThreads, kThreads>>>(x, out);  // n is a multiple of kThreads
}

// out[i] = x[i] + x[j], j the next element of the block's 128, or its first. The block's elements are copied to shared
// memory without passing through registers; such a copy is there only after the thread that began it has waited.
__global__ void add_next(const float* x, float* out) {
    __shared__ float held[kThreads];
    const int i = blockIdx.x * kThreads + threadIdx.x;
    __pipeline_memcpy_async(&held[threadIdx.x], &x[i], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);  // this thread's copy is there
    __syncthreads();           // and so are the others'
    out[i] = held[threadIdx.x] + held[(threadIdx.x + 1) % kThreads];
}

extern "C" void launch_add_next(const float* x, float* out, int n) {
    add_next<<<n / kThreads, kThreads>>>(x, out);  // n is a multiple of kThreads
}

// out[i] = x[i + 1], and 0 for the last one.
__global__ void shift_left(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = i + 1 < n ? x[i + 1] : 0.0f;
    }
}

extern "C" void launch_shift_left(const float* x, float* out, int n) {
    shift_left<<<blocks_for(n, kThreads), kThreads>>>(x, out, n);
}

// total[0] is the sum of x. Each block leaves a partial sum; the block that finishes last adds them up.
__global__ void sum_in_one_launch(const float* x, float* partials, int* tickets, float* total, int n) {
    __shared__ float scratch[kThreads];
    __shared__ bool is_last;
    const int i = blockIdx.x * kThreads + threadIdx.x;
    scratch[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();  // the sums of the round before are there
        if (threadIdx.x < half) {
            scratch[threadIdx.x] += scratch[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = scratch[0];
        __threadfence();  // the partial sum is visible before the ticket says so
        is_last = atomicAdd(tickets, 1) == static_cast<int>(gridDim.x) - 1;
    }
    __syncthreads();  // everybody knows whether this block is the last
    if (is_last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0.0f;
        for (int block = 0; block < static_cast<int>(gridDim.x); ++block) {
            sum += partials[block];
        }
        *total = sum;
    }
}

extern "C" void launch_sum_in_one_launch(const float* x, float* partials, int* tickets, float* total, int n) {
    sum_in_one_launch<<<blocks_for(n, kThreads), kThreads>>>(x, partials, tickets, total, n);
}

// variances[r] is the mean squared distance of a row's values from their mean, one thread a row, in two passes.
__global__ void variance(const float* x, float* variances, int rows, int columns) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    float sum = 0.0f;
    for (int column = 0; column < columns; ++column) {
        sum += x[row * columns + column];
    }
    const float mean = sum / columns;
    float squares = 0.0f;
    for (int column = 0; column < columns; ++column) {
        const float distance = x[row * columns + column] - mean;
        squares += distance * distance;
    }
    variances[row] = squares / columns;
}

extern "C" void launch_variance(const float* x, float* variances, int rows, int columns) {
    variance<<<blocks_for(rows, kThreads), kThreads>>>(x, variances, rows, columns);
}
