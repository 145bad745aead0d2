// A product with weights of one byte: out = x * w^T, where w[n, k] = q[n, k] * scale[n].
//
//   dequantize         writes w as bfloat16, for a product that comes after it: a byte read, two written, two read again
//   dequantize_matmul  multiplies at once: the byte is read, and w exists in registers only
//
// x is M x K and out M x N, both bfloat16 and contiguous; q is N x K int8, its rows K apart: a row for each column of out.
// scale is float32, one number a row of q. K is a multiple of 16, and x and q begin at multiples of 16 bytes, so that
// rows are whole pieces of 16 bytes. Sums are float32 and rounded once. out must not overlap an input.
//
// It is made for few rows of x, as where one token after another is generated: there the weights are all that counts.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kPiece = 16;  // numbers of q that a lane loads at once: 16 bytes

// The number of byte `i` of a word. An int8 as an unsigned byte plus 128, put below the exponent of 2^23, is a float that
// is 2^23 + 128 too large: a permutation of bytes and a subtraction, where a conversion has a quarter of their rate.
__device__ __forceinline__ float signed_byte(unsigned flipped, int i) {
    return __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7540 | i)) - 8388736.0f;
}

struct alignas(16) SixteenBytes {
    unsigned words[4];
};
struct alignas(16) EightNumbers {
    __nv_bfloat162 pairs[4];
};

__device__ __forceinline__ SixteenBytes sixteen_weights(const int8_t* q) {
    SixteenBytes piece = *reinterpret_cast<const SixteenBytes*>(q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        piece.words[i] ^= 0x80808080u;  // plus 128, as unsigned bytes
    }
    return piece;
}


// ---------------------------------------------------------------------------------------------
// The separate pass
// ---------------------------------------------------------------------------------------------

constexpr int kDequantizeThreads = 256;

__global__ void dequantize(const int8_t* __restrict__ q, const float* __restrict__ scale, __nv_bfloat16* __restrict__ w,
                           int64_t N, int64_t K) {
    const int64_t pieces = N * (K / kPiece);
    const int64_t piece = static_cast<int64_t>(blockIdx.x) * kDequantizeThreads + threadIdx.x;
    if (piece >= pieces) {
        return;
    }
    const float factor = scale[piece / (K / kPiece)];
    const SixteenBytes bytes = sixteen_weights(q + piece * kPiece);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        EightNumbers eight;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned word = bytes.words[half * 2 + i / 2];
            eight.pairs[i] = __floats2bfloat162_rn(signed_byte(word, i % 2 * 2) * factor,
                                                   signed_byte(word, i % 2 * 2 + 1) * factor);
        }
        *reinterpret_cast<EightNumbers*>(w + piece * kPiece + half * 8) = eight;
    }
}


// ---------------------------------------------------------------------------------------------
// Fused
// ---------------------------------------------------------------------------------------------

// A warp owns kColumns columns of out and kRows rows. Its lanes share K among them, 16 numbers a turn; what a lane has read
// of x serves all its columns, and what it has read of q all its rows. At the end shuffles add up the lanes.
constexpr int kColumns = 4;
constexpr int kDequantizeWarps = 4;

template <int kRows>
__global__ void __launch_bounds__(kDequantizeWarps * 32)
    dequantize_matmul(const __nv_bfloat16* __restrict__ x, const int8_t* __restrict__ q, const float* __restrict__ scale,
                      __nv_bfloat16* __restrict__ out, int64_t M, int64_t N, int64_t K) {
    const int lane = threadIdx.x % 32;
    const int64_t first_n = (static_cast<int64_t>(blockIdx.x) * kDequantizeWarps + threadIdx.x / 32) * kColumns;
    const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kRows;
    if (first_n >= N) {
        return;  // the whole warp, and no barrier follows
    }
    float sums[kRows][kColumns] = {};
    for (int64_t k = lane * kPiece; k < K; k += 32 * kPiece) {
        SixteenBytes weights[kColumns];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
            const int64_t n = first_n + j < N ? first_n + j : N - 1;  // past the end: any row, its sum is not written
            weights[j] = sixteen_weights(q + n * K + k);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                const int64_t m = first_m + i < M ? first_m + i : M - 1;
                const EightNumbers eight = *reinterpret_cast<const EightNumbers*>(x + m * K + k + half * 8);
#pragma unroll
                for (int pair = 0; pair < 4; ++pair) {
                    const float2 two = __bfloat1622float2(eight.pairs[pair]);
#pragma unroll
                    for (int j = 0; j < kColumns; ++j) {
                        const unsigned word = weights[j].words[half * 2 + pair / 2];
                        sums[i][j] += two.x * signed_byte(word, pair % 2 * 2);
                        sums[i][j] += two.y * signed_byte(word, pair % 2 * 2 + 1);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
            float sum = sums[i][j];
            for (int distance = 16; distance > 0; distance /= 2) {
                sum += __shfl_xor_sync(0xffffffffu, sum, distance);
            }
            if (lane == 0 && first_m + i < M && first_n + j < N) {
                out[(first_m + i) * N + first_n + j] = __float2bfloat16(sum * scale[first_n + j]);
            }
        }
    }
}


// ---------------------------------------------------------------------------------------------
// Launches
// ---------------------------------------------------------------------------------------------

static bool dequantize_is_valid(const void* x, const void* q, int64_t M, int64_t N, int64_t K) {
    return M >= 0 && N >= 0 && K >= 0 && K % kPiece == 0 && N <= 1ll << 30 && reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
           reinterpret_cast<uintptr_t>(q) % 16 == 0;
}

// w[n, k] = q[n, k] * scale[n], rounded to bfloat16. w begins at a multiple of 16 bytes.
extern "C" cudaError_t launch_dequantize(const int8_t* q, const float* scale, __nv_bfloat16* w, int64_t N, int64_t K,
                                         cudaStream_t stream) {
    if (!dequantize_is_valid(w, q, 0, N, K)) {
        return cudaErrorInvalidValue;
    }
    const int64_t blocks = (N * (K / kPiece) + kDequantizeThreads - 1) / kDequantizeThreads;
    if (blocks > 2147483647ll) {
        return cudaErrorInvalidValue;
    }
    if (blocks == 0) {
        return cudaSuccess;  // a grid of zero blocks is an error to CUDA
    }
    dequantize<<<static_cast<unsigned>(blocks), kDequantizeThreads, 0, stream>>>(q, scale, w, N, K);
    return cudaGetLastError();
}

// out[m, n] = scale[n] * sum over k of x[m, k] * q[n, k].
extern "C" cudaError_t launch_dequantize_matmul(const __nv_bfloat16* x, const int8_t* q, const float* scale,
                                                __nv_bfloat16* out, int64_t M, int64_t N, int64_t K,
                                                cudaStream_t stream) {
    if (!dequantize_is_valid(x, q, M, N, K)) {
        return cudaErrorInvalidValue;
    }
    if (M == 0 || N == 0) {
        return cudaSuccess;
    }
    constexpr int kInBlock = kColumns * kDequantizeWarps;
    const int rows = M >= 8 ? 8 : M >= 4 ? 4 : M >= 2 ? 2 : 1;
    const int64_t blocks_m = (M + rows - 1) / rows;
    if (blocks_m > 65535) {
        return cudaErrorInvalidValue;  // a grid ends there along y
    }
    const dim3 grid(static_cast<unsigned>((N + kInBlock - 1) / kInBlock), static_cast<unsigned>(blocks_m));
    const auto kernel = rows == 8   ? dequantize_matmul<8>
                        : rows == 4 ? dequantize_matmul<4>
                        : rows == 2 ? dequantize_matmul<2>
                                    : dequantize_matmul<1>;
    kernel<<<grid, kDequantizeWarps * 32, 0, stream>>>(x, q, scale, out, M, N, K);
    return cudaGetLastError();
}
