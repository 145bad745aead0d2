// The CUDA half of the lessons: one vector addition and three ways to compute a row-wise
// softmax.
//
//   vector_add            one thread, one element
//   softmax_serial        one thread, one row: easy to follow, slow
//   softmax_parallel      one block, one row: shuffles inside a warp, shared memory between warps
//   softmax_online        the same block, but maximum and sum found in one pass, with 16-byte loads
//   softmax_online_scalar the same again with 4-byte loads only, to show what the wide loads are worth
//
// All tensors are float32. A matrix has `rows` rows of `columns` neighbouring elements;
// consecutive rows begin `x_stride` (or `out_stride`) elements apart, so a row may be followed
// by padding that no kernel touches. Rows, columns, strides and every offset are 64-bit: `row *
// stride` passes 2^31 in a matrix of 8 GiB.
//
// Each softmax treats special values as PyTorch does. A score of -inf (a masked one) gets
// weight 0; a row in which every score is -inf has no weights to share out and becomes NaN; a
// NaN or a +inf anywhere makes its row NaN.
//
// Each kernel is followed by the host function that launches it. Outputs must not overlap
// inputs.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

// The block size is this one constant. Scratch sizes, loops and launches derive from it.
constexpr int kThreads = 256;

// A warp is 32 threads on every NVIDIA GPU, so 32 is written out and not made a setting.
constexpr int kWarps = kThreads / 32;

static_assert(kThreads > 0 && kThreads % 32 == 0, "kThreads must be a whole number of 32-thread warps");
static_assert(kWarps <= 32, "kThreads must be at most 1024: the first warp reduces one partial per lane");

// All 32 lanes take part in every shuffle below; a missing lane would leave the others with an
// undefined value.
constexpr unsigned kAllLanes = 0xffffffffu;

// Blocks along x that one launch may have.
constexpr int64_t kMaxBlocks = 2147483647;


// ---------------------------------------------------------------------------------------------
// Vector addition
// ---------------------------------------------------------------------------------------------

__global__ void vector_add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                           int64_t n) {
    // Widen before multiplying: blockIdx.x * blockDim.x alone is 32-bit and wraps at 2^32.
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;

    // The last block is whole even when n is not a multiple of kThreads. Its spare threads own
    // nothing.
    if (i < n) {
        out[i] = x[i] + y[i];
    }
}

// out[i] = x[i] + y[i] for i in [0, n).
extern "C" cudaError_t launch_vector_add(const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    if (n < 0 || n > kMaxBlocks * kThreads) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;  // a grid of zero blocks is an error to CUDA
    }
    const int64_t blocks = (n + kThreads - 1) / kThreads;
    vector_add<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(x, y, out, n);
    return cudaGetLastError();  // reports a launch that was refused; a fault inside the kernel shows up later
}


// ---------------------------------------------------------------------------------------------
// Softmax, serial: one thread walks one row three times
// ---------------------------------------------------------------------------------------------

__global__ void softmax_serial(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                               int64_t x_stride, int64_t out_stride) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;  // allowed here: this kernel has no barrier for the others to wait at
    }
    const float* x_row = x + row * x_stride;
    float* out_row = out + row * out_stride;

    float row_max = -INFINITY;
    for (int64_t column = 0; column < columns; ++column) {
        row_max = fmaxf(row_max, x_row[column]);
    }

    // Thousands of small terms are added to one large sum, and each addition drops the low bits
    // of its term. The losses can all point the same way: on 8192 columns a plain sum drifts
    // far enough to fail the test. So `lost` keeps what the last addition dropped and hands it
    // back to the next one (Kahan's compensated summation).
    float sum = 0.0f;
    float lost = 0.0f;
    for (int64_t column = 0; column < columns; ++column) {
        const float term = expf(x_row[column] - row_max) - lost;
        const float next = sum + term;
        lost = (next - sum) - term;  // zero in exact arithmetic, the rounding error in this one
        sum = next;
    }

    for (int64_t column = 0; column < columns; ++column) {
        out_row[column] = expf(x_row[column] - row_max) / sum;
    }
}


// What every softmax launcher refuses before it launches.
static bool softmax_shape_is_valid(int64_t rows, int64_t columns, int64_t x_stride, int64_t out_stride) {
    if (rows < 0 || columns < 0 || x_stride < 0 || out_stride < 0) {
        return false;
    }
    return rows <= 1 || out_stride >= columns;  // else two rows would write to the same place
}

// out[r, :] = softmax(x[r, :]), one thread per row.
extern "C" cudaError_t launch_softmax_serial(const float* x, float* out, int64_t rows, int64_t columns,
                                             int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    if (!softmax_shape_is_valid(rows, columns, x_stride, out_stride) || rows > kMaxBlocks * kThreads) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    const int64_t blocks = (rows + kThreads - 1) / kThreads;
    softmax_serial<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Softmax, parallel: one block shares one row
// ---------------------------------------------------------------------------------------------

struct Maximum {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Combines the values of a warp's 32 lanes; lane 0 returns the result. A shuffle reads another
// lane's register, so this needs neither memory nor a barrier. Each step folds the upper half
// of the remaining lanes onto the lower.
template <typename Combine>
__device__ float warp_reduce(float value, Combine combine) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_down_sync(kAllLanes, value, distance));
    }
    return value;
}

// Combines the values of a block's kThreads threads and returns the result to all of them.
// Every thread of the block must call this, because every thread must arrive at each barrier.
// `neutral` changes nothing it is combined with.
template <typename Combine>
__device__ float block_reduce(float value, float neutral, float* scratch, Combine combine) {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;

    value = warp_reduce(value, combine);
    if (lane == 0) {
        scratch[warp] = value;
    }
    __syncthreads();  // all kWarps partials are written before the first warp reads them

    if (warp == 0) {
        value = warp_reduce(lane < kWarps ? scratch[lane] : neutral, combine);
        if (lane == 0) {
            scratch[0] = value;
        }
    }
    __syncthreads();  // the result is in scratch[0] before the other warps read it

    value = scratch[0];
    __syncthreads();  // every thread has read the result before the next reduction reuses scratch
    return value;
}

__global__ void softmax_parallel(const float* __restrict__ x, float* __restrict__ out, int64_t columns,
                                 int64_t x_stride, int64_t out_stride) {
    __shared__ float scratch[kWarps];

    const float* x_row = x + static_cast<int64_t>(blockIdx.x) * x_stride;
    float* out_row = out + static_cast<int64_t>(blockIdx.x) * out_stride;

    // Thread t owns columns t, t + kThreads, t + 2 * kThreads, ... so a warp's 32 lanes always
    // touch 32 neighbouring columns. A thread beyond a narrow row owns none: its loops do not
    // run, its values stay neutral, and it still reaches every barrier. It must not return
    // early, or the barriers would wait for it.
    float thread_max = -INFINITY;
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
        thread_max = fmaxf(thread_max, x_row[column]);
    }
    const float row_max = block_reduce(thread_max, -INFINITY, scratch, Maximum());

    // No compensation up to the widths that are tested: a thread adds columns / kThreads terms,
    // and the tree adds like to like. At a million columns a thread adds thousands, and the
    // drift comes back.
    float thread_sum = 0.0f;
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
        thread_sum += expf(x_row[column] - row_max);
    }
    const float row_sum = block_reduce(thread_sum, 0.0f, scratch, Sum());

    const float inverse = 1.0f / row_sum;  // one division a thread instead of one a column
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
        out_row[column] = expf(x_row[column] - row_max) * inverse;
    }
}

// out[r, :] = softmax(x[r, :]), one block per row.
extern "C" cudaError_t launch_softmax_parallel(const float* x, float* out, int64_t rows, int64_t columns,
                                               int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    if (!softmax_shape_is_valid(rows, columns, x_stride, out_stride) || rows > kMaxBlocks) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    softmax_parallel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, out, columns, x_stride, out_stride);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Softmax, online: maximum and sum in one pass, so a row is read twice instead of three times
// ---------------------------------------------------------------------------------------------

// The maximum of some scores, and the sum of exp(score - max) over them. {-inf, 0} describes no
// scores at all.
struct MaxSum {
    float max;
    float sum;
};

// Takes one more score in. The old sum was relative to the old maximum, so it is rescaled when
// the maximum grows.
__device__ MaxSum add_value(MaxSum seen, float score) {
    // A masked score weighs nothing. While every score so far is masked, seen.max is -inf as
    // well, and the formula below would compute exp(-inf - (-inf)) = exp(NaN): one masked
    // stretch would turn the whole row into NaN.
    if (score == -INFINITY) {
        return seen;
    }
    const float max = fmaxf(seen.max, score);
    return {max, seen.sum * expf(seen.max - max) + expf(score - max)};
}

// Joins two disjoint sets of scores. The order does not matter, apart from rounding.
__device__ MaxSum merge(MaxSum a, MaxSum b) {
    const float max = fmaxf(a.max, b.max);
    // An unchanged maximum needs no rescaling. Asking first also covers two empty sets, again
    // -inf - (-inf).
    const float a_scale = a.max == max ? 1.0f : expf(a.max - max);
    const float b_scale = b.max == max ? 1.0f : expf(b.max - max);
    return {max, a.sum * a_scale + b.sum * b_scale};
}

// warp_reduce for pairs.
__device__ MaxSum warp_merge(MaxSum value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other_max = __shfl_down_sync(kAllLanes, value.max, distance);
        const float other_sum = __shfl_down_sync(kAllLanes, value.sum, distance);
        value = merge(value, {other_max, other_sum});
    }
    return value;
}

// block_reduce for pairs, and used once a row: nothing reuses scratch, so the third barrier is
// not needed.
__device__ MaxSum block_merge(MaxSum value, MaxSum* scratch) {
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;

    value = warp_merge(value);
    if (lane == 0) {
        scratch[warp] = value;
    }
    __syncthreads();  // all kWarps partials are written before the first warp reads them

    if (warp == 0) {
        value = warp_merge(lane < kWarps ? scratch[lane] : MaxSum{-INFINITY, 0.0f});
        if (lane == 0) {
            scratch[0] = value;
        }
    }
    __syncthreads();  // the result is in scratch[0] before the other warps read it
    return scratch[0];
}

// One row with 4-byte loads and stores.
__device__ void online_row(const float* __restrict__ x_row, float* __restrict__ out_row, int64_t columns,
                           MaxSum* scratch) {
    MaxSum value = {-INFINITY, 0.0f};
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
        value = add_value(value, x_row[column]);
    }
    value = block_merge(value, scratch);

    const float inverse = 1.0f / value.sum;
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
        out_row[column] = expf(x_row[column] - value.max) * inverse;
    }
}

// One row with 16-byte loads and stores: a quarter of the memory instructions for the same
// bytes. Thread t owns columns 4t to 4t + 3, then the four that begin 4 * kThreads later.
__device__ void online_row_float4(const float4* __restrict__ x_row, float4* __restrict__ out_row, int64_t quads,
                                  MaxSum* scratch) {
    MaxSum value = {-INFINITY, 0.0f};
    for (int64_t quad = threadIdx.x; quad < quads; quad += kThreads) {
        const float4 scores = x_row[quad];
        value = add_value(value, scores.x);
        value = add_value(value, scores.y);
        value = add_value(value, scores.z);
        value = add_value(value, scores.w);
    }
    value = block_merge(value, scratch);

    const float inverse = 1.0f / value.sum;
    for (int64_t quad = threadIdx.x; quad < quads; quad += kThreads) {
        const float4 scores = x_row[quad];
        float4 weights;
        weights.x = expf(scores.x - value.max) * inverse;
        weights.y = expf(scores.y - value.max) * inverse;
        weights.z = expf(scores.z - value.max) * inverse;
        weights.w = expf(scores.w - value.max) * inverse;
        out_row[quad] = weights;
    }
}

// A 16-byte access must begin at a multiple of 16 bytes, or the GPU faults.
__device__ bool is_aligned_16(const float* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

__global__ void softmax_online(const float* __restrict__ x, float* __restrict__ out, int64_t columns, int64_t x_stride,
                               int64_t out_stride) {
    __shared__ MaxSum scratch[kWarps];

    const float* x_row = x + static_cast<int64_t>(blockIdx.x) * x_stride;
    float* out_row = out + static_cast<int64_t>(blockIdx.x) * out_stride;

    // The width alone does not decide: with a stride of 1025, row 1 of an aligned matrix begins
    // at byte 4100. The whole block works on one row and takes the same branch, so its barriers
    // stay whole.
    if (columns % 4 == 0 && is_aligned_16(x_row) && is_aligned_16(out_row)) {
        online_row_float4(reinterpret_cast<const float4*>(x_row), reinterpret_cast<float4*>(out_row), columns / 4,
                          scratch);
    } else {
        online_row(x_row, out_row, columns, scratch);
    }
}

__global__ void softmax_online_scalar(const float* __restrict__ x, float* __restrict__ out, int64_t columns,
                                      int64_t x_stride, int64_t out_stride) {
    __shared__ MaxSum scratch[kWarps];
    online_row(x + static_cast<int64_t>(blockIdx.x) * x_stride, out + static_cast<int64_t>(blockIdx.x) * out_stride,
               columns, scratch);
}

// out[r, :] = softmax(x[r, :]), one block per row, 16-byte accesses where the row allows them.
extern "C" cudaError_t launch_softmax_online(const float* x, float* out, int64_t rows, int64_t columns,
                                             int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    if (!softmax_shape_is_valid(rows, columns, x_stride, out_stride) || rows > kMaxBlocks) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    softmax_online<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, out, columns, x_stride, out_stride);
    return cudaGetLastError();
}

// The same result with 4-byte accesses only.
extern "C" cudaError_t launch_softmax_online_scalar(const float* x, float* out, int64_t rows, int64_t columns,
                                                    int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    if (!softmax_shape_is_valid(rows, columns, x_stride, out_stride) || rows > kMaxBlocks) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    softmax_online_scalar<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, out, columns, x_stride, out_stride);
    return cudaGetLastError();
}
