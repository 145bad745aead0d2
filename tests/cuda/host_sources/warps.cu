// Warp operations, barriers with a vote, bit intrinsics, vector types and atomics, each in every type it has.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <class T>
__global__ void shuffles(const T* x, T* out) {
    const int lane = threadIdx.x;
    const T v = x[lane];
    out[lane] = __shfl_sync(0xffffffffu, v, 3, 8);
    out[lane + 32] = __shfl_up_sync(0xffffffffu, v, 2u, 16);
    out[lane + 64] = __shfl_down_sync(0xffffffffu, v, 5u);
    out[lane + 96] = __shfl_xor_sync(0xffffffffu, v, 9, 16);
}

__global__ void votes(unsigned* ballot, int* any, int* all, unsigned* active) {
    const int i = threadIdx.x;
    ballot[i] = __ballot_sync(0xffffffffu, i & 1);
    any[i] = __any_sync(0xffffffffu, i == 37);
    all[i] = __all_sync(0xffffffffu, i < 40);
    if (i % 32 < 8) active[i] = __ballot_sync(0x000000ffu, 1);
    if (i == 0) __syncwarp(1u);
    if (i % 32 < 7) {
        active[i + 64] = __activemask();
    } else {
        active[i + 64] = __activemask();
    }
}

__global__ void matches(const float* x, unsigned* any, unsigned* all, int* equal) {
    const int lane = threadIdx.x;
    any[lane] = __match_any_sync(0xffffffffu, x[lane]);
    all[lane] = __match_all_sync(0xffffffffu, x[lane], equal + lane);
    all[lane + 32] = __match_all_sync(0xffffffffu, 7ll, equal + lane + 32);
}

__global__ void reductions(const int* x, int* out, unsigned* bits) {
    const int lane = threadIdx.x, v = x[lane];
    out[lane] = __reduce_add_sync(0xffffffffu, v);
    out[lane + 32] = __reduce_min_sync(0xffffffffu, v);
    out[lane + 64] = __reduce_max_sync(0xffffffffu, v);
    out[lane + 96] = static_cast<int>(__reduce_max_sync(0xffffffffu, static_cast<unsigned>(v)) >> 1);
    bits[lane] = __reduce_and_sync(0xffffffffu, static_cast<unsigned>(v));
    bits[lane + 32] = __reduce_or_sync(0xffffffffu, static_cast<unsigned>(v));
    bits[lane + 64] = __reduce_xor_sync(0xffffffffu, static_cast<unsigned>(v));
}

__global__ void barriers(int* out) {
    const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int* mine = out + 4 * i;
    mine[0] = __syncthreads_count(i % 3 == 0);
    mine[1] = __syncthreads_and(i < 24);
    mine[2] = __syncthreads_or(i == 5);
    mine[3] = __syncthreads_and(i != 5);
}

__global__ void bits(const unsigned* x, int* out, unsigned* reversed) {
    const int i = threadIdx.x;
    const unsigned v = x[i];
    out[4 * i] = __popc(v);
    out[4 * i + 1] = __ffs(static_cast<int>(v));
    out[4 * i + 2] = __clz(static_cast<int>(v));
    out[4 * i + 3] = __popcll(static_cast<unsigned long long>(v) << 9) + 100 * __clzll(v) + 10000 * __ffsll(v);
    reversed[2 * i] = __brev(v);
    reversed[2 * i + 1] = __byte_perm(v, 0x80112233u, 0x7b40);
}

struct Row { int key; float value[2]; };

__global__ void vectors(const int4* a, const double2* b, const uchar4* c, const longlong2* d, const ushort3* e,
                        int2* a_out, double2* b_out, uchar4* c_out, longlong2* d_out, ushort3* e_out) {
    const int i = threadIdx.x;
    const int4 v = __ldg(a + i);
    a_out[i] = make_int2(v.x + v.w, v.y * v.z);
    b_out[i] = make_double2(b[i].y, b[i].x);
    const uchar4 w = c[i];
    c_out[i] = make_uchar4(w.w, w.z, w.y, w.x);
    const longlong2 l = d[i];
    d_out[i] = make_longlong2(l.y, l.x);
    const ushort3 s = e[i];
    e_out[i] = s;
}

__global__ void structures(const Row* x, Row* out) { out[threadIdx.x] = x[threadIdx.x]; }

template <class T>
__global__ void whole_atomics(T* x) {
    atomicAdd(x, T(3));
    atomicMin(x + 1, T(threadIdx.x));
    atomicMax(x + 2, T(threadIdx.x));
    atomicAnd(x + 3, T(~(T(1) << threadIdx.x)));
    atomicOr_block(x + 4, T(T(1) << threadIdx.x));
    atomicXor_system(x + 5, T(T(1) << (threadIdx.x / 2)));
    atomicExch(x + 6, T(threadIdx.x));
    atomicCAS(x + 7, T(threadIdx.x), T(threadIdx.x + 1));
}

__global__ void other_atomics(long long* l, unsigned* u, unsigned short* s, float* f, double* d, float2* f2,
                              float4* f4) {
    atomicMin(l, -static_cast<long long>(threadIdx.x));
    atomicMax(l + 1, static_cast<long long>(threadIdx.x) << 40);
    atomicInc(u, 5u);
    atomicDec(u + 1, 5u);
    atomicSub(u + 2, 2u);
    atomicCAS(s, static_cast<unsigned short>(threadIdx.x), static_cast<unsigned short>(threadIdx.x + 1));
    atomicAdd_block(f, 0.5f);
    atomicExch(f + 1, static_cast<float>(threadIdx.x));
    atomicAdd_system(d, 0.25);
    atomicAdd(f2, make_float2(1.0f, 2.0f));
    atomicAdd(f4, make_float4(1.0f, 2.0f, 3.0f, 4.0f));
}

template <class T>
__global__ void hints(const T* x, T* out) {
    T* o = out + 4 * threadIdx.x;
    const T* p = x + threadIdx.x;
    const T a = __ldg(p), b = __ldcs(p), c = __ldcg(p), d = __ldca(p), e = __ldlu(p), f = __ldcv(p);
    __stcs(o, a);
    __stcg(o + 1, b);
    __stwb(o + 2, c);
    __stwt(o + 3, d);
    if (threadIdx.x == 1000) __stcs(o, e), __stcs(o, f);
}
