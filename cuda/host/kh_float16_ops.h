// What cuda_fp16.h and cuda_bf16.h have in common: the types, their operators and intrinsics. Each operation rounds
// once; elementary functions are the C library's in double precision, rounded once.
#pragma once

#include <type_traits>

#include "kh_float16.h"

#define KH16_TYPES(scalar, pair, raw, format)                                                                         \
    struct raw { unsigned short x; };                                                                                 \
    struct alignas(2) scalar {                                                                                        \
    protected:                                                                                                        \
        unsigned short __x;                                                                                           \
    public:                                                                                                           \
        scalar() = default;                                                                                           \
        constexpr KH_INLINE scalar(const raw& bits) : __x(bits.x) {}                                                  \
        KH_INLINE scalar(float value) : __x(kh16::narrow<format>(value)) {}                                           \
        KH_INLINE scalar(double value) : __x(kh16::narrow<format>(value)) {}                                          \
        template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>               \
        KH_INLINE scalar(T value) : __x(kh16::narrow<format>(kh16::from_integer(value))) {}                           \
        KH_INLINE operator raw() const { return {__x}; }                                                              \
        KH_INLINE operator float() const { return kh16::widen<format>(__x); }                                         \
        KH_INLINE operator bool() const { return (__x & 0x7fff) != 0; }                                               \
        KH16_TO(char) KH16_TO(signed char) KH16_TO(unsigned char) KH16_TO(short) KH16_TO(unsigned short)              \
        KH16_TO(int) KH16_TO(unsigned) KH16_TO(long) KH16_TO(unsigned long) KH16_TO(long long)                        \
        KH16_TO(unsigned long long)                                                                                   \
        friend KH_INLINE unsigned short kh16_bits(const scalar& v) { return v.__x; }                                  \
        friend KH_INLINE double kh16_value(const scalar& v) { return kh16::widen<format>(v.__x); }                    \
    };                                                                                                                \
    KH_INLINE scalar kh16_make(const scalar*, unsigned short bits) { return scalar(raw{bits}); }                      \
    struct alignas(4) pair {                                                                                          \
        scalar x, y;                                                                                                  \
        pair() = default;                                                                                             \
        constexpr KH_INLINE pair(const scalar& a, const scalar& b) : x(a), y(b) {}                                    \
    };                                                                                                                \
    static_assert(std::is_trivially_copyable_v<scalar> && sizeof(scalar) == 2 && sizeof(pair) == 4);                  \
    KH16_OPERATORS(scalar, pair, format)                                                                              \
    KH16_COMPARISONS(scalar, pair)                                                                                    \
    KH16_FUNCTIONS(scalar, pair, format)

#define KH16_TO(type) \
    KH_INLINE operator type() const { return kh16::to_integer<type>(static_cast<float>(*this), kh16::kZero); }

#define KH16_BITS(scalar, pattern) kh16_make(static_cast<const scalar*>(nullptr), (pattern))

#define KH16_BINARY(scalar, pair, format, word, sign)                                                                 \
    KH_INLINE scalar __h##word(scalar a, scalar b) { return scalar(kh16_value(a) sign kh16_value(b)); }               \
    KH_INLINE pair __h##word##2(pair a, pair b) { return {__h##word(a.x, b.x), __h##word(a.y, b.y)}; }                \
    KH_INLINE scalar operator sign(const scalar& a, const scalar& b) { return __h##word(a, b); }                      \
    KH_INLINE pair operator sign(const pair& a, const pair& b) { return __h##word##2(a, b); }                         \
    KH_INLINE scalar& operator sign##=(scalar& a, const scalar& b) { return a = __h##word(a, b); }                    \
    KH_INLINE pair& operator sign##=(pair& a, const pair& b) { return a = __h##word##2(a, b); }

#define KH16_ROUNDED(scalar, pair, word)                                                                              \
    KH_INLINE scalar __h##word##_rn(scalar a, scalar b) { return __h##word(a, b); }                                   \
    KH_INLINE pair __h##word##2_rn(pair a, pair b) { return __h##word##2(a, b); }                                     \
    KH_INLINE scalar __h##word##_sat(scalar a, scalar b) { return kh16_saturate(__h##word(a, b)); }                   \
    KH_INLINE pair __h##word##2_sat(pair a, pair b) { return {__h##word##_sat(a.x, b.x), __h##word##_sat(a.y, b.y)}; }

#define KH16_OPERATORS(scalar, pair, format)                                                                          \
    KH16_BINARY(scalar, pair, format, add, +)                                                                         \
    KH16_BINARY(scalar, pair, format, sub, -)                                                                         \
    KH16_BINARY(scalar, pair, format, mul, *)                                                                         \
    KH_INLINE scalar __hdiv(scalar a, scalar b) { return scalar(kh16_value(a) / kh16_value(b)); }                     \
    KH_INLINE pair __h2div(pair a, pair b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }                           \
    KH_INLINE scalar operator/(const scalar& a, const scalar& b) { return __hdiv(a, b); }                             \
    KH_INLINE pair operator/(const pair& a, const pair& b) { return __h2div(a, b); }                                  \
    KH_INLINE scalar& operator/=(scalar& a, const scalar& b) { return a = __hdiv(a, b); }                             \
    KH_INLINE pair& operator/=(pair& a, const pair& b) { return a = __h2div(a, b); }                                  \
    KH_INLINE scalar kh16_saturate(scalar v) {                                                                        \
        const double d = kh16_value(v);                                                                               \
        return d > 0 ? (d < 1 ? v : scalar(1.0)) : scalar(0.0);                                                       \
    }                                                                                                                 \
    KH16_ROUNDED(scalar, pair, add)                                                                                   \
    KH16_ROUNDED(scalar, pair, sub)                                                                                   \
    KH16_ROUNDED(scalar, pair, mul)                                                                                   \
    KH_INLINE scalar __hfma(scalar a, scalar b, scalar c) {                                                           \
        return KH16_BITS(scalar, kh16::fused<format>(kh16_value(a), kh16_value(b), kh16_value(c)));                   \
    }                                                                                                                 \
    KH_INLINE scalar __hfma_sat(scalar a, scalar b, scalar c) { return kh16_saturate(__hfma(a, b, c)); }              \
    KH_INLINE scalar __hfma_relu(scalar a, scalar b, scalar c) {                                                      \
        const scalar v = __hfma(a, b, c);                                                                             \
        return kh16_value(v) < 0 || (kh16_bits(v) & 0x8000) ? scalar(0.0) : v;                                        \
    }                                                                                                                 \
    KH_INLINE pair __hfma2(pair a, pair b, pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }         \
    KH_INLINE pair __hfma2_sat(pair a, pair b, pair c) {                                                              \
        return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};                                                \
    }                                                                                                                 \
    KH_INLINE pair __hfma2_relu(pair a, pair b, pair c) {                                                             \
        return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};                                              \
    }                                                                                                                 \
    KH_INLINE pair __hcmadd(pair a, pair b, pair c) {                                                                 \
        const scalar real = __hfma(a.x, b.x, c.x), imaginary = __hfma(a.x, b.y, c.y);                                 \
        return {__hfma(KH16_BITS(scalar, static_cast<unsigned short>(kh16_bits(a.y) ^ 0x8000)), b.y, real),           \
                __hfma(a.y, b.x, imaginary)};                                                                         \
    }                                                                                                                 \
    KH_INLINE scalar __hneg(scalar v) {                                                                               \
        return kh16_value(v) != kh16_value(v) ? KH16_BITS(scalar, kh16::kNan)                                         \
                                              : KH16_BITS(scalar, static_cast<unsigned short>(kh16_bits(v) ^ 0x8000)); \
    }                                                                                                                 \
    KH_INLINE scalar __habs(scalar v) { return KH16_BITS(scalar, static_cast<unsigned short>(kh16_bits(v) & 0x7fff)); } \
    KH_INLINE pair __hneg2(pair v) { return {__hneg(v.x), __hneg(v.y)}; }                                             \
    KH_INLINE pair __habs2(pair v) { return {__habs(v.x), __habs(v.y)}; }                                             \
    KH_INLINE scalar operator-(const scalar& v) { return __hneg(v); }                                                 \
    KH_INLINE scalar operator+(const scalar& v) { return v; }                                                         \
    KH_INLINE pair operator-(const pair& v) { return __hneg2(v); }                                                    \
    KH_INLINE pair operator+(const pair& v) { return v; }                                                             \
    KH_INLINE scalar& operator++(scalar& v) { return v = __hadd(v, scalar(1.0)); }                                    \
    KH_INLINE scalar& operator--(scalar& v) { return v = __hsub(v, scalar(1.0)); }                                    \
    KH_INLINE scalar operator++(scalar& v, int) { const scalar old = v; ++v; return old; }                            \
    KH_INLINE scalar operator--(scalar& v, int) { const scalar old = v; --v; return old; }

// Ordered comparisons are false where a NaN takes part (but "not equal" of the operators is true); the ones in u are true.
#define KH16_COMPARE(scalar, pair, word, sign)                                                                        \
    KH_INLINE bool __h##word(scalar a, scalar b) {                                                                    \
        const double x = kh16_value(a), y = kh16_value(b);                                                            \
        return x == x && y == y && x sign y;                                                                          \
    }                                                                                                                 \
    KH_INLINE bool __h##word##u(scalar a, scalar b) {                                                                 \
        const double x = kh16_value(a), y = kh16_value(b);                                                            \
        return x != x || y != y || x sign y;                                                                          \
    }                                                                                                                 \
    KH_INLINE bool __hb##word##2(pair a, pair b) { return __h##word(a.x, b.x) && __h##word(a.y, b.y); }               \
    KH_INLINE bool __hb##word##u2(pair a, pair b) { return __h##word##u(a.x, b.x) && __h##word##u(a.y, b.y); }        \
    KH_INLINE pair __h##word##2(pair a, pair b) {                                                                     \
        return {scalar(__h##word(a.x, b.x) ? 1.0 : 0.0), scalar(__h##word(a.y, b.y) ? 1.0 : 0.0)};                    \
    }                                                                                                                 \
    KH_INLINE pair __h##word##u2(pair a, pair b) {                                                                    \
        return {scalar(__h##word##u(a.x, b.x) ? 1.0 : 0.0), scalar(__h##word##u(a.y, b.y) ? 1.0 : 0.0)};              \
    }                                                                                                                 \
    KH_INLINE unsigned __h##word##2_mask(pair a, pair b) {                                                            \
        return (__h##word(a.x, b.x) ? 0xffffu : 0) | (__h##word(a.y, b.y) ? 0xffff0000u : 0);                         \
    }                                                                                                                 \
    KH_INLINE unsigned __h##word##u2_mask(pair a, pair b) {                                                           \
        return (__h##word##u(a.x, b.x) ? 0xffffu : 0) | (__h##word##u(a.y, b.y) ? 0xffff0000u : 0);                   \
    }                                                                                                                 \
    KH_INLINE bool operator sign(const scalar& a, const scalar& b) { return kh16_value(a) sign kh16_value(b); }       \
    KH_INLINE bool operator sign(const pair& a, const pair& b) { return a.x sign b.x && a.y sign b.y; }

#define KH16_EXTREME(scalar, pair, word, sign, zero)                                                                  \
    KH_INLINE scalar __h##word##_nan(scalar a, scalar b) {                                                            \
        const double x = kh16_value(a), y = kh16_value(b);                                                            \
        if (x != x || y != y) return KH16_BITS(scalar, kh16::kNan);                                                   \
        if (x == 0 && y == 0) {                                                                                       \
            return KH16_BITS(scalar, static_cast<unsigned short>(kh16_bits(a) zero kh16_bits(b)));                    \
        }                                                                                                             \
        return x sign y ? a : b;                                                                                      \
    }                                                                                                                 \
    KH_INLINE scalar __h##word(scalar a, scalar b) {                                                                  \
        const double x = kh16_value(a), y = kh16_value(b);                                                            \
        return x != x && y == y ? b : y != y && x == x ? a : __h##word##_nan(a, b);                                   \
    }                                                                                                                 \
    KH_INLINE pair __h##word##2(pair a, pair b) { return {__h##word(a.x, b.x), __h##word(a.y, b.y)}; }                \
    KH_INLINE pair __h##word##2_nan(pair a, pair b) { return {__h##word##_nan(a.x, b.x), __h##word##_nan(a.y, b.y)}; }

#define KH16_COMPARISONS(scalar, pair)                                                                                \
    KH16_COMPARE(scalar, pair, eq, ==)                                                                                \
    KH16_COMPARE(scalar, pair, ne, !=)                                                                                \
    KH16_COMPARE(scalar, pair, lt, <)                                                                                 \
    KH16_COMPARE(scalar, pair, le, <=)                                                                                \
    KH16_COMPARE(scalar, pair, gt, >)                                                                                 \
    KH16_COMPARE(scalar, pair, ge, >=)                                                                                \
    KH16_EXTREME(scalar, pair, max, >, &)                                                                             \
    KH16_EXTREME(scalar, pair, min, <, |)                                                                             \
    KH_INLINE bool __hisnan(scalar v) { return kh16_value(v) != kh16_value(v); }                                      \
    KH_INLINE int __hisinf(scalar v) {                                                                                \
        return kh16_value(v) == HUGE_VAL ? 1 : kh16_value(v) == -HUGE_VAL ? -1 : 0;                                   \
    }                                                                                                                 \
    KH_INLINE pair __hisnan2(pair v) { return {scalar(__hisnan(v.x) ? 1.0 : 0.0), scalar(__hisnan(v.y) ? 1.0 : 0.0)}; }

#define KH16_FUNCTION(scalar, pair, name, expression)                                                                 \
    KH_INLINE scalar h##name(scalar v) { const double x = kh16_value(v); return scalar(static_cast<double>(expression)); } \
    KH_INLINE pair h2##name(pair v) { return {h##name(v.x), h##name(v.y)}; }

#define KH16_FUNCTIONS(scalar, pair, format)                                                                          \
    KH16_FUNCTION(scalar, pair, exp, ::exp(x))                                                                        \
    KH16_FUNCTION(scalar, pair, exp2, ::exp2(x))                                                                      \
    KH16_FUNCTION(scalar, pair, exp10, ::pow(10.0, x))                                                                \
    KH16_FUNCTION(scalar, pair, log, ::log(x))                                                                        \
    KH16_FUNCTION(scalar, pair, log2, ::log2(x))                                                                      \
    KH16_FUNCTION(scalar, pair, log10, ::log10(x))                                                                    \
    KH16_FUNCTION(scalar, pair, sqrt, ::sqrt(x))                                                                      \
    KH16_FUNCTION(scalar, pair, rsqrt, 1.0 / ::sqrt(x))                                                               \
    KH16_FUNCTION(scalar, pair, rcp, 1.0 / x)                                                                         \
    KH16_FUNCTION(scalar, pair, sin, ::sin(x))                                                                        \
    KH16_FUNCTION(scalar, pair, cos, ::cos(x))                                                                        \
    KH16_FUNCTION(scalar, pair, tanh, ::tanh(x))                                                                      \
    KH16_FUNCTION(scalar, pair, tanh_approx, ::tanh(x))                                                               \
    KH16_FUNCTION(scalar, pair, ceil, ::ceil(x))                                                                      \
    KH16_FUNCTION(scalar, pair, floor, ::floor(x))                                                                    \
    KH16_FUNCTION(scalar, pair, trunc, ::trunc(x))                                                                    \
    KH16_FUNCTION(scalar, pair, rint, ::nearbyint(x))                                                                 \
    KH_INLINE float __low2float(pair v) { return static_cast<float>(v.x); }                                           \
    KH_INLINE float __high2float(pair v) { return static_cast<float>(v.y); }                                          \
    KH_INLINE pair __lowhigh2highlow(pair v) { return {v.y, v.x}; }

// The functions with the type's name in theirs.
#define KH16_INTEGER(scalar, word, short_name, type)                                                                  \
    KH_INLINE scalar __##short_name##2##word##_rn(type v) {                                                           \
        return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(kh16::from_integer(v)));                                   \
    }                                                                                                                 \
    KH_INLINE scalar __##short_name##2##word##_rz(type v) {                                                           \
        return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(kh16::from_integer(v), kh16::kZero));                      \
    }                                                                                                                 \
    KH_INLINE scalar __##short_name##2##word##_ru(type v) {                                                           \
        return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(kh16::from_integer(v), kh16::kUp));                        \
    }                                                                                                                 \
    KH_INLINE scalar __##short_name##2##word##_rd(type v) {                                                           \
        return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(kh16::from_integer(v), kh16::kDown));                      \
    }                                                                                                                 \
    KH_INLINE type __##word##2##short_name##_rn(scalar v) { return kh16::to_integer<type>(kh16_value(v), kh16::kNearest); } \
    KH_INLINE type __##word##2##short_name##_rz(scalar v) { return kh16::to_integer<type>(kh16_value(v), kh16::kZero); } \
    KH_INLINE type __##word##2##short_name##_ru(scalar v) { return kh16::to_integer<type>(kh16_value(v), kh16::kUp); } \
    KH_INLINE type __##word##2##short_name##_rd(scalar v) { return kh16::to_integer<type>(kh16_value(v), kh16::kDown); }

// word: the scalar's name in conversions; word2: the pair's; raw: "half" or "bfloat16" in *_as_*.
#define KH16_NAMES(scalar, pair, word, word2)                                                                         \
    KH_INLINE scalar __float2##word(float v) { return scalar(v); }                                                    \
    KH_INLINE scalar __float2##word##_rn(float v) { return scalar(v); }                                               \
    KH_INLINE scalar __float2##word##_rz(float v) { return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(v, kh16::kZero)); } \
    KH_INLINE scalar __float2##word##_ru(float v) { return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(v, kh16::kUp)); } \
    KH_INLINE scalar __float2##word##_rd(float v) { return KH16_BITS(scalar, kh16::narrow<KH16_FORMAT>(v, kh16::kDown)); } \
    KH_INLINE scalar __double2##word(double v) { return scalar(v); }                                                  \
    KH_INLINE float __##word##2float(scalar v) { return static_cast<float>(v); }                                      \
    KH_INLINE pair __float2##word2##_rn(float v) { return {scalar(v), scalar(v)}; }                                   \
    KH_INLINE pair __floats2##word2##_rn(float a, float b) { return {scalar(a), scalar(b)}; }                         \
    KH_INLINE pair __float22##word2##_rn(float2 v) { return {scalar(v.x), scalar(v.y)}; }                             \
    KH_INLINE float2 __##word2##2float2(pair v) { return {static_cast<float>(v.x), static_cast<float>(v.y)}; }        \
    KH_INLINE pair __##word##2##word2(scalar v) { return {v, v}; }                                                    \
    KH_INLINE pair __halves2##word2(scalar a, scalar b) { return {a, b}; }                                            \
    KH_INLINE pair make_##word2(scalar a, scalar b) { return {a, b}; }                                                \
    KH_INLINE scalar __low2##word(pair v) { return v.x; }                                                             \
    KH_INLINE scalar __high2##word(pair v) { return v.y; }                                                            \
    KH_INLINE pair __low2##word2(pair v) { return {v.x, v.x}; }                                                       \
    KH_INLINE pair __high2##word2(pair v) { return {v.y, v.y}; }                                                      \
    KH_INLINE pair __lows2##word2(pair a, pair b) { return {a.x, b.x}; }                                              \
    KH_INLINE pair __highs2##word2(pair a, pair b) { return {a.y, b.y}; }                                             \
    KH_INLINE scalar __short_as_##word(short v) { return KH16_BITS(scalar, static_cast<unsigned short>(v)); }         \
    KH_INLINE scalar __ushort_as_##word(unsigned short v) { return KH16_BITS(scalar, v); }                            \
    KH16_INTEGER(scalar, word, int, int)                                                                              \
    KH16_INTEGER(scalar, word, uint, unsigned)                                                                        \
    KH16_INTEGER(scalar, word, short, short)                                                                          \
    KH16_INTEGER(scalar, word, ushort, unsigned short)                                                                \
    KH16_INTEGER(scalar, word, ll, long long)                                                                         \
    KH16_INTEGER(scalar, word, ull, unsigned long long)                                                               \
    KH_INLINE signed char __##word##2char_rz(scalar v) { return kh16::to_integer<signed char>(kh16_value(v), kh16::kZero); } \
    KH_INLINE unsigned char __##word##2uchar_rz(scalar v) {                                                           \
        return kh16::to_integer<unsigned char>(kh16_value(v), kh16::kZero);                                           \
    }
