// Two fused patterns: what would be two or three kernels, each reading and writing everything, is one.
//
//   fused_bias_relu_scale  out = max(x + bias, 0) * scale
//   fused_bias_gelu        out = gelu(x + bias), by the approximation with tanh
//
// Each exists with accesses of 4 bytes and, as ..._float4, of 16: the same bytes with a quarter of the instructions.
//
// x and out are float32 matrices of `rows` rows and `columns` columns; neighbours in a row are neighbours in memory, and
// rows are `x_stride` and `out_stride` elements apart. bias has `columns` elements. out may be x.

#include <cuda_runtime.h>

#include <cstdint>

constexpr int kFusedThreads = 256;
constexpr int64_t kFusedMostRows = 65535;  // blocks along y; a block goes on to later rows when there are more

struct BiasReluScale {
    float scale;
    __device__ __forceinline__ float operator()(float value) const {
        // Not fmaxf, which would turn NaN into zero.
        return (value < 0.0f ? 0.0f : value) * scale;
    }
};

struct BiasGelu {
    __device__ __forceinline__ float operator()(float value) const {
        const float inner = 0.7978845608028654f * (value + 0.044715f * value * value * value);  // sqrt(2 / pi)
        return 0.5f * value * (1.0f + tanhf(inner));
    }
};

// A thread keeps to one column, and so to one element of bias, and walks down the rows.
template <typename Finish>
__device__ __forceinline__ void fused_rows(const float* x, const float* __restrict__ bias, float* out, int64_t rows,
                                           int64_t columns, int64_t x_stride, int64_t out_stride, Finish finish) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kFusedThreads + threadIdx.x;
    if (column >= columns) {
        return;
    }
    const float shift = bias[column];
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        out[row * out_stride + column] = finish(x[row * x_stride + column] + shift);
    }
}

// The same with four columns a thread. Rows begin at multiples of 16 bytes and have a multiple of four columns.
template <typename Finish>
__device__ __forceinline__ void fused_rows_float4(const float* x, const float* __restrict__ bias, float* out,
                                                  int64_t rows, int64_t columns, int64_t x_stride, int64_t out_stride,
                                                  Finish finish) {
    const int64_t column = (static_cast<int64_t>(blockIdx.x) * kFusedThreads + threadIdx.x) * 4;
    if (column >= columns) {
        return;
    }
    const float4 shift = *reinterpret_cast<const float4*>(bias + column);
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const float4 value = *reinterpret_cast<const float4*>(x + row * x_stride + column);
        float4 result;
        result.x = finish(value.x + shift.x);
        result.y = finish(value.y + shift.y);
        result.z = finish(value.z + shift.z);
        result.w = finish(value.w + shift.w);
        // A plain assignment may become four stores of 4 bytes: the compiler does not see the alignment.
        __stwb(reinterpret_cast<float4*>(out + row * out_stride + column), result);
    }
}

__global__ void fused_bias_relu_scale(const float* x, const float* bias, float* out, int64_t rows, int64_t columns,
                                      int64_t x_stride, int64_t out_stride, float scale) {
    fused_rows(x, bias, out, rows, columns, x_stride, out_stride, BiasReluScale{scale});
}

__global__ void fused_bias_relu_scale_float4(const float* x, const float* bias, float* out, int64_t rows,
                                             int64_t columns, int64_t x_stride, int64_t out_stride, float scale) {
    fused_rows_float4(x, bias, out, rows, columns, x_stride, out_stride, BiasReluScale{scale});
}

__global__ void fused_bias_gelu(const float* x, const float* bias, float* out, int64_t rows, int64_t columns,
                                int64_t x_stride, int64_t out_stride) {
    fused_rows(x, bias, out, rows, columns, x_stride, out_stride, BiasGelu{});
}

__global__ void fused_bias_gelu_float4(const float* x, const float* bias, float* out, int64_t rows, int64_t columns,
                                       int64_t x_stride, int64_t out_stride) {
    fused_rows_float4(x, bias, out, rows, columns, x_stride, out_stride, BiasGelu{});
}

// `wide`: columns a thread. Returns false for what no kernel here can do.
static bool fused_grid(const float* x, const float* bias, const float* out, int64_t rows, int64_t columns,
                       int64_t x_stride, int64_t out_stride, int wide, dim3* grid) {
    if (rows < 0 || columns < 0 || x_stride < 0 || out_stride < 0 || (rows > 1 && out_stride < columns)) {
        return false;
    }
    if (wide == 4) {
        const auto address = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(bias) |
                             reinterpret_cast<uintptr_t>(out);
        if (address % 16 != 0 || columns % 4 != 0 || x_stride % 4 != 0 || out_stride % 4 != 0) {
            return false;  // a 16-byte access must begin at a multiple of 16 bytes
        }
    }
    const int64_t blocks = (columns / wide + (columns % wide != 0) + kFusedThreads - 1) / kFusedThreads;
    *grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(rows < kFusedMostRows ? rows : kFusedMostRows));
    return blocks <= 2147483647ll;
}

// out[r, c] = max(x[r, c] + bias[c], 0) * scale.
extern "C" cudaError_t launch_fused_bias_relu_scale(const float* x, const float* bias, float* out, int64_t rows,
                                                    int64_t columns, int64_t x_stride, int64_t out_stride, float scale,
                                                    cudaStream_t stream) {
    dim3 grid;
    if (!fused_grid(x, bias, out, rows, columns, x_stride, out_stride, 1, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;  // a grid of zero blocks is an error to CUDA
    }
    fused_bias_relu_scale<<<grid, kFusedThreads, 0, stream>>>(x, bias, out, rows, columns, x_stride, out_stride, scale);
    return cudaGetLastError();
}

// The same, 16 bytes at a time: x, bias and out begin at multiples of 16 bytes; columns and strides are multiples of 4.
extern "C" cudaError_t launch_fused_bias_relu_scale_float4(const float* x, const float* bias, float* out, int64_t rows,
                                                           int64_t columns, int64_t x_stride, int64_t out_stride,
                                                           float scale, cudaStream_t stream) {
    dim3 grid;
    if (!fused_grid(x, bias, out, rows, columns, x_stride, out_stride, 4, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    fused_bias_relu_scale_float4<<<grid, kFusedThreads, 0, stream>>>(x, bias, out, rows, columns, x_stride, out_stride,
                                                                     scale);
    return cudaGetLastError();
}

// out[r, c] = gelu(x[r, c] + bias[c]).
extern "C" cudaError_t launch_fused_bias_gelu(const float* x, const float* bias, float* out, int64_t rows,
                                              int64_t columns, int64_t x_stride, int64_t out_stride,
                                              cudaStream_t stream) {
    dim3 grid;
    if (!fused_grid(x, bias, out, rows, columns, x_stride, out_stride, 1, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    fused_bias_gelu<<<grid, kFusedThreads, 0, stream>>>(x, bias, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}

// The same, 16 bytes at a time; see launch_fused_bias_relu_scale_float4.
extern "C" cudaError_t launch_fused_bias_gelu_float4(const float* x, const float* bias, float* out, int64_t rows,
                                                     int64_t columns, int64_t x_stride, int64_t out_stride,
                                                     cudaStream_t stream) {
    dim3 grid;
    if (!fused_grid(x, bias, out, rows, columns, x_stride, out_stride, 4, &grid)) {
        return cudaErrorInvalidValue;
    }
    if (rows == 0 || columns == 0) {
        return cudaSuccess;
    }
    fused_bias_gelu_float4<<<grid, kFusedThreads, 0, stream>>>(x, bias, out, rows, columns, x_stride, out_stride);
    return cudaGetLastError();
}
