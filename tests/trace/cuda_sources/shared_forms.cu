// Every way to declare memory that a block or the device has, and arrays whose items are touched in parts.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
enum class Mode { kA = 3, kB = 7 };
namespace ns { enum Kind { X, Y = 11 }; struct P { float a, b; }; template <class A, class B> struct Two { A a;
    B b; };
template <int N, Kind K> __global__ void nested(float* out) { __shared__ float s[N]; s[threadIdx.x] = 1;
    __syncthreads(); out[threadIdx.x] = s[threadIdx.x ^ 1]; }
namespace { __global__ void hidden(float* out) { __shared__ float hid[32]; hid[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = hid[threadIdx.x ^ 1]; } }
}
#define SMEM(T, name, n) __shared__ T name[n]
__global__ void d1(float* out) { float __shared__ s[32]; s[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void d2(float* out) { volatile __shared__ float s[32]; s[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void d3(float* out) { __shared__ struct ns::P s[32]; s[threadIdx.x].a = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1].a; }
__global__ void d4(float* out) { __shared__ float* p; if (threadIdx.x == 0) p = out; __syncthreads();
    p[threadIdx.x] = 1; }
__global__ void d5(float* out) { __shared__ ns::Two<int, ns::Two<float, float>> s[32]; s[threadIdx.x].a = 1;
    __syncthreads(); out[threadIdx.x] = s[threadIdx.x ^ 1].a; }
__global__ void d6(float* out) { __shared__ half __align__(16) s[32]; s[threadIdx.x] = __float2half(1.f);
    __syncthreads(); out[threadIdx.x] = __half2float(s[threadIdx.x ^ 1]); }
__global__ void d7(float* out) { __shared__ union { float f; int i; } u; if (threadIdx.x == 0) u.f = 1;
    __syncthreads(); out[threadIdx.x] = u.f; }
__global__ void d8(float* out) { __shared__ alignas(16) float s[32]; s[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void d9(float* out) { extern __shared__ __align__(16) unsigned char s9[];
    float* s = reinterpret_cast<float*>(s9); s[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void d10(float* out) { SMEM(float, s, 32); s[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void d11(float* out) { __shared__ float (*p)[4]; if (threadIdx.x == 0) p = (float (*)[4])out;
    __syncthreads(); p[threadIdx.x / 4][threadIdx.x % 4] = 1; }
__global__ void d12(float* out) { extern __shared__ __align__(alignof(float4)) float s12[]; s12[threadIdx.x] = 1;
    __syncthreads(); out[threadIdx.x] = s12[threadIdx.x ^ 1]; }
__global__ void d13(float* out) { auto f = [&](int i) { __shared__ float s[32]; s[i] = 1; __syncthreads();
    out[i] = s[i ^ 1]; }; f(threadIdx.x); }
__global__ void d14(float* out) { __shared__ float a[32], b[32]; a[threadIdx.x] = b[threadIdx.x] = 1;
    __syncthreads(); out[threadIdx.x] = a[threadIdx.x ^ 1] + b[threadIdx.x ^ 1]; }
template <int N> __device__ float helper(int i) { __shared__ float s[N]; s[i] = 1; __syncthreads();
    float v = s[i ^ 1]; __syncthreads(); return v; }
__global__ void d15(float* out) {
    out[threadIdx.x] = helper<32>(threadIdx.x) + helper<33>(threadIdx.x) + helper<123>(threadIdx.x); }
template <Mode M, typename T, bool B> __global__ void d16(T* out) { __shared__ T s[32]; s[threadIdx.x] = 1;
    __syncthreads(); out[threadIdx.x] = s[threadIdx.x ^ 1]; }
template <class T> struct Sm { T v[32]; int n; };
template <class T> __global__ void d17(T* out) { __shared__ Sm<T> st; st.v[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = st.v[threadIdx.x ^ 1]; }
template <int N> __device__ void arr(float (&x)[N], float* out) { __shared__ float _tmp[32];
    _tmp[threadIdx.x] = x[0]; __syncthreads(); out[threadIdx.x] = _tmp[threadIdx.x ^ 1]; }
__global__ void d18(float* out) { float x[16]; x[0] = 1; arr(x, out); }
template <int N> __global__ void d19(float* out) { const int n = N < 0 ? -N : N; __shared__ float s[32];
    s[threadIdx.x] = n; __syncthreads(); out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__shared__ float file_scope[32];
__global__ void d20(float* out) { file_scope[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = file_scope[threadIdx.x ^ 1]; }
__device__ float table[4][8]; static __device__ int counter_ = 3; __device__ __constant__ float cc[2] = {1, 2};
    __constant__ const ns::P pp = {1, 2};
__device__ const float* const names[2] = {nullptr, nullptr}; __device__ float* const who = nullptr;
    __device__ float late[3]; __device__ ns::Two<int, ns::Two<int, float>> tw;
__global__ void d21(float* out) { table[threadIdx.x / 8][threadIdx.x % 8] = counter_;
    out[threadIdx.x] = table[threadIdx.x / 8][threadIdx.x % 8] + cc[1] + pp.b + (names[0] == nullptr);
    if (threadIdx.x < 3) late[threadIdx.x] = 1; }
__global__ void d22(float* out) { if (threadIdx.x == 0) tw.b.b = 2; out[threadIdx.x] = 3; }
struct Op { __device__ static float run(int i) { __shared__ float in_class[32]; in_class[i] = 1; __syncthreads();
    return in_class[i ^ 1]; } __device__ float operator()(int i) const { __shared__ float in_op[32]; in_op[i] = 2;
    __syncthreads(); return in_op[i ^ 1]; } };
__global__ void d23(float* out) { out[threadIdx.x] = Op::run(threadIdx.x) + Op{}(threadIdx.x); }
__global__ void d24(float* out) { __shared__ const float* ptr[2]; if (threadIdx.x < 2) ptr[threadIdx.x] = out;
    __syncthreads(); const_cast<float*>(ptr[0])[threadIdx.x] = 1; }
__global__ void d25(float *__restrict__ out) { __shared__ unsigned long long int s[32]; s[threadIdx.x] = 1;
    __syncthreads(); out[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void bytes_of_ints(int* out, int n) { int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < 4 * n) reinterpret_cast<unsigned char*>(out)[i] = i; }
__global__ void halves_in_floats(float* out) { extern __shared__ float smem[];
    half* h = reinterpret_cast<half*>(smem); h[threadIdx.x] = __float2half(threadIdx.x); __syncthreads();
    out[threadIdx.x] = __half2float(h[threadIdx.x ^ 1]); }
struct Store { float a[32]; int b[32]; int n; };
__global__ void storage(float* out) { __shared__ Store st; st.a[threadIdx.x] = 1; st.b[threadIdx.x] = 2;
    if (threadIdx.x == 0) st.n = 3; __syncthreads();
    out[threadIdx.x] = st.a[threadIdx.x ^ 1] + st.b[threadIdx.x ^ 3] + st.n; }
struct Pair { float x, y; };
__global__ void points(float* out) { __shared__ Pair p[32]; if (threadIdx.x < 32) p[threadIdx.x].x = 1;
    else p[threadIdx.x - 32].y = 2; __syncthreads();
    out[threadIdx.x] = p[threadIdx.x & 31].x + p[threadIdx.x & 31].y; }
__global__ void points_race(float* out) { __shared__ Pair p[32]; if (threadIdx.x < 32) p[threadIdx.x].x = 1;
    else p[threadIdx.x - 32].y = 2; out[threadIdx.x] = p[threadIdx.x & 31].x + p[threadIdx.x & 31].y;
    __syncthreads(); }
