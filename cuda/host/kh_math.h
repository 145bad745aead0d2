// Device functions that the C++ library lacks. The fast forms are computed at full precision.
#pragma once

KH_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
KH_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
KH_INLINE float __expf(float x) { return expf(x); }
#ifndef __APPLE__
KH_INLINE float __exp10f(float x) { return powf(10.0f, x); }
#endif
KH_INLINE float __logf(float x) { return logf(x); }
KH_INLINE float __log2f(float x) { return log2f(x); }
KH_INLINE float __sinf(float x) { return sinf(x); }
KH_INLINE float __cosf(float x) { return cosf(x); }
KH_INLINE float __powf(float x, float y) { return powf(x, y); }
KH_INLINE float __fdividef(float x, float y) { return x / y; }
KH_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
KH_INLINE float __fadd_rn(float x, float y) { return x + y; }
KH_INLINE float __fmul_rn(float x, float y) { return x * y; }
KH_INLINE float __fsub_rn(float x, float y) { return x - y; }
KH_INLINE float __fdiv_rn(float x, float y) { return x / y; }
KH_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
KH_INLINE float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
KH_INLINE double __dadd_rn(double x, double y) { return x + y; }
KH_INLINE double __dsub_rn(double x, double y) { return x - y; }
KH_INLINE double __dmul_rn(double x, double y) { return x * y; }
KH_INLINE double __ddiv_rn(double x, double y) { return x / y; }
KH_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
KH_INLINE float __log10f(float x) { return log10f(x); }
KH_INLINE float __tanf(float x) { return tanf(x); }
#ifndef __APPLE__  // whose C library has it
KH_INLINE void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
#endif
KH_INLINE float fdividef(float x, float y) { return x / y; }
KH_INLINE float __frcp_rn(float x) { return 1.0f / x; }
KH_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

template <class To, class From>
KH_INLINE To kh_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}
KH_INLINE int __float_as_int(float x) { return kh_bits<int>(x); }
KH_INLINE unsigned __float_as_uint(float x) { return kh_bits<unsigned>(x); }
KH_INLINE float __int_as_float(int x) { return kh_bits<float>(x); }
KH_INLINE float __uint_as_float(unsigned x) { return kh_bits<float>(x); }
KH_INLINE long long __double_as_longlong(double x) { return kh_bits<long long>(x); }
KH_INLINE double __longlong_as_double(long long x) { return kh_bits<double>(x); }

// Integers.
KH_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
KH_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
KH_INLINE int __ffs(int x) { return __builtin_ffs(x); }
KH_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
KH_INLINE int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
KH_INLINE int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
KH_INLINE unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
KH_INLINE unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
KH_INLINE unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>((std::uint64_t{x} * y) >> 32); }
KH_INLINE int __mulhi(int x, int y) { return static_cast<int>((std::int64_t{x} * y) >> 32); }
KH_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned choice = selector >> (4 * i) & 15, byte = static_cast<unsigned>(bytes >> (8 * (choice & 7))) & 255;
        result |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
    }
    return result;
}
KH_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
KH_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
KH_INLINE void __nanosleep(unsigned) {}

// CUDA's min and max for numbers of any two types.
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
KH_INLINE constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
KH_INLINE constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

// Loads and stores with a cache hint are loads and stores.
template <class T> KH_INLINE T __ldg(const T* from) { return *from; }
template <class T> KH_INLINE T __ldcs(const T* from) { return *from; }
template <class T> KH_INLINE T __ldca(const T* from) { return *from; }
template <class T> KH_INLINE T __ldcg(const T* from) { return *from; }
template <class T> KH_INLINE T __ldlu(const T* from) { return *from; }
template <class T> KH_INLINE T __ldcv(const T* from) { return *from; }
template <class T> KH_INLINE void __stcs(T* to, T value) { *to = value; }
template <class T> KH_INLINE void __stcg(T* to, T value) { *to = value; }
template <class T> KH_INLINE void __stwb(T* to, T value) { *to = value; }
template <class T> KH_INLINE void __stwt(T* to, T value) { *to = value; }
