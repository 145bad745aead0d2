// Four ways to walk a matrix. All move the same bytes; they differ in which lane touches which element, and that
// alone decides what the hardware must do for a warp.
//
//   copy_rows          lanes side by side in a row: a warp's 32 floats fill whole 32-byte sectors
//   copy_columns       lanes one row apart: each lane opens a sector of its own and uses 4 of its 32 bytes
//   transpose_tile_32  a transpose through shared memory: global accesses run along rows on both sides, but a column
//                      of a 32-float-wide tile lies in a single bank
//   transpose_tile_33  the same with one unused float after every tile row, which moves each row on by one bank
//
// All tensors are float32. A matrix has `rows` rows of `columns` neighbouring elements; consecutive rows begin
// `x_stride` (or `out_stride`) elements apart. Rows, columns, strides and every offset are 64-bit.
//
// A block of kTile x kTileRows threads serves one tile of kTile x kTile elements, four elements a thread, so a warp is
// one line of the block: threadIdx.x is the lane. Outputs must not overlap inputs.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kTile = 32;     // one tile line for one warp
constexpr int kTileRows = 8;  // tile lines that a block touches at once

static_assert(kTile == 32, "a tile line is one warp: threadIdx.x is taken for the lane");
static_assert(kTile % kTileRows == 0, "every thread moves the same number of elements of a whole tile");


// ---------------------------------------------------------------------------------------------
// Two copies
// ---------------------------------------------------------------------------------------------

__global__ void copy_rows(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                          int64_t x_stride, int64_t out_stride) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;  // the lane moves along the row
    for (int line = threadIdx.y; line < kTile; line += kTileRows) {
        const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + line;
        if (row < rows && column < columns) {
            out[row * out_stride + column] = x[row * x_stride + column];
        }
    }
}

__global__ void copy_columns(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                             int64_t x_stride, int64_t out_stride) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.x;  // the lane moves down the column
    for (int line = threadIdx.y; line < kTile; line += kTileRows) {
        const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + line;
        if (row < rows && column < columns) {
            out[row * out_stride + column] = x[row * x_stride + column];
        }
    }
}

// The grid of every launcher below: one block a tile, tiles of a tile row along x. Returns false for what no kernel
// here can do: sizes below zero, output rows of `width` elements that would overlap, more tiles than a grid has blocks
// (2^31 - 1 along x, 65535 along y).
static bool tile_grid(int64_t rows, int64_t columns, int64_t height, int64_t width, int64_t x_stride,
                      int64_t out_stride, dim3* grid) {
    if (rows < 0 || columns < 0 || x_stride < 0 || out_stride < 0 || (height > 1 && out_stride < width)) {
        return false;
    }
    if (columns > 2147483647ll * kTile || rows > 65535ll * kTile) {
        return false;
    }
    *grid = dim3(static_cast<unsigned>((columns + kTile - 1) / kTile), static_cast<unsigned>((rows + kTile - 1) / kTile));
    return true;
}

// out[r, c] = x[r, c], a warp along a row.
extern "C" cudaError_t launch_copy_rows(const float* x, float* out, int64_t rows, int64_t columns, int64_t x_stride,
                                        int64_t out_stride, cudaStream_t stream) {
    dim3 grid;
    if (!tile_grid(rows, columns, rows, columns, x_stride, out_stride, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;  // a grid of zero blocks is an error to CUDA
    }
    copy_rows<<<grid, dim3(kTile, kTileRows), 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}

// out[r, c] = x[r, c], a warp down a column.
extern "C" cudaError_t launch_copy_columns(const float* x, float* out, int64_t rows, int64_t columns, int64_t x_stride,
                                           int64_t out_stride, cudaStream_t stream) {
    dim3 grid;
    if (!tile_grid(rows, columns, rows, columns, x_stride, out_stride, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    copy_columns<<<grid, dim3(kTile, kTileRows), 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}


// ---------------------------------------------------------------------------------------------
// Two transposes
// ---------------------------------------------------------------------------------------------

// Reads a tile of x line by line and writes it column by column, so that the lanes of a warp are neighbours in x and
// again in out. Element (r, c) of the tile lies at word r * kPitch + c of shared memory, in bank (r * kPitch + c) % 32.
// The lanes that read one tile column differ in r: with a pitch of 32 all of them meet in one bank and are served one
// after another; with 33 each has a bank of its own.
template <int kPitch>
__device__ void transpose_tile(float (&tile)[kTile][kPitch], const float* __restrict__ x, float* __restrict__ out,
                               int64_t rows, int64_t columns, int64_t x_stride, int64_t out_stride) {
    const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
    const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;

    for (int line = threadIdx.y; line < kTile; line += kTileRows) {
        const int64_t row = first_row + line;
        const int64_t column = first_column + threadIdx.x;
        if (row < rows && column < columns) {
            tile[line][threadIdx.x] = x[row * x_stride + column];
        }
    }
    __syncthreads();  // the tile is whole before other threads read it; threads without an element arrive as well

    for (int line = threadIdx.y; line < kTile; line += kTileRows) {
        const int64_t row = first_row + threadIdx.x;
        const int64_t column = first_column + line;
        if (row < rows && column < columns) {
            out[column * out_stride + row] = tile[threadIdx.x][line];
        }
    }
}

__global__ void transpose_tile_32(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                                  int64_t x_stride, int64_t out_stride) {
    __shared__ float tile[kTile][kTile];
    transpose_tile(tile, x, out, rows, columns, x_stride, out_stride);
}

__global__ void transpose_tile_33(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t columns,
                                  int64_t x_stride, int64_t out_stride) {
    __shared__ float tile[kTile][kTile + 1];  // the last float of each row is never touched
    transpose_tile(tile, x, out, rows, columns, x_stride, out_stride);
}

// out[c, r] = x[r, c]: x has `rows` rows, out has `columns` rows of `rows` elements, `out_stride` apart.
extern "C" cudaError_t launch_transpose_tile_32(const float* x, float* out, int64_t rows, int64_t columns,
                                                int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    dim3 grid;
    if (!tile_grid(rows, columns, columns, rows, x_stride, out_stride, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    transpose_tile_32<<<grid, dim3(kTile, kTileRows), 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}

// The same with padded tile rows.
extern "C" cudaError_t launch_transpose_tile_33(const float* x, float* out, int64_t rows, int64_t columns,
                                                int64_t x_stride, int64_t out_stride, cudaStream_t stream) {
    dim3 grid;
    if (!tile_grid(rows, columns, columns, rows, x_stride, out_stride, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    transpose_tile_33<<<grid, dim3(kTile, kTileRows), 0, stream>>>(x, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}
