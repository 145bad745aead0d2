// The rung of the ladder that multiplies by warpgroups (sm_90a): matmul_wgmma.
//
// a is M x K, b is K x N, c is M x N, all bfloat16, summed in float32; neighbours in a row are neighbours in memory, and
// rows are `a_stride`, `b_stride`, `c_stride` elements apart. The copy unit wants a and b to begin at a multiple of 16
// bytes, and their strides to be multiples of 8 elements; M, N and K are free, since it fills in zeros past an edge. c
// must not overlap a or b.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "hopper_tiles.cuh"

// Changed against matmul_tma: wgmma reads its operands from shared memory, where WMMA loads them into registers first;
// registers hold sums only. It runs on while its warps go on: they look after the copies meanwhile.
__global__ void __launch_bounds__(kHopperThreads, 1)
    matmul_wgmma(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                 const __grid_constant__ TensorMap c_map, __nv_bfloat16* c, int64_t M, int64_t N, int64_t K,
                 int64_t c_stride, int tiles_m, int tiles_n, bool boxes, bool pairs) {
    hopper_one_tile<1>(a, b, c_map, c, M, N, K, c_stride, tiles_m, tiles_n, boxes, pairs);
}

// c = a * b by wgmma.
extern "C" cudaError_t launch_matmul_wgmma(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t M,
                                           int64_t N, int64_t K, int64_t a_stride, int64_t b_stride, int64_t c_stride,
                                           cudaStream_t stream) {
    return run_hopper(matmul_wgmma, 1, a, b, c, M, N, K, a_stride, b_stride, c_stride, stream);
}
