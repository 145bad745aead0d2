// Threads and blocks that meet in global memory: rightly, and in each way that leaves their order open.
#include <cuda_runtime.h>

// ---- wrong: threads of one block ----

__global__ void shift_in_place(float* x, int n) {
    const int i = threadIdx.x;
    x[i] = x[(i + 1) % n];
}

__global__ void through_tmp(const float* in, float* tmp, float* out, int n) {
    const int i = threadIdx.x;
    tmp[i] = in[i];
    out[i] = tmp[(i + 33) % n];
}

__global__ void running_sum(const float* in, float* out) {
    const int i = threadIdx.x;
    out[i] = in[i];
    out[i] = i ? out[i - 1] + in[i] : in[i];
}

__global__ void count_and_read(int* c, int* out) {
    atomicAdd(c, 1);
    out[threadIdx.x] = *c;
}

__global__ void read_and_count(int* c, int* out) {
    out[threadIdx.x] = *c;
    atomicAdd(c, 1);
}

// A read that a compare-and-swap checks may be out of date; the one of the last thread is not checked.
__global__ void guess_and_leave(int* c, int* out) {
    const int guess = *c;
    if (threadIdx.x + 1 < blockDim.x) atomicCAS(c, guess, guess + 1);
    out[threadIdx.x] = guess;
}

__global__ void count_and_read_shared(int* out) {
    __shared__ int c;
    if (threadIdx.x == 0) c = 0;
    __syncthreads();
    atomicAdd(&c, 1);
    out[threadIdx.x] = c;
}

__global__ void add_to_one(const float* in, float* sum) { *sum += in[threadIdx.x]; }

__global__ void lane_to_lane(const float* in, float* tmp, float* out) {
    const int i = threadIdx.x;
    tmp[i] = in[i];
    __syncwarp();
    out[i] = tmp[i ^ 1];
}

// ---- right: threads of one block ----

__global__ void shift_with_barrier(float* x, int n) {
    const int i = threadIdx.x;
    const float next = x[(i + 1) % n];
    __syncthreads();
    x[i] = next;
}

__global__ void tree_sum(const float* in, float* tmp, float* out) {
    const int i = threadIdx.x;
    tmp[i] = in[i];
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        __threadfence_block();
        __syncthreads();
        if (i < step) tmp[i] += tmp[i + step];
    }
    if (i == 0) *out = tmp[0];
}

__global__ void scan_in_place(float* x) {
    const int i = threadIdx.x;
    for (int step = 1; step < static_cast<int>(blockDim.x); step *= 2) {
        const float before = i >= step ? x[i - step] : 0.0f;
        __syncthreads();
        x[i] += before;
        __syncthreads();
    }
}

__global__ void last_thread_sums(const float* in, float* tmp, int* arrived, float* out) {
    const int i = threadIdx.x;
    tmp[i] = in[i];
    __threadfence_block();
    const bool last = atomicAdd(arrived, 1) == static_cast<int>(blockDim.x) - 1;
    if (last) {
        float sum = 0.0f;
        for (int k = 0; k < static_cast<int>(blockDim.x); ++k) sum += tmp[k];
        *out = sum;
    }
}

__global__ void count_wait_read(int* c, int* out) {
    atomicAdd(c, 1);
    __syncthreads();
    out[threadIdx.x] = *c;
}

__global__ void add_by_compare_and_swap(float* sum, const float* in) {
    int* bits = reinterpret_cast<int*>(sum);
    int old = *bits, guess;
    do {
        guess = old;
        old = atomicCAS(bits, guess, __float_as_int(__int_as_float(guess) + in[threadIdx.x]));
    } while (old != guess);
}

// ---- between blocks ----

__device__ void block_sum(const float* in, float* partial) {
    __shared__ float part[64];
    const int i = threadIdx.x;
    part[i] = in[blockIdx.x * blockDim.x + i];
    __syncthreads();
    if (i == 0) {
        float sum = 0.0f;
        for (int k = 0; k < static_cast<int>(blockDim.x); ++k) sum += part[k];
        partial[blockIdx.x] = sum;
    }
}

__device__ void sum_partials(const float* partial, float* out) {
    float sum = 0.0f;
    for (int b = 0; b < static_cast<int>(gridDim.x); ++b) sum += partial[b];
    *out = sum;
}

__global__ void last_block_sums(const float* in, float* partial, unsigned* count, float* out) {
    __shared__ bool last;
    block_sum(in, partial);
    if (threadIdx.x == 0) {
        __threadfence();  // the partial before the count
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) sum_partials(partial, out);
}

// As before, but each thread has written a value of its own, and the block's last thread does the counting.
__global__ void last_block_reads_all(const float* in, float* partial, unsigned* count, float* out) {
    __shared__ bool last;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    partial[i] = 2.0f * in[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) last = atomicAdd(count, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        float sum = 0.0f;
        for (unsigned k = threadIdx.x; k < gridDim.x * blockDim.x; k += blockDim.x) sum += partial[k];
        atomicAdd(out, sum);
    }
}

__global__ void one_at_a_time(const float* in, int* lock, float* sum) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *sum += in[blockIdx.x * blockDim.x + threadIdx.x];
    __threadfence();
    atomicExch(lock, 0);
}

// Nobody looks at the count, so each block reads its neighbour's value whether it is there or not.
__global__ void counts_and_does_not_look(const float* in, float* partial, unsigned* count, float* out) {
    block_sum(in, partial);
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        out[blockIdx.x] = partial[(blockIdx.x + 1) % gridDim.x];
    }
}

// The count tells of blocks that came before; the value is written after it.
__global__ void counts_too_early(const float* in, float* partial, unsigned* count, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    block_sum(in, partial);
    __syncthreads();
    if (last && threadIdx.x == 0) sum_partials(partial, out);
}
