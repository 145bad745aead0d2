// Matrix products of a warp.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

template <class T, class Sum, class LayoutA, class LayoutB, int M, int N>
__global__ void product(const T* a, const T* b, const Sum* c, Sum* d, int lda, int ldb) {
    wmma::fragment<wmma::matrix_a, M, N, 16, T, LayoutA> left;
    wmma::fragment<wmma::matrix_b, M, N, 16, T, LayoutB> right;
    wmma::fragment<wmma::accumulator, M, N, 16, Sum> sum;
    wmma::load_matrix_sync(left, a, lda);
    wmma::load_matrix_sync(right, b, ldb);
    wmma::load_matrix_sync(sum, c, N, wmma::mem_row_major);
    wmma::mma_sync(sum, left, right, sum);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + sum.x[i];
    wmma::store_matrix_sync(d, sum, M, wmma::mem_col_major);
}

__global__ void tf32(const float* a, const float* b, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 8);
    wmma::load_matrix_sync(right, b, 8);
    for (int i = 0; i < left.num_elements; ++i) left.x[i] = wmma::__float_to_tf32(left.x[i]);
    for (int i = 0; i < right.num_elements; ++i) right.x[i] = wmma::__float_to_tf32(right.x[i]);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}

__global__ void changed_after(const __half* a, const __half* b, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::fill_fragment(left, __half(0.0f));  // the product is done by then
    wmma::fill_fragment(right, __half(0.0f));
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}

// 32 x 32 by two warps a block, K in steps of 16, through shared memory.
__global__ void tiled(const __half* a, const __half* b, float* d, int k_size) {
    __shared__ __half a_tile[32][16], b_tile[16][32];
    const int warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2];
    wmma::fill_fragment(sum[0], 0.0f);
    wmma::fill_fragment(sum[1], 0.0f);
    for (int k = 0; k < k_size; k += 16) {
        for (int i = threadIdx.x; i < 512; i += 64) {
            a_tile[i / 16][i % 16] = a[i / 16 * k_size + k + i % 16];
            b_tile[i / 32][i % 32] = b[(k + i / 32) * 32 + i % 32];
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
        wmma::load_matrix_sync(left, &a_tile[16 * warp][0], 16);
        for (int j = 0; j < 2; ++j) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
            wmma::load_matrix_sync(right, &b_tile[0][16 * j], 32);
            wmma::mma_sync(sum[j], left, right, sum[j]);
        }
        __syncthreads();
    }
    for (int j = 0; j < 2; ++j) wmma::store_matrix_sync(d + 512 * warp + 16 * j, sum[j], 32, wmma::mem_row_major);
}
