// Right kernels in styles that courses and libraries use: none may be accused. One kernel or two a style.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/memcpy_async.h>
#include <mma.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

// warp-synchronous reduction in shared memory with __syncwarp
__global__ void warp_shared_sum(const float* x, float* out, int n) {
    __shared__ volatile float s[256];
    int t = threadIdx.x;
    float v = 0;
    for (int i = t; i < n; i += blockDim.x) v += x[i];
    s[t] = v;
    __syncthreads();
    for (int k = blockDim.x / 2; k >= 32; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t < 32) {
        float w = s[t];
        for (int k = 16; k; k >>= 1) {
            if (t < k) w += s[t + k];
            __syncwarp();
            if (t < k) s[t] = w;
            __syncwarp();
        }
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
// last block
__device__ unsigned g_count;
__global__ void last_block(const float* x, volatile float* partial, float* out, int n) {
    __shared__ float s[128]; __shared__ bool last;
    int t = threadIdx.x; float v = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x) v += x[i];
    s[t] = v; __syncthreads();
    for (int k = 64; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        unsigned ticket = atomicInc(&g_count, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float w = 0;
        for (int i = t; i < gridDim.x; i += blockDim.x) w += partial[i];
        s[t] = w; __syncthreads();
        for (int k = 64; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
        if (t == 0) {
            *out = s[0];
            g_count = 0;  // set back for the next launch
        }
    }
}
// double buffered cg memcpy_async
__global__ void double_buffer(const float* x, float* out, int tiles) {
    __shared__ float buf[2][128];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, buf[0], x, sizeof(float) * 128);
    float acc = 0;
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) {
            cg::memcpy_async(block, buf[(k + 1) & 1], x + (k + 1) * 128, sizeof(float) * 128);
            cg::wait_prior<1>(block);
        } else cg::wait(block);
        acc += buf[k & 1][127 - threadIdx.x];
        block.sync();
    }
    out[threadIdx.x] = acc;
}
// cg::reduce
__global__ void cg_red(const float* x, float* out, int n) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    __shared__ float w[32];
    float v = block.thread_rank() < n ? x[block.thread_rank()] : 0;
    v = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) w[tile.meta_group_rank()] = v;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        v = tile.thread_rank() < tile.meta_group_size() ? w[tile.thread_rank()] : 0;
        v = cg::reduce(tile, v, cg::plus<float>());
        if (tile.thread_rank() == 0) *out = v;
    }
}
// matmul tiles
template <int T> __global__ void mm(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float A[T][T]; __shared__ float B[T][T + 1];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float acc = 0;
    for (int t = 0; t < (k + T - 1) / T; ++t) {
        int ka = t * T + threadIdx.x, kb = t * T + threadIdx.y;
        A[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.f;
        B[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < T; ++i) acc += A[threadIdx.y][i] * B[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = acc;
}
// Hillis-Steele double buffer
__global__ void scan_hs(const int* x, int* out, int n) {
    extern __shared__ int tmp[];
    int t = threadIdx.x, in = 0, o = 1;
    tmp[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d <<= 1) {
        tmp[o * blockDim.x + t] = tmp[in * blockDim.x + t] + (t >= d ? tmp[in * blockDim.x + t - d] : 0);
        __syncthreads();
        int q = in; in = o; o = q;
    }
    if (t < n) out[t] = tmp[in * blockDim.x + t];
}
// bitonic
__global__ void bitonic(int* x) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int k = 2; k <= 256; k <<= 1)
        for (int j = k >> 1; j; j >>= 1) {
            __syncthreads();
            int o = t ^ j;
            if (o > t) { bool up = (t & k) == 0; int a = s[t], b = s[o]; if ((a > b) == up) { s[t] = b; s[o] = a; }
                }
        }
    __syncthreads();
    x[t] = s[t];
}
// histogram private copies
__global__ void hist(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned h[4][64];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) (&h[0][0])[i] = 0;
    __syncthreads();
    int w = threadIdx.x / 32 % 4;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
        i += gridDim.x * blockDim.x) atomicAdd(&h[w][x[i] & 63], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) { unsigned c = 0; for (int k = 0; k < 4; ++k) c += h[k][i];
        if (c) atomicAdd(bins + i, c); }
}
// transpose in blocks of 32x8 
__global__ void tr(const float* x, float* out, int m, int n) {
    __shared__ float t[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) if (c < n && r + j < m) t[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) if (c < m && r + j < n) out[(r + j) * m + c] = t[threadIdx.x][threadIdx.y + j];
}
// stencil with halo
constexpr int R = 3;
__constant__ float coef[2 * R + 1] = {1, 2, 3, 4, 3, 2, 1};
__global__ void stencil(const float* x, float* out, int n) {
    __shared__ float s[64 + 2 * R];
    int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + R;
    s[l] = g < n ? x[g] : 0;
    if (threadIdx.x < R) { s[l - R] = g >= R ? x[g - R] : 0;
        s[l + blockDim.x] = g + blockDim.x < n ? x[g + blockDim.x] : 0; }
    __syncthreads();
    if (g >= n) return;
    float a = 0;
    for (int k = -R; k <= R; ++k) a += coef[k + R] * s[l + k];
    out[g] = a;
}
// float4 with tail
__global__ void axpy4(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, q = n / 4;
    const float4* x4 = reinterpret_cast<const float4*>(x); float4* y4 = reinterpret_cast<float4*>(y);
    for (int k = i; k < q; k += gridDim.x * blockDim.x) { float4 v = x4[k], w = y4[k]; w.x += a * v.x;
        w.y += a * v.y; w.z += a * v.z; w.w += a * v.w; y4[k] = w; }
    int tail = q * 4 + i; if (tail < n) y[tail] += a * x[tail];
}
// in place
__global__ void reverse(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        float a = x[i], b = x[n - 1 - i];
        x[i] = b;
        x[n - 1 - i] = a;
    }
}
// compaction with ballots
__global__ void compact(const int* x, int* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    bool keep = i < n && x[i] > 0;
    unsigned m = __ballot_sync(0xffffffffu, keep);
    int base = 0;
    if (lane == 0 && m) base = atomicAdd(count, __popc(m));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (keep) out[base + __popc(m & ((1u << lane) - 1))] = x[i];
}
// aggregated atomics with coalesced_threads
__global__ void aggregated(const int* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) { auto g = cg::coalesced_threads();
        if (g.thread_rank() == 0) atomicAdd(count, (int)g.size()); }
}
// a tile of eight lanes
__global__ void tile8(const float* x, float* out) {
    auto t = cg::tiled_partition<8>(cg::this_thread_block());
    float v = x[threadIdx.x];
    for (int k = t.size() / 2; k; k /= 2) v += t.shfl_xor(v, k);
    if (t.thread_rank() == 0) out[t.meta_group_rank()] = v;
}
// half-warp divergent with sub-masks
__global__ void halves(const float* x, float* out) {
    int lane = threadIdx.x & 31; float v = x[threadIdx.x];
    if (lane < 16) { for (int k = 8; k; k >>= 1) v += __shfl_xor_sync(0x0000ffffu, v, k, 16); }
    else { for (int k = 8; k; k >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffff0000u, v, k, 16)); }
    out[threadIdx.x] = v;
}
// 3-D block
__global__ void vol(const float* x, float* out, int nx, int ny, int nz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y,
        k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i < nx && j < ny && k < nz) out[(k * ny + j) * nx + i] = 2 * x[(k * ny + j) * nx + i];
}
// union shared (reuse one array for two purposes)
__global__ void reuse(const float* x, float* out) {
    extern __shared__ unsigned char raw[];
    float* f = reinterpret_cast<float*>(raw); int* idx = reinterpret_cast<int*>(raw + blockDim.x * sizeof(float));
    f[threadIdx.x] = x[threadIdx.x]; idx[threadIdx.x] = (threadIdx.x * 7) % blockDim.x;
    __syncthreads();
    float v = f[idx[threadIdx.x]];
    __syncthreads();
    double* d = reinterpret_cast<double*>(raw);
    if (threadIdx.x < blockDim.x / 2) d[threadIdx.x] = v;
    __syncthreads();
    out[threadIdx.x] = (float)d[threadIdx.x / 2];
}
// pipelined __pipeline_memcpy_async 3 stages
__global__ void pipe3(const float4* x, float* out, int tiles) {
    __shared__ float4 s[3][32];
    int t = threadIdx.x;
    for (int k = 0; k < 2; ++k) { if (k < tiles) __pipeline_memcpy_async(&s[k][t], &x[k * 32 + t], 16);
        __pipeline_commit(); }
    float a = 0;
    for (int k = 0; k < tiles; ++k) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (k + 2 < tiles) __pipeline_memcpy_async(&s[(k + 2) % 3][t], &x[(k + 2) * 32 + t], 16);
        __pipeline_commit();
        float4 v = s[k % 3][31 - t]; a += v.x + v.y + v.z + v.w;
    }
    out[t] = a;
}
// WMMA
__global__ void wm(const half* a, const half* b, float* c) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.f);
    wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
// lock per bucket
__global__ void locked(const int* key, int* lock, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int k = key[i] & 3; bool done = false;
    while (!done) {
        if (atomicCAS(&lock[k], 0, 1) == 0) { __threadfence(); ((volatile float*)sum)[k] += 1; __threadfence();
            atomicExch(&lock[k], 0); done = true; }
    }
}
// dynamic barrier loop: uniform while with __syncthreads_or
__global__ void relax(int* d, int n) {
    extern __shared__ int tmp[];
    int t = threadIdx.x; tmp[t] = d[t]; __syncthreads();
    int changed;
    do {
        int left = t ? tmp[t - 1] : tmp[t]; int me = tmp[t];
        __syncthreads();
        int w = me > left + 1 ? left + 1 : me;
        tmp[t] = w;
        changed = __syncthreads_or(w != me);
    } while (changed);
    d[t] = tmp[t];
}
// half2 vector and bf16
__global__ void h2(const half2* x, half2* y, const __nv_bfloat16* p, __nv_bfloat16* q, int n) {
    int i = threadIdx.x; if (i < n) { y[i] = __hfma2(x[i], x[i], __float2half2_rn(1.f));
        q[i] = __float2bfloat16(__bfloat162float(p[i]) * 2.f); }
}
// grid-stride with 64-bit, stride negative
__global__ void backwards_stride(const float* x, float* out, long long stride, int n) {
    int i = threadIdx.x; if (i < n) out[i] = x[(long long)i * stride];
}
// warp producer/consumer through shared with __syncthreads inside both roles via loop
__global__ void prod_cons(const float* x, float* out, int tiles) {
    __shared__ float s[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32; float a = 0;
    for (int k = 0; k <= tiles; ++k) {
        if (warp == 0) { if (k < tiles) s[k & 1][lane] = x[k * 32 + lane]; }
        else if (k > 0) a += s[(k - 1) & 1][31 - lane];
        __syncthreads();
    }
    if (warp == 1) out[lane] = a;
}
// match_any + leader
__global__ void match(const int* key, int* bins) {
    int k = key[threadIdx.x]; unsigned m = __match_any_sync(0xffffffffu, k);
    if ((threadIdx.x & 31) == __ffs(m) - 1) atomicAdd(&bins[k], __popc(m));
}
// syncwarp on subsets: two halves work apart
__global__ void sub_sync(const int* x, int* out) {
    __shared__ int s[64]; int lane = threadIdx.x & 31, t = threadIdx.x;
    s[t] = x[t];
    unsigned m = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    __syncwarp(m);
    out[t] = s[t ^ 15];
    __syncwarp(m);
    s[t ^ 1] = 5;
    __syncwarp(m);
    out[t] += s[t];
}
// struct of arrays, private local arrays indexed dynamically
struct Pt { float x, y, z; };
__global__ void structs(const Pt* in, Pt* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float loc[3] = {in[i].x, in[i].y, in[i].z};
    for (int k = 0; k < 3; ++k) { int j = (k + i) % 3; (&out[i].x)[k] = loc[j]; }
}
// read-modify of one's own element in several barriers; in-place update across barrier
__global__ void shift(float* x, int n) {
    int t = threadIdx.x; float v = 0;
    if (t < n) v = x[(t + 1) % n];
    __syncthreads();
    if (t < n) x[t] = v;
}
// block reduce helper called twice, shared reused
__device__ float block_sum(float v) {
    __shared__ float w[32];
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
    __syncthreads();
    if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? w[threadIdx.x] : 0;
    if (threadIdx.x < 32) for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
    if (threadIdx.x == 0) w[0] = v;
    __syncthreads();
    return w[0];
}
__global__ void var(const float* x, float* out, int n) {
    float s = 0; for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
    float m = block_sum(s) / n; s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += (x[i] - m) * (x[i] - m);
    s = block_sum(s) / n;
    if (threadIdx.x == 0) { out[0] = m; out[1] = s; }
}
// labeled partition of block by binary: warp elected via activemask
__global__ void active(const int* x, int* out) {
    if (x[threadIdx.x] > 0) { unsigned m = __activemask(); int leader = __ffs(m) - 1;
        int v = __shfl_sync(m, x[threadIdx.x], leader); out[threadIdx.x] = v; }
    else out[threadIdx.x] = -1;
}
// early exit whole block, uniform
__global__ void uniform_exit(const int* flag, float* out) {
    if (flag[blockIdx.x] == 0) { if (threadIdx.x == 0) out[blockIdx.x] = 0; return; }
    __shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads();
    if (threadIdx.x == 0) { float a = 0; for (int i = 0; i < 64; ++i) a += s[i]; out[blockIdx.x] = a; }
}
// syncthreads_count loop with break
__global__ void count_break(const int* x, int* out) {
    int v = x[threadIdx.x], it = 0;
    while (__syncthreads_count(v > 0)) { if (v > 0) --v; ++it; }
    out[threadIdx.x] = it;
}
// ping-pong through global memory, single block
__global__ void pingpong(float* a, float* b, int n, int steps) {
    for (int s = 0; s < steps; ++s) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] = 0.5f * (a[i] + a[(i + 1) % n]);
        __syncthreads();
        float* t = a; a = b; b = t;
    }
}
// bool/char/int64
__global__ void types(const bool* b, const signed char* c, const long long* l, long long* out, int n) {
    int i = threadIdx.x; if (i < n) out[i] = b[i] ? l[i] + c[i] : -1;
}
