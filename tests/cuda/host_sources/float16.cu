// Every conversion and operation of the 16-bit formats that the tests compare with numpy and torch.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void widen_half(const __half* x, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __half2float(x[i]);
}
__global__ void widen_bfloat16(const __nv_bfloat16* x, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __bfloat162float(x[i]);
}
__global__ void narrow(const float* x, __half* half_out, __nv_bfloat16* bfloat_out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        half_out[i] = __float2half_rn(x[i]);
        bfloat_out[i] = x[i];
    }
}
__global__ void narrow_double(const double* x, __half* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __double2half(x[i]);
}
__global__ void directed(const float* x, __half* zero, __half* up, __half* down, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        zero[i] = __float2half_rz(x[i]);
        up[i] = __float2half_ru(x[i]);
        down[i] = __float2half_rd(x[i]);
    }
}

template <class T>
__global__ void arithmetic(const T* a, const T* b, const T* c, T* sum, T* difference, T* product, T* quotient, T* fused,
                           T* larger, T* smaller, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum[i] = __hadd(a[i], b[i]);
        difference[i] = a[i] - b[i];
        product[i] = __hmul(a[i], b[i]);
        quotient[i] = a[i] / b[i];
        fused[i] = __hfma(a[i], b[i], c[i]);
        larger[i] = __hmax(a[i], b[i]);
        smaller[i] = __hmin(a[i], b[i]);
    }
}

__global__ void pairs(const __half2* a, const __half2* b, __half2* out, float2* wide, unsigned* mask) {
    const int i = threadIdx.x;
    __half2 v = __hfma2(a[i], b[i], __floats2half2_rn(1.0f, 2.0f));
    out[i] = v;
    wide[i] = __half22float2(__lowhigh2highlow(v));
    mask[i] = __hgt2_mask(a[i], b[i]);
}

__global__ void compare_and_convert(const __half* x, int* flags, int* whole) {
    const int i = threadIdx.x;
    const __half v = x[i];
    flags[i] = (v > __half(1.0f)) | (v == v) << 1 | __hisnan(v) << 2 | (__hisinf(v) != 0) << 3 | __hltu(v, v) << 4 |
               __hne(v, v) << 5 | (v != v) << 6;
    whole[2 * i] = __half2int_rn(v);
    whole[2 * i + 1] = static_cast<int>(v);
}

__global__ void shared_pairs(const __nv_bfloat16* x, __nv_bfloat162* out) {
    __shared__ __nv_bfloat16 tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    tile[threadIdx.x + 32] = x[threadIdx.x + 32];
    __syncthreads();
    const __nv_bfloat162 v = reinterpret_cast<const __nv_bfloat162*>(tile)[threadIdx.x];
    out[threadIdx.x] = __hadd2(v, __shfl_xor_sync(0xffffffffu, v, 1));
}

__global__ void atomic_sums(__half* h, __half2* h2, __nv_bfloat16* b, __nv_bfloat162* b2) {
    atomicAdd(h, __half(0.5f));
    atomicAdd(h2, __floats2half2_rn(1.0f, -2.0f));
    atomicAdd(b, __nv_bfloat16(0.25f));
    atomicAdd(b2, __floats2bfloat162_rn(3.0f, -1.0f));
}
