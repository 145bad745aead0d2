// Two more transposes beside those of patterns.cu, and a walk through shared memory alone.
//
//   transpose_direct    no shared memory: reads along rows, writes down columns, a sector for every lane
//   transpose_swizzled  a tile of 32 x 32 without padding: column c of row r lies where column c ^ r would
//   shared_walk         each lane reads words `stride` apart, again and again: what a bank conflict costs by itself
//
// Matrices are float32, `rows` rows of `columns` neighbouring elements; consecutive rows begin `x_stride` (or
// `out_stride`) elements apart. A block of 32 x 8 threads serves one tile of 32 x 32; a warp is one line of the block.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kSide = 32;  // of a tile: one line for one warp
constexpr int kLines = 8;  // tile lines that a block touches at once

__global__ void transpose_direct(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                                 int64_t x_stride, int64_t out_stride) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kSide + threadIdx.x;
    for (int line = threadIdx.y; line < kSide; line += kLines) {
        const int64_t row = static_cast<int64_t>(blockIdx.y) * kSide + line;
        if (row < rows && column < columns) {
            out[column * out_stride + row] = x[row * x_stride + column];  // the lanes' stores are out_stride apart
        }
    }
}

__global__ void transpose_swizzled(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                                   int64_t x_stride, int64_t out_stride) {
    __shared__ float tile[kSide][kSide];
    const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kSide;
    const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kSide;

    for (int line = threadIdx.y; line < kSide; line += kLines) {
        const int64_t row = first_row + line;
        const int64_t column = first_column + threadIdx.x;
        if (row < rows && column < columns) {
            tile[line][threadIdx.x ^ line] = x[row * x_stride + column];  // ^ line: a row is only put in another order
        }
    }
    __syncthreads();

    for (int line = threadIdx.y; line < kSide; line += kLines) {
        const int64_t row = first_row + threadIdx.x;
        const int64_t column = first_column + line;
        if (row < rows && column < columns) {
            out[column * out_stride + row] = tile[threadIdx.x][line ^ threadIdx.x];  // 32 lanes, 32 banks
        }
    }
}

// The grid of both: one block a tile. Returns false for sizes below zero, output rows that would overlap, and more tiles
// than a grid has blocks (2^31 - 1 along x, 65535 along y).
static bool transpose_grid(int64_t rows, int64_t columns, int64_t x_stride, int64_t out_stride, dim3* grid) {
    if (rows < 0 || columns < 0 || x_stride < 0 || out_stride < 0 || (columns > 1 && out_stride < rows)) {
        return false;
    }
    if (columns > 2147483647ll * kSide || rows > 65535ll * kSide) {
        return false;
    }
    *grid = dim3(static_cast<unsigned>((columns + kSide - 1) / kSide), static_cast<unsigned>((rows + kSide - 1) / kSide));
    return true;
}

// out[c, r] = x[r, c]: x has `rows` rows, out has `columns` rows of `rows` elements, `out_stride` apart.
extern "C" cudaError_t launch_transpose_direct(const float* x, float* out, int64_t rows, int64_t columns,
                                               int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    dim3 grid;
    if (!transpose_grid(rows, columns, x_stride, out_stride, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    transpose_direct<<<grid, dim3(kSide, kLines), 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}

// The same through swizzled tiles.
extern "C" cudaError_t launch_transpose_swizzled(const float* x, float* out, int64_t rows, int64_t columns,
                                                 int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    dim3 grid;
    if (!transpose_grid(rows, columns, x_stride, out_stride, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    transpose_swizzled<<<grid, dim3(kSide, kLines), 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Shared memory alone
// ---------------------------------------------------------------------------------------------

constexpr int kWalkWords = 4096;  // 16 KiB
constexpr int kWalkThreads = 256;

// Thread t of every block adds up the words (lane * stride + warp + round) % kWalkWords of x for round 0, 1, ...; `out`
// has one element for each thread of the grid. Lanes are `stride` words apart, so they meet in a bank when stride and 32
// have a common divisor.
__global__ void shared_walk(const float* __restrict__ x, float* __restrict__ out, int64_t stride, int64_t rounds) {
    __shared__ float words[kWalkWords];
#pragma unroll 1
    for (int word = threadIdx.x; word < kWalkWords; word += kWalkThreads) {
        words[word] = x[word];
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    int word = (lane * static_cast<int>(stride) + threadIdx.x / 32) % kWalkWords;
    float total = 0.0f;
#pragma unroll 8
    for (int round = 0; round < static_cast<int>(rounds); ++round) {
        total += words[word];
        word = (word + 1) & (kWalkWords - 1);
    }
    out[static_cast<int64_t>(blockIdx.x) * kWalkThreads + threadIdx.x] = total;
}

static_assert((kWalkWords & (kWalkWords - 1)) == 0, "the walk wraps around by a mask");

// x has 4096 elements, out has blocks * 256; stride is 0 to 4095 words.
extern "C" cudaError_t launch_shared_walk(const float* x, float* out, int64_t blocks, int64_t stride, int64_t rounds,
                                          cudaStream_t stream) {
    if (blocks < 0 || blocks > 2147483647ll || stride < 0 || stride >= kWalkWords || rounds < 0 || rounds > 1ll << 30) {
        return cudaErrorInvalidValue;
    }
    if (blocks == 0) {
        return cudaSuccess;
    }
    shared_walk<<<static_cast<unsigned>(blocks), kWalkThreads, 0, stream>>>(x, out, stride, rounds);
    return cudaGetLastError();
}
